/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the query, key and value of a problem and checks that they belong together. A single file: tensor_file.c. See
 * attention_files.h.
 */
#include "attention_files.h"

#include "report.h"

#include <string.h>

void attention_files_options(attention_files *files, arg_option options[ATTENTION_OPTIONS])
{
    static const char *const LAYOUTS[] = {"bshd", "bhsd", NULL};
    *files = (attention_files){.scale = RA_SCALE_DEFAULT, .layout = RA_BSHD};
    const arg_option table[] = {
        {.name = "query",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &files->query_path,
         .help = "queries: FILE.npy, FILE.safetensors#NAME (#NAME may be left out where there is one\n"
                 "tensor) or gen:SEED (see --shape); float32, float16 or bfloat16, 4-D, or 3-D for a\n"
                 "batch of 1"},
        {.name = "key",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &files->key_path,
         .help = "keys: the number of their heads divides the query's; attend and check also take\n"
                 "a file of ringattn quantize"},
        {.name = "value",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &files->value_path,
         .help = "values: length, heads and files as for the keys; any dim"},
        {.name = "scale",
         .kind = ARG_REAL,
         .metavar = "X",
         .target = &files->scale,
         .help = "factor of the scores (default 1/sqrt(head dim))"},
        {.name = "layout",
         .kind = ARG_CHOICE,
         .metavar = "NAME",
         .target = &files->layout,
         .choices = LAYOUTS,
         .help = "axes of all tensors: bshd (default) is [batch, seq, heads, dim],\n"
                 "bhsd is [batch, heads, seq, dim]"},
    };
    memcpy(options, table, sizeof table);
    pattern_args_options(&files->pattern, options + sizeof table / sizeof *table);
    gen_args_options(&files->gen, options + ATTENTION_OPTIONS - GEN_OPTIONS);
}

static int report_disagreement(const tensor_file *a, const tensor_file *b, const char *about)
{
    char text_a[256], text_b[256];
    return report(EXIT_USAGE, "%s and %s differ in %s", tensor_file_describe(a, text_a, sizeof text_a),
                  tensor_file_describe(b, text_b, sizeof text_b), about);
}

/* Open a file, or the made-up tensor in its place. */
static int open_input(attention_files *files, const char *option, bool keys, const char *path, tensor_file *file)
{
    tensor_axes axes = (tensor_axes)files->layout;
    if (gen_named(path))
        return gen_open(&files->gen, option, keys, path, axes, file);
    return keys ? tensor_file_open_cached(file, path, axes) : tensor_file_open(file, path, axes);
}

int attention_files_open(attention_files *files, ra_problem *problem)
{
    int code =
        gen_args_check(&files->gen, files->query_path, files->key_path, files->value_path, files->others_made_up);
    if (!code)
        code = open_input(files, "query", false, files->query_path, &files->query);
    if (!code)
        code = open_input(files, "key", true, files->key_path, &files->key);
    if (!code)
        code = open_input(files, "value", true, files->value_path, &files->value);
    if (code)
        return code;

    const ra_tensor *q = &files->query.tensor, *k = &files->key.tensor, *v = &files->value.tensor;
    if (k->batch != q->batch)
        return report_disagreement(&files->query, &files->key, "batch");
    if (k->dim != q->dim)
        return report_disagreement(&files->query, &files->key, "head dim");
    if (v->batch != k->batch || v->seq != k->seq || v->heads != k->heads)
        return report_disagreement(&files->key, &files->value, "batch, length or heads");
    *problem = (ra_problem)RA_PROBLEM_INIT;
    problem->batch = q->batch;
    problem->q_len = q->seq, problem->kv_len = k->seq;
    problem->heads = q->heads, problem->kv_heads = k->heads;
    problem->head_dim = q->dim, problem->value_dim = v->dim;
    problem->scale = files->scale;
    problem->pattern = pattern_args_text(&files->pattern);
    pattern_args_place(&files->pattern, problem);
    return problem->pattern ? EXIT_OK : EXIT_USAGE;
}

tensor_shape output_shape(const attention_files *in, ra_dtype dtype)
{
    const ra_tensor *q = &in->query.tensor;
    return (tensor_shape){"output", in->query.dims, dtype, q->batch, q->seq, q->heads, in->value.tensor.dim};
}

tensor_shape lse_shape(const attention_files *in)
{
    const ra_tensor *q = &in->query.tensor;
    return (tensor_shape){"lse", 3, RA_F32, q->batch, q->seq, q->heads, 1};
}

void attention_files_close(attention_files *files)
{
    tensor_file_close(&files->query);
    tensor_file_close(&files->key);
    tensor_file_close(&files->value);
    pattern_args_free(&files->pattern);
}
