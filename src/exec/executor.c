/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs tasks on threads: who takes which, merging of spans, the division at the end, the poll. ra_execute is a whole
 * problem in one piece, with its proof. What a task does is in tile_task.c and decode_task.c.
 */
#include "exec/exec.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/float_mode.h"
#include "base/memory.h"
#include "base/tensor.h"
#include "base/threads.h"
#include "plan/batch.h"
#include "score/scores.h"

#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <time.h>

/* What the threads of a run share. Tasks are taken in order, so the longest should come first. */
struct ra_shared {
    _Atomic int64_t next_task, next_unit;
    _Atomic int cancelled;
    _Atomic int working; /* threads that may still be in a task */
    _Atomic int64_t pairs_done;
};

ra_rows ra_rows_at(const ra_tensor *t, int64_t batch, int64_t seq, int64_t head)
{
    return (ra_rows){ra_tensor_at(t, batch, seq, head, 0), t->dtype, t->seq_stride, t->dim_stride, NULL, NULL};
}

ra_rows ra_stacked_rows(const ra_tensor *t, int64_t batch, int64_t seq, int rows, ra_stack stack, int64_t *index)
{
    if (stack.heads == 1)
        return ra_rows_at(t, batch, seq, stack.head);
    /* From the lowest address on, because an index below 0 is a row that is not there. */
    int64_t last_head = t->head_stride < 0 ? stack.heads - 1 : 0, last_row = t->seq_stride < 0 ? rows - 1 : 0;
    for (int64_t i = 0; i < stack.heads * rows; i++)
        index[i] = (i / rows - last_head) * t->head_stride + (i % rows - last_row) * t->seq_stride;
    return (ra_rows){
        ra_tensor_at(t, batch, seq + last_row, stack.head + last_head, 0), t->dtype, 1, t->dim_stride, index, NULL};
}

void ra_state_clear(float *state, int lanes, int64_t floats)
{
    for (int i = 0; i < lanes; i++)
        state[i] = -INFINITY;
    for (int64_t i = lanes; i < floats; i++)
        state[i] = 0.0f;
}

static const double ln2 = 0.69314718055994530942;

/* One more logit in the softmax of a row, without a value. */
static bool has_sinks(const ra_plan *p)
{
    return p->scores && p->scores->sinks.data;
}

/*
 * The sink of a head becomes part of the sums of the rows: here, because a row is finished once, however many spans,
 * branches and ranks it took. Sums are relative to the row's maximum, which stays.
 */
static void add_sink(const ra_plan *p, int64_t head, int rows, int lanes, float *state)
{
    if (!has_sinks(p))
        return;
    double sink = ra_tensor_get(&p->scores->sinks, 0, 0, head, 0) / ln2;
    for (int i = 0; i < rows; i++)
        state[lanes + i] = (float)((double)state[lanes + i] + exp2(sink - (double)state[i]));
}

/* The log-sum-exp of a row. If all of its scores were -inf, it is the sink. */
static double lse_of(const ra_plan *p, int64_t head, bool empty, float max, float sum)
{
    double sink = has_sinks(p) ? ra_tensor_get(&p->scores->sinks, 0, 0, head, 0) : -INFINITY;
    if (empty || (sink > -INFINITY && isinf(sum)))
        return sink;
    return sum != 0.0f ? ((double)max + log2((double)sum)) * ln2 : (double)NAN;
}

/* Rows that see no key, and the log-sum-exp of all. `row` is of the first one in output and lse. */
static void finish_head(const ra_run *run, const ra_plan *p, int64_t batch, int64_t head, const ra_group *group,
                        int64_t row, const float *state)
{
    int lanes = run->work->grouping.lanes;
    for (int i = 0; i < group->rows; i++) {
        bool empty = ra_pattern_blind(&p->pattern, head, group->query + i + p->offset);
        for (int64_t d = 0; empty && d < p->value_dim; d++)
            ra_tensor_set(run->output, batch, row + i, head, d, 0.0);
        if (!run->lse)
            continue;
        ra_tensor_set(run->lse, batch, row + i, head, 0, lse_of(p, head, empty, state[i], state[lanes + i]));
    }
}

