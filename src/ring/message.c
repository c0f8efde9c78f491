/* Messages: see message.h. */
#include "ring/message.h"

#include "base/checked.h"

ra_message ra_message_of_rows(const ra_ring_plan *ring, int from, int to, int64_t phase)
{
    return (ra_message){.from = from,
                        .to = to,
                        .phase = phase,
                        .roles = 1U << RA_ROLE_KEYS | 1U << RA_ROLE_VALUES,
                        .heads = ring->plan->kv_heads,
                        .delivery = RA_STORE,
                        .held = -1};
}

ra_share ra_message_keys(const ra_ring_plan *ring, const ra_message *m)
{
    return ring->strategy->keys(ring, m->to, m->phase);
}

ra_share ra_message_held(const ra_ring_plan *ring, const ra_message *m)
{
    return m->held < 0 ? ra_partition_share(&ring->keys, m->from) : ring->strategy->keys(ring, m->from, m->held);
}

void ra_message_rows(const ra_reads *reads, const ra_message *m, const ra_share *on, uint64_t *words, uint64_t *scratch)
{
    reads->ring->strategy->rows(reads, m, on, words, scratch);
}

int64_t ra_message_bytes(const ra_ring_plan *ring, const ra_message *m, int64_t rows)
{
    int64_t bytes = 0;
    for (int role = 0; role < RA_ROLES; role++)
        if (m->roles >> role & 1)
            bytes += rows * ring->row_bytes[role];
    return bytes;
}

/*
 * A run ends where a row is left out. Intervals leave out rows at their ends: those of the ranges of two ranks'
 * queries. Kept blocks also at the ends of blocks; lattices at every row.
 */
int64_t ra_message_runs(const ra_ring_plan *ring, int64_t rows)
{
    const ra_pattern *pattern = &ring->plan->pattern;
    int64_t ends = 2 * ring->query_ranges + 1;
    if (pattern->dilation)
        return rows;
    if (pattern->blocks) {
        int64_t size = ra_min(pattern->blocks->size, RA_KEY_BLOCK);
        ends = ring->planes * (2 * ends + 2 * ring->slot_blocks * ra_ceil_div(RA_KEY_BLOCK, size));
    }
    return ra_min(rows, ends);
}
