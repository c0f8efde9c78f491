/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rank holds which rows of a sequence. A share is a rank's rows: ranges of consecutive positions, in order, one
 * after the other in the rank's memory. Striped shares have many ranges: these are computed, not listed.
 */
#ifndef RA_PLAN_PARTITION_H
#define RA_PLAN_PARTITION_H

#include "base/status.h"

/* Positions first <= i < end; `row` is the rank's row of the first one. */
typedef struct ra_range {
    int64_t first, end;
    int64_t row;
    int64_t block; /* key blocks of the share before this range, a cut one counted on both sides */
} ra_range;

typedef struct ra_share {
    int64_t rows, ranges, blocks; /* in all */
    const ra_range *list;         /* NULL: striped */
    ra_range whole;               /* the list of a share with a single range of its own */
    int64_t length, first, step;  /* striped: range i is block first + i * step of a sequence of this length */
} ra_share;

/* A part of a sequence, and the rank that has it. */
typedef struct ra_owned {
    int64_t first, end;
    int64_t row; /* of `first`, in its rank's share */
    int rank;
} ra_owned;

typedef struct ra_partition {
    int64_t length;
    int ranks;
    int64_t stripes;    /* > 0: striped over this many ranks; the lists below are then empty */
    int64_t part_count; /* parts, in the order of positions */
    int64_t room;       /* parts that there is room for */
    ra_owned *parts;
    ra_range *ranges; /* by rank: rank r has ranges starts[r] .. starts[r + 1] - 1 */
    int64_t *starts;  /* [ranks + 1] */
} ra_partition;

/* Split `length` rows by an order, or by `count` pieces of the caller's own. Clear it also after a failure. */
ra_status ra_partition_make(ra_partition *partition, const char *what, int64_t length, int ranks, ra_order order,
                            const ra_piece *pieces, int64_t count);
void ra_partition_clear(ra_partition *partition);

ra_share ra_partition_share(const ra_partition *partition, int rank);

/* The index in `parts` of the first that ends after `position`, where there are lists. */
int64_t ra_partition_find(const ra_partition *partition, int64_t position);

/* Bytes that its lists take. */
int64_t ra_partition_bytes(const ra_partition *partition);

/* The part that `position` is in; `end` is where the part ends. */
ra_owned ra_partition_owner(const ra_partition *partition, int64_t position);

/* The share that is one range. */
ra_share ra_share_of_range(int64_t first, int64_t end);

/* The i-th of `parts` nearly equal parts of a sequence, cut at multiples of RA_KEY_BLOCK. */
ra_piece ra_even_part(int64_t length, int64_t parts, int64_t i);

/* 0 <= i < share->ranges */
ra_range ra_share_range(const ra_share *share, int64_t i);

/* The first range that ends after `position`; share->ranges when there is none. */
int64_t ra_share_find(const ra_share *share, int64_t position);

/* Rows of the share at positions below `position`, and at positions lo <= i < hi. */
int64_t ra_share_rows_below(const ra_share *share, int64_t position);
int64_t ra_share_rows_between(const ra_share *share, int64_t lo, int64_t hi);

#endif
