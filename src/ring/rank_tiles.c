/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a rank: see rank_tiles.h. */
#include "ring/rank_tiles.h"

#include "base/checked.h"
#include "base/clock.h"
#include "ring/rank_gradients.h"
#include "ring/rank_phase.h"
#include "ring/rank_save.h"
#include "ring/supply.h"

int ra_rank_poll(void *user, double pairs)
{
    ra_rank *e = user;
    const ra_plan *p = e->ring->plan;
    double done = e->tally.pairs_before + pairs;
    e->status = ra_link_poll(&e->link);
    if (e->link.stopped && e->tensors->checkpoint)
        e->status = RA_OK; /* first on to where this rank can be saved */
    if (e->status || !p->progress || done <= e->tally.pairs_reported)
        return e->status != RA_OK;
    e->tally.pairs_reported = done;
    return p->progress(p->progress_user, done, e->tally.pairs_total);
}

static ra_status run_keys(ra_rank *e, ra_interval within, float *states)
{
    double before = e->tally.counts.pairs_visible;
    e->at.changed = true;
    e->work.run.within = within;
    e->work.run.states = states;
    if (!ra_run_tasks(&e->work.run, e->held.scratch))
        return e->status ? e->status
                         : ra_fail(RA_ERROR_CANCELLED, "rank %d: cancelled by the progress callback", e->rank);
    e->tally.pairs_before += e->tally.counts.pairs_visible - before;
    return RA_OK;
}

/* The keys in a stretch of positions that are not done yet, with stops where the run may be saved. */
static ra_status run_tiles(ra_rank *e, ra_interval within, float *states)
{
    ra_status status = RA_OK;
    for (int64_t at = ra_max(within.lo, e->at.position), next; at < within.hi && !status; at = next) {
        double start = ra_seconds();
        next = e->at.stride ? ra_min(within.hi, (at / e->at.stride + 1) * e->at.stride) : within.hi;
        status = run_keys(e, (ra_interval){at, next}, states);
        ra_rank_pace(e, next - at, ra_seconds() - start);
        e->at.position = next;
        if (!status && e->at.stride)
            status = ra_rank_save(e, RA_OK);
    }
    return status;
}

/* A span is complete: into the states of those before it. */
static void merge_span(ra_rank *e)
{
    if (e->work.current && e->at.span > 0)
        ra_run_merge(&e->work.run, e->held.states, e->work.current);
}

/* The keys in a stretch of positions, span by span where the spans of a run in one piece are reproduced. */
static ra_status run_spans(ra_rank *e, int64_t first, int64_t end)
{
    const ra_plan *p = e->ring->plan;
    if (!e->work.current)
        return run_tiles(e, (ra_interval){first, end}, e->held.states);
    ra_status status = RA_OK;
    for (int64_t span = ra_max(first, e->at.position) / p->span_keys; span * p->span_keys < end && !status; span++) {
        if (span != e->at.span)
            merge_span(e);
        e->at.span = span;
        ra_interval within = {ra_max(first, span * p->span_keys), ra_min(end, (span + 1) * p->span_keys)};
        status = run_tiles(e, within, span ? e->work.current : e->held.states);
    }
    return status;
}

/*
 * Copied chunks of two ranges are worked range by range. The branches of a dilated pattern are merged after each: where
 * that is shows in the bits.
 */
enum { RANGES_APART = 2 };

static bool is_empty(const ra_rank *e, const ra_keys *keys, ra_range range)
{
    int64_t blocks = (range.end - 1) / RA_KEY_BLOCK - range.first / RA_KEY_BLOCK + 1, rows = 0;
    for (int64_t plane = 0; plane < e->held.planes; plane++)
        rows += ra_marked(keys->words + plane * keys->share.blocks + range.block, blocks);
    return rows == 0;
}

static ra_status run_chunk(ra_rank *e, const ra_keys *keys)
{
    const ra_share *share = &keys->share;
    ra_status status = RA_OK;
    if (!keys->words || share->ranges > RANGES_APART)
        return run_spans(e, ra_share_range(share, 0).first, ra_share_range(share, share->ranges - 1).end);
    for (int64_t i = 0; i < share->ranges && !status; i++) {
        ra_range range = ra_share_range(share, i);
        if (!is_empty(e, keys, range))
            status = run_spans(e, range.first, range.end);
    }
    return status;
}

static ra_status compute_tiles(ra_rank *e, int64_t step)
{
    ra_status status = RA_OK;
    if (e->work.load.groups > 0 && e->supply->rows(e, step) > 0) {
        double start = ra_seconds();
        status = e->supply->enter(e, step);
        if (!status)
            status = run_chunk(e, e->work.keys);
        e->supply->leave(e);
        e->tally.stats->seconds_compute += ra_seconds() - start;
    }
    return status;
}

static ra_status compute(ra_rank *e, int64_t step)
{
    ra_status status = (e->pass->gradient ? ra_gradients_step : compute_tiles)(e, step);
    if (!status)
        ra_rank_add_own_sums(e, step);
    e->at.changed = true;
    e->at.step = step + 1;
    e->at.position = 0;
    return status;
}

ra_status ra_rank_set_steps(ra_rank *e)
{
    ra_status status = RA_OK;
    ra_keys *first = e->work.keys;
    e->work.run.key_sets = 0;
    for (int64_t step = 0; step < e->steps && !status; step++) {
        status = ra_rank_start_phase(e, step);
        if (status || !e->supply->rows(e, step))
            continue;
        e->work.keys = first + e->work.run.key_sets++;
        status = e->supply->enter(e, step);
        e->supply->leave(e);
    }
    e->work.keys = first;
    e->work.run.resume = false;
    e->work.run.within = (ra_interval){0, e->ring->keys.length};
    return status;
}

/* Tell whoever watches that a step begins. */
static void tell(const ra_rank *e, int64_t step)
{
    const ra_ring_options *o = &e->ring->options;
    if (!o->watch)
        return;
    bool alone = ra_rank_virtual(e);
    const ra_ring_moment moment = {e->rank, (alone ? e->rank * e->steps : 0) + step + 1,
                                   e->steps * (alone ? o->ranks : 1), e->tally.waited_before + e->link.waited};
    o->watch(o->watch_user, &moment);
}

/* A step that was done before the run was continued only has its rows, for others that go on earlier. */
static ra_status run_step(ra_rank *e, int64_t step)
{
    bool last = step + 1 == e->phases;
    tell(e, step);
    ra_status status = last ? RA_OK : ra_rank_start_phase(e, step + 1);
    if (!status && step >= e->at.step && (status = compute(e, step)))
        return status; /* in the midst of some keys there is nothing to save */
    if (!status && !last)
        status = ra_rank_wait_phase(e);
    if (!status && e->pass->gradient)
        status = ra_gradients_keep(e, step);
    return last && ra_rank_virtual(e) ? status : ra_rank_save(e, status);
}

ra_status ra_rank_run_steps(ra_rank *e)
{
    ra_status status = e->at.first < e->steps ? ra_rank_start_phase(e, e->at.first) : RA_OK;
    if (!status)
        status = ra_rank_wait_phase(e);
    for (int64_t step = e->at.first; step < e->steps && !status; step++)
        status = run_step(e, step);
    for (int64_t phase = e->steps + 1; phase < e->phases && !status; phase++) {
        status = ra_rank_start_phase(e, phase);
        if (!status)
            status = ra_rank_wait_phase(e);
    }
    merge_span(e);
    return status;
}
