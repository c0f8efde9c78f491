/*
 * The tiles of a few query rows: which blocks of keys they need, and how much of each block a group of rows sees.
 * Tiles are produced one after the other and never listed.
 */
#ifndef RA_PLAN_TILES_H
#define RA_PLAN_TILES_H

#include "base/blocking.h"
#include "plan/pattern.h"

/* What the rows of a group see together and in common. min_lo >= max_hi: nothing. */
typedef struct ra_group_bounds {
    int64_t min_lo, max_hi; /* some row may see a key in between */
    int64_t max_lo, min_hi; /* every row sees every key in between */
} ra_group_bounds;

/* A block of keys that some group needs: positions first .. first + rows - 1, inside one absolute block. */
typedef struct ra_block {
    int64_t first;
    int rows;
} ra_block;

/* A group's part of a block: keys begin <= k < end of it, multiples of RA_KEY_UNIT. */
typedef struct ra_tile {
    int begin, end;
    bool masked; /* some row does not see all of them */
} ra_tile;

typedef struct ra_tiles {
    int lanes, row_count, group_count;
    ra_interval *rows;       /* [row_count] */
    ra_group_bounds *groups; /* [group_count] */
    int64_t next, end;       /* keys still to be looked at */
} ra_tiles;

/* What the rows see in common, from their intervals. */
ra_group_bounds ra_group_bounds_of(const ra_interval *rows, int count);

/*
 * Start over the keys key_first <= k < key_end (key_first a multiple of RA_KEY_BLOCK) for `row_count` queries at
 * consecutive positions, in groups of `lanes`. `rows` and `groups` are the caller's memory, used until the end.
 */
void ra_tiles_begin(ra_tiles *tiles, const ra_pattern *pattern, int64_t first_position, int row_count, int lanes,
                    int64_t key_first, int64_t key_end, ra_interval *rows, ra_group_bounds *groups);

/* The next block that any group needs; false when there is none. */
bool ra_tiles_next(ra_tiles *tiles, ra_block *block);

/* A group's part of a block; false when the group needs nothing of it. */
bool ra_tiles_part(const ra_tiles *tiles, int group, const ra_block *block, ra_tile *tile);

/* For a masked tile: lane i sees keys lo[i] <= k < hi[i] of the block. Returns the pairs that are visible. */
int64_t ra_tiles_mask(const ra_tiles *tiles, int group, const ra_block *block, int32_t *lo, int32_t *hi);

/* Rows of a group that exist (the last group may be short). */
int ra_tiles_rows(const ra_tiles *tiles, int group);

#endif
