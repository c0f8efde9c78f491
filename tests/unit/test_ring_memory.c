/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank holds: little, and the less the more ranks there are. */
#include "ring/rank_bytes.h"
#include "support/planned.h"
#include "support/random.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>

enum { ORDERS = 3 };

static const int64_t MIB = 1 << 20;

/* Queries, states, and two chunks of keys and values, with something to spare: in rows, whatever the length. */
static void require_law(const ra_problem *p, const ra_ring_options *o)
{
    int64_t size = (int64_t)ra_dtype_size(o->q_dtype), factor = o->q_dtype == RA_F32 ? 8 : 9;
    ra_ring_plan *plan = planned(p, o);
    int64_t most = factor * p->q_len * p->heads * p->head_dim * size / o->ranks + 4 * MIB, sent = 0, received = 0;
    for (int rank = 0; rank < o->ranks; rank++) {
        ra_rank_info info = rank_info(plan, rank);
        REQUIRE(info.peak_bytes <= most,
                "%lld rows, %lld heads (%lld) of %lld, %s, \"%s\", %s, %s, %d ranks: rank %d holds %lld bytes, more "
                "than %lld by %lld",
                (long long)p->q_len, (long long)p->heads, (long long)p->kv_heads, (long long)p->head_dim,
                ra_dtype_name(o->q_dtype), p->pattern, ra_order_name(o->order), ra_transport_name(o->transport),
                o->ranks, rank, (long long)info.peak_bytes, (long long)most, (long long)(info.peak_bytes - most));
        sent += info.bytes_sent;
        received += info.bytes_received;
    }
    REQUIRE(sent == received, "%lld bytes sent, %lld received", (long long)sent, (long long)received);
    ra_ring_plan_free(plan);
}

/* Both transports that copy, and all dtypes. */
static void require_laws(const ra_problem *p, int ranks, ra_order order)
{
    const ra_ring_options rings[] = {
        stored_ring(ranks, RA_TRANSPORT_SIM, order, RA_F32), stored_ring(ranks, RA_TRANSPORT_SIM, order, RA_BF16),
        stored_ring(ranks, RA_TRANSPORT_MPI, order, RA_F32), stored_ring(ranks, RA_TRANSPORT_MPI, order, RA_F16)};
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++)
        require_law(p, &rings[i]);
}

static void require_laws_of_shapes(const char *pattern, ra_order order)
{
    const ra_problem problems[] = {problem_of(65536, 8, 8, 64, pattern), problem_of(65536, 8, 8, 16, pattern),
                                   problem_of(65536, 8, 8, 128, pattern), problem_of(65536, 8, 2, 64, pattern)};
    const ra_problem small = problem_of(1000, 8, 8, 64, pattern), large = problem_of(1 << 20, 8, 8, 64, pattern);
    for (int ranks = 1; ranks <= 16; ranks += stride(1))
        require_laws(&small, ranks, order);
    for (int ranks = 2; ranks <= 64; ranks *= 2 * stride(1)) {
        for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
            require_laws(&problems[i], ranks, order);
        ra_ring_options sim = stored_ring(ranks, RA_TRANSPORT_SIM, order, RA_F32);
        ra_ring_options mpi = stored_ring(ranks, RA_TRANSPORT_MPI, order, RA_BF16);
        require_law(&large, &sim);
        require_law(&large, &mpi);
    }
}

static void full_rings_hold_little(void **state)
{
    (void)state;
    for (int order = 0; order < ORDERS; order++)
        require_laws_of_shapes("full", (ra_order)order);
}

static void causal_contiguous_rings_hold_little(void **state)
{
    (void)state;
    require_laws_of_shapes("causal", RA_ORDER_CONTIGUOUS);
}

static void causal_striped_rings_hold_little(void **state)
{
    (void)state;
    require_laws_of_shapes("causal", RA_ORDER_STRIPED);
}

static void causal_zigzag_rings_hold_little(void **state)
{
    (void)state;
    require_laws_of_shapes("causal", RA_ORDER_ZIGZAG);
}

