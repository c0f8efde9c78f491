/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of rows of the keys, to count what travels between ranks. Two forms, chosen by the pattern:
 *
 *     stretches  intervals of positions, each repeated at a fixed distance: a striped rank's window over a billion
 *                positions is one of them. The key/value heads all have the same rows.
 *     pages      one bit for each position and plane, in pages that are taken where a bit is set. A plane is the marks
 *                of key/value heads that see the same keys.
 */
#ifndef RA_PLAN_ROW_SET_H
#define RA_PLAN_ROW_SET_H

#include "plan/row_pages.h"

/* Positions first + i * step .. first + i * step + rows - 1 for 0 <= i < count; rows <= step where count > 1. */
typedef struct ra_stretch {
    int64_t first, rows, step, count;
} ra_stretch;

typedef struct ra_row_set {
    int64_t count, room; /* of stretches, */
    ra_stretch *at;      /* one begins where the last has ended, or later, */
    bool loose;          /* unless this is set */
    ra_row_pages pages;  /* the other form; where they have planes there are no stretches */
} ra_row_set;

/* An empty set of stretches is (ra_row_set){0}; pages are made by ra_pages_make. False: out of memory. Free it also
 * then. */
void ra_row_set_free(ra_row_set *set);

/* Add the rows of a share. */
bool ra_row_set_add_share(ra_row_set *set, const ra_share *share);

/* Add the interval lo <= i < hi, repeated; it begins at or after the beginning of what was added last. */
bool ra_row_set_add(ra_row_set *set, int64_t lo, int64_t hi, int64_t step, int64_t count);

/* to = the rows of a that are in b, or that are not. Both have the same form, and `to` is empty. */
bool ra_row_set_combine(const ra_row_set *a, const ra_row_set *b, ra_set_operation operation, ra_row_set *to);

/* Rows of all planes; those that are in a share; those of a share from lo to hi. */
int64_t ra_row_set_rows(const ra_row_set *set);
int64_t ra_row_set_rows_in(const ra_row_set *set, const ra_share *share);
int64_t ra_row_set_rows_between(const ra_row_set *set, const ra_share *share, int64_t lo, int64_t hi);

/* The rows of each rank: see ra_pages_owners. */
void ra_row_set_owners(const ra_row_set *set, const ra_partition *partition, ra_owner_visitor visit, void *user);

#endif
