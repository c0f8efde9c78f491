/*
 * Patterns that depend on the batch element: lengths, and masks of each element. Tasks work with a plan of their batch
 * element; what is planned for all of them is added up, or united.
 */
#ifndef RA_PLAN_BATCH_H
#define RA_PLAN_BATCH_H

#include "plan/plan.h"

/* Whether batch elements may see different keys, or have their queries elsewhere. */
static inline bool ra_plan_by_batch(const ra_plan *p)
{
    return p->pattern.lengths || (p->pattern.mask && p->pattern.mask->batch > 1);
}

/* Batch elements that have to be looked at: all of them, or one. */
static inline int64_t ra_plan_elements(const ra_plan *p)
{
    return ra_plan_by_batch(p) ? p->batch : 1;
}

/* The place of query 0 of a batch element. */
int64_t ra_plan_offset(const ra_plan *plan, int64_t batch);

/* The plan of a batch element: the plan itself where elements do not differ, else a copy of it in `copy`. */
const ra_plan *ra_plan_of_batch(const ra_plan *plan, int64_t batch, ra_plan *copy);

/* The same for a workload: its groups are where the element's queries are. */
const ra_workload *ra_workload_of_batch(const ra_workload *work, const ra_plan *element, ra_workload *copy);

/* Whether two batch elements see the same. */
bool ra_plan_same_element(const ra_plan *plan, int64_t batch, int64_t other);

/* How often a query sees a key, both by index, by the definition: for the oracles. */
int ra_plan_sees(const ra_plan *plan, int64_t batch, int64_t head, int64_t query, int64_t key);

/* Keys outside of which the queries first <= i < end of all batch elements, or of one, see none, whatever the head. */
ra_interval ra_plan_hull(const ra_plan *plan, int64_t first, int64_t end);
ra_interval ra_plan_hull_of(const ra_plan *plan, int64_t batch, int64_t first, int64_t end);

/* Queries, by index, outside of which none of any batch element sees a key first <= k < end. */
ra_interval ra_plan_seers_hull(const ra_plan *plan, int64_t first, int64_t end);

/* RA_OK when the caller's lengths and documents are those of the plan, which a run over ranks needs. */
ra_status ra_plan_check_unchanged(const ra_plan *plan);

#endif
