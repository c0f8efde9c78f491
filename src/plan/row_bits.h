/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one query of a head sees in one branch, as bits of 64 keys: for planning where a mask says it pair by pair. Runs
 * find the same tile by tile, in sieve.c.
 */
#ifndef RA_PLAN_ROW_BITS_H
#define RA_PLAN_ROW_BITS_H

#include "plan/partition.h"
#include "plan/pattern.h"

typedef struct ra_row_bits {
    const ra_pattern *pattern;
    int64_t head;
    int branch;
    ra_lattice lattice;
    ra_interval seen; /* positions outside of which the query sees none */
    int64_t position;
    int64_t row, window; /* of blocks that is at hand, and its first column there; -1: none */
    uint64_t kept[RA_BLOCKS_WINDOW];
} ra_row_bits;

void ra_row_bits_begin(ra_row_bits *bits, const ra_pattern *pattern, int64_t head, int branch);

/* Turn to the query at a position; false: it is no member of the branch, or sees nothing by intervals. */
bool ra_row_bits_turn(ra_row_bits *bits, int64_t position);

/* The keys first .. first + 63, `first` a multiple of 64, that the query sees. */
uint64_t ra_row_bits_word(ra_row_bits *bits, int64_t first);

/* Whether the query sees a key of a share. */
bool ra_row_bits_sees(ra_row_bits *bits, const ra_share *keys);

#endif
