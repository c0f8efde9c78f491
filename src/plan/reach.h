/*
 * The keys that the queries of a rank see, to count what travels: as a list of intervals, or, for patterns with gaps,
 * as bits in pages that are taken when they are needed. A rank's own keys do not travel and are left out of the bits.
 */
#ifndef RA_PLAN_REACH_H
#define RA_PLAN_REACH_H

#include "plan/plan.h"

typedef struct ra_reach {
    int64_t count, room;
    ra_interval *at; /* sorted, neither overlapping nor touching */
    uint64_t **pages;
    int64_t page_count; /* 0: there are intervals */
} ra_reach;

/* What query heads first .. first + count - 1 see. False: out of memory. Free it also then. */
bool ra_reach_find(ra_reach *reach, const ra_plan *plan, const ra_share *queries, const ra_share *own, int64_t first,
                   int64_t count);
void ra_reach_free(ra_reach *reach);

/* Rows of a share among them, between lo and hi. */
int64_t ra_reach_rows(const ra_reach *reach, const ra_share *share, int64_t lo, int64_t hi);

/* Rows of a share that are in both. */
int64_t ra_reach_rows_in_both(const ra_reach *a, const ra_reach *b, const ra_share *share);

#endif
