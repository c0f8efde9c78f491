#include "ring/rank.h"

#include "base/checked.h"
#include "base/memory.h"
#include "base/tensor.h"

#include <time.h>

/* ---- Tiles ---------------------------------------------------------------------------------------------------------
 */
int ra_rank_poll(void *user, double pairs)
{
    ra_rank *e = user;
    const ra_plan *p = e->ring->plan;
    double done = e->pairs_before + pairs;
    e->status = ra_rank_poll_link(e);
    if (e->link.stopped && e->tensors->checkpoint)
        e->status = RA_OK; /* first on to where this rank can be saved */
    if (e->status || !p->progress || done <= e->pairs_reported)
        return e->status != RA_OK;
    e->pairs_reported = done;
    return p->progress(p->progress_user, done, e->pairs_total);
}

static ra_status run_keys(ra_rank *e, ra_interval within, float *states)
{
    double before = e->counts.pairs_visible;
    e->changed = true;
    e->run.within = within;
    e->run.states = states;
    if (!ra_run_tasks(&e->run, e->scratch))
        return e->status ? e->status
                         : ra_fail(RA_ERROR_CANCELLED, "rank %d: cancelled by the progress callback", e->rank);
    e->pairs_before += e->counts.pairs_visible - before;
    return RA_OK;
}

/* The keys in a stretch of positions that are not done yet, with stops where the run may be saved. */
static ra_status run_tiles(ra_rank *e, ra_interval within, float *states)
{
    ra_status status = RA_OK;
    for (int64_t at = ra_max(within.lo, e->position), next; at < within.hi && !status; at = next) {
        next = e->stride ? ra_min(within.hi, (at / e->stride + 1) * e->stride) : within.hi;
        status = run_keys(e, (ra_interval){at, next}, states);
        e->position = next;
        if (!status && e->stride)
            status = ra_rank_save(e, RA_OK);
    }
    return status;
}

/* A span is complete: into the states of those before it. */
static void merge_span(ra_rank *e)
{
    if (e->current && e->span > 0)
        ra_run_merge(&e->run, e->states, e->current);
}

/* The keys that are here, span by span where the spans of a run in one piece are reproduced. */
static ra_status run_spans(ra_rank *e, const ra_share *keys)
{
    const ra_plan *p = e->ring->plan;
    int64_t first = ra_share_range(keys, 0).first, end = ra_share_range(keys, keys->ranges - 1).end;
    if (!e->current)
        return run_tiles(e, (ra_interval){first, end}, e->states);
    ra_status status = RA_OK;
    for (int64_t span = ra_max(first, e->position) / p->span_keys; span * p->span_keys < end && !status; span++) {
        if (span != e->span)
            merge_span(e);
        e->span = span;
        ra_interval within = {ra_max(first, span * p->span_keys), ra_min(end, (span + 1) * p->span_keys)};
        status = run_tiles(e, within, span ? e->current : e->states);
    }
    return status;
}

/* Others' memory is read only while its owner keeps it. */
static ra_status enter_gates(ra_rank *e, int *entered)
{
    for (int rank = 0; rank < e->ring->options.ranks; rank++) {
        ra_gate *g = ra_rank_gate_of(e, rank);
        if (!g)
            return RA_OK;
        atomic_fetch_add(&g->readers, 1);
        *entered = rank + 1;
        if (atomic_load(&g->closed))
            return ra_fail(RA_ERROR_PEER, "rank %d: rank %d has stopped", e->rank, rank);
    }
    return RA_OK;
}

static void leave_gates(ra_rank *e, int entered)
{
    for (int rank = 0; rank < entered; rank++)
        atomic_fetch_sub(&ra_rank_gate_of(e, rank)->readers, 1);
}

void ra_rank_close_gate(ra_rank *e)
{
    const struct timespec moment = {0, 50000};
    ra_gate *mine = e->simulated ? NULL : ra_rank_gate_of(e, e->rank);
    if (!mine)
        return;
    atomic_store(&mine->closed, 1);
    while (atomic_load(&mine->readers) > 0)
        nanosleep(&moment, NULL);
}

/* By reference: where the keys lie, in the caller's memory or in every rank's own. */
static void set_in_place(ra_rank *e, int64_t step, ra_keys *keys)
{
    *keys = (ra_keys){.share = ra_step_keys(e->ring, e->rank, step)};
    keys->k = e->simulated ? e->peer_k + e->rank : e->peer_k;
    keys->v = e->simulated ? e->peer_v + e->rank : e->peer_v;
    keys->owners = e->simulated ? NULL : &e->ring->keys;
}

static ra_status compute_in_place(ra_rank *e, int64_t step)
{
    int entered = 0;
    set_in_place(e, step, e->keys);
    ra_status status = e->simulated ? RA_OK : enter_gates(e, &entered);
    if (!status)
        status = run_spans(e, &e->keys->share);
    leave_gates(e, entered);
    return status;
}

