/* SPDX-License-Identifier: Apache-2.0 */
/* A run over ranks: a rank of its own among others, or all of them as virtual ranks. */
#include "ring/engine.h"

#include "base/clock.h"
#include "ring/gate.h"
#include "ring/rank_arrays.h"
#include "ring/rank_memory.h"
#include "ring/rank_results.h"
#include "ring/rank_run.h"
#include "ring/virtual.h"

#include <stdlib.h>
#include <string.h>

/* Exchange the statistics of all ranks. A rank that gets here has succeeded. */
static ra_status agree(ra_rank *e, ra_rank_stats *all)
{
    e->link.what = "the end of the run";
    e->link.hop = -1;
    return ra_link_exchange(&e->link, RA_TAG_AGREEMENT, e->tally.stats, all, sizeof *all);
}

/* Another rank asked to stop. This rank has saved what could be saved, so that the run can go on later. */
static ra_status stopped_too(const ra_rank *e, ra_status status)
{
    if (status != RA_ERROR_PEER || !e->link.stopped || !e->tensors->checkpoint)
        return status;
    return ra_fail(RA_ERROR_CANCELLED, "rank %d: stopped as another rank was", e->rank);
}

/* Run the rank, then agree with all ranks that every one has succeeded. */
static ra_status run_to_the_end(ra_rank *e, ra_rank_stats *all)
{
    double started = ra_seconds();
    ra_point point;
    ra_checkpoint *checkpoint = e->tensors->checkpoint;
    bool goes_on = checkpoint && ra_checkpoint_continues(checkpoint, &point, NULL);
    ra_status status = ra_rank_run(e, started, goes_on ? &point : NULL);
    if (!status)
        status = agree(e, all);
    return stopped_too(e, status);
}

/* Run one pass. `all` has the statistics of earlier passes; those of this pass are added to them. */
static ra_status run_pass(ra_rank *e, ra_comm *comm, ra_rank_stats *all)
{
    const ra_ring_options *o = &e->ring->options;
    ra_rank_stats *passed = calloc((size_t)o->ranks, sizeof *passed);
    e->flight.sparing = calloc((size_t)o->ranks, sizeof *e->flight.sparing);
    e->held.spare = &comm->spare;
    e->link = (ra_link){
        .transport = &comm->transport, .broken = &comm->broken, .timeout = o->timeout, .what = "the start", .hop = -1};
    ra_status status =
        passed && e->flight.sparing ? run_to_the_end(e, passed) : ra_fail(RA_ERROR_MEMORY, "out of memory: statistics");
    bool given_up = !status || ra_link_fail(&e->link, status);
    ra_gate_close(e);
    if (status)
        e->held.spare = NULL;
    ra_rank_give_memory(e, given_up);
    if (e->arrays)
        e->arrays->stuck = !given_up;
    for (int rank = 0; rank < o->ranks && !status; rank++)
        if (e->pass == e->ring->passes)
            all[rank] = passed[rank];
        else
            ra_rank_stats_add(&all[rank], &passed[rank]);
    free(e->flight.sparing);
    free(passed);
    return status;
}

static double pairs_of_rank(const ra_ring_plan *ring, int rank)
{
    double pairs = 0;
    for (int i = 0; i < ring->pass_count; i++)
        pairs += ra_pass_planned(&ring->passes[i], rank)->info.pairs_visible;
    return pairs;
}

/* Run one rank among others, pass after pass. */
static ra_status run_real(const ra_ring_plan *ring, const ra_kernel *kernel, ra_comm *comm, const ra_tensors *tensors,
                          ra_rank_stats *all)
{
    int rank = comm->transport.rank;
    double before = 0, reported = 0;
    if (!ra_pass_planned(&ring->passes[0], rank))
        return ra_fail(RA_ERROR_ARGUMENT, "the plan is for rank %d alone, and this is rank %d", ring->first, rank);
    ra_arrays *arrays;
    ra_status status = ra_arrays_make(ring, &arrays);
    for (int i = 0; i < ring->pass_count && !status; i++) {
        ra_rank_stats mine = RA_RANK_STATS_INIT;
        ra_rank e = ra_rank_make(&ring->passes[i], kernel, tensors, rank, &mine);
        e.arrays = i == 0 ? arrays : NULL;
        e.tally.pairs_before = before;
        e.tally.pairs_reported = reported;
        e.tally.pairs_total = pairs_of_rank(ring, rank);
        status = run_pass(&e, comm, all);
        before = e.tally.pairs_before;
        reported = e.tally.pairs_reported;
    }
    ra_arrays_free(arrays);
    return status;
}

ra_status ra_ring_execute(const ra_ring_plan *ring, const ra_kernel *kernel, ra_comm *comm, const ra_tensors *tensors,
                          ra_rank_stats *stats)
{
    if (comm->simulated)
        return ra_virtual_run(ring, kernel, tensors, stats);
    ra_rank_stats *all = calloc((size_t)ring->options.ranks, sizeof *all);
    ra_status status = all ? run_real(ring, kernel, comm, tensors, all)
                           : ra_fail(RA_ERROR_MEMORY, "out of memory: statistics of %d ranks", ring->options.ranks);
    if (!status && stats)
        memcpy(stats, all, (size_t)ring->options.ranks * sizeof *all);
    free(all);
    return status;
}
