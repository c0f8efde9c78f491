/* SPDX-License-Identifier: Apache-2.0 */
/* Has the oracle recompute rows of gradients. The tolerance: compare.c. See sampled_gradients.h. */
#include "sampled_gradients.h"

#include "compare.h"
#include "report.h"

#include <stdlib.h>

void sampled_gradients_init(sampled_result results[GRADIENTS])
{
    for (int i = 0; i < GRADIENTS; i++)
        results[i] = (sampled_result){.name = gradient_name(i), .place = i == RA_GRADIENT_QUERY ? "query" : "key"};
}

int sampled_gradients_take(sampled_result results[GRADIENTS], int which, tensor_file *file, int64_t count, double given)
{
    return sampled_result_take(&results[which], file, count, given, gradient_tolerance(1, 1));
}

/* What the oracle says of the rows of one gradient. */
typedef struct oracle_rows {
    double *gradients; /* [count][dim] */
    double *sizes;     /* [count] */
    int64_t dim;
    int64_t terms; /* that are added up in a row */
    bool fast;     /* every tensor is bfloat16: the products may have been, too */
} oracle_rows;

static double expected(const void *oracle, int64_t row, int64_t d, double *tolerance)
{
    const oracle_rows *o = oracle;
    *tolerance = gradient_tolerance(o->terms, o->sizes[row]) + (o->fast ? fast_gradient_tolerance(o->sizes[row]) : 0);
    return o->gradients[row * o->dim + d];
}

enum { INPUTS = 7 };

static void storages_free(ra_storage *storages[INPUTS])
{
    for (int i = 0; i < INPUTS; i++)
        ra_storage_free(storages[i]);
}

static ra_status storages_take(const attention_files *in, const gradient_files *files, ra_storage *storages[INPUTS])
{
    const tensor_file *const inputs[INPUTS] = {
        &in->query, &in->key, &in->value, &files->output, &files->lse, &files->output_gradient, &files->lse_gradient};
    ra_status status = RA_OK;
    for (int i = 0; i < INPUTS && !status; i++)
        if (inputs[i]->path)
            status = tensor_file_storage(inputs[i], &storages[i]);
    return status;
}

/* The rows of one gradient. */
static int compare(sampled_result *r, int which, int64_t terms, bool fast, const ra_plan *plan, ra_storage *s[INPUTS],
                   progress *bar)
{
    size_t count = (size_t)r->count + 1; /* none is no failure */
    oracle_rows oracle = {.dim = r->file->tensor.dim, .terms = terms, .fast = fast};
    oracle.gradients = calloc(count * (size_t)oracle.dim, sizeof *oracle.gradients);
    oracle.sizes = calloc(count, sizeof *oracle.sizes);
    int code = EXIT_OK;
    if (!oracle.gradients || !oracle.sizes)
        code = report(EXIT_USAGE, "out of memory: %lld rows to recompute", (long long)r->count);
    if (!code) {
        progress_start(bar, "check", "M pairs/s", 1e-6);
        ra_status status =
            ra_reference_gradient_rows(plan, s[0], s[1], s[2], s[3], s[4], s[5], s[6], (ra_gradient)which, r->rows,
                                       r->count, oracle.gradients, oracle.sizes);
        progress_end(bar);
        code = status ? report_failure(status) : EXIT_OK;
    }
    if (!code)
        sampled_result_compare(r, &oracle, expected);
    free(oracle.gradients);
    free(oracle.sizes);
    return code;
}

int sampled_gradients_compare(sampled_result results[GRADIENTS], const ra_plan *plan, const attention_files *in,
                              const gradient_files *files, progress *bar)
{
    ra_storage *storages[INPUTS] = {NULL};
    const ra_tensor *q = &in->query.tensor, *k = &in->key.tensor;
    int64_t queries = q->seq * (q->heads / k->heads); /* that a key may be seen by */
    bool fast = q->dtype == RA_BF16 && k->dtype == RA_BF16 && in->value.tensor.dtype == RA_BF16 &&
                files->output_gradient.tensor.dtype == RA_BF16;
    int code = storages_take(in, files, storages) ? report_refusal() : EXIT_OK;
    for (int i = 0; i < GRADIENTS && !code; i++)
        if (results[i].elements)
            code = compare(&results[i], i, i == RA_GRADIENT_QUERY ? k->seq : queries, fast, plan, storages, bar);
    storages_free(storages);
    return code;
}