static ra_status compute_in_slots(ra_rank *e, const ra_step *s)
{
    ra_status status = RA_OK;
    for (int part = 0; part < RA_PARTS && !status; part++) {
        if (s->slot[part] < 0)
            continue;
        const ra_slot *here = &e->slots[s->slot[part]];
        *e->keys = (ra_keys){
            here->keys, here->k, here->v, NULL, here->words, here->before, e->sets > 1 ? here->keys.blocks : 0};
        status = run_spans(e, &here->keys);
    }
    return status;
}

static ra_status compute(ra_rank *e, int64_t step)
{
    const ra_step *s = &e->schedule.step[step];
    ra_status status = RA_OK;
    if (s->rows > 0 && e->work.groups > 0) {
        double start = ra_seconds();
        status = e->ring->by_reference ? compute_in_place(e, step) : compute_in_slots(e, s);
        e->stats->seconds_compute += ra_seconds() - start;
    }
    e->changed = true;
    e->step = step + 1;
    e->position = 0;
    return status;
}

/* Where results go when they are in the caller's memory. */
static void set_output(ra_rank *e)
{
    e->run.whole_output = !e->tensors->parts;
    e->run.output = ra_storage_view(e->tensors->output);
    e->run.lse = e->tensors->lse ? ra_storage_view(e->tensors->lse) : NULL;
}

/* What the tasks of a virtual rank go through, which finish their rows themselves: the keys of all its steps. */
ra_status ra_rank_set_steps(ra_rank *e)
{
    ra_status status = RA_OK;
    e->run.key_sets = 0;
    for (int64_t step = 0; step < e->schedule.steps && !status; step++) {
        status = ra_rank_start_phase(e, step);
        if (e->schedule.step[step].rows)
            set_in_place(e, step, &e->keys[e->run.key_sets++]);
    }
    set_output(e);
    e->run.resume = false;
    e->run.within = (ra_interval){0, e->ring->keys.length};
    return status;
}

/* Tell whoever watches that a step begins. */
static void tell(const ra_rank *e, int64_t step)
{
    const ra_ring_options *o = &e->ring->options;
    if (!o->watch)
        return;
    int64_t before = e->simulated ? e->rank * e->schedule.steps : 0;
    const ra_ring_moment moment = {e->rank, before + step + 1, e->schedule.steps * (e->simulated ? o->ranks : 1),
                                   e->waited_before + e->link.waited};
    o->watch(o->watch_user, &moment);
}

/* A step that was done before the run was continued only has its rows, for others that go on earlier. */
static ra_status run_step(ra_rank *e, int64_t step)
{
    bool last = step + 1 == e->schedule.steps;
    tell(e, step);
    ra_status status = last ? RA_OK : ra_rank_start_phase(e, step + 1);
    if (!status && step >= e->step && (status = compute(e, step)))
        return status; /* in the midst of some keys there is nothing to save */
    if (!status && !last)
        status = ra_rank_wait_phase(e);
    return last && e->simulated ? status : ra_rank_save(e, status);
}

ra_status ra_rank_run_steps(ra_rank *e)
{
    ra_status status = e->first < e->schedule.steps ? ra_rank_start_phase(e, e->first) : RA_OK;
    if (!status)
        status = ra_rank_wait_phase(e);
    for (int64_t step = e->first; step < e->schedule.steps && !status; step++)
        status = run_step(e, step);
    merge_span(e);
    return status;
}

/* ---- Results -------------------------------------------------------------------------------------------------------
 */
/* Into storage: all batches of the rows that are to be written. */
static ra_status write_rows(void *user)
{
    ra_rank *e = user;
    const ra_written *w = &e->written;
    double start = ra_seconds();
    ra_status status = RA_OK;
    for (int64_t batch = 0; batch < w->output.batch && !status; batch++) {
        ra_tensor part = w->output, lse_part = w->lse;
        part.data = (void *)ra_tensor_at(&w->output, batch, 0, 0, 0);
        lse_part.data = (void *)ra_tensor_at(&w->lse, batch, 0, 0, 0);
        part.batch = lse_part.batch = 1;
        status = ra_storage_write(e->tensors->output, batch, w->at, part.seq, &part);
        if (!status && e->tensors->lse)
            status = ra_storage_write(e->tensors->lse, batch, w->at, part.seq, &lse_part);
    }
    if (!status && e->tensors->checkpoint && e->simulated)
        status =
            ra_checkpoint_rows(e->tensors->checkpoint, e->rank, w->at, &w->output, e->tensors->lse ? &w->lse : NULL);
    e->seconds_behind = ra_seconds() - start;
    return status;
}

