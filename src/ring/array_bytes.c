/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of the gradients of arrays of scores: see array_bytes.h. */
#include "ring/array_bytes.h"

#include "base/memory.h"
#include "exec/array_sums.h"
#include "score/scores.h"

bool ra_arrays_wanted(const ra_ring_plan *ring)
{
    return ring->options.backward && ra_array_sums_wanted(ring->plan);
}

bool ra_arrays_by_pair(const ra_ring_plan *ring)
{
    return ra_arrays_wanted(ring) && ra_array_sums_by_pair(ring->plan);
}

int64_t ra_arrays_sum_bytes(const ra_ring_plan *ring)
{
    return ra_arrays_wanted(ring) ? ra_array_sums_lay_out(ring->plan).count * (int64_t)sizeof(ra_exact_sum) : 0;
}

int64_t ra_arrays_bytes(const ra_ring_plan *ring)
{
    int64_t sums = ra_memory_rounded(ra_arrays_sum_bytes(ring));
    if (ring->options.transport == RA_TRANSPORT_SIM || ring->options.ranks == 1)
        return sums;
    return 2 * sums + (ra_arrays_by_pair(ring) ? RA_BIAS_PART * (int64_t)sizeof(float) : 0);
}

/* To the next rank and, on the way back, to the one before. */
int64_t ra_arrays_traffic(const ra_ring_plan *ring, int rank)
{
    int64_t bytes = ra_arrays_sum_bytes(ring), messages = (rank > 0) + (rank + 1 < ring->options.ranks);
    if (ra_arrays_by_pair(ring)) {
        const ra_tensor *t = ring->plan->scores->d_bias;
        bytes += t->batch * t->seq * t->heads * t->dim * (int64_t)sizeof(float);
    }
    return messages * bytes;
}
