/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backward pass over a whole problem in one piece, with its proof. Gradients of RA_F32 are their own sums. Where one
 * of 16 bits is wanted, float32 sums are kept for the key/value heads that are worked on at a time, and rounded when
 * their last task is done.
 */
#include "exec/gradient.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/tensor.h"
#include "base/threads.h"
#include "score/scores.h"

#include <string.h>

/* Float32 sums that are not the gradients themselves. */
typedef struct sums {
    ra_tensor tensor;
    int64_t at; /* in their memory */
} sums;

typedef struct whole {
    const ra_plan *plan;
    const ra_gradient_tensors *tensors;
    ra_gradient_work work;
    ra_gradient_run run;
    ra_accountant accountant;
    ra_counts counts;
    double reported;
    int64_t planned;
    ra_tensor delta;
    sums d_q, d_k, d_v;
    ra_array_sums scores;
    void *scratch, *deltas, *memory, *score_memory;
    int64_t scratch_bytes, delta_bytes, sum_bytes, score_bytes;
} whole;

/* ---- Sums -------------------------------------------------------------------------------------------------------- */

static bool narrow(const ra_tensor *t)
{
    return t && t->dtype != RA_F32;
}

/* Tasks of several branches add to the same rows of d_q. */
static bool adds_to_queries(const whole *w)
{
    return w->tensors->d_q && w->plan->pattern.dilation;
}

/* Chains that are worked on at the same time: consecutive tasks of all threads. */
static int64_t chains_at_a_time(const whole *w)
{
    const ra_plan *p = w->plan;
    int64_t shortest = INT64_MAX, threads = w->work.all.threads;
    for (int64_t head = 0; head < p->kv_heads; head++)
        shortest = ra_min(shortest, ra_chain_tasks(&w->work.all, p, head));
    return ra_min(p->batch * p->kv_heads, 1 + ra_ceil_div(threads - 1, ra_max(1, shortest)));
}

/* Sums of this shape, behind those that were laid out before. */
static void add_sums(whole *w, sums *s, int64_t seq, int64_t heads, int64_t dim)
{
    s->tensor = ra_tensor_dense(NULL, RA_F32, RA_BHSD, 1, seq, heads, dim);
    s->at = w->sum_bytes;
    w->sum_bytes += ra_memory_rounded(seq * heads * dim * (int64_t)sizeof(float));
}

/* Lay out the sums that are needed, and count their bytes. */
static void lay_out_sums(whole *w)
{
    const ra_plan *p = w->plan;
    const ra_gradient_tensors *t = w->tensors;
    ra_gradient_run *run = &w->run;
    run->queries.d_q = t->d_q;
    run->keys.d_k = t->d_k;
    run->keys.d_v = t->d_v;
    run->finish = !adds_to_queries(w);
    run->d_q_slots = narrow(t->d_q) && adds_to_queries(w);
    bool keys = narrow(t->d_k) || narrow(t->d_v);
    if (!keys && !run->d_q_slots)
        return;
    run->slots = chains_at_a_time(w);
    if (t->d_k)
        add_sums(w, &w->d_k, p->kv_len, run->slots, p->head_dim), run->keys.d_k = &w->d_k.tensor;
    if (t->d_v)
        add_sums(w, &w->d_v, p->kv_len, run->slots, p->value_dim), run->keys.d_v = &w->d_v.tensor;
    if (run->d_q_slots)
        add_sums(w, &w->d_q, p->q_len, run->slots * p->group_heads, p->head_dim), run->queries.d_q = &w->d_q.tensor;
}

static void place_sums(whole *w)
{
    sums *all[] = {&w->d_q, &w->d_k, &w->d_v};
    for (int i = 0; w->memory && i < 3; i++)
        all[i]->tensor.data = (char *)w->memory + all[i]->at;
}

static void clear(const ra_tensor *t, int64_t batch, int64_t head, int64_t heads)
{
    for (int64_t seq = 0; seq < t->seq; seq++)
        for (int64_t h = 0; h < heads; h++) {
            float *row = (float *)ra_tensor_at(t, batch, seq, head + h, 0);
            for (int64_t d = 0; d < t->dim; d++)
                row[d * t->dim_stride] = 0.0f;
        }
}

static void open_chain(void *user, int64_t chain)
{
    const whole *w = user;
    const ra_gradient_run *run = &w->run;
    int64_t heads = w->plan->kv_heads, group = w->plan->group_heads;
    int64_t batch = run->slots ? 0 : chain / heads, head = run->slots ? chain % run->slots : chain % heads;
    if (run->keys.d_k)
        clear(run->keys.d_k, batch, head, 1);
    if (run->keys.d_v)
        clear(run->keys.d_v, batch, head, 1);
    if (adds_to_queries(w) && run->d_q_slots)
        clear(run->queries.d_q, 0, head * group, group);
    else if (adds_to_queries(w))
        clear(run->queries.d_q, chain / heads, chain % heads * group, group);
}

