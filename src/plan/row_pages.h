/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of rows as bits: one bit for each position and plane, in pages that are taken where a bit is set. A plane is the
 * marks of key/value heads that see the same keys.
 */
#ifndef RA_PLAN_ROW_PAGES_H
#define RA_PLAN_ROW_PAGES_H

#include "plan/partition.h"

#include <stdbool.h>

typedef struct ra_row_pages {
    int64_t planes;  /* 0: there are none */
    int64_t count;   /* pages of a plane */
    uint64_t **page; /* [planes][count]; NULL: no bit of the page is set */
} ra_row_pages;

/* False: out of memory. Free them also then. */
bool ra_pages_make(ra_row_pages *pages, int64_t planes, int64_t length);
void ra_pages_free(ra_row_pages *pages);

/* Set bits lo <= i < hi of a plane; *fresh grows by the bits that were not set before. */
bool ra_pages_mark(ra_row_pages *pages, int64_t plane, int64_t lo, int64_t hi, int64_t *fresh);

/* to = the rows of a that are in b, or that are not; `to` is made. */
typedef enum ra_set_operation { RA_SET_BOTH, RA_SET_ONLY } ra_set_operation;
bool ra_pages_combine(const ra_row_pages *a, const ra_row_pages *b, ra_set_operation operation, ra_row_pages *to);

/* Rows of all planes from lo to hi. */
int64_t ra_pages_rows(const ra_row_pages *pages, int64_t lo, int64_t hi);

/* The rows of each rank: called with some of them at a time, for a rank perhaps several times. */
typedef void (*ra_owner_visitor)(void *user, int owner, int64_t rows);
void ra_pages_owners(const ra_row_pages *pages, const ra_partition *partition, ra_owner_visitor visit, void *user);

#endif
