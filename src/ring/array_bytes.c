/* Bytes of the gradients of arrays of scores: see array_bytes.h. */
#include "ring/array_bytes.h"

#include "base/memory.h"
#include "exec/array_sums.h"

bool ra_arrays_wanted(const ra_ring_plan *ring)
{
    return ring->options.backward && ra_array_sums_wanted(ring->plan);
}

int64_t ra_arrays_message(const ra_ring_plan *ring)
{
    return ra_arrays_wanted(ring) ? ra_array_sums_lay_out(ring->plan).count * (int64_t)sizeof(ra_exact_sum) : 0;
}

int64_t ra_arrays_bytes(const ra_ring_plan *ring)
{
    bool alone = ring->options.transport == RA_TRANSPORT_SIM || ring->options.ranks == 1;
    return ra_memory_rounded((alone ? 1 : 2) * ra_arrays_message(ring));
}

/* To the next rank and, on the way back, to the one before. */
int64_t ra_arrays_messages(const ra_ring_plan *ring, int rank)
{
    return (rank > 0) + (rank + 1 < ring->options.ranks);
}
