/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions: validate, resolve defaults, hand on. Runs of a plan are in api_forward.c. */
#include "base/checked.h"
#include "base/cpu.h"
#include "base/sized.h"
#include "base/tensor.h"
#include "base/threads.h"
#include "exec/exec.h"
#include "exec/reference.h"
#include "io/bias_file.h"
#include "io/pattern_files.h"
#include "io/score_files.h"
#include "plan/arrays.h"
#include "plan/batch.h"
#include "plan/shorten.h"
#include "ringattn/ringattn.h"
#include "score/scores.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIM = 1024, MAX_THREADS = 4096 };

/* ---- Validation ------------------------------------------------------------------------------------------------ */

static ra_status check_at_least(const char *name, int64_t value, int64_t least)
{
    if (value < least)
        return ra_fail(RA_ERROR_ARGUMENT, "%s %lld: must be >= %lld", name, (long long)value, (long long)least);
    return RA_OK;
}

static ra_status check_dim(const char *name, int64_t value)
{
    if (value < 1 || value > MAX_DIM)
        return ra_fail(RA_ERROR_ARGUMENT, "%s %lld: must be 1..%d", name, (long long)value, (int)MAX_DIM);
    return RA_OK;
}

/* Everything later counts in int64 without looking: the largest tensor there can be must fit with room to spare. */
static ra_status check_extent(const ra_problem *p)
{
    int64_t room, length = ra_max(p->q_len, p->kv_len);
    if (!ra_mul_ok(ra_max(1, p->batch), p->heads, &room) || !ra_mul_ok(room, length, &room) ||
        !ra_mul_ok(room, MAX_DIM * (int64_t)sizeof(double), &room))
        return ra_fail(RA_ERROR_ARGUMENT, "batch %lld x heads %lld x length %lld: too large for 64-bit sizes",
                       (long long)p->batch, (long long)p->heads, (long long)length);
    return RA_OK;
}

/* Positions stay below 2^62: sums and differences of two of them need not be looked at. */
static ra_status check_position(const char *name, int64_t position, const char *length_name, int64_t length)
{
    const int64_t most = INT64_C(1) << 62;
    if (position < 0)
        return ra_fail(RA_ERROR_ARGUMENT, "%s %lld: must be >= 0", name, (long long)position);
    if (position > most - length)
        return ra_fail(RA_ERROR_ARGUMENT, "%s %lld with %s %lld: positions must stay below 2^62", name,
                       (long long)position, length_name, (long long)length);
    return RA_OK;
}

static ra_status resolve(ra_problem *p)
{
    if (p->kv_len == RA_SAME)
        p->kv_len = p->q_len;
    if (p->kv_heads == RA_SAME)
        p->kv_heads = p->heads;
    if (p->value_dim == RA_SAME)
        p->value_dim = p->head_dim;
    ra_status status = check_at_least("batch", p->batch, 0);
    if (!status)
        status = check_at_least("q_len", p->q_len, 0);
    if (!status)
        status = check_at_least("kv_len", p->kv_len, 0);
    if (!status)
        status = check_at_least("heads", p->heads, 1);
    if (!status)
        status = check_at_least("kv_heads", p->kv_heads, 1);
    if (!status)
        status = check_dim("head_dim", p->head_dim);
    if (!status)
        status = check_dim("value_dim", p->value_dim);
    if (!status)
        status = check_extent(p);
    if (status)
        return status;
    if (p->heads % p->kv_heads != 0)
        return ra_fail(RA_ERROR_ARGUMENT, "heads %lld: must be a multiple of kv_heads %lld", (long long)p->heads,
                       (long long)p->kv_heads);
    status = check_position("key_position", p->key_position, "kv_len", p->kv_len);
    if (!status && p->query_position != RA_SAME)
        status = check_position("query_position", p->query_position, "q_len", p->q_len);
    if (status)
        return status;
    if (p->scale == RA_SCALE_DEFAULT)
        p->scale = 1.0 / sqrt((double)p->head_dim);
    return RA_OK;
}

/*
 * A small scale goes into the queries, once. A large one is applied to the scores: a query that it makes infinite may
 * have finite scores, and rounding it would show in them.
 */
static ra_status split_scale(double scale, float *query_factor, float *score_factor)
{
    const double log2e = 1.44269504088896340736;
    double factor = scale * log2e;
    if (!isfinite((float)scale))
        return ra_fail(RA_ERROR_ARGUMENT, "scale %g: must be finite as a float, or RA_SCALE_DEFAULT", scale);
    bool small = fabs(factor) <= 1, huge = !isfinite((float)factor);
    *query_factor = (float)(small ? factor : huge ? log2e : 1);
    *score_factor = (float)(small ? 1 : huge ? scale : factor);
    return RA_OK;
}

