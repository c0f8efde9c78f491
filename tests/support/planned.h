/* SPDX-License-Identifier: Apache-2.0 */
/* Plans over ranks for tests that look at plans alone. */
#ifndef SUPPORT_PLANNED_H
#define SUPPORT_PLANNED_H

#include <ringattn/ringattn.h>

ra_problem problem_of(int64_t length, int64_t heads, int64_t kv_heads, int64_t dim, const char *pattern);

/* A ring whose tensors are in storage. */
ra_ring_options stored_ring(int ranks, ra_transport_kind transport, ra_order order, ra_dtype dtype);

/* With two threads; it is a failure of the test if there is no such plan. */
ra_ring_plan *planned(const ra_problem *problem, const ra_ring_options *ring);

ra_rank_info rank_info(const ra_ring_plan *plan, int rank);

#endif
