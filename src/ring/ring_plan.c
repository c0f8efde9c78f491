/* A problem over ranks: what follows from the plan without looking at a rank. */
#include "ring/ring_plan.h"

#include "base/checked.h"
#include "base/memory.h"

int ra_rank_before(const ra_ring_plan *ring, int rank, int64_t steps)
{
    int64_t ranks = ring->options.ranks;
    return (int)(((rank - steps) % ranks + ranks) % ranks);
}

bool ra_ring_has_spans(const ra_ring_plan *ring)
{
    return ring->plan->spans > 1 && ring->strategy->has_spans;
}

bool ra_ring_at_once(const ra_ring_plan *ring)
{
    return ring->in_place && ring->options.transport == RA_TRANSPORT_SIM && !ra_ring_has_spans(ring);
}

int ra_ring_batch(const ra_ring_plan *ring)
{
    enum { MOST = 8 };
    int ranks = ring->options.ranks, lists = (int)ra_ceil_div(ranks, MOST);
    return ra_ring_at_once(ring) ? (int)ra_ceil_div(ranks, lists) : 1;
}

const ra_rank_plan *ra_ring_planned(const ra_ring_plan *ring, int rank)
{
    bool there = ring->ranks && rank >= ring->first && rank < ring->first + ring->count;
    return there ? &ring->ranks[rank - ring->first] : NULL;
}

int64_t ra_ring_plan_bytes(const ra_ring_plan *ring)
{
    int64_t own = (int64_t)sizeof *ring + ra_partition_bytes(&ring->queries) + ra_partition_bytes(&ring->keys) +
                  ring->options.ranks * (int64_t)sizeof *ring->ranks; /* as if all were planned: the same for each */
    return ra_memory_pages(own) + ra_plan_bytes(ring->plan);
}