/* Now, or behind when what was behind before is done. */
static ra_status send_to_storage(ra_rank *e, const ra_written *written)
{
    ra_status status = e->behind ? ra_rank_wait_behind(e) : RA_OK;
    if (status)
        return status;
    e->written = *written;
    if (e->behind) {
        ra_background_start(e->behind, write_rows, e);
        return RA_OK;
    }
    status = write_rows(e);
    e->stats->seconds_io += e->seconds_behind;
    e->seconds_behind = 0;
    return status ? status : ra_rank_poll_link(e);
}

/* Groups first .. first + count - 1, which lie together, through a half of the output memory into storage. */
static ra_status write_groups(ra_rank *e, int64_t first, int64_t count, int64_t half)
{
    const ra_plan *p = e->ring->plan;
    ra_group head = ra_group_at(&e->work.queries, &e->work.grouping, first);
    ra_group tail = ra_group_at(&e->work.queries, &e->work.grouping, first + count - 1);
    int64_t rows = tail.row + tail.rows - head.row;
    char *memory = (char *)e->output + half * e->memory.output_half;
    ra_dtype dtype = ra_storage_view(e->tensors->output)->dtype;
    ra_written w = {ra_tensor_dense(memory, dtype, RA_BSHD, p->batch, rows, p->heads, p->value_dim),
                    ra_tensor_dense(memory + e->memory.output_lse, RA_F32, RA_BHSD, p->batch, rows, p->heads, 1),
                    e->tensors->parts ? head.row : head.query};
    e->run.output = &w.output;
    e->run.lse = e->tensors->lse ? &w.lse : NULL;
    e->run.output_first = head.row;
    double start = ra_seconds();
    ra_run_finish(&e->run, first, count);
    e->stats->seconds_compute += ra_seconds() - start;
    return send_to_storage(e, &w);
}

ra_status ra_rank_write_results(ra_rank *e)
{
    if (e->work.groups == 0)
        return RA_OK;
    e->run.states = e->states;
    if (e->ring->options.lent) {
        double start = ra_seconds();
        set_output(e);
        ra_run_finish(&e->run, 0, e->work.groups);
        e->stats->seconds_compute += ra_seconds() - start;
        return RA_OK;
    }
    ra_status status = RA_OK;
    int64_t group = 0, most = e->memory.output_rows / e->work.grouping.lanes, half = 0;
    for (int64_t i = 0; i < e->work.queries.ranges && !status; i++) {
        ra_range range = ra_share_range(&e->work.queries, i);
        int64_t end = group + ra_group_count_range(&e->work.grouping, range.first, range.end);
        for (int64_t count; group < end && !status; group += count, half = !half) {
            count = ra_min(most, end - group);
            status = write_groups(e, group, count, half);
        }
    }
    return status || !e->behind ? status : ra_rank_wait_behind(e);
}

/* A run proves itself: what was counted on the way is what the plan counted without the schedule. */
ra_status ra_rank_prove(ra_rank *e)
{
    const ra_rank_info *plan = &e->ring->ranks[e->rank];
    ra_rank_stats *s = e->stats;
    if (s->hops == plan->hops && s->bytes_sent == plan->bytes_sent && s->bytes_received == plan->bytes_received &&
        s->pairs_visible == plan->pairs_visible && s->peak_bytes <= plan->peak_bytes)
        return RA_OK;
    return ra_fail(
        RA_ERROR_INTERNAL,
        "rank %d: the run differs from its plan: hops %lld of %lld, bytes sent %lld of %lld, received %lld of "
        "%lld, visible pairs %.0f of %.0f, peak bytes %lld of %lld",
        e->rank, (long long)s->hops, (long long)plan->hops, (long long)s->bytes_sent, (long long)plan->bytes_sent,
        (long long)s->bytes_received, (long long)plan->bytes_received, s->pairs_visible, plan->pairs_visible,
        (long long)s->peak_bytes, (long long)plan->peak_bytes);
}

void ra_rank_fill_stats(ra_rank *e, double started)
{
    const ra_rank_info *plan = &e->ring->ranks[e->rank];
    ra_rank_stats *s = e->stats;
    s->rank = e->rank;
    s->threads = e->counts.threads ? e->counts.threads : e->work.threads;
    s->kernel = e->kernel->id;
    s->q_rows = plan->q_rows;
    s->kv_rows = plan->kv_rows;
    s->steps = e->schedule.steps;
    s->pairs_visible = e->counts.pairs_visible;
    s->pairs_worked = e->counts.pairs_worked;
    s->seconds_wait = e->link.waited;
    s->seconds_total = ra_seconds() - started;
    s->planned_peak_bytes = plan->peak_bytes;
    s->peak_bytes = e->accountant.peak;
    s->rss_peak_bytes = ra_memory_resident_peak();
    s->lent_bytes = plan->lent_bytes;
}
