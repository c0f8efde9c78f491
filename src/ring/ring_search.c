/* SPDX-License-Identifier: Apache-2.0 */
/* The search for the size of a ring: see ring_search.h. */
#include "ring/ring_search.h"

#include "base/checked.h"
#include "ring/planning.h"

enum { MOST_TRIED = 4096 };

/* What the largest process of a ring of `ranks` would hold. This replaces the ranks of the plan. */
static ra_status held_by(ra_ring_plan *plan, int ranks, int64_t enough, int64_t *bytes)
{
    ra_ring_options *o = &plan->options;
    ra_partition_clear(&plan->queries);
    ra_partition_clear(&plan->keys);
    o->ranks = ranks;
    ra_status status = ra_partition_make(&plan->queries, "query", plan->plan->q_len, ranks, o->order, NULL, 0);
    if (!status)
        status = ra_partition_make(&plan->keys, "key", plan->plan->kv_len, ranks, o->order, NULL, 0);
    return status ? status : ra_ring_plan_holds(plan, enough, bytes);
}

/*
 * The first ring that fits, one after the other from where it is not out of the question: what a rank holds falls with
 * their number, but not always. It is at most about four times the least that it could be, and so is the ring.
 */
ra_status ra_ring_find_smallest(ra_ring_plan *plan, int64_t memory, int *ranks)
{
    int first = 1;
    while (first <= MOST_TRIED && ra_ring_plan_least(plan, first) > memory)
        first++;
    /* More ranks than there are blocks to deal out change nothing. */
    int64_t blocks = ra_max(1, ra_ceil_div(ra_max(plan->plan->q_len, plan->plan->kv_len), RA_KEY_BLOCK));
    int64_t last = ra_min(ra_min(MOST_TRIED, blocks), 5 * (int64_t)first + 64);
    ra_status status = RA_OK;
    for (int tried = first; tried <= last && !status; tried++) {
        int64_t bytes;
        status = held_by(plan, tried, memory, &bytes);
        if (!status && bytes <= memory) {
            *ranks = tried;
            return RA_OK;
        }
    }
    return status;
}

/* The least that a process can hold, and the ring that it takes: doubled until every block of rows has a rank. */
ra_status ra_ring_find_least(ra_ring_plan *plan, int64_t *least, int *ranks)
{
    int64_t blocks = ra_max(1, ra_ceil_div(ra_max(plan->plan->q_len, plan->plan->kv_len), RA_KEY_BLOCK));
    int last = (int)ra_min(MOST_TRIED, blocks);
    ra_status status = RA_OK;
    *least = INT64_MAX;
    for (int tried = 1; !status; tried = (int)ra_min(2 * (int64_t)tried, last)) {
        int64_t bytes;
        status = held_by(plan, tried, INT64_MAX, &bytes);
        if (!status && bytes < *least) {
            *least = bytes;
            *ranks = tried;
        }
        if (tried == last)
            break;
    }
    return status;
}