const char *ra_tile_order_name(ra_tile_order order)
{
    static const char *const names[] = {"row", "serpentine", "hilbert"};
    return order >= RA_TILES_ROW && order <= RA_TILES_HILBERT ? names[order] : NULL;
}

/* ---- Plans ----------------------------------------------------------------------------------------------------- */

/* The arrays are all there, as NULL or as views. */
static ra_status parse_pattern(const ra_problem *p, ra_pattern *pattern)
{
    static const ra_pattern_files files = {ra_load_integers, ra_load_mask, ra_load_pairs};
    ra_pattern_shape shape = {.kv_len = p->kv_len, .heads = p->heads, .origin = p->key_position, .q_len = p->q_len};
    shape.placed = p->query_position != RA_SAME;
    shape.offset = shape.placed ? p->query_position - p->key_position : p->kv_len - p->q_len;
    shape.batch = p->batch;
    shape.documents = p->score_arrays->documents;
    shape.lengths = p->score_arrays->lengths;
    shape.mask = p->score_arrays->mask;
    return ra_pattern_parse(p->pattern ? p->pattern : "full", &shape, &files, pattern);
}

/* The arrays are all there, as NULL or as views. */
static ra_status parse_scores(const ra_problem *p, ra_plan *plan)
{
    static const ra_score_files files = {ra_load_list, ra_load_table,  ra_bias_open,
                                         ra_bias_read, ra_bias_failed, ra_bias_close};
    const ra_score_shape shape = {p->batch, p->q_len, p->kv_len, p->heads};
    const ra_score_arrays *a = p->score_arrays;
    ra_status status = ra_scores_parse(p->scores, &shape, a, &files, &plan->scores);
    plan->scores_bytes = plan->scores ? plan->scores->bytes : 0;
    plan->has_bias = plan->scores && plan->scores->bias.heads > 0;
    plan->staged = ra_scores_staged(plan->scores);
    return status;
}

/* A function of its own for the compiler too: its arithmetic must stay between the calls that set its environment. */
static __attribute__((noinline)) ra_status fill_plan(ra_plan *plan, ra_problem *problem, const ra_options *options)
{
    const ra_kernel *kernel = NULL;
    ra_status status = resolve(problem);
    if (!status)
        status = split_scale(problem->scale, &plan->query_factor, &plan->score_factor);
    if (!status && (options->threads < 0 || options->threads > MAX_THREADS))
        status = ra_fail(RA_ERROR_ARGUMENT, "threads %d: must be 0 (all cores) or 1..%d", options->threads,
                         (int)MAX_THREADS);
    if (!status && options->threads > ra_cpu_thread_limit())
        status = ra_fail(RA_ERROR_UNSUPPORTED, "threads %d: the OpenMP runtime allows %d (OMP_THREAD_LIMIT)",
                         options->threads, ra_cpu_thread_limit());
    if (!status)
        status = ra_threads_check(options->threads);
    if (!status)
        status = ra_kernel_find(options->kernel, options->precision, &kernel);
    if (!status && !ra_tile_order_name(options->tiles))
        status = ra_fail(RA_ERROR_ARGUMENT, "tiles %d: no such tile order", (int)options->tiles);
    if (!status)
        status = parse_pattern(problem, &plan->pattern);
    if (!status)
        status = parse_scores(problem, plan);
    if (status)
        return status;
    plan->batch = problem->batch;
    plan->q_len = problem->q_len;
    plan->kv_len = problem->kv_len;
    plan->heads = problem->heads;
    plan->kv_heads = problem->kv_heads;
    plan->group_heads = problem->heads / problem->kv_heads;
    plan->head_dim = (int)problem->head_dim;
    plan->value_dim = (int)problem->value_dim;
    plan->scale = problem->scale;
    plan->placed = problem->query_position != RA_SAME;
    plan->offset = plan->placed ? problem->query_position - problem->key_position : problem->kv_len - problem->q_len;
    plan->key_position = problem->key_position;
    plan->kernel = kernel->id;
    plan->precision = kernel->precision == RA_PRECISION_FAST ? RA_PRECISION_FAST : options->precision;
    plan->kernel_open = ra_kernel_is_open(options->kernel, options->precision);
    plan->blocking = kernel->blocking;
    plan->scratch_bytes = ra_scratch_bytes;
    plan->tiles = options->tiles;
    plan->progress = options->progress;
    plan->progress_user = options->progress_user;
    plan->threads_asked = options->threads;
    return ra_plan_lay_out(plan, options->threads ? options->threads : ra_threads_most(ra_cpu_cores()));
}

