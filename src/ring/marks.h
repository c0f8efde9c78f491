/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks on rows: one bit for each row of a share of the keys, or of the queries, one word for each of its blocks
 * (ra_range.block). Where key/value heads read different rows, each has a plane of marks of its own; planes lie one
 * after the other.
 */
#ifndef RA_RING_MARKS_H
#define RA_RING_MARKS_H

#include "plan/plan.h"

/* Mark the positions lo <= i < hi of a share. */
void ra_mark_range(const ra_share *share, int64_t lo, int64_t hi, uint64_t *words);

/* Planes that a problem needs: one, or one for each key/value head. */
int64_t ra_mark_planes(const ra_plan *plan);

/* Mark, on words that are zero, the positions of `keys` that the queries of a share see, in all planes. */
void ra_mark_needed(const ra_plan *plan, int64_t planes, const ra_share *queries, const ra_share *keys,
                    uint64_t *words);

/* The other way round: mark, on words that are zero, the rows of `queries` that see some key of a share. */
void ra_mark_seers(const ra_plan *plan, int64_t planes, const ra_share *keys, const ra_share *queries, uint64_t *words);

/* Copy the marks of the positions of `keys` from those of the whole sequence, for all planes. */
void ra_mark_extract(const uint64_t *whole, int64_t whole_blocks, int64_t planes, const ra_share *keys,
                     uint64_t *words);

/* Mark, of one plane, the positions lo <= i < hi of `keys` that are in another share too, and no others. */
void ra_mark_shared(const ra_share *other, int64_t lo, int64_t hi, const ra_share *keys, uint64_t *words);

int64_t ra_marked(const uint64_t *words, int64_t blocks);

/* before[i] = marks in the words before i. */
void ra_marks_before(const uint64_t *words, int64_t blocks, int64_t *before);

/*
 * Runs of `some` marks that lie together where all of `held` are packed one after the other. Rows count from the first
 * mark of `held`, of which `some` are a part.
 */
typedef struct ra_mark_run {
    int64_t row, rows;
} ra_mark_run;

typedef struct ra_mark_walk {
    const uint64_t *some, *held;
    int64_t blocks, block, row;
    uint64_t left; /* marks of `some` in the block that are still to come */
} ra_mark_walk;

ra_mark_walk ra_mark_walk_begin(const uint64_t *some, const uint64_t *held, int64_t blocks);
bool ra_mark_walk_next(ra_mark_walk *walk, ra_mark_run *run);

/* Runs of marked positions, none across two ranges. `row` counts marks. */
typedef struct ra_position_run {
    int64_t position, rows, row;
} ra_position_run;

typedef struct ra_position_walk {
    const ra_share *share;
    const uint64_t *words;
    int64_t range, at, row; /* where to go on: `at` is a position of the range, `row` the marks before it */
} ra_position_walk;

bool ra_position_walk_next(ra_position_walk *walk, ra_position_run *run);

#endif
