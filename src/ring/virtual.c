/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual ranks, batch after batch. Ranks that read their keys in place never wait: a batch is up to eight of them,
 * whose tasks are one list. A thread that finds no task left of one rank goes on with the next rank.
 * Ranks whose rows are read from storage are batches of one, which goes through its steps.
 */
#include "ring/virtual.h"

#include "base/checked.h"
#include "base/clock.h"
#include "ring/rank_arrays.h"
#include "ring/rank_behind.h"
#include "ring/rank_memory.h"
#include "ring/rank_phase.h"
#include "ring/rank_results.h"
#include "ring/rank_run.h"
#include "ring/rank_save.h"
#include "ring/rank_tiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rank of a batch. */
typedef struct member {
    ra_rank rank;
    ra_rank_stats stats;
    double seconds; /* seconds before its tasks could begin */
} member;

/* What the batches have in common. */
typedef struct company {
    const ra_ring_plan *ring;
    const ra_pass *pass;
    const ra_kernel *kernel;
    const ra_tensors *tensors;
    ra_rank_stats *stats; /* [ranks], or NULL */
    ra_spare spare;
    ra_background *behind;
    char *scratch;          /* of the threads, for all ranks of a batch */
    int64_t *ledger;        /* [ranks]: bytes sent */
    ra_arrays *arrays;      /* of all ranks */
    double waited;          /* seconds that the ranks before waited */
    double pairs, reported; /* done by the ranks before; reported to the caller */
} company;

/* Of all passes, each of which goes through all pairs. */
static double pairs_of(const ra_ring_plan *ring)
{
    return ring->pass_count * ring->plan->all.pairs_visible;
}

static void make(company *all, member *m, int rank)
{
    ra_rank *e = &m->rank;
    m->stats = (ra_rank_stats)RA_RANK_STATS_INIT;
    *e = ra_rank_make(all->pass, all->kernel, all->tensors, rank, &m->stats);
    e->held.spare = &all->spare;
    e->arrays = all->pass == all->ring->passes ? all->arrays : NULL;
    e->flight.behind = all->behind;
    e->tally.ledger = all->ledger;
    e->tally.waited_before = all->waited;
    e->tally.pairs_before = all->pairs;
    e->tally.pairs_reported = all->reported;
    e->tally.pairs_total = pairs_of(all->ring);
}

/* ---- A list of tasks --------------------------------------------------------------------------------------------- */

/* Prepare a rank, except its tasks. The memory for that goes on to the next rank. */
static ra_status begin(company *all, member *m)
{
    ra_rank *e = &m->rank;
    double started = ra_seconds();
    ra_status status = ra_rank_prepare(e);
    if (!status) {
        ra_rank_begin(e, NULL);
        status = ra_rank_load_queries(e);
    }
    if (!status)
        status = ra_rank_set_steps(e);
    if (!status && e->work.load.groups > 0) {
        ra_rank_set_output(e);
        all->scratch = e->held.scratch;
    }
    ra_rank_pass_on(e);
    m->seconds = ra_seconds() - started;
    return status;
}

/* After its tasks: the time that it took is what threads were in them. */
static ra_status finish(member *m)
{
    ra_rank *e = &m->rank;
    m->stats.seconds_compute = e->tally.counts.threads ? e->work.run.busy / e->tally.counts.threads : 0;
    ra_rank_fill_stats(e, ra_seconds() - m->seconds - m->stats.seconds_compute);
    return ra_rank_prove(e);
}

static ra_status cancelled(const company *all)
{
    return ra_fail(RA_ERROR_CANCELLED, "cancelled by the progress callback after %.0f of %.0f pairs", all->pairs,
                   pairs_of(all->ring));
}

/* The tasks of the first, and of all that come next. */
static ra_status work(company *all, member *some, int count)
{
    for (int i = 0; i < count; i++) {
        some[i].rank.work.run.poll_user = &some[0].rank;
        some[i].rank.work.run.next = i + 1 < count ? &some[i + 1].rank.work.run : NULL;
    }
    bool done = !all->scratch || ra_run_tasks(&some[0].rank.work.run, all->scratch); /* no scratch: no rank has a row */
    all->reported = some[0].rank.tally.pairs_reported;
    for (int i = 0; i < count; i++)
        all->pairs += some[i].rank.tally.counts.pairs_visible;
    return done ? RA_OK : cancelled(all);
}

static ra_status run_list(company *all, member *some, int count)
{
    ra_status status = RA_OK;
    for (int i = 0; i < count && !status; i++)
        status = begin(all, &some[i]);
    if (!status)
        status = work(all, some, count);
    for (int i = 0; i < count && !status; i++)
        status = finish(&some[i]);
    return status;
}

/* ---- A rank by itself -------------------------------------------------------------------------------------------- */

/* Wait for the background after a failure, whose message stays the last one. */
static void keep_first(ra_status status, ra_rank *e)
{
    char message[512];
    snprintf(message, sizeof message, "%s", ra_last_message());
    ra_rank_give_up_behind(e);
    ra_background_wait(e->flight.behind);
    ra_fail(status, "%s", message);
}

/* Between two ranks: `next` has not begun. */
static ra_point point_before(const ra_rank *e, int next)
{
    return (ra_point){.rank = next, .pairs_before = e->tally.pairs_before, .pairs_reported = e->tally.pairs_reported};
}

/* Save where a run goes on that is asked to stop. */
static ra_status stop_before(ra_checkpoint *checkpoint, const ra_point *point)
{
    ra_status status = ra_checkpoint_save(checkpoint, point, NULL);
    if (!status)
        status = ra_fail(RA_ERROR_CANCELLED, "stopped before rank %lld, and saved", (long long)point->rank);
    return status;
}