static void close_chain(void *user, int64_t chain)
{
    const whole *w = user;
    const ra_gradient_run *run = &w->run;
    const ra_gradient_tensors *t = w->tensors;
    int64_t batch = chain / w->plan->kv_heads, head = chain % w->plan->kv_heads, group = w->plan->group_heads;
    if (!run->slots)
        return;
    int64_t slot = chain % run->slots;
    if (t->d_k)
        ra_gradient_round(run->keys.d_k, 0, slot, t->d_k, batch, head, 1);
    if (t->d_v)
        ra_gradient_round(run->keys.d_v, 0, slot, t->d_v, batch, head, 1);
    if (run->d_q_slots)
        ra_gradient_round(run->queries.d_q, 0, slot * group, t->d_q, batch, head * group, group);
}

/* ---- The run ----------------------------------------------------------------------------------------------------- */

static int report(void *user, double done)
{
    whole *w = user;
    if (done <= w->reported)
        return 0;
    w->reported = done;
    return w->plan->progress(w->plan->progress_user, done, w->work.all.pairs_visible);
}

static void fill_run(whole *w, const ra_kernel *kernel)
{
    const ra_plan *p = w->plan;
    const ra_gradient_tensors *t = w->tensors;
    w->run = (ra_gradient_run){.plan = p, .work = &w->work.all, .kernel = kernel};
    w->run.queries = (ra_query_rows){.share = w->work.all.queries, .whole = true, .q = t->q, .d_output = t->d_output};
    w->run.queries.lse = t->lse;
    w->run.queries.delta = &w->delta;
    w->run.keys.keys = (ra_keys){.share = ra_share_of_range(0, p->kv_len), .k = t->k, .v = t->v};
    w->run.poll = p->progress ? report : NULL;
    w->run.poll_user = w;
    w->run.open = open_chain;
    w->run.close = close_chain;
    w->run.chain_user = w;
    w->run.array_sums = ra_array_sums_wanted(p) ? &w->scores : NULL;
    w->run.counts = &w->counts;
}

static ra_status take_memory(whole *w)
{
    w->scratch_bytes = w->work.all.threads * w->work.all.scratch_bytes;
    w->delta_bytes = w->plan->batch * w->plan->heads * w->plan->q_len * (int64_t)sizeof(float);
    ra_status status = ra_threads_check(w->plan->threads_asked);
    if (!status && w->scratch_bytes)
        status = ra_memory_take(&w->accountant, w->scratch_bytes, "scratch", &w->scratch);
    if (!status && w->delta_bytes)
        status = ra_memory_take(&w->accountant, w->delta_bytes, "row statistics", &w->deltas);
    if (!status && w->sum_bytes)
        status = ra_memory_take(&w->accountant, w->sum_bytes, "sums of gradients", &w->memory);
    if (!status && w->score_bytes)
        status = ra_memory_take(&w->accountant, w->score_bytes, "gradients of scores", &w->score_memory);
    return status ? status : ra_threads_try(w->work.all.threads);
}

static void give_memory(whole *w)
{
    ra_memory_give(&w->accountant, w->score_memory, w->score_bytes);
    ra_memory_give(&w->accountant, w->memory, w->sum_bytes);
    ra_memory_give(&w->accountant, w->deltas, w->delta_bytes);
    ra_memory_give(&w->accountant, w->scratch, w->scratch_bytes);
}

/* What was counted tile by tile is what the plan counted from the pattern. */
static ra_status prove(const whole *w)
{
    const ra_workload *all = &w->work.all;
    const ra_counts *c = &w->counts;
    if (c->tiles == all->tiles && c->pairs_visible == all->pairs_visible && c->pairs_worked == all->pairs_worked &&
        w->accountant.peak <= w->planned)
        return RA_OK;
    return ra_fail(RA_ERROR_INTERNAL,
                   "the backward pass differs from its plan: tiles %.0f of %.0f, visible pairs %.0f of %.0f, worked "
                   "pairs %.0f of %.0f, bytes %lld of %lld",
                   c->tiles, all->tiles, c->pairs_visible, all->pairs_visible, c->pairs_worked, all->pairs_worked,
                   (long long)w->accountant.peak, (long long)w->planned);
}

static void fill_stats(const whole *w, const ra_kernel *kernel, double start, ra_stats *stats)
{
    *stats = (ra_stats){.size = stats->size,
                        .kernel = kernel->id,
                        .variant = RA_VARIANT_TILE,
                        .threads = w->counts.threads,
                        .seconds_compute = ra_seconds() - start,
                        .tiles = w->counts.tiles,
                        .pairs_visible = w->counts.pairs_visible,
                        .pairs_worked = w->counts.pairs_worked,
                        .flops = w->work.flops,
                        .planned_peak_bytes = w->planned,
                        .peak_bytes = w->accountant.peak};
}

static void begin_scores(whole *w)
{
    if (!ra_array_sums_wanted(w->plan))
        return;
    ra_array_sums_clear(w->plan);
    ra_array_sums_begin(&w->scores, w->plan, w->score_memory);
    ra_array_sums_rows(&w->scores, 0, w->tensors->lse, &w->delta);
}