void ra_finish(const ra_run *run, int64_t batch, ra_stack stack, const ra_group *group, float *state)
{
    ra_plan copy;
    const ra_plan *p = ra_plan_of_batch(run->plan, batch, &copy);
    int64_t row = run->whole_output ? group->query : group->row - run->output_first, index[RA_LANES_MOST] = {0};
    for (int64_t i = 0; i < stack.heads; i++)
        add_sink(p, stack.head + i, group->rows, run->work->grouping.lanes, state + i * group->rows);
    ra_rows output = ra_stacked_rows(run->output, batch, row, group->rows, stack, index);
    if (p->variant == RA_VARIANT_DECODE)
        run->kernel->finish_row(state, p->value_dim, &output);
    else
        run->kernel->finish_group(state, (int)(group->rows * stack.heads), p->value_dim, &output);
    for (int64_t i = 0; i < stack.heads; i++)
        finish_head(run, p, batch, stack.head + i, group, row, state + i * group->rows);
}

ra_interval ra_span_keys(const ra_run *run, int64_t span)
{
    if (run->spans == 1)
        return run->within;
    int64_t first = ra_min(span * run->plan->span_keys, run->plan->kv_len); /* the last spans may be empty */
    return (ra_interval){first, ra_min(first + run->plan->span_keys, run->plan->kv_len)};
}

ra_interval ra_query_spans(const ra_run *run, int64_t query)
{
    const ra_plan *p = run->plan;
    if (!p->pattern.ragged || p->variant != RA_VARIANT_DECODE)
        return (ra_interval){0, run->spans};
    ra_packed_query at = ra_ragged_at(p->pattern.ragged, query);
    if (at.first_key >= at.end_key)
        return (ra_interval){0, 0};
    return (ra_interval){at.first_key / p->span_keys, ra_ceil_div(at.end_key, p->span_keys)};
}

/* From the calling thread alone. */
static void poll(const ra_run *run, double done)
{
    if (run->poll(run->poll_user, done))
        atomic_store_explicit(&run->shared->cancelled, 1, memory_order_relaxed);
}

bool ra_worker_done(ra_worker *w, double pairs)
{
    struct ra_shared *shared = w->run->shared;
    w->counts.pairs_visible += pairs;
    if (w->run->poll) {
        int64_t done = atomic_fetch_add_explicit(&shared->pairs_done, (int64_t)pairs, memory_order_relaxed);
        if (w->calling)
            poll(w->run, (double)done + pairs);
    }
    return atomic_load_explicit(&shared->cancelled, memory_order_relaxed);
}

/* Merge the spans of one unit, first to last, into the first, and write its rows. */
static void merge_unit(const ra_run *run, int64_t unit)
{
    const ra_plan *p = run->plan;
    const ra_workload *work = run->work;
    float *state = ra_unit_state(run, 0, unit);
    ra_group group = ra_group_at(&work->queries, &work->grouping, unit % work->groups);
    ra_interval spans = ra_query_spans(run, group.query);
    if (spans.lo > 0 || spans.hi == 0)
        ra_state_clear(state, work->grouping.lanes, p->unit_floats);
    for (int64_t span = ra_max(1, spans.lo); span < spans.hi; span++)
        (p->variant == RA_VARIANT_DECODE ? run->kernel->merge_row : run->kernel->merge_group)(
            state, ra_unit_state(run, span, unit), p->value_dim);
    int64_t stack = unit / work->groups, stacks = p->kv_heads * ra_stacks_of_head(work, p);
    ra_finish(run, stack / stacks, ra_stack_at(work, p, stack % stacks), &group, state);
}

static bool cancelled(const struct ra_shared *shared)
{
    return atomic_load_explicit(&shared->cancelled, memory_order_relaxed);
}

