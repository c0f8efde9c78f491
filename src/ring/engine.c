#include "ring/engine.h"

#include "base/checked.h"
#include "base/memory.h"
#include "base/threads.h"
#include "ring/rank.h"
#include "transport/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Schedule, workload and all memory, before anything is read. */
ra_status ra_rank_prepare(ra_rank *e)
{
    const ra_tensors *t = e->tensors;
    enum { STORAGES = 5 };
    const ra_storage *const storages[STORAGES] = {t->q, t->k, t->v, t->output, t->lse};
    ra_status status = ra_schedule_make(e->ring, e->rank, &e->schedule);
    if (status)
        return status;
    ra_ring_workload(e->ring, e->rank, &e->work);
    e->memory = ra_ring_memory(e->ring, e->rank, &e->schedule, &e->work);
    for (int i = 0; i < STORAGES; i++)
        e->accountant.bytes += storages[i] ? ra_storage_bytes(storages[i]) : 0;
    e->run = (ra_run){.plan = e->ring->plan, .work = &e->work, .kernel = e->kernel, .q = &e->q};
    e->run.spans = 1;
    e->run.key_sets = 1;
    e->run.resume = true;
    e->run.poll = ra_rank_poll;
    e->run.poll_user = e;
    e->run.counts = &e->counts;
    status = ra_rank_take_memory(e);
    if (!status)
        status = ra_threads_try(e->work.threads);
    if (!status) {
        ra_rank_divide_memory(e);
        ra_rank_set_own(e);
    }
    return status;
}

/* `point`: where the rank goes on; NULL: it begins. */
static ra_status run_rank(ra_rank *e, double started, const ra_point *point)
{
    ra_status status = ra_rank_prepare(e);
    if (!status)
        ra_rank_begin(e, point);
    if (!status && !e->simulated)
        status = ra_rank_greet(e);
    if (!status && e->tensors->checkpoint)
        status = ra_rank_go_on(e, point);
    if (!status)
        status = ra_rank_load_queries(e);
    /* In a ring, own rows are worked first, and are not needed after that. */
    if (!status && (e->first == 0 || e->ring->options.strategy != RA_STRATEGY_RING))
        status = ra_rank_load_own(e);
    if (!status)
        status = ra_rank_run_steps(e);
    if (!status)
        status = ra_rank_write_results(e);
    if (status)
        return status;
    ra_rank_fill_stats(e, started);
    return ra_rank_prove(e);
}

/* Everybody's statistics to everybody: a rank that gets here has succeeded. */
static ra_status agree(ra_rank *e, ra_rank_stats *all)
{
    e->link.what = "the end of the run";
    e->link.hop = -1;
    return ra_link_exchange(&e->link, RA_TAG_AGREEMENT, e->stats, all, sizeof *all);
}

/* Told by another rank to stop: what this one has done is saved, as far as it could be, and the run can go on. */
static ra_status stopped_too(const ra_rank *e, ra_status status)
{
    if (status != RA_ERROR_PEER || !e->link.stopped || !e->tensors->checkpoint)
        return status;
    return ra_fail(RA_ERROR_CANCELLED, "rank %d: stopped as another rank was", e->rank);
}

static ra_status run_real(const ra_ring_plan *ring, ra_rank *e, ra_comm *comm, ra_rank_stats *stats)
{
    double started = ra_seconds();
    ra_point point;
    ra_checkpoint *checkpoint = e->tensors->checkpoint;
    bool goes_on = checkpoint && ra_checkpoint_continues(checkpoint, &point, NULL);
    ra_rank_stats mine = RA_RANK_STATS_INIT;
    e->rank = comm->transport.rank;
    e->stats = &mine;
    e->spare = &comm->spare;
    e->pairs_total = ring->ranks[e->rank].pairs_visible;
    e->link = (ra_link){.transport = &comm->transport,
                        .broken = &comm->broken,
                        .timeout = ring->options.timeout,
                        .what = "the start",
                        .hop = -1};
    ra_rank_stats *all = calloc((size_t)ring->options.ranks, sizeof *all);
    ra_status status =
        all ? run_rank(e, started, goes_on ? &point : NULL) : ra_fail(RA_ERROR_MEMORY, "out of memory: statistics");
    if (!status)
        status = agree(e, all);
    status = stopped_too(e, status);
    bool given_up = !status || ra_link_fail(&e->link, status);
    ra_rank_close_gate(e);
    if (status)
        e->spare = NULL;
    ra_rank_give_memory(e, given_up);
    if (!status && stats)
        memcpy(stats, all, (size_t)ring->options.ranks * sizeof *all);
    free(all);
    return status;
}