/* A rank is finished: save that, if it is time to. */
static ra_status save_between(ra_checkpoint *checkpoint, const ra_rank *e)
{
    bool stop;
    ra_checkpoint_rank_done(checkpoint, e->rank, e->tally.stats);
    if (!ra_checkpoint_due(checkpoint, &stop))
        return RA_OK;
    const ra_point point = point_before(e, e->rank + 1);
    if (stop)
        return stop_before(checkpoint, &point);
    (void)ra_checkpoint_try(checkpoint, &point, NULL);
    return RA_OK;
}

/*
 * A rank that was asked to stop while it read its first rows has done nothing yet. The ranks before it are saved; a
 * rank that goes on is saved already.
 */
static ra_status stop_in_first_read(const ra_rank *e, const ra_point *point)
{
    const ra_point before = point_before(e, e->rank);
    return point && point->begun ? RA_ERROR_CANCELLED : stop_before(e->tensors->checkpoint, &before);
}

static ra_status run_alone(company *all, member *m, const ra_point *point)
{
    ra_rank *e = &m->rank;
    ra_status status = ra_rank_run(e, ra_seconds(), point);
    if (status == RA_ERROR_CANCELLED && e->link.stopped && !e->at.changed && e->at.step == e->at.first)
        status = stop_in_first_read(e, point);
    if (status && all->behind)
        keep_first(status, e); /* it may still read into what is given back */
    all->waited += e->link.waited;
    all->pairs = e->tally.pairs_before;
    all->reported = e->tally.pairs_reported;
    if (!status && all->tensors->checkpoint)
        status = save_between(all->tensors->checkpoint, e);
    return status;
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

static ra_status run_batch(company *all, member *some, int first, int count, const ra_point *point)
{
    for (int i = 0; i < count; i++)
        make(all, &some[i], first + i);
    ra_status status = ra_ring_at_once(all->ring) ? run_list(all, some, count) : run_alone(all, some, point);
    for (int i = 0; i < count; i++) {
        if (!status && all->stats && all->pass == all->ring->passes)
            all->stats[first + i] = some[i].stats;
        else if (!status && all->stats)
            ra_rank_stats_add(&all->stats[first + i], &some[i].stats);
        ra_rank_give_memory(&some[i].rank, true);
    }
    return status;
}

/* What ranks that were finished before the run was continued had been sent. */
static ra_status note_finished(company *all, member *m, int64_t finished)
{
    ra_status status = RA_OK;
    for (int rank = 0; rank < finished && !status; rank++) {
        make(all, m, rank);
        status = ra_rank_prepare(&m->rank);
        if (!status)
            ra_rank_note_phases(&m->rank, m->rank.steps);
        ra_rank_give_memory(&m->rank, true);
    }
    return status;
}

/* Where a run that was saved goes on; *rank: the first that is not finished. */
static ra_status go_on(company *all, member *some, ra_point *point)
{
    ra_checkpoint *checkpoint = all->tensors->checkpoint;
    *point = (ra_point){0};
    if (!checkpoint || !ra_checkpoint_continues(checkpoint, point, all->stats))
        return RA_OK;
    all->pairs = point->pairs_before;
    all->reported = point->pairs_reported;
    ra_status status = ra_checkpoint_restore_rows(checkpoint, all->ring, all->tensors);
    return status ? status : note_finished(all, some, point->rank);
}

/* The calling thread may have run out of tasks before the others did. */
static ra_status report_end(const company *all)
{
    const ra_plan *p = all->ring->plan;
    double pairs = pairs_of(all->ring);
    bool stop = p->progress && all->reported < pairs && p->progress(p->progress_user, pairs, pairs);
    return stop && ra_ring_at_once(all->ring) ? cancelled(all) : RA_OK;
}

static ra_status run_batches(company *all, member *some)
{
    ra_point point;
    int ranks = all->ring->options.ranks, batch = ra_ring_batch(all->ring);
    memset(all->ledger, 0, (size_t)ranks * sizeof *all->ledger);
    ra_status status = go_on(all, some, &point);
    for (int first = status ? ranks : (int)point.rank; first < ranks && !status; first += batch)
        status = run_batch(all, some, first, (int)ra_min(batch, ranks - first), first == point.rank ? &point : NULL);
    return status ? status : ra_ledger_prove(all->pass, all->ledger, all->stats);
}

/* All batches of a pass before the next one. */
static ra_status run_passes(company *all, member *some)
{
    ra_status status = ra_arrays_make(all->ring, &all->arrays);
    if (!status && !all->ring->in_place)
        status = ra_background_open(&all->behind);
    for (int i = 0; i < all->ring->pass_count && !status; i++) {
        all->pass = &all->ring->passes[i];
        status = run_batches(all, some);
    }
    return status ? status : report_end(all);
}

ra_status ra_virtual_run(const ra_ring_plan *ring, const ra_kernel *kernel, const ra_tensors *tensors,
                         ra_rank_stats *stats)
{
    if (ring->count != ring->options.ranks)
        return ra_fail(RA_ERROR_ARGUMENT, "the plan is for rank %d alone, and virtual ranks run all %d", ring->first,
                       ring->options.ranks);
    company all = {.ring = ring, .kernel = kernel, .tensors = tensors, .stats = stats};
    member *some = calloc((size_t)ra_ring_batch(ring), sizeof *some);
    all.ledger = calloc((size_t)ring->options.ranks, sizeof *all.ledger);
    ra_status status =
        some && all.ledger ? run_passes(&all, some) : ra_fail(RA_ERROR_MEMORY, "out of memory: virtual ranks");
    ra_background_close(all.behind);
    ra_arrays_free(all.arrays);
    ra_spare_free(&all.spare);
    free(some);
    free(all.ledger);
    return status;
}
