/* SPDX-License-Identifier: Apache-2.0 */
/* Where a run can go on later: see rank_save.h. */
#include "ring/rank_save.h"

#include "base/checked.h"
#include "base/clock.h"
#include "ring/rank_behind.h"

#include <stdlib.h>

/*
 * Visible pairs between two points at which a run may be saved: less than a second's work; of a process, for each of
 * its threads, a fifth of that, because mpirun may not give it more time to stop than a second.
 */
static const double PAIRS_BETWEEN = 1e8, PAIRS_OF_PROCESS = 2e7;
enum { LEAST_KEYS = 1024 };

/*
 * Keys that are worked between two such points. Rows take their blocks of keys in the same order however they are
 * divided; but the branches of a dilated pattern are merged when their keys are done, which must be the same points
 * whether a run is saved or not.
 */
static int64_t stride_of(const ra_rank *e)
{
    const ra_plan *p = e->ring->plan;
    if (p->pattern.dilation || p->tiles != RA_TILES_ROW || e->work.load.queries.rows == 0)
        return 0;
    double rows = (double)e->work.load.queries.rows * (double)(p->batch * p->heads);
    double keys = (ra_rank_virtual(e) ? PAIRS_BETWEEN : PAIRS_OF_PROCESS * e->work.load.threads) / rows;
    int64_t most = keys < (double)p->kv_len ? (int64_t)keys : p->kv_len;
    return ra_ceil_div(ra_max(LEAST_KEYS, most), RA_KEY_BLOCK) * RA_KEY_BLOCK;
}

/* Where the run stops to be saved does not show in its bits, so that stops may follow the speed of the machine. */
void ra_rank_pace(ra_rank *e, int64_t keys, double seconds)
{
    enum { LEAST_PACE = 4 * RA_KEY_BLOCK };
    const double most = 0.5, meant = 0.25;
    if (e->at.stride == 0 || seconds <= most)
        return;
    int64_t fewer = (int64_t)((double)keys * meant / seconds) / RA_KEY_BLOCK * RA_KEY_BLOCK;
    e->at.stride = ra_min(e->at.stride, ra_max(LEAST_PACE, fewer));
}

/* Begins, or goes on from a point: counts are what they were. NULL: there is none. */
void ra_rank_begin(ra_rank *e, const ra_point *point)
{
    e->flight.phase = e->flight.wanted_phase = -1;
    e->at.stride = e->tensors->checkpoint ? stride_of(e) : 0;
    if (point && point->begun) {
        e->at.step = point->step;
        e->at.position = point->position;
        e->at.span = point->span;
        e->tally.counts = point->counts;
        e->tally.pairs_before = point->pairs_before;
        e->tally.pairs_reported = point->pairs_reported;
        *e->tally.stats = point->stats;
    }
    e->at.first = e->tally.counted = e->at.step;
}

static void show_life(void *user)
{
    (void)ra_link_poll(&((ra_rank *)user)->link); /* a failure is found again */
}

/*
 * The first files of a set, which is there when all of them are: one that lacks a file has been damaged. A rank that
 * cannot save now tries again when the next save is due.
 */
static ra_status begin_set(ra_rank *e)
{
    const ra_point point = {.rank = e->rank};
    ra_checkpoint *checkpoint = e->tensors->checkpoint;
    int ranks = e->ring->options.ranks;
    int32_t *all = calloc((size_t)ranks, sizeof *all);
    if (!all)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: an agreement of %d ranks", ranks);
    int32_t saved = ra_checkpoint_try(checkpoint, &point, NULL);
    e->link.what = "the beginning of a checkpoint";
    ra_status status = ra_link_exchange(&e->link, RA_TAG_AGREEMENT, &saved, all, sizeof saved);
    bool complete = !status;
    for (int rank = 0; rank < ranks && complete; rank++)
        complete = all[rank];
    free(all);
    if (e->link.stopped) /* as a rank can be that has come past this */
        status = RA_OK;
    if (!status)
        ra_checkpoint_begin_set(checkpoint, complete);
    return status;
}

/* Where the ranks have told each other how far they are: states are what they were. */
ra_status ra_rank_go_on(ra_rank *e, const ra_point *point)
{
    ra_checkpoint *checkpoint = e->tensors->checkpoint;
    ra_status status = RA_OK;
    if (!ra_rank_virtual(e))
        ra_checkpoint_between(checkpoint, show_life, e);
    if (point && point->begun)
        status = ra_checkpoint_restore_states(checkpoint, e->held.states, e->held.memory.states);
    else if (!ra_rank_virtual(e) && !point)
        status = begin_set(e);
    e->link.stop = ra_checkpoint_stops;
    e->link.stop_user = checkpoint;
    e->link.asked = ra_seconds();
    return status;
}

/* Where the rank stands, with what travelled before the phase of its step. */
static ra_point point_of(const ra_rank *e)
{
    ra_point point = {.rank = e->rank,
                      .step = e->at.step,
                      .position = e->at.position,
                      .span = e->at.span,
                      .state_bytes = e->held.memory.states,
                      .begun = true,
                      .counts = e->tally.counts,
                      .stats = *e->tally.stats,
                      .pairs_before = e->tally.pairs_before,
                      .pairs_reported = e->tally.pairs_reported};
    if (e->flight.phase >= e->at.step) {
        const ra_passed *passed = &e->tally.passed[e->at.step % 2];
        point.stats.hops = passed->hops;
        point.stats.bytes_sent = passed->bytes_sent;
        point.stats.bytes_received = passed->bytes_received;
    }
    return point;
}

/*
 * Save if it is time to, and where a rank comes to its end: because its keys are done, or because it or another one
 * was asked to stop. `status` is what the step ended with.
 */
ra_status ra_rank_save(ra_rank *e, ra_status status)
{
    bool stop = false;
    ra_checkpoint *checkpoint = e->tensors->checkpoint;
    if (!checkpoint || (status && !e->link.stopped))
        return status;
    bool due = ra_checkpoint_due(checkpoint, &stop);
    stop = stop || e->link.stopped;
    if (!due && !stop && e->at.step < e->steps)
        return RA_OK;
    if (stop)
        ra_rank_give_up_behind(e);
    if (e->at.changed) {
        const ra_point point = point_of(e);
        status = stop ? ra_checkpoint_save(checkpoint, &point, e->held.states) : RA_OK;
        if (status)
            return status;
        e->at.changed = !stop && !ra_checkpoint_try(checkpoint, &point, e->held.states);
    }
    if (stop && (status = ra_checkpoint_check_set(checkpoint)))
        return status;
    return stop
               ? ra_fail(RA_ERROR_CANCELLED, "stopped at rank %d, step %lld, and saved", e->rank, (long long)e->at.step)
               : RA_OK;
}
