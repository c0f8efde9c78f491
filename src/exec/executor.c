#include "exec/exec.h"

#include "base/checked.h"
#include "base/memory.h"
#include "base/tensor.h"
#include "base/threads.h"

#include <fenv.h>
#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <time.h>

/* What the threads of a run share. Tasks are taken in order, so the longest should come first. */
struct ra_shared {
    _Atomic int64_t next_task, next_unit;
    _Atomic int cancelled;
    _Atomic int64_t pairs_done;
    double reported; /* the last progress; the calling thread's alone */
};

ra_rows ra_rows_at(const ra_tensor *t, int64_t batch, int64_t seq, int64_t head)
{
    return (ra_rows){ra_tensor_at(t, batch, seq, head, 0), t->dtype, t->seq_stride, t->dim_stride};
}

void ra_state_clear(float *state, int lanes, int64_t floats)
{
    for (int i = 0; i < lanes; i++)
        state[i] = -INFINITY;
    for (int64_t i = lanes; i < floats; i++)
        state[i] = 0.0f;
}

void ra_finish(const ra_run *run, int64_t batch, int64_t head, int64_t query, int rows, float *state)
{
    const ra_plan *p = run->plan;
    const double ln2 = 0.69314718055994530942;
    int lanes = p->variant == RA_VARIANT_DECODE ? 1 : p->blocking.lanes;
    if (p->variant == RA_VARIANT_DECODE)
        for (int64_t d = 0; d < p->value_dim; d++)
            ra_tensor_set(run->output, batch, query, head, d, state[2 + d] / state[1] + 0.0f);
    else {
        ra_rows output = ra_rows_at(run->output, batch, query, head);
        run->kernel->finish_group(state, rows, p->value_dim, &output);
    }
    for (int i = 0; i < rows; i++) {
        ra_interval seen = ra_pattern_interval(&p->pattern, query + i + p->offset);
        bool empty = seen.lo >= seen.hi;
        for (int64_t d = 0; empty && d < p->value_dim; d++)
            ra_tensor_set(run->output, batch, query + i, head, d, 0.0);
        if (!run->lse)
            continue;
        float max = state[i], sum = state[lanes + i];
        double lse = sum != 0.0f ? ((double)max + log2((double)sum)) * ln2 : (double)NAN;
        ra_tensor_set(run->lse, batch, query + i, head, 0, empty ? -INFINITY : lse);
    }
}

/* From the calling thread alone. */
static void report(const ra_run *run, double done)
{
    const ra_plan *p = run->plan;
    run->shared->reported = done;
    if (p->progress(p->progress_user, done, p->pairs_visible))
        atomic_store_explicit(&run->shared->cancelled, 1, memory_order_relaxed);
}

bool ra_worker_done(ra_worker *w, double pairs)
{
    struct ra_shared *shared = w->run->shared;
    const ra_plan *p = w->run->plan;
    w->counts.pairs_visible += pairs;
    if (p->progress) {
        int64_t done = atomic_fetch_add_explicit(&shared->pairs_done, (int64_t)pairs, memory_order_relaxed);
        if (w->calling)
            report(w->run, (double)done + pairs);
    }
    return atomic_load_explicit(&shared->cancelled, memory_order_relaxed);
}

/* Merge the spans of one unit, first to last, into the first, and write its rows. */
static void merge_unit(const ra_run *run, int64_t unit)
{
    const ra_plan *p = run->plan;
    bool decoding = p->variant == RA_VARIANT_DECODE;
    int lanes = decoding ? 1 : p->blocking.lanes;
    float *state = ra_part(run, 0, unit);
    for (int64_t span = 1; span < p->spans; span++)
        (decoding ? run->kernel->merge_row : run->kernel->merge_group)(state, ra_part(run, span, unit), p->value_dim);

    int64_t groups = ra_ceil_div(p->q_len, lanes), query = unit % groups * lanes;
    int64_t head = unit / groups % p->heads, batch = unit / groups / p->heads;
    ra_finish(run, batch, head, query, (int)ra_min(lanes, p->q_len - query), state);
}

static bool cancelled(const struct ra_shared *shared)
{
    return atomic_load_explicit(&shared->cancelled, memory_order_relaxed);
}

