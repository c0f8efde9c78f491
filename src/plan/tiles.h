/*
 * The tiles of a few groups of query rows: which blocks of keys they need, and how much of each block a group sees.
 * Tiles are produced one after the other and never listed.
 */
#ifndef RA_PLAN_TILES_H
#define RA_PLAN_TILES_H

#include "base/blocking.h"
#include "plan/partition.h"
#include "plan/pattern.h"

/* What the rows of a group see together and in common. min_lo >= max_hi: nothing. */
typedef struct ra_group_bounds {
    int64_t min_lo, max_hi; /* some row may see a key in between */
    int64_t max_lo, min_hi; /* every row sees every key in between */
    int rows;               /* that exist: the last group of a range may be short */
} ra_group_bounds;

/* A block of keys that some group needs: positions first + skip .. first + rows - 1 of the block that begins at first.
 */
typedef struct ra_block {
    int64_t first; /* a multiple of RA_KEY_BLOCK */
    int skip, rows;
} ra_block;

/* A group's part of a block: keys begin <= k < end of it, multiples of RA_KEY_UNIT. */
typedef struct ra_tile {
    int begin, end;
    bool masked; /* some row does not see all of them */
} ra_tile;

typedef struct ra_tiles {
    int lanes, group_count;
    ra_interval *rows;       /* [group_count][lanes] */
    ra_group_bounds *groups; /* [group_count] */
    int64_t next, end;       /* keys still to be looked at */
} ra_tiles;

/* Queries at consecutive positions, as many as there are lanes or less. */
typedef struct ra_group {
    int64_t query; /* the first one: its index in the sequence */
    int64_t row;   /* and in the share */
    int rows;
} ra_group;

/* Groups of a share of queries: none goes across two ranges. */
int64_t ra_group_count(const ra_share *queries, int lanes);

/* The group with a number. */
ra_group ra_group_at(const ra_share *queries, int lanes, int64_t number);

/* What the rows see in common, from their intervals. */
ra_group_bounds ra_group_bounds_of(const ra_interval *rows, int count);

/* Add a group, whose first query is at a global position. `rows` and `groups` are the caller's, with enough room. */
void ra_tiles_add(ra_tiles *tiles, const ra_pattern *pattern, int64_t position, int rows);

/* The part of the keys from lo to hi that any group may need. */
ra_interval ra_tiles_reach(const ra_tiles *tiles, int64_t lo, int64_t hi);

/* Start over the keys lo <= k < hi. */
void ra_tiles_seek(ra_tiles *tiles, int64_t lo, int64_t hi);

/* The next block that any group needs; false when there is none. */
bool ra_tiles_next(ra_tiles *tiles, ra_block *block);

/* A group's part of a block; false when the group needs nothing of it. */
bool ra_tiles_part(const ra_tiles *tiles, int group, const ra_block *block, ra_tile *tile);

/* For a masked tile: lane i sees keys lo[i] <= k < hi[i] of the block. Returns the pairs that are visible. */
int64_t ra_tiles_mask(const ra_tiles *tiles, int group, const ra_block *block, int32_t *lo, int32_t *hi);

#endif