/* Wait for the background after a failure, whose message stays the last one. */
static void keep_first(ra_status status, ra_background *behind)
{
    char message[512];
    snprintf(message, sizeof message, "%s", ra_last_message());
    ra_background_wait(behind);
    ra_fail(status, "%s", message);
}

/* One virtual rank. */
static ra_status run_virtual(ra_rank *e, const ra_point *point)
{
    double started = ra_seconds();
    const ra_ring_plan *ring = e->ring;
    ra_transport transport;
    bool broken = false;
    ra_status status = ra_sim_open(e->rank, ring->options.ranks, ra_rank_simulated_source, e, &transport);
    if (status)
        return status;
    e->link = (ra_link){.transport = &transport, .broken = &broken, .timeout = ring->options.timeout};
    status = run_rank(e, started, point);
    transport.close(transport.state);
    if (e->behind && status)
        keep_first(status, e->behind); /* it may still read into what is given back */
    ra_rank_give_memory(e, true);
    return status;
}

/* A rank is finished: save that, if it is time to. */
static ra_status save_between(ra_checkpoint *checkpoint, const ra_rank *e)
{
    bool stop;
    ra_checkpoint_rank_done(checkpoint, e->rank, e->stats);
    if (!ra_checkpoint_due(checkpoint, &stop))
        return RA_OK;
    const ra_point point = {.rank = e->rank + 1, .pairs_before = e->pairs_before, .pairs_reported = e->pairs_reported};
    ra_status status = ra_checkpoint_save(checkpoint, &point, NULL);
    if (!status && stop)
        status = ra_fail(RA_ERROR_CANCELLED, "stopped after rank %d, and saved", e->rank);
    return status;
}

/* Where a run that was saved goes on. */
static ra_status go_on(const ra_ring_plan *ring, const ra_tensors *tensors, ra_point *point, ra_rank_stats *stats)
{
    *point = (ra_point){0};
    if (!tensors->checkpoint || !ra_checkpoint_continues(tensors->checkpoint, point, stats))
        return RA_OK;
    return ra_checkpoint_restore_rows(tensors->checkpoint, ring, tensors);
}

/* Virtual ranks, one after the other. */
static ra_status run_simulated(const ra_ring_plan *ring, ra_rank *template, ra_rank_stats *stats)
{
    ra_point point;
    ra_background *behind = NULL;
    ra_spare spare = {{0}, {0}};
    ra_status status = go_on(ring, template->tensors, &point, stats);
    double pairs = point.pairs_before, reported = point.pairs_reported, waited = 0;
    if (!status && !ring->by_reference)
        status = ra_background_open(&behind);
    for (int rank = (int)point.rank; rank < ring->options.ranks && !status; rank++) {
        ra_rank e = *template;
        ra_rank_stats own = RA_RANK_STATS_INIT;
        e.rank = rank;
        e.simulated = true;
        e.behind = behind;
        e.spare = &spare;
        e.stats = &own;
        e.waited_before = waited;
        e.pairs_before = pairs;
        e.pairs_reported = reported;
        e.pairs_total = ring->plan->all.pairs_visible;
        status = run_virtual(&e, rank == point.rank ? &point : NULL);
        waited += e.link.waited;
        pairs = e.pairs_before;
        reported = e.pairs_reported;
        if (!status && stats)
            stats[rank] = own;
        if (!status && template->tensors->checkpoint)
            status = save_between(template->tensors->checkpoint, &e);
    }
    ra_background_close(behind);
    ra_spare_free(&spare);
    const ra_plan *p = ring->plan;
    if (!status && p->progress && reported < p->all.pairs_visible)
        p->progress(p->progress_user, p->all.pairs_visible, p->all.pairs_visible);
    return status;
}

ra_status ra_ring_execute(const ra_ring_plan *ring, const ra_kernel *kernel, ra_comm *comm, const ra_tensors *tensors,
                          ra_rank_stats *stats)
{
    ra_rank e = {.ring = ring, .kernel = kernel, .tensors = tensors};
    if (!comm->simulated)
        return run_real(ring, &e, comm, stats);
    return ra_ring_at_once(ring) ? ra_ring_run_together(ring, &e, stats) : run_simulated(ring, &e, stats);
}
