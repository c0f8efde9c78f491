/*
 * The keys of other ranks that the queries of a rank see, to count what travels: stretches where all terms of the
 * pattern are intervals, else pages of bits.
 */
#ifndef RA_PLAN_REACH_H
#define RA_PLAN_REACH_H

#include "plan/plan.h"
#include "plan/row_set.h"

/*
 * What the queries of a share see outside of the rank's own keys: for each plane the rows that its query heads see.
 * Rows outside of `within` may be left out. False: out of memory. Free the set also then.
 */
bool ra_reach_find(ra_row_set *set, const ra_plan *plan, int64_t planes, const ra_share *queries, const ra_share *own,
                   ra_interval within);

#endif