ra_status ra_plan_create(const ra_problem *their_problem, const ra_options *their_options, ra_plan **plan)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    if (!plan)
        return ra_fail(RA_ERROR_ARGUMENT, "plan: the pointer to the result is NULL");
    *plan = NULL;
    if (!their_problem)
        return ra_fail(RA_ERROR_ARGUMENT, "problem is NULL");
    ra_status status = ra_copy_in(&problem, their_problem, &ra_sized_problem);
    if (!status && their_options)
        status = ra_copy_in(&options, their_options, &ra_sized_options);
    if (!status && problem.score_arrays)
        status = ra_copy_in(&arrays, problem.score_arrays, &ra_sized_score_arrays);
    if (status)
        return status;
    problem.score_arrays = &arrays;
    ra_plan *made = calloc(1, sizeof *made);
    if (!made)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes for a plan", sizeof *made);
    fenv_t environment; /* the caller's rounding must not show in the scale */
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    status = fill_plan(made, &problem, &options);
    fesetenv(&environment);
    if (status) {
        ra_plan_free(made);
        return status;
    }
    *plan = made;
    return RA_OK;
}

void ra_plan_free(ra_plan *plan)
{
    if (!plan)
        return;
    ra_pattern_clear(&plan->pattern);
    ra_scores_free(plan->scores);
    free(plan);
}

ra_status ra_plan_describe(const ra_plan *p, ra_plan_info *info)
{
    if (!p || !info)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", p ? "info" : "plan");
    ra_plan_info ours = {sizeof ours,
                         p->kernel,
                         p->variant,
                         p->all.threads,
                         p->all.tile_groups * p->all.grouping.lanes,
                         RA_KEY_BLOCK,
                         p->spans,
                         p->all.tiles,
                         p->all.pairs_visible,
                         p->all.pairs_worked,
                         p->flops,
                         p->peak_bytes,
                         p->pattern.blocks ? p->pattern.blocks->density : 1};
    return ra_copy_out(info, &ours, &ra_sized_plan_info);
}

ra_status ra_plan_visible_element(const ra_plan *p, int64_t batch, int64_t head, int64_t query, int64_t first_key,
                                  int64_t count, uint8_t *counts)
{
    if (!p || !counts)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", p ? "counts" : "plan");
    if (batch < 0 || batch >= p->batch)
        return ra_fail(RA_ERROR_ARGUMENT, "batch element %lld: must be below %lld", (long long)batch,
                       (long long)p->batch);
    if (head < 0 || head >= p->heads || query < 0 || query >= p->q_len)
        return ra_fail(RA_ERROR_ARGUMENT, "head %lld, query %lld: must be below %lld and %lld", (long long)head,
                       (long long)query, (long long)p->heads, (long long)p->q_len);
    if (first_key < 0 || count < 0 || first_key > p->kv_len || count > p->kv_len - first_key)
        return ra_fail(RA_ERROR_ARGUMENT, "keys %lld to %lld + %lld: must be within 0..%lld", (long long)first_key,
                       (long long)first_key, (long long)count, (long long)p->kv_len);
    for (int64_t i = 0; i < count; i++)
        counts[i] = (uint8_t)ra_plan_sees(p, batch, head, query, first_key + i);
    return RA_OK;
}

ra_status ra_plan_visible(const ra_plan *p, int64_t head, int64_t query, int64_t first_key, int64_t count,
                          uint8_t *counts)
{
    return ra_plan_visible_element(p, 0, head, query, first_key, count, counts);
}

ra_status ra_system_describe(ra_system_info *info)
{
    const ra_kernel *kernel = NULL;
    ra_system_info ours = RA_SYSTEM_INFO_INIT;
    if (!info)
        return ra_fail(RA_ERROR_ARGUMENT, "info is NULL");
    ra_cpu_describe(&ours);
    ra_status status = ra_kernel_find(RA_KERNEL_AUTO, RA_PRECISION_AUTO, &kernel);
    if (status)
        return status;
    ours.kernel = kernel->id;
    return ra_copy_out(info, &ours, &ra_sized_system_info);
}
