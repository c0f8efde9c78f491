/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares and runs a backward pass in one piece, and compares its gradients with the oracle. See gradients.h. */
#include "gradients.h"

#include <math.h>
#include <stdlib.h>

/* ---- Preparing --------------------------------------------------------------------------------------------------- */

/* The next `bytes` of a block, where cache lines begin. */
static char *next(char **at, int64_t bytes)
{
    enum { LINE = 64 };
    char *here = *at;
    *at += (bytes + LINE - 1) / LINE * LINE;
    return here;
}

/* All tensors that are not inputs, in one block. */
static ra_status take_tensors(gradients *g)
{
    enum { TENSORS = 6, GAP = 64 };
    const bench_shape *s = &g->spec.shape;
    int64_t query_rows = s->batch * s->q_len * s->heads, key_rows = s->batch * s->kv_len * s->kv_heads;
    int64_t row = s->dim * (int64_t)ra_dtype_size(s->dtype), lse_bytes = query_rows * (int64_t)sizeof(float);
    char *at = g->memory =
        bench_large_pages(3 * query_rows * row + 2 * key_rows * row + lse_bytes + TENSORS * GAP, g->spec.name);
    if (!at)
        return RA_ERROR_MEMORY;
    ra_tensor *query_like[] = {&g->output, &g->d_output, &g->d_q}, *key_like[] = {&g->d_k, &g->d_v};
    for (int i = 0; i < 3; i++)
        *query_like[i] =
            ra_tensor_dense(next(&at, query_rows * row), s->dtype, RA_BSHD, s->batch, s->q_len, s->heads, s->dim);
    for (int i = 0; i < 2; i++)
        *key_like[i] =
            ra_tensor_dense(next(&at, key_rows * row), s->dtype, RA_BSHD, s->batch, s->kv_len, s->kv_heads, s->dim);
    g->lse = ra_tensor_dense(next(&at, lse_bytes), RA_F32, RA_BSHD, s->batch, s->q_len, s->heads, 1);
    return RA_OK;
}

static ra_status make_plan(gradients *g)
{
    const gradients_spec *spec = &g->spec;
    ra_options options = RA_OPTIONS_INIT;
    options.kernel = spec->kernel;
    options.threads = spec->threads;
    g->problem = (ra_problem)RA_PROBLEM_INIT;
    g->problem.batch = spec->shape.batch;
    g->problem.q_len = spec->shape.q_len;
    g->problem.kv_len = spec->shape.kv_len;
    g->problem.heads = spec->shape.heads;
    g->problem.kv_heads = spec->shape.kv_heads;
    g->problem.head_dim = spec->shape.dim;
    g->problem.pattern = spec->pattern;
    return ra_plan_create(&g->problem, &options, &g->plan);
}

static ra_status run(gradients *g)
{
    const bench_tensors *t = g->inputs;
    return ra_backward(g->plan, &t->q, &t->k, &t->v, &g->output, &g->lse, &g->d_output, NULL, &g->d_q, &g->d_k, &g->d_v,
                       &g->stats);
}

/* ---- Checking ---------------------------------------------------------------------------------------------------- */

/* The tensors as the oracle takes them. */
enum { QUERY, KEY, VALUE, OUTPUT, LSE, D_OUTPUT, STORAGES };

static ra_status open_storages(const gradients *g, ra_storage *storages[STORAGES])
{
    const ra_tensor *tensors[STORAGES] = {&g->inputs->q, &g->inputs->k, &g->inputs->v,
                                          &g->output,    &g->lse,       &g->d_output};
    ra_status status = RA_OK;
    for (int i = 0; i < STORAGES && !status; i++)
        status = ra_storage_memory(tensors[i], &storages[i]);
    return status;
}

/* Rows spread over the sequence, the batch and the heads. */
static void choose_rows(const ra_tensor *t, ra_row rows[BENCH_CHECKED_ROWS])
{
    for (int i = 0; i < BENCH_CHECKED_ROWS; i++)
        rows[i] = (ra_row){i % t->batch, t->seq * i / BENCH_CHECKED_ROWS, i % t->heads};
}

