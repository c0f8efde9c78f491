/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns that depend on the batch element: lengths, and masks of each element. Tasks work with a plan of their batch
 * element. Counts of all elements are added up, and sets of rows are united.
 */
#ifndef RA_PLAN_BATCH_H
#define RA_PLAN_BATCH_H

#include "plan/plan.h"

/* Whether batch elements may see different keys, or have their queries at different places. */
static inline bool ra_plan_by_batch(const ra_plan *p)
{
    return p->pattern.lengths || (p->pattern.mask && p->pattern.mask->batch > 1);
}

/* The number of batch elements to look at: all, or one if they are alike. */
static inline int64_t ra_plan_elements(const ra_plan *p)
{
    return ra_plan_by_batch(p) ? p->batch : 1;
}

/* The place of query 0 of a batch element. */
int64_t ra_plan_offset(const ra_plan *plan, int64_t batch);

/* The plan of a batch element: the plan itself if elements are alike, else a changed copy of it in `copy`. */
const ra_plan *ra_plan_of_batch(const ra_plan *plan, int64_t batch, ra_plan *copy);

/* The same for a workload: its groups are at the places of the element's queries. */
const ra_workload *ra_workload_of_batch(const ra_workload *work, const ra_plan *element, ra_workload *copy);

/* Whether two batch elements see the same. */
bool ra_plan_same_element(const ra_plan *plan, int64_t batch, int64_t other);

/* How often a query sees a key, by the definition; both are indices. For the oracles. */
int ra_plan_sees(const ra_plan *plan, int64_t batch, int64_t head, int64_t query, int64_t key);

/* Bounds on the keys that the queries first <= i < end see, in any head, of one batch element or of all. */
ra_interval ra_plan_hull(const ra_plan *plan, int64_t first, int64_t end);
ra_interval ra_plan_hull_of(const ra_plan *plan, int64_t batch, int64_t first, int64_t end);

/* Bounds on the queries, by index, that see a key first <= k < end in any batch element. */
ra_interval ra_plan_seers_hull(const ra_plan *plan, int64_t first, int64_t end);

/* RA_OK if the caller's lengths and documents are those of the plan. A run over ranks needs that. */
ra_status ra_plan_check_unchanged(const ra_plan *plan);

#endif