/* Rows that are given away while two chunks are here: windows to the right, and documents over several ranks. */
static void rings_that_give_late_hold_little(void **state)
{
    (void)state;
    for (int ranks = 3; ranks <= 8; ranks += 2 * stride(1)) {
        const int64_t length = 1 << 17, chunk = length / ranks;
        const int64_t right[] = {1, chunk / 2, chunk, chunk + chunk / 3, 2 * chunk};
        for (size_t i = 0; i < sizeof right / sizeof *right; i++)
            for (int left = 0; left < 3; left += 2)
                for (int order = 0; order < ORDERS; order++) {
                    char pattern[64];
                    snprintf(pattern, sizeof pattern, "window:%lld,%lld", (long long)(left * chunk),
                             (long long)right[i]);
                    const ra_problem p = problem_of(length, 8, 8, i % 2 ? 16 : 64, pattern);
                    ra_ring_options o = stored_ring(ranks, RA_TRANSPORT_MPI, (ra_order)order, RA_F32);
                    require_law(&p, &o);
                }
        char documents[96];
        snprintf(documents, sizeof documents, "documents:%lld,%lld,%lld", (long long)(chunk / 64 * 64),
                 (long long)(chunk / 64 * 64 - 1), (long long)(length - 2 * (chunk / 64 * 64) + 1));
        const ra_problem two = problem_of(length, 8, 8, 64, documents);
        require_laws(&two, ranks, RA_ORDER_CONTIGUOUS);
    }
}

/* Whether some rank gives rows away late to save room for them. */
static bool is_spared(const ra_ring_plan *plan)
{
    bool spared = false;
    for (int rank = 0; rank < plan->count; rank++)
        spared |= plan->ranks[rank].sparing;
    return spared;
}

/* A budget that the plan would exceed is kept where that costs no more than waiting. */
static void a_budget_is_reason_to_spare_memory(void **state)
{
    (void)state;
    const ra_problem p = problem_of(8192, 8, 8, 64, "window:0,5000");
    ra_ring_options o = stored_ring(4, RA_TRANSPORT_MPI, RA_ORDER_CONTIGUOUS, RA_F32);
    ra_ring_plan *plan = planned(&p, &o);
    int64_t plain = ra_ring_plan_process_bytes(plan), chunk = 2 * 2048 * 8 * 64 * (int64_t)sizeof(float);
    assert_false(is_spared(plan));
    ra_ring_plan_free(plan);
    o.memory = plain;
    plan = planned(&p, &o);
    assert_false(is_spared(plan));
    ra_ring_plan_free(plan);
    o.memory = plain - 1;
    plan = planned(&p, &o);
    assert_true(is_spared(plan));
    REQUIRE(ra_ring_plan_process_bytes(plan) <= plain - chunk / 2, "%lld bytes instead of %lld",
            (long long)ra_ring_plan_process_bytes(plan), (long long)plain);
    o.memory = ra_ring_plan_process_bytes(plan);
    ra_ring_plan_free(plan);
    ra_options run = RA_OPTIONS_INIT;
    int smallest;
    run.threads = 2;
    assert_int_equal(ra_ring_smallest(&p, &run, &o, &smallest), RA_OK);
    assert_int_equal(smallest, 4);
    o.memory--;
    assert_int_equal(ra_ring_plan_create(&p, &run, &o, &plan), RA_ERROR_BUDGET);
}

/* What the largest process holds, without what grows with the number of ranks that tell each other something. */
static int64_t bytes_without_words(const ra_ring_plan *plan)
{
    return ra_ring_plan_process_bytes(plan) - ra_pass_memory(&plan->passes[0], 0, &plan->ranks[0]).plan;
}

/*
 * However many ranks have no rows, others hold no more than one chunk beside their two: what they give to the rank
 * after the gap.
 */
static void more_ranks_than_blocks_hold_no_more(void **state)
{
    (void)state;
    const ra_problem p = problem_of(1024, 8, 8, 64, "full");
    for (int order = 0; order < ORDERS; order++) {
        ra_ring_options o = stored_ring(16, RA_TRANSPORT_MPI, (ra_order)order, RA_F32);
        ra_ring_plan *plan = planned(&p, &o);
        int64_t chunk = 64 * 8 * 64 * 2 * (int64_t)sizeof(float), most = bytes_without_words(plan) + chunk;
        ra_ring_plan_free(plan);
        for (o.ranks = 17; o.ranks <= 64; o.ranks++) {
            plan = planned(&p, &o);
            int64_t bytes = bytes_without_words(plan);
            REQUIRE(bytes <= most + most / 50, "16 blocks, %s: %lld bytes with 16 ranks, %lld with %d",
                    ra_order_name((ra_order)order), (long long)most, (long long)bytes, o.ranks);
            ra_ring_plan_free(plan);
        }
    }
}

/* The mean over ranks of what does not have a fixed size. */
static double mean_growing_bytes(const ra_ring_plan *plan)
{
    double sum = 0;
    for (int rank = 0; rank < plan->options.ranks; rank++) {
        ra_rank_memory m = ra_pass_memory(&plan->passes[0], rank, &plan->ranks[rank]);
        assert_true(m.total == rank_info(plan, rank).peak_bytes);
        assert_true(m.total == m.query + m.slots + m.marks + m.known + m.segments + m.states + m.scratch + m.output +
                                   m.tables + m.storage + m.plan);
        sum += (double)(m.total - m.scratch - m.output - m.storage - m.tables - m.plan);
    }
    return sum / plan->options.ranks;
}

