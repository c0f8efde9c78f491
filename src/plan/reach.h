/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of other ranks that the queries of a rank see, and the queries of other ranks that see keys of a rank, to
 * count what travels: stretches where all terms of the pattern are intervals, the same for all batch elements, and
 * queries are not packed; else pages of bits.
 */
#ifndef RA_PLAN_REACH_H
#define RA_PLAN_REACH_H

#include "plan/plan.h"
#include "plan/row_set.h"

/* Whose rows are looked for: keys that some queries see, or queries that see some keys. */
typedef enum ra_side { RA_SIDE_KEYS, RA_SIDE_QUERIES } ra_side;

/*
 * For RA_SIDE_KEYS what the queries of a share, `from`, see outside of the rank's own keys: for each plane the rows
 * that its query heads see. For RA_SIDE_QUERIES the queries outside of the rank's own that see keys of a share. Rows
 * outside of `within` may be left out. False: out of memory. Free the set also then.
 */
bool ra_reach_find(ra_row_set *set, const ra_plan *plan, ra_side side, int64_t planes, const ra_share *from,
                   const ra_share *own, ra_interval within);

#endif