/* The calling thread has no more tasks, but others still work: it goes on polling. */
static void wait_for_others(const ra_run *run)
{
    const struct timespec moment = {0, 50000};
    struct ra_shared *shared = run->shared;
    while (atomic_load_explicit(&shared->working, memory_order_acquire) > 0 && !cancelled(shared)) {
        nanosleep(&moment, NULL);
        poll(run, (double)atomic_load_explicit(&shared->pairs_done, memory_order_relaxed));
    }
}

static int64_t tasks_of(const ra_run *run)
{
    return run->work->tasks * run->spans;
}

/* Add the counts of a thread to those of a run. */
static void hand_in(ra_worker *w, ra_run *run)
{
    ra_counts *all = run->counts;
#pragma omp atomic
    all->tiles += w->counts.tiles;
#pragma omp atomic
    all->pairs_visible += w->counts.pairs_visible;
#pragma omp atomic
    all->pairs_worked += w->counts.pairs_worked;
#pragma omp atomic
    run->busy += w->busy;
    w->counts = (ra_counts){0, 0, 0, 0};
    w->busy = 0;
}

const ra_run *ra_run_of_batch(const ra_run *run, int64_t batch, ra_element_run *e)
{
    if (!ra_plan_by_batch(run->plan))
        return run;
    e->run = *run;
    e->run.plan = ra_plan_of_batch(run->plan, batch, &e->plan);
    e->run.work = ra_workload_of_batch(run->work, &e->plan, &e->work);
    return &e->run;
}

static void work_task(ra_worker *w, const ra_run *run, int64_t task)
{
    bool decoding = run->plan->variant == RA_VARIANT_DECODE;
    ra_element_run element;
    w->run = ra_run_of_batch(run, (decoding ? ra_decode_task_batch : ra_tile_task_batch)(run, task), &element);
    (decoding ? ra_decode_task : ra_tile_task)(w, task);
    w->run = run;
}

/* Tasks of one run after the other, as long as there are any. */
static void work_tasks(ra_worker *w, ra_run *run)
{
    struct ra_shared *shared = run->shared;
    for (int64_t before = 0; run;) {
        int64_t t =
            cancelled(shared) ? INT64_MAX : atomic_fetch_add_explicit(&shared->next_task, 1, memory_order_relaxed);
        for (; run && t - before >= tasks_of(run); run = run->next) {
            before += tasks_of(run);
            hand_in(w, run);
        }
        if (!run)
            return;
        double start = ra_seconds();
        work_task(w, run, t - before);
        w->busy += ra_seconds() - start;
    }
}

/* One thread's part of a run, and of those after it, together with others or alone. */
static void work(ra_worker *w, ra_run *run, bool alone)
{
    struct ra_shared *shared = run->shared;
    fenv_t environment;
    ra_floats_enter(&environment, ra_scores_staged(run->plan->scores));
    work_tasks(w, run);
    atomic_fetch_sub_explicit(&shared->working, 1, memory_order_release);
    if (w->calling && run->poll)
        wait_for_others(run);
    if (run->spans > 1) {
        int64_t t;
        if (!alone) {
#pragma omp barrier
        }
        while (!cancelled(shared) &&
               (t = atomic_fetch_add_explicit(&shared->next_unit, 1, memory_order_relaxed)) < run->work->units)
            merge_unit(run, t);
    }
    ra_floats_leave(&environment);
}

static void note_threads(ra_run *run, int threads)
{
    for (ra_run *r = run; r; r = r->next)
        r->counts->threads = threads;
}

/* One thread runs without OpenMP, because a parallel region costs more than a small problem. */
static void work_alone(ra_run *run, char *scratch)
{
    ra_worker worker = {run, scratch, {0, 0, 0, 0}, 0, true};
    note_threads(run, 1);
    work(&worker, run, true);
}

