/*
 * Rows of a chunk of keys, while a schedule is made: as marks, or, where what every rank reads is a few intervals, as
 * intervals of positions, whose cost does not grow with the sequence. Of either kind are all sets of a plan.
 */
#ifndef RA_RING_ROW_SET_H
#define RA_RING_ROW_SET_H

#include "ring/travel.h"

/* Intervals that are left of two sets of RA_REACH_MOST, or of one without the other. */
enum { RA_SET_MOST = 2 * RA_REACH_MOST };

typedef struct ra_row_set {
    uint64_t *words; /* NULL: intervals, which may go beyond the chunk */
    int count;
    ra_interval at[RA_SET_MOST]; /* in order, and apart */
} ra_row_set;

/* Fill a set: with all rows of a chunk, those of a stretch of positions, those that are in a rank's own share, */
void ra_set_all(const ra_ring_plan *ring, const ra_share *keys, ra_row_set *set);
void ra_set_stretch(const ra_ring_plan *ring, const ra_share *keys, int64_t first, int64_t end, ra_row_set *set);
void ra_set_owned(const ra_ring_plan *ring, int rank, const ra_share *keys, ra_row_set *set);

/* or with those that a rank reads. False: there are none, and what is in the set is not said. */
bool ra_set_needed(const ra_ring_plan *ring, int rank, const ra_share *keys, ra_row_set *set);

/* What is in both, and what is in `a` alone; `to` may be one of them. */
void ra_set_both(const ra_ring_plan *ring, const ra_share *keys, const ra_row_set *a, const ra_row_set *b,
                 ra_row_set *to);
void ra_set_only(const ra_ring_plan *ring, const ra_share *keys, const ra_row_set *a, const ra_row_set *b,
                 ra_row_set *to);
void ra_set_copy(const ra_ring_plan *ring, const ra_share *keys, const ra_row_set *from, ra_row_set *to);

/* Rows of a part of the chunk, in all sets of marks; and of all of it. */
int64_t ra_set_part_rows(const ra_ring_plan *ring, const ra_share *keys, int part, const ra_row_set *set);
int64_t ra_set_rows(const ra_ring_plan *ring, const ra_share *keys, const ra_row_set *set);

/* Runs of `some` rows of a part that lie together where those of `held`, of which they are, are packed. */
int64_t ra_set_runs(const ra_ring_plan *ring, const ra_share *keys, int part, const ra_row_set *some,
                    const ra_row_set *held);

#endif