/* The largest difference to the oracle's rows, in parts of their largest element. NaN is an error too. */
static double relative_error(const ra_tensor *got, const ra_row *rows, const double *expected)
{
    double largest = 0, error = 0;
    for (int64_t i = 0; i < BENCH_CHECKED_ROWS * got->dim; i++) {
        const ra_row *row = &rows[i / got->dim];
        double difference = fabs(ra_tensor_get(got, row->batch, row->seq, row->head, i % got->dim) - expected[i]);
        largest = fmax(largest, fabs(expected[i]));
        error = difference <= error ? error : difference;
    }
    return error == 0 ? 0 : error / largest;
}

static ra_status check_gradient(gradients *g, ra_storage *storages[STORAGES], ra_gradient which)
{
    const ra_tensor *all[] = {&g->d_q, &g->d_k, &g->d_v}, *got = all[which];
    ra_row rows[BENCH_CHECKED_ROWS];
    double *expected = malloc((size_t)(BENCH_CHECKED_ROWS * got->dim) * sizeof *expected);
    if (!expected)
        return RA_ERROR_MEMORY;
    choose_rows(got, rows);
    ra_status status = ra_reference_gradient_rows(g->plan, storages[QUERY], storages[KEY], storages[VALUE],
                                                  storages[OUTPUT], storages[LSE], storages[D_OUTPUT], NULL, which,
                                                  rows, BENCH_CHECKED_ROWS, expected, NULL);
    if (!status) {
        double error = relative_error(got, rows, expected);
        g->error = error <= g->error ? g->error : error;
        g->rows += BENCH_CHECKED_ROWS;
    }
    free(expected);
    return status;
}

/* Sampled rows of all three gradients of the last run. */
static ra_status check(gradients *g)
{
    ra_storage *storages[STORAGES] = {0};
    ra_status status = open_storages(g, storages);
    for (int which = RA_GRADIENT_QUERY; which <= RA_GRADIENT_VALUE && !status; which++)
        status = check_gradient(g, storages, (ra_gradient)which);
    for (int i = 0; i < STORAGES; i++)
        ra_storage_free(storages[i]);
    return status;
}

/* ---- What others call -------------------------------------------------------------------------------------------- */

ra_status gradients_prepare(gradients *g, const gradients_spec *spec, const bench_tensors *inputs, uint64_t seed)
{
    g->spec = *spec;
    g->inputs = inputs;
    g->stats = (ra_stats)RA_STATS_INIT;
    ra_status status = take_tensors(g);
    if (!status)
        status = make_plan(g);
    if (status)
        return status;
    ra_generate_as(RA_NORMAL, seed, 0, g->d_output.batch * g->d_output.seq * g->d_output.heads * g->d_output.dim,
                   g->d_output.dtype, g->d_output.data);
    status = ra_forward(g->plan, &inputs->q, &inputs->k, &inputs->v, &g->output, &g->lse, NULL);
    if (!status)
        status = run(g);
    return status ? status : check(g);
}

void gradients_give(gradients *g)
{
    ra_plan_free(g->plan);
    free(g->memory);
}

ra_status gradients_sample(void *user, sample *s)
{
    enum { MOST_RUNS = 15 };
    static const double ENOUGH = 0.1; /* seconds: a run of a few milliseconds says little */
    gradients *g = user;
    double seconds[MOST_RUNS], spent = 0;
    int runs = 0;
    do {
        ra_status status = run(g);
        if (status)
            return status;
        spent += seconds[runs++] = g->stats.seconds_compute;
    } while (spent < ENOUGH && runs < MOST_RUNS);
    s->seconds = sampling_median(seconds, runs);
    s->value = g->stats.flops / s->seconds;
    return RA_OK;
}

/* In parts of the largest element. Rounding to 16 bits is most of it where gradients have them. */
static double tolerance(const gradients *g)
{
    return g->spec.shape.dtype == RA_F32 ? 1e-5 : bench_tolerance(g->spec.shape.dtype);
}

bool gradients_right(const gradients *g)
{
    return g->rows > 0 && g->error <= tolerance(g);
}

void gradients_describe(const gradients *g, result_row *row)
{
    row->name = g->spec.name;
    row->backward = true;
    row->problem = g->problem;
    row->dtype = g->spec.shape.dtype;
    row->kernel = g->stats.kernel;
    row->threads = g->spec.threads;
    row->flops = g->stats.flops;
    row->planned_bytes = g->stats.planned_peak_bytes;
    row->peak_bytes = g->stats.peak_bytes;
    row->error = g->error;
    row->tolerance = tolerance(g);
    row->rows = g->rows;
}