static void work_together(ra_run *run, char *scratch, int64_t each, int threads)
{
    int dynamic = omp_get_dynamic();
    omp_set_dynamic(0); /* OpenMP must not take fewer threads than were asked for */
#pragma omp parallel num_threads(threads)
    {
        int me = omp_get_thread_num();
        ra_worker worker = {run, scratch + me * each, {0, 0, 0, 0}, 0, me == 0};
        if (me == 0) {
            note_threads(run, omp_get_num_threads());
            atomic_fetch_sub(&run->shared->working, threads - omp_get_num_threads());
        }
        work(&worker, run, false);
    }
    omp_set_dynamic(dynamic);
}

bool ra_run_tasks(ra_run *run, char *scratch)
{
    struct ra_shared shared = {0, 0, 0, 0, 0};
    int64_t each = 0;
    int threads = 1;
    for (ra_run *r = run; r; r = r->next) {
        r->shared = &shared;
        r->busy = 0;
        r->scratch = ra_scratch_lay_out(r->plan, r->work);
        each = ra_max(each, r->work->scratch_bytes);
        threads = (int)ra_max(threads, r->work->threads);
    }
    threads = ra_threads_most(threads);
    shared.working = threads;
    if (threads == 1)
        work_alone(run, scratch);
    else
        work_together(run, scratch, each, threads);
    for (ra_run *r = run; r; r = r->next)
        r->shared = NULL;
    return !shared.cancelled;
}

void ra_run_merge(const ra_run *run, float *into, float *from)
{
    const ra_plan *p = run->plan;
    int lanes = run->work->grouping.lanes;
    fenv_t environment;
    ra_floats_enter(&environment, ra_scores_staged(run->plan->scores));
    for (int64_t unit = 0; unit < run->work->units; unit++) {
        float *state = from + unit * p->unit_floats;
        (p->variant == RA_VARIANT_DECODE ? run->kernel->merge_row
                                         : run->kernel->merge_group)(into + unit * p->unit_floats, state, p->value_dim);
        ra_state_clear(state, lanes, p->unit_floats);
    }
    ra_floats_leave(&environment);
}

void ra_run_finish(const ra_run *run, int64_t first, int64_t count)
{
    const ra_plan *p = run->plan;
    const ra_workload *w = run->work;
    int64_t rows_of_heads = p->batch * p->heads;
    int dynamic = omp_get_dynamic();
    omp_set_dynamic(0);
#pragma omp parallel num_threads(ra_threads_most(w->threads))
    {
        fenv_t environment;
        ra_floats_enter(&environment, ra_scores_staged(run->plan->scores));
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows_of_heads * count; i++) {
            int64_t row = i / count, number = first + i % count;
            ra_group group = ra_group_at(&w->queries, &w->grouping, number);
            ra_finish(run, row / p->heads, (ra_stack){row % p->heads, 1}, &group,
                      ra_unit_state(run, 0, row * w->groups + number));
        }
        ra_floats_leave(&environment);
    }
    omp_set_dynamic(dynamic);
}

/* ---- A whole problem in one piece -------------------------------------------------------------------------------- */

/* The caller's progress callback, and the figure that it was last called with. */
typedef struct reporter {
    const ra_plan *plan;
    double reported;
} reporter;

static int report(void *user, double done)
{
    reporter *r = user;
    if (done <= r->reported)
        return 0;
    r->reported = done;
    return r->plan->progress(r->plan->progress_user, done, r->plan->all.pairs_visible);
}

/* A run proves itself: what it counted, tile by tile, is what the plan counted from the pattern. */
static ra_status prove(const ra_plan *p, const ra_stats *stats)
{
    const ra_workload *all = &p->all;
    if (stats->tiles == all->tiles && stats->pairs_visible == all->pairs_visible &&
        stats->pairs_worked == all->pairs_worked && stats->peak_bytes <= p->peak_bytes)
        return RA_OK;
    return ra_fail(
        RA_ERROR_INTERNAL,
        "the run differs from its plan: tiles %.0f of %.0f, visible pairs %.0f of %.0f, worked pairs %.0f of "
        "%.0f, bytes %lld of %lld",
        stats->tiles, all->tiles, stats->pairs_visible, all->pairs_visible, stats->pairs_worked, all->pairs_worked,
        (long long)stats->peak_bytes, (long long)p->peak_bytes);
}

