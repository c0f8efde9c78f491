/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: see message.h. */
#include "ring/message.h"

#include "base/checked.h"

ra_message ra_message_of_rows(const ra_pass *pass, int from, int to, int64_t phase)
{
    return (ra_message){.from = from,
                        .to = to,
                        .phase = phase,
                        .roles = pass->roles,
                        .heads = pass->ring->plan->kv_heads,
                        .delivery = RA_STORE,
                        .held = -1,
                        .stored = phase};
}

ra_message ra_message_of_sums(const ra_pass *pass, const ra_message *rows)
{
    ra_message sums = *rows;
    sums.roles = pass->along;
    sums.again = false; /* they have not been given up */
    sums.late = true;
    return sums;
}

ra_message ra_message_home(const ra_pass *pass, int from, int to, int64_t phase)
{
    const ra_message rows = ra_message_of_rows(pass, from, to, phase);
    ra_message sums = ra_message_of_sums(pass, &rows);
    sums.held = phase - 1;
    sums.stored = -1;
    return sums;
}

ra_share ra_message_share(const ra_pass *pass, const ra_message *m)
{
    return m->stored < 0 ? ra_partition_share(ra_pass_moving(pass), m->to)
                         : pass->ring->strategy->share(pass, m->to, m->stored);
}

ra_share ra_message_held(const ra_pass *pass, const ra_message *m)
{
    return m->held < 0 ? ra_partition_share(ra_pass_moving(pass), m->from)
                       : pass->ring->strategy->share(pass, m->from, m->held);
}

void ra_message_rows(const ra_reads *reads, const ra_message *m, const ra_share *on, uint64_t *words, uint64_t *scratch)
{
    reads->pass->ring->strategy->rows(reads, m, on, words, scratch);
}

int64_t ra_message_bytes(const ra_pass *pass, const ra_message *m, int64_t rows)
{
    int64_t bytes = 0;
    for (int role = 0; role < RA_ROLES; role++)
        if (m->roles >> role & 1)
            bytes += rows * pass->row_bytes[role];
    return bytes;
}

/*
 * A run ends where a row is left out. Intervals leave out rows at their ends: those of the ranges of two ranks'
 * rows that stay. Kept blocks also at the ends of blocks; lattices, packed sequences, masks and lengths at every row,
 * and so may queries, if only some of them see a kept block.
 */
int64_t ra_message_runs(const ra_pass *pass, int64_t rows)
{
    const ra_pattern *pattern = &pass->ring->plan->pattern;
    int64_t ends = 2 * pass->ranges + 1;
    bool by_row = pass->moving == RA_SIDE_QUERIES && pattern->blocks && pattern->bounded;
    if (pattern->dilation || pattern->ragged || pattern->mask || pattern->lengths || by_row)
        return rows;
    if (pattern->blocks) {
        /* Queries need not begin with a block. */
        int64_t size = ra_min(pattern->blocks->size, RA_KEY_BLOCK);
        ends += pass->moving == RA_SIDE_QUERIES ? pass->slot_blocks : 0;
        ends = pass->ring->planes * (2 * ends + 2 * pass->slot_blocks * ra_ceil_div(RA_KEY_BLOCK, size));
    }
    return ra_min(rows, ends);
}
