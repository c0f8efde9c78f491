/* SPDX-License-Identifier: Apache-2.0 */
/* Has the oracle recompute rows of an output and its log-sum-exp. The tolerance: compare.c. See sampled_rows.h. */
#include "sampled_rows.h"

#include "compare.h"
#include "report.h"

#include <stdlib.h>

void sampled_rows_init(sampled_result results[SAMPLED_RESULTS])
{
    results[SAMPLED_OUTPUT] = (sampled_result){.name = "output", .place = "query"};
    results[SAMPLED_LSE] = (sampled_result){.name = "lse", .place = "query"};
}

int sampled_rows_take(sampled_result results[SAMPLED_RESULTS], int which, tensor_file *file, int64_t count,
                      double given)
{
    double usual = which == SAMPLED_LSE ? LSE_TOLERANCE : OUTPUT_TOLERANCE;
    return sampled_result_take(&results[which], file, count, given, usual);
}

/* What the oracle says of the rows. */
typedef struct oracle_rows {
    double *outputs, *spreads; /* [count][value dim] */
    double *roundings;         /* the same; NULL: not every tensor is bfloat16 */
    double *lses, *sizes;      /* [count] */
    int64_t head_dim, value_dim;
} oracle_rows;

static void rows_free(oracle_rows *o)
{
    free(o->outputs);
    free(o->spreads);
    free(o->roundings);
    free(o->lses);
    free(o->sizes);
}

/* Whether the products of the run may have been those of bfloat16. */
static bool may_be_fast(const attention_files *in, const sampled_result *output)
{
    return output->elements && output->file->tensor.dtype == RA_BF16 && in->query.tensor.dtype == RA_BF16 &&
           in->key.tensor.dtype == RA_BF16 && in->value.tensor.dtype == RA_BF16;
}

static int rows_take(oracle_rows *o, int64_t rows, const attention_files *in, bool fast)
{
    size_t count = (size_t)rows + 1, dim = (size_t)in->value.tensor.dim; /* none is no failure */
    *o = (oracle_rows){.outputs = calloc(count * dim, sizeof *o->outputs),
                       .spreads = calloc(count * dim, sizeof *o->spreads),
                       .roundings = fast ? calloc(count * dim, sizeof *o->roundings) : NULL,
                       .lses = calloc(count, sizeof *o->lses),
                       .sizes = calloc(count, sizeof *o->sizes),
                       .head_dim = in->query.tensor.dim,
                       .value_dim = in->value.tensor.dim};
    if (o->outputs && o->spreads && (o->roundings || !fast) && o->lses && o->sizes)
        return EXIT_OK;
    rows_free(o);
    return report(EXIT_USAGE, "out of memory: %lld rows to recompute", (long long)rows);
}

static double output_expected(const void *oracle, int64_t row, int64_t d, double *tolerance)
{
    const oracle_rows *o = oracle;
    double expected = o->outputs[row * o->value_dim + d];
    *tolerance = output_tolerance(o->head_dim, o->sizes[row], o->spreads[row * o->value_dim + d], expected);
    if (o->roundings)
        *tolerance += fast_output_tolerance(o->roundings[row * o->value_dim + d]);
    return expected;
}

static double lse_expected(const void *oracle, int64_t row, int64_t d, double *tolerance)
{
    const oracle_rows *o = oracle;
    (void)d;
    *tolerance = lse_tolerance(o->head_dim, o->sizes[row]);
    return o->lses[row];
}

static ra_status recompute(const sampled_result *r, const ra_plan *plan, const attention_files *in,
                           const oracle_rows *to)
{
    ra_storage *storages[3] = {NULL};
    const tensor_file *const files[3] = {&in->query, &in->key, &in->value};
    ra_status status = RA_OK;
    for (int i = 0; i < 3 && !status; i++)
        status = tensor_file_storage(files[i], &storages[i]);
    if (!status)
        status = ra_reference_rows_rounded(plan, storages[0], storages[1], storages[2], r->rows, r->count, to->outputs,
                                           to->lses, to->spreads, to->sizes, to->roundings);
    for (int i = 0; i < 3; i++)
        ra_storage_free(storages[i]);
    return status;
}

int sampled_rows_compare(sampled_result results[SAMPLED_RESULTS], const ra_plan *plan, const attention_files *in,
                         progress *bar)
{
    /* Both have the same rows. */
    const sampled_result *r = &results[results[SAMPLED_OUTPUT].elements ? SAMPLED_OUTPUT : SAMPLED_LSE];
    oracle_rows oracle;
    int code = rows_take(&oracle, r->count, in, may_be_fast(in, &results[SAMPLED_OUTPUT]));
    if (code)
        return code;
    progress_start(bar, "check", "M pairs/s", 1e-6);
    ra_status status = recompute(r, plan, in, &oracle);
    progress_end(bar);
    if (!status) {
        sampled_result_compare(&results[SAMPLED_OUTPUT], &oracle, output_expected);
        sampled_result_compare(&results[SAMPLED_LSE], &oracle, lse_expected);
    }
    rows_free(&oracle);
    return status ? report_failure(status) : EXIT_OK;
}