/* One thread's part of the run. Ends after every thread has come to the end of the tasks. */
static void work(ra_worker *w)
{
    const ra_plan *p = w->run->plan;
    struct ra_shared *shared = w->run->shared;
    /* Rounding and denormals as the standard has them, in every thread alike, and the caller's own put back. */
    fenv_t environment;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    int64_t t;
    while (!cancelled(shared) &&
           (t = atomic_fetch_add_explicit(&shared->next_task, 1, memory_order_relaxed)) < p->tasks)
        (p->variant == RA_VARIANT_DECODE ? ra_decode_task : ra_tile_task)(w, t);
    if (p->spans > 1) {
#pragma omp barrier
        while (!cancelled(shared) &&
               (t = atomic_fetch_add_explicit(&shared->next_unit, 1, memory_order_relaxed)) < p->units)
            merge_unit(w->run, t);
    }
    fesetenv(&environment);
}

/* A run proves itself: what it counted, tile by tile, is what the plan counted from the pattern. */
static ra_status prove(const ra_plan *p, const ra_stats *stats)
{
    if (stats->tiles == p->tiles && stats->pairs_visible == p->pairs_visible &&
        stats->pairs_worked == p->pairs_worked && stats->peak_bytes <= p->peak_bytes)
        return RA_OK;
    return ra_fail(
        RA_ERROR_INTERNAL,
        "the run differs from its plan: tiles %.0f of %.0f, visible pairs %.0f of %.0f, worked pairs %.0f of "
        "%.0f, bytes %lld of %lld",
        stats->tiles, p->tiles, stats->pairs_visible, p->pairs_visible, stats->pairs_worked, p->pairs_worked,
        (long long)stats->peak_bytes, (long long)p->peak_bytes);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_threads(const ra_run *run, char *scratch, ra_stats *stats)
{
    const ra_plan *p = run->plan;
    double tiles = 0, visible = 0, worked = 0;
    int threads = 1, dynamic = omp_get_dynamic();
    omp_set_dynamic(0); /* as many threads as were asked for, whatever else the machine does */
#pragma omp parallel num_threads(p->threads) reduction(+ : tiles, visible, worked)
    {
        int me = omp_get_thread_num();
        ra_worker worker = {run, scratch + me * p->scratch.bytes, {0, 0, 0}, me == 0};
        work(&worker);
        tiles += worker.counts.tiles;
        visible += worker.counts.pairs_visible;
        worked += worker.counts.pairs_worked;
        if (me == 0)
            threads = omp_get_num_threads();
    }
    omp_set_dynamic(dynamic);
    /* The calling thread may have run out of tasks before the others did. */
    if (p->progress && !cancelled(run->shared) && run->shared->reported < p->pairs_visible)
        report(run, p->pairs_visible);
    stats->threads = threads;
    stats->tiles = tiles;
    stats->pairs_visible = visible;
    stats->pairs_worked = worked;
}

ra_status ra_execute(const ra_plan *p, const ra_kernel *kernel, const ra_tensor *q, const ra_tensor *k,
                     const ra_tensor *v, const ra_tensor *output, const ra_tensor *lse, ra_stats *stats)
{
    double start = now();
    struct ra_shared shared = {0, 0, 0, 0, 0};
    ra_run run = {p, kernel, q, k, v, output, lse, NULL, &shared};
    ra_accountant accountant = {0, 0};
    int64_t scratch_bytes = p->threads * p->scratch.bytes;
    void *scratch = NULL, *parts = NULL;
    ra_status status = ra_memory_take(&accountant, scratch_bytes, "scratch", &scratch);
    if (!status)
        status = ra_threads_try(p->threads);
    if (!status && p->spans > 1)
        status = ra_memory_take(&accountant, p->part_bytes, "partial states", &parts);
    run.parts = parts;
    if (!status)
        run_threads(&run, scratch, stats);
    ra_memory_give(&accountant, parts, p->part_bytes);
    ra_memory_give(&accountant, scratch, scratch_bytes);
    if (status)
        return status;
    if (shared.cancelled)
        return ra_fail(RA_ERROR_CANCELLED, "cancelled by the progress callback after %lld of %.0f pairs",
                       (long long)shared.pairs_done, p->pairs_visible);
    stats->kernel = kernel->id;
    stats->variant = p->variant;
    stats->flops = p->flops;
    stats->planned_peak_bytes = p->peak_bytes;
    stats->peak_bytes = accountant.peak;
    stats->seconds_compute = now() - start;
    return prove(p, stats);
}
