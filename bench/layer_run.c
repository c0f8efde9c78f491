/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, runs and checks the layers that are measured. See layer_run.h. */
#include "layer_run.h"

#include "tensors.h"
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT = LAYER_EMBED * LAYER_EMBED };
static const double TOLERANCE = 1e-5;

/* ---- Preparing --------------------------------------------------------------------------------------------------- */

float *layer_weights(uint64_t seed)
{
    float *weights = bench_large_pages(4L * WEIGHT * (int64_t)sizeof(float), "the weights of a layer");
    if (!weights)
        return NULL;
    ra_generate(RA_NORMAL, seed + 1, 0, 4L * WEIGHT, weights);
    for (int64_t i = 0; i < 4L * WEIGHT; i++)
        weights[i] /= sqrtf(LAYER_EMBED);
    return weights;
}

static ra_layer_options options_of(const layer_spec *spec)
{
    ra_layer_options o = RA_LAYER_OPTIONS_INIT;
    o.rows = spec->length, o.embed = LAYER_EMBED, o.heads = LAYER_HEADS;
    o.pattern = LAYER_PATTERN, o.threads = spec->threads, o.keep_memory = 1;
    return o;
}

static ra_status make(layer_run *run)
{
    ra_layer_options options = options_of(&run->spec);
    if (!run->spec.ranks)
        return ra_layer_create(&options, &run->layer);
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = run->spec.ranks, ring.transport = RA_TRANSPORT_MPI;
    ra_status status = world_comm(&run->comm);
    return status ? status : ra_layer_create_on_rank(&options, &ring, run->comm, &run->layer);
}

ra_status layer_prepare(layer_run *run, const layer_spec *spec, const float *weights)
{
    run->spec = *spec, run->weights = weights;
    run->info = (ra_layer_info)RA_LAYER_INFO_INIT;
    ra_status status = make(run);
    if (!status)
        status = ra_layer_describe(run->layer, &run->info);
    if (status)
        return status;
    int64_t bytes = run->info.rows * LAYER_EMBED * (int64_t)sizeof(float);
    run->x = bench_large_pages(bytes, spec->name), run->y = bench_large_pages(bytes, spec->name);
    if (!run->x || !run->y)
        return RA_ERROR_MEMORY;
    for (int64_t i = 0; i < run->info.rows; i++)
        ra_generate(RA_NORMAL, spec->seed, ra_layer_row(run->layer, i) * LAYER_EMBED, LAYER_EMBED,
                    run->x + i * LAYER_EMBED);
    run->parameters = (ra_layer_parameters)RA_LAYER_PARAMETERS_INIT;
    run->parameters.w_q = weights, run->parameters.w_k = weights + WEIGHT;
    run->parameters.w_v = weights + 2L * WEIGHT, run->parameters.w_o = weights + 3L * WEIGHT;
    run->flops = run->spec.ranks ? world_sum(run->info.forward_flops) : run->info.forward_flops;
    run->planned = (double)(run->info.forward_bytes + run->info.layer_bytes + 2 * bytes);
    return RA_OK;
}

void layer_give(layer_run *run)
{
    ra_layer_free(run->layer);
    ra_comm_free(run->comm);
    free(run->x);
    free(run->y);
}

/* ---- Checking ---------------------------------------------------------------------------------------------------- */

/*
 * A row of y in double precision. The scores of a head are q . (w_k x_j) = (w_k' q) . x_j, and its output is w_v times
 * the weighted sum of the rows x_j: so attention over x itself is all that is needed of the other tokens, and the
 * library's oracle has that, with the 768 elements of x as the head's.
 */
typedef struct row_oracle {
    ra_plan *plan;
    const float *x; /* of all tokens */
    double q[LAYER_HEADS][LAYER_EMBED], o[LAYER_EMBED], y[LAYER_EMBED];
} row_oracle;

static double dot(const float *weight, int64_t stride, const double *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += weight[i * stride] * values[i];
    return sum;
}

static void query_of(row_oracle *oracle, const float *weights, int64_t row)
{
    double x[LAYER_EMBED], q[LAYER_DIM];
    const float *w_q = weights, *w_k = weights + WEIGHT;
    for (int i = 0; i < LAYER_EMBED; i++)
        x[i] = oracle->x[row * LAYER_EMBED + i];
    for (int64_t h = 0; h < LAYER_HEADS; h++) {
        int64_t at = h * LAYER_DIM * LAYER_EMBED;
        for (int64_t i = 0; i < LAYER_DIM; i++)
            q[i] = dot(w_q + at + i * LAYER_EMBED, 1, x, LAYER_EMBED);
        for (int64_t i = 0; i < LAYER_EMBED; i++)
            oracle->q[h][i] = dot(w_k + at + i, LAYER_EMBED, q, LAYER_DIM);
    }
}

static ra_status oracle_row(row_oracle *oracle, const float *weights, int64_t length, int64_t row)
{
    double sum[LAYER_EMBED];
    const float *w_v = weights + 2L * WEIGHT, *w_o = weights + 3L * WEIGHT;
    ra_tensor q = ra_tensor_dense(oracle->q, RA_F64, RA_BSHD, 1, 1, LAYER_HEADS, LAYER_EMBED);
    ra_tensor k = ra_tensor_dense(oracle->x, RA_F32, RA_BSHD, 1, length, 1, LAYER_EMBED);
    q.seq = length, q.seq_stride = 0; /* one row stands for all: only this one is asked for */
    query_of(oracle, weights, row);
    for (int64_t h = 0; h < LAYER_HEADS; h++) {
        ra_status status = ra_reference_row(oracle->plan, &q, &k, &k, 0, h, row, sum, NULL);
        if (status)
            return status;
        for (int64_t i = 0; i < LAYER_DIM; i++)
            oracle->o[h * LAYER_DIM + i] = dot(w_v + (h * LAYER_DIM + i) * LAYER_EMBED, 1, sum, LAYER_EMBED);
    }
    for (int64_t i = 0; i < LAYER_EMBED; i++)
        oracle->y[i] = dot(w_o + i * LAYER_EMBED, 1, oracle->o, LAYER_EMBED);
    return RA_OK;
}

