/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiles of a few groups of query rows of a head, in one branch: which blocks of keys they need, and how much of
 * each block a group sees. Tiles are produced one after the other and never listed. Keys and queries are members of the
 * branch's lattice, which is positions for all patterns but dilated ones.
 */
#ifndef RA_PLAN_TILES_H
#define RA_PLAN_TILES_H

#include "base/blocking.h"
#include "plan/pattern.h"
#include "plan/sieve.h"

/* What the rows of a group see together and in common. min_lo >= max_hi: nothing. */
typedef struct ra_group_bounds {
    int64_t min_lo, max_hi; /* some row may see a key in between */
    int64_t max_lo, min_hi; /* every row sees every key in between */
    int rows;               /* that exist: the last group of a range may be short */
    int64_t member;         /* the first row's */
} ra_group_bounds;

/* A block of keys that some group needs: members first + skip .. first + rows - 1 of the block that begins at first.
 */
typedef struct ra_block {
    int64_t first; /* a multiple of RA_KEY_BLOCK */
    int skip, rows;
} ra_block;

/* A group's part of a block: keys begin <= k < end of it, multiples of RA_KEY_UNIT. */
typedef struct ra_tile {
    int begin, end;
    bool masked; /* some row does not see all of them */
    bool bits;   /* and what it sees need not be an interval */
} ra_tile;

typedef struct ra_tiles {
    const ra_pattern *pattern;
    ra_lattice lattice;
    int lanes, group_count;
    ra_interval *rows;       /* [groups][lanes] */
    ra_group_bounds *groups; /* [groups] */
    int64_t next, end;       /* keys still to be looked at */
    bool sifted;             /* intervals do not say it all: */
    ra_sieve sieve;
} ra_tiles;

/* What the rows see in common, from their intervals. */
ra_group_bounds ra_group_bounds_of(const ra_interval *rows, int count);

/* Memory for the groups of a task: of the tiles, and of their sieve. */
typedef struct ra_tiles_memory {
    ra_interval *rows;
    ra_group_bounds *groups;
    void *sieve;
    int64_t room; /* groups */
} ra_tiles_memory;

/* No groups yet, of a branch of a head. */
void ra_tiles_begin(ra_tiles *tiles, const ra_pattern *pattern, int64_t head, int branch, int lanes,
                    const ra_tiles_memory *memory);

/* Add a group of `rows` members, from `member` on. */
void ra_tiles_add(ra_tiles *tiles, int64_t member, int rows);

/* The group that was added last has these rows once for each of `heads` heads, which see the same keys. */
void ra_tiles_repeat(ra_tiles *tiles, int heads);

/* The part of the keys from lo to hi that any group may need. */
ra_interval ra_tiles_reach(const ra_tiles *tiles, int64_t lo, int64_t hi);

/* Start over the keys lo <= k < hi. */
void ra_tiles_seek(ra_tiles *tiles, int64_t lo, int64_t hi);

/* The next block that any group needs; false when there is none. */
bool ra_tiles_next(ra_tiles *tiles, ra_block *block);

/* Turn to a block that was given, to ask for parts of it. */
void ra_tiles_look(ra_tiles *tiles, const ra_block *block);

/* A group's part of a block; false when the group needs nothing of it. */
bool ra_tiles_part(const ra_tiles *tiles, int group, const ra_block *block, ra_tile *tile);

/*
 * For a masked tile, what lanes see of the block: keys lo[i] <= k < hi[i], or with bits those k where bit i of seen[k]
 * is set, for the keys of the tile. Returns the pairs that are visible.
 */
int64_t ra_tiles_mask(const ra_tiles *tiles, int group, const ra_block *block, const ra_tile *tile, int32_t *lo,
                      int32_t *hi, uint64_t *seen);

#endif
