/* SPDX-License-Identifier: Apache-2.0 */
/* Makes problems and plans over ranks. See planned.h. */
#include "support/planned.h"

#include "support/unit.h"

ra_problem problem_of(int64_t length, int64_t heads, int64_t kv_heads, int64_t dim, const char *pattern)
{
    ra_problem p = RA_PROBLEM_INIT;
    p.q_len = length, p.heads = heads, p.kv_heads = kv_heads, p.head_dim = dim, p.pattern = pattern;
    return p;
}

ra_ring_options stored_ring(int ranks, ra_transport_kind transport, ra_order order, ra_dtype dtype)
{
    ra_ring_options o = RA_RING_OPTIONS_INIT;
    o.ranks = ranks, o.transport = transport, o.order = order, o.lent = 0;
    o.q_dtype = o.k_dtype = o.v_dtype = dtype;
    return o;
}

ra_ring_plan *planned(const ra_problem *problem, const ra_ring_options *ring)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_ring_plan *plan;
    options.threads = 2;
    REQUIRE(!ra_ring_plan_create(problem, &options, ring, &plan), "%s", ra_last_message());
    return plan;
}

ra_rank_info rank_info(const ra_ring_plan *plan, int rank)
{
    ra_rank_info info = RA_RANK_INFO_INIT;
    assert_int_equal(ra_ring_plan_rank(plan, rank, &info), RA_OK);
    return info;
}