ra_status ra_execute(const ra_plan *p, const ra_kernel *kernel, const ra_tensor *q, const ra_cache *cache,
                     const ra_tensor *output, const ra_tensor *lse, ra_stats *stats)
{
    double start = ra_seconds();
    const ra_workload *all = &p->all;
    reporter reporter = {p, -1};
    ra_run run = {.plan = p, .work = all, .kernel = kernel, .q = q, .output = output, .lse = lse};
    run.whole = run.whole_output = true;
    bool cached = cache->page_table || cache->k_scale || cache->v_scale;
    const ra_keys keys = {
        .share = ra_share_of_range(0, p->kv_len), .k = cache->k, .v = cache->v, .cache = cached ? cache : NULL};
    run.keys = &keys;
    run.key_sets = 1;
    run.within = (ra_interval){0, p->kv_len};
    run.spans = p->spans;
    run.poll = p->progress ? report : NULL;
    run.poll_user = &reporter;
    ra_accountant accountant = {.bytes = ra_plan_bytes(p)};
    int64_t scratch_bytes = all->threads * all->scratch_bytes;
    void *scratch = NULL, *states = NULL;
    ra_status status = ra_threads_check(p->threads_asked);
    if (!status)
        status = ra_memory_take(&accountant, scratch_bytes, "scratch", &scratch);
    if (!status)
        status = ra_threads_try(all->threads);
    if (!status && p->spans > 1)
        status = ra_memory_take(&accountant, p->part_bytes, "partial states", &states);
    run.states = states;
    ra_counts counts = {0, 0, 0, 0};
    run.counts = &counts;
    bool finished = !status && ra_run_tasks(&run, scratch);
    /* The calling thread may have run out of tasks before the others did. */
    if (finished && p->progress && reporter.reported < all->pairs_visible)
        finished = !report(&reporter, all->pairs_visible);
    ra_memory_give(&accountant, states, p->part_bytes);
    ra_memory_give(&accountant, scratch, scratch_bytes);
    if (status)
        return status;
    status = ra_scores_failed(p->scores);
    if (status)
        return status;
    if (!finished)
        return ra_fail(RA_ERROR_CANCELLED, "cancelled by the progress callback after %.0f of %.0f pairs",
                       counts.pairs_visible, all->pairs_visible);
    *stats = (ra_stats){stats->size,    kernel->id,           p->variant,          counts.threads, ra_seconds() - start,
                        counts.tiles,   counts.pairs_visible, counts.pairs_worked, p->flops,       p->peak_bytes,
                        accountant.peak};
    return prove(p, stats);
}

/* Call the progress callback once, although there is nothing to do. */
ra_status ra_execute_nothing(const ra_plan *p, const ra_kernel *kernel, const ra_tensor *output, const ra_tensor *lse,
                             ra_stats *stats)
{
    double start = ra_seconds();
    for (int64_t row = 0; row < p->batch * p->q_len * p->heads; row++) {
        int64_t head = row % p->heads, query = row / p->heads % p->q_len, batch = row / p->heads / p->q_len;
        for (int64_t d = 0; d < p->value_dim; d++)
            ra_tensor_set(output, batch, query, head, d, 0.0);
        if (lse)
            ra_tensor_set(lse, batch, query, head, 0, lse_of(p, head, true, 0, 0));
    }
    if (p->progress && p->progress(p->progress_user, 0, 0))
        return ra_fail(RA_ERROR_CANCELLED, "cancelled by the progress callback after 0 of 0 pairs");
    *stats = (ra_stats){.size = stats->size,
                        .kernel = kernel->id,
                        .variant = p->variant,
                        .threads = 1,
                        .seconds_compute = ra_seconds() - start,
                        .planned_peak_bytes = p->peak_bytes,
                        .peak_bytes = ra_plan_bytes(p)};
    return RA_OK;
}
