/* Sets of rows in the form of pages of bits: what row_set.c hands on. */
#ifndef RA_PLAN_ROW_PAGES_H
#define RA_PLAN_ROW_PAGES_H

#include "plan/row_set.h"

void ra_pages_free(ra_row_set *set);
bool ra_pages_combine(const ra_row_set *a, const ra_row_set *b, ra_set_operation operation, ra_row_set *to);

/* Rows of all planes from lo to hi. */
int64_t ra_pages_rows(const ra_row_set *set, int64_t lo, int64_t hi);
void ra_pages_owners(const ra_row_set *set, const ra_partition *partition, ra_owner_visitor visit, void *user);
int64_t ra_pages_bytes(const ra_row_set *set);

#endif
