/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the plan of a ring: what each rank does and holds. */
#ifndef RA_RING_PLANNING_H
#define RA_RING_PLANNING_H

#include "ring/rank_bytes.h"

/* Make everything except partitions and options, which must be set: for all ranks, or for options.rank alone. */
ra_status ra_ring_plan_fill(ra_ring_plan *ring);

/* Plan one rank in all passes, whether or not it was planned before. */
ra_status ra_ring_plan_one(const ra_ring_plan *ring, int rank, ra_rank_info *info);

/* What the largest process of the planned ranks holds. */
int64_t ra_ring_largest(const ra_ring_plan *ring);

/* Threads of each rank: as asked for, or the cores divided among the ranks that work at the same time. */
int ra_ring_threads(const ra_options *options, const ra_ring_options *ring);

/* What the largest process would hold if memory is spared. The search ends as soon as it exceeds `enough`. */
ra_status ra_ring_plan_holds(ra_ring_plan *ring, int64_t enough, int64_t *bytes);

/* A lower bound of what a rank of a ring of `ranks` holds: its queries, states, one chunk, scratch of one thread. */
int64_t ra_ring_plan_least(const ra_ring_plan *ring, int ranks);

#endif