/* The slope of the line through log(bytes) over log(ranks). */
static double slope_of(const ra_problem *problem, ra_transport_kind transport, ra_order order, ra_dtype dtype)
{
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (int ranks = 2; ranks <= 64; ranks *= 2) {
        ra_ring_options o = stored_ring(ranks, transport, order, dtype);
        ra_ring_plan *plan = planned(problem, &o);
        double lx = log(ranks), ly = log(mean_growing_bytes(plan));
        n += 1, x += lx, y += ly, xx += lx * lx, xy += lx * ly;
        ra_ring_plan_free(plan);
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

static void twice_the_ranks_hold_half_each(void **state)
{
    (void)state;
    static const int64_t lengths[] = {65536, 1 << 20};
    for (int i = 0; i < 2; i++)
        for (int order = 0; order < ORDERS; order++)
            for (int dtype = RA_F32; dtype <= (i ? RA_F32 : RA_F16); dtype++)
                for (int transport = RA_TRANSPORT_SIM; transport <= (i ? RA_TRANSPORT_SIM : RA_TRANSPORT_MPI);
                     transport += 2) {
                    ra_problem p = problem_of(lengths[i], 8, 8, 64, "full");
                    double slope = slope_of(&p, (ra_transport_kind)transport, (ra_order)order, (ra_dtype)dtype);
                    REQUIRE(fabs(slope + 1) <= 0.02, "%lld rows, %s, %s, %s: slope %.4f", (long long)lengths[i],
                            ra_order_name((ra_order)order), ra_dtype_name((ra_dtype)dtype),
                            ra_transport_name((ra_transport_kind)transport), slope);
                }
}

/* Tensors that are lent are not held; a rank of the simulation may read all keys, another its own. */
static void lent_tensors_are_counted_apart(void **state)
{
    (void)state;
    const ra_problem p = problem_of(4096, 8, 8, 64, "full");
    for (int transport = RA_TRANSPORT_SIM; transport <= RA_TRANSPORT_MPI; transport++) {
        ra_ring_options o = stored_ring(4, (ra_transport_kind)transport, RA_ORDER_CONTIGUOUS, RA_F32);
        ra_ring_plan *stored = planned(&p, &o);
        o.lent = 1;
        ra_ring_plan *lent = planned(&p, &o);
        int64_t row = (int64_t)8 * 64 * 4, keys = transport == RA_TRANSPORT_SIM ? 4096 : 1024;
        int64_t peaks[2] = {0, 0};
        for (int rank = 0; rank < 4; rank++) {
            assert_true(rank_info(stored, rank).lent_bytes == 0);
            assert_true(rank_info(lent, rank).lent_bytes == 2 * 1024 * row + 2 * keys * row);
            assert_true(rank_info(lent, rank).peak_bytes + 1024 * row <= rank_info(stored, rank).peak_bytes);
            assert_true(rank_info(lent, rank).q_rows == 1024 && rank_info(lent, rank).kv_rows == 1024);
            peaks[0] += rank_info(stored, rank).peak_bytes;
            peaks[1] = rank_info(stored, rank).peak_bytes > peaks[1] ? rank_info(stored, rank).peak_bytes : peaks[1];
        }
        peaks[0] -= 3 * ra_ring_plan_bytes(stored); /* threads share one plan */
        assert_true(ra_ring_plan_process_bytes(stored) == peaks[transport != RA_TRANSPORT_THREADS]);
        ra_ring_plan_free(stored);
        ra_ring_plan_free(lent);
    }
}

/* A rank of few segments holds its own rows, and little of others'. */
static void sparse_rings_hold_little(void **state)
{
    (void)state;
    static const char *const patterns[] = {"dilated:2048/1,4096/2", "blocks:64:local=2+causal",
                                           "dilated:4096/4:mode=grouped+causal"};
    for (int i = 0; i < 3; i++)
        for (int ranks = 2; ranks <= 32; ranks *= 4) {
            const ra_problem p = problem_of(32768, 8, 2, 64, patterns[i]);
            require_laws(&p, ranks, (ra_order)i);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_rings_hold_little),
        cmocka_unit_test(causal_contiguous_rings_hold_little),
        cmocka_unit_test(causal_striped_rings_hold_little),
        cmocka_unit_test(causal_zigzag_rings_hold_little),
        cmocka_unit_test(rings_that_give_late_hold_little),
        cmocka_unit_test(a_budget_is_reason_to_spare_memory),
        cmocka_unit_test(more_ranks_than_blocks_hold_no_more),
        cmocka_unit_test(twice_the_ranks_hold_half_each),
        cmocka_unit_test(lent_tensors_are_counted_apart),
        cmocka_unit_test(sparse_rings_hold_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
