/* SPDX-License-Identifier: Apache-2.0 */
/* The options that describe a problem without tensors, as an ra_problem. See problem_args.h. */
#include "problem_args.h"

#include <string.h>

static arg_option whole_number(const char *name, const char *metavar, int64_t *target, const char *help)
{
    return (arg_option){.name = name,
                        .kind = ARG_INTEGER,
                        .metavar = metavar,
                        .target = target,
                        .min = 1,
                        .max = INT64_MAX,
                        .help = help};
}

/* Of lengths and batch. */
static void set_least(arg_option options[PROBLEM_OPTIONS], int64_t least)
{
    for (int i = 0; i < PROBLEM_OPTIONS; i++)
        if (strcmp(options[i].name, "length") == 0 || strcmp(options[i].name, "kv-length") == 0 ||
            strcmp(options[i].name, "batch") == 0)
            options[i].min = least;
}

void problem_args_need_rows(arg_option options[PROBLEM_OPTIONS])
{
    set_least(options, 1);
}

void problem_args_options(problem_args *args, arg_option options[PROBLEM_OPTIONS])
{
    *args =
        (problem_args){.batch = 1, .kv_length = RA_SAME, .kv_heads = RA_SAME, .value_dim = RA_SAME, .dtype = RA_F32};
    const arg_option table[] = {
        whole_number("length", "N", &args->length,
                     "queries (and keys, unless --kv-length says otherwise): 65536, 64K, 1M, 1G"),
        whole_number("kv-length", "N", &args->kv_length, "keys (default: as many as queries)"),
        whole_number("heads", "H", &args->heads, "query heads"),
        whole_number("kv-heads", "K", &args->kv_heads, "key/value heads (default: as the query heads)"),
        whole_number("dim", "D", &args->dim, "head dim"),
        whole_number("value-dim", "D", &args->value_dim, "value dim (default: as the head dim)"),
        whole_number("batch", "B", &args->batch, "batch (default 1)"),
        {.name = "dtype",
         .kind = ARG_DTYPE,
         .metavar = "T",
         .target = &args->dtype,
         .help = "of queries, keys and values: float32 (default), float16 or bfloat16"},
    };
    memcpy(options, table, sizeof table);
    options[0].required = options[2].required = options[4].required = true;
    pattern_args_options(&args->pattern, options + sizeof table / sizeof *table);
    set_least(options, 0); /* without rows or keys there is nothing to do, which can be planned */
}

ra_problem problem_args_problem(const problem_args *args, const char *pattern)
{
    ra_problem p = RA_PROBLEM_INIT;
    p.batch = args->batch, p.q_len = args->length, p.kv_len = args->kv_length;
    p.heads = args->heads, p.kv_heads = args->kv_heads;
    p.head_dim = args->dim, p.value_dim = args->value_dim;
    p.pattern = pattern;
    pattern_args_place(&args->pattern, &p);
    return p;
}
