/* SPDX-License-Identifier: Apache-2.0 */
/* Block sizes: what is the same everywhere, and what each kernel table brings with it. */
#ifndef RA_BASE_BLOCKING_H
#define RA_BASE_BLOCKING_H

#include <stdint.h>

enum {
    RA_KEY_BLOCK = 64, /* positions; absolute blocks of this size are worked one after the other */
    RA_KEY_UNIT = 4,   /* keys worked at once; the ends of a tile's key range are multiples of it */
    RA_PANEL = 4,      /* value columns packed side by side */
    RA_LANES_MOST = 64 /* queries in a group, of any table */
};

typedef struct ra_blocking {
    int lanes;          /* queries in a group */
    int narrow;         /* a group of this many rows or fewer costs less */
    int tile_groups;    /* groups that share a pass over a block of keys, at most */
    int64_t tile_bytes; /* what the queries and states of those groups should not exceed */
    int decode_queries; /* query lengths up to this one take the decoding variant */
} ra_blocking;

/* Floats in the state of one group: max[lanes], sum[lanes], acc[columns][lanes], columns a multiple of RA_PANEL. */
static inline int64_t ra_group_state_floats(int64_t lanes, int64_t value_dim)
{
    return lanes * (2 + (value_dim + RA_PANEL - 1) / RA_PANEL * RA_PANEL);
}

#endif