/* Write the gradients of arrays of scores; fails where a bias could not be read. */
static ra_status finish_scores(whole *w)
{
    if (ra_array_sums_wanted(w->plan))
        ra_array_sums_finish(&w->scores);
    return ra_scores_failed(w->plan->scores);
}

static ra_status run_tasks(whole *w)
{
    const ra_gradient_tensors *t = w->tensors;
    w->delta = ra_tensor_dense(w->deltas, RA_F32, RA_BSHD, w->plan->batch, w->plan->q_len, w->plan->heads, 1);
    place_sums(w);
    ra_gradient_delta(w->run.kernel, w->work.all.threads, t->output, t->d_output, t->d_lse, &w->delta);
    begin_scores(w);
    bool finished = ra_gradient_tasks(&w->run, w->scratch);
    if (finished && w->plan->progress && w->reported < w->work.all.pairs_visible)
        finished = !report(w, w->work.all.pairs_visible);
    if (finished)
        return finish_scores(w);
    return ra_fail(RA_ERROR_CANCELLED, "cancelled by the progress callback after %.0f of %.0f pairs",
                   ra_max(0, (int64_t)w->reported) * 1.0, w->work.all.pairs_visible);
}

/* Without keys, rows still give their part to the gradients of sinks. */
static ra_status execute_rows(whole *w, const ra_kernel *kernel)
{
    const ra_gradient_tensors *t = w->tensors;
    ra_status status = ra_array_sums_wanted(w->plan) ? take_memory(w) : RA_OK;
    if (!status && ra_array_sums_wanted(w->plan)) {
        w->delta = ra_tensor_dense(w->deltas, RA_F32, RA_BSHD, w->plan->batch, w->plan->q_len, w->plan->heads, 1);
        ra_gradient_delta(kernel, 1, t->output, t->d_output, t->d_lse, &w->delta);
        begin_scores(w);
        status = finish_scores(w);
    }
    give_memory(w);
    return status;
}

/* No query sees a key: all gradients are zeros, except those of sinks. */
static ra_status execute_nothing(whole *w, const ra_kernel *kernel)
{
    const ra_gradient_tensors *t = w->tensors;
    const ra_tensor *gradients[] = {t->d_q, t->d_k, t->d_v};
    for (int i = 0; i < 3; i++)
        for (int64_t row = 0; gradients[i] && row < gradients[i]->batch * gradients[i]->seq * gradients[i]->heads;
             row++)
            for (int64_t d = 0; d < gradients[i]->dim; d++)
                ra_tensor_set(gradients[i], row / gradients[i]->heads / gradients[i]->seq,
                              row / gradients[i]->heads % gradients[i]->seq, row % gradients[i]->heads, d, 0.0);
    w->counts.threads = 1;
    if (w->plan->progress && w->plan->progress(w->plan->progress_user, 0, 0))
        return ra_fail(RA_ERROR_CANCELLED, "cancelled by the progress callback after 0 of 0 pairs");
    return execute_rows(w, kernel);
}

ra_status ra_gradient_plan(const ra_plan *p, ra_gradient_work *work)
{
    int threads = p->threads_asked ? p->threads_asked : ra_threads_most(ra_cpu_cores());
    ra_status status = ra_gradient_lay_out(work, p, threads, ra_gradient_scratch_bytes);
    int64_t rows = p->batch * p->heads * p->q_len, sums = ra_array_sums_lay_out(p).count;
    work->peak_bytes += sums ? ra_memory_rounded(sums * (int64_t)sizeof(ra_exact_sum)) : 0;
    if (ra_array_sums_wanted(p) && work->all.tasks == 0)
        work->peak_bytes += ra_memory_rounded(rows * (int64_t)sizeof(float));
    return status;
}

ra_status ra_gradient_execute(const ra_plan *p, const ra_kernel *kernel, const ra_gradient_tensors *tensors,
                              ra_stats *stats)
{
    double start = ra_seconds();
    whole w = {.plan = p, .tensors = tensors, .reported = -1, .accountant = {.bytes = ra_plan_bytes(p)}};
    w.accountant.peak = w.accountant.bytes;
    ra_status status = ra_gradient_plan(p, &w.work);
    if (status)
        return status;
    w.planned = w.work.peak_bytes;
    w.score_bytes = ra_array_sums_lay_out(p).count * (int64_t)sizeof(ra_exact_sum);
    if (w.work.all.tasks == 0)
        status = execute_nothing(&w, kernel);
    else {
        fill_run(&w, kernel);
        lay_out_sums(&w);
        w.planned += w.sum_bytes ? ra_memory_rounded(w.sum_bytes) : 0;
        status = take_memory(&w);
        if (!status)
            status = run_tasks(&w);
        give_memory(&w);
    }
    if (status)
        return status;
    fill_stats(&w, kernel, start, stats);
    return prove(&w);
}