static double error_of(const double *wanted, const float *y)
{
    double largest = 0, error = 0;
    for (int64_t i = 0; i < LAYER_EMBED; i++) {
        double difference = fabs(wanted[i] - y[i]);
        largest = fmax(largest, fabs(wanted[i]));
        error = difference <= error ? error : difference; /* and a difference that is no number counts */
    }
    return error / largest;
}

/* The rows of the sample that are here. */
static ra_status check_rows(layer_run *run, row_oracle *oracle)
{
    int64_t length = run->spec.length;
    for (int64_t i = 0; i < run->info.rows; i++) {
        int64_t row = ra_layer_row(run->layer, i);
        for (int64_t s = 0; s < LAYER_ROWS; s++) {
            if (row != s * (length - 1) / (LAYER_ROWS - 1))
                continue;
            ra_status status = oracle_row(oracle, run->weights, length, row);
            if (status)
                return status;
            double error = error_of(oracle->y, run->y + i * LAYER_EMBED);
            run->error = error <= run->error ? run->error : error;
        }
    }
    return RA_OK;
}

static ra_status check(layer_run *run)
{
    int64_t length = run->spec.length;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = length, problem.heads = LAYER_HEADS, problem.kv_heads = 1, problem.head_dim = LAYER_EMBED;
    problem.pattern = LAYER_PATTERN, problem.scale = 1 / sqrt((double)LAYER_DIM);
    row_oracle *oracle = calloc(1, sizeof *oracle);
    float *x = bench_large_pages(length * LAYER_EMBED * (int64_t)sizeof(float), run->spec.name);
    ra_status status = oracle && x ? ra_plan_create(&problem, NULL, &oracle->plan) : RA_ERROR_MEMORY;
    if (!status) {
        ra_generate(RA_NORMAL, run->spec.seed, 0, length * LAYER_EMBED, x);
        oracle->x = x;
        status = check_rows(run, oracle);
        ra_plan_free(oracle->plan);
    }
    free(oracle);
    free(x);
    return status;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static void count_bytes(layer_run *run)
{
    int64_t rows = 2 * run->info.rows * LAYER_EMBED * (int64_t)sizeof(float);
    run->bytes = (double)(run->stats.peak_bytes + run->info.layer_bytes + rows);
}

/* What all ranks have in common once they are through. */
static void gather(layer_run *run, double *seconds, double *processor, double *busy)
{
    *seconds = world_max(*seconds);
    *processor = world_sum(*processor);
    *busy = world_sum(*busy);
    run->bytes = world_max(run->bytes);
    run->planned = world_max(run->planned);
}

ra_status layer_pass(layer_run *run, double *seconds, double *share)
{
    run->stats = (ra_layer_stats)RA_LAYER_STATS_INIT;
    ra_status status = run->comm ? ra_comm_agree(run->comm, RA_OK, 0) : RA_OK;
    double processor = probe_processor_seconds(), start = probe_seconds();
    if (!status)
        status = ra_layer_forward(run->layer, &run->parameters, run->x, run->y, NULL, &run->stats);
    if (status)
        return status;
    *seconds = probe_seconds() - start;
    processor = probe_processor_seconds() - processor;
    double busy = (*seconds - run->stats.seconds_wait) * run->spec.threads;
    count_bytes(run);
    if (run->spec.ranks)
        gather(run, seconds, &processor, &busy);
    *share = fmin(1, processor / busy);
    if (run->timed < SAMPLING_MOST) {
        run->attention[run->timed] = run->stats.seconds_attention;
        run->wait[run->timed++] = run->stats.seconds_wait;
    }
    if (run->checked)
        return RA_OK;
    run->checked = true, run->timed = 0;
    status = check(run);
    if (!status && run->spec.ranks)
        run->error = world_max(isnan(run->error) ? INFINITY : run->error);
    return status;
}

/* ---- What the row says ------------------------------------------------------------------------------------------- */

bool layer_right(const layer_run *run)
{
    return run->checked && run->error <= TOLERANCE;
}

void layer_describe(layer_run *run, result_row *row)
{
    row->name = run->spec.name;
    row->problem = (ra_problem)RA_PROBLEM_INIT;
    row->problem.q_len = run->spec.length, row->problem.heads = LAYER_HEADS, row->problem.head_dim = LAYER_DIM;
    row->problem.pattern = LAYER_PATTERN;
    row->dtype = RA_F32;
    row->threads = run->spec.threads, row->ring_size = run->spec.ranks;
    if (run->spec.ranks)
        row->strategy = ra_strategy_name(RA_STRATEGY_RING), row->transport = "mpi";
    row->flops = run->flops;
    row->planned_bytes = (int64_t)run->planned, row->peak_bytes = (int64_t)run->bytes;
    row->error = run->error, row->tolerance = TOLERANCE, row->rows = run->checked ? LAYER_ROWS : 0;
    result_figure(row, "attention_seconds", sampling_median(run->attention, run->timed));
    result_figure(row, "wait_seconds", sampling_median(run->wait, run->timed));
}
