/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets over ranks: what meets them, what is refused, and the smallest ring that would do. */
#include "ring/rank_bytes.h"
#include "support/planned.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS = 3 };

enum { MOST_TRIED = 20 };

/* What a process holds with 1, 2, ... ranks at least. */
static void list_needs(const ra_problem *p, const ra_ring_options *ring, int64_t *needs)
{
    for (int ranks = 1; ranks <= MOST_TRIED; ranks++) {
        ra_ring_options o = *ring;
        o.ranks = ranks, o.memory = 0;
        ra_ring_plan *plan = planned(p, &o);
        for (int rank = 0; rank < ranks; rank++) {
            plan->ranks[rank].sparing = o.strategy == RA_STRATEGY_RING;
            plan->ranks[rank].info.peak_bytes = ra_pass_memory(&plan->passes[0], rank, &plan->ranks[rank]).total;
        }
        needs[ranks] = ra_ring_plan_process_bytes(plan);
        ra_ring_plan_free(plan);
    }
}

/* The refusal of a ring that is too small, and the advice that it gives. */
static void require_refusal(const ra_problem *p, const ra_ring_options *o, const int64_t *needs, int expected)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_ring_plan *plan = (ra_ring_plan *)&options; /* must become NULL */
    char message[256], allowed[RA_BYTES_TEXT], holds[RA_BYTES_TEXT], more[RA_BYTES_TEXT];
    options.threads = 2;
    assert_int_equal(ra_ring_plan_create(p, &options, o, &plan), RA_ERROR_BUDGET);
    assert_null(plan);
    snprintf(message, sizeof message,
             "memory %s: a ring of %d needs %s in a process, %s too much; the smallest ring that fits is %d",
             ra_bytes_text(o->memory, allowed), o->ranks, ra_bytes_text(needs[o->ranks], holds),
             ra_bytes_text(needs[o->ranks] - o->memory, more), expected);
    assert_string_equal(ra_last_message(), message);
}

/* For a budget that `ranks` ranks just meet: the smallest ring is the first that meets it. */
static void require_smallest(const ra_problem *p, const ra_ring_options *ring, const int64_t *needs, int64_t memory)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_ring_options o = *ring;
    int expected = 1, found = -1;
    options.threads = 2;
    o.memory = memory;
    o.ranks = 1;
    while (needs[expected] > memory)
        expected++;
    REQUIRE(!ra_ring_smallest(p, &options, &o, &found), "%s", ra_last_message());
    REQUIRE(found == expected,
            "%lld rows, \"%s\", %s, %s, %s, %lld bytes: smallest ring %d instead of %d, which needs %lld",
            (long long)p->q_len, p->pattern, ra_strategy_name(o.strategy), ra_order_name(o.order),
            ra_transport_name(o.transport), (long long)memory, found, expected, (long long)needs[expected]);
    if (expected > 2)
        require_refusal(p, &o, needs, expected);
    o.ranks = expected - 1;
    if (expected > 1)
        require_refusal(p, &o, needs, expected);
    o.ranks = expected;
    ra_ring_plan_free(planned(p, &o));
}

static void require_all_budgets(const ra_problem *p, const ra_ring_options *ring)
{
    int64_t needs[MOST_TRIED + 1];
    list_needs(p, ring, needs);
    for (int ranks = 1; ranks <= MOST_TRIED; ranks += ranks < 10 ? 1 : 10) {
        require_smallest(p, ring, needs, needs[ranks]);
        if (ranks > 1 && needs[ranks - 1] > needs[ranks])
            require_smallest(p, ring, needs, needs[ranks - 1] - 1);
    }
}

static void budgets_name_the_smallest_ring(void **state)
{
    (void)state;
    const ra_problem p = problem_of(10007, 4, 4, 64, "full");
    for (int order = 0; order < ORDERS; order++)
        for (int transport = RA_TRANSPORT_SIM; transport <= RA_TRANSPORT_MPI; transport += 2) {
            ra_ring_options o = stored_ring(1, (ra_transport_kind)transport, (ra_order)order, RA_F32);
            require_all_budgets(&p, &o);
        }
}

static void budgets_of_causal_rings(void **state)
{
    (void)state;
    const ra_problem p = problem_of(10007, 4, 4, 64, "causal");
    for (int order = 0; order < ORDERS; order++) {
        ra_ring_options o = stored_ring(1, RA_TRANSPORT_MPI, (ra_order)order, RA_F32);
        require_all_budgets(&p, &o);
    }
}

static void budgets_of_windows(void **state)
{
    (void)state;
    const ra_problem p = problem_of(10007, 4, 4, 64, "window:300,300");
    for (int order = 0; order < ORDERS; order++) {
        ra_ring_options o = stored_ring(1, RA_TRANSPORT_MPI, (ra_order)order, RA_F32);
        require_all_budgets(&p, &o);
    }
}

/* Heads with rows of their own, and rows here and there. */
static void budgets_of_sparse_rings(void **state)
{
    (void)state;
    static const char *const patterns[] = {"dilated:300/1,2000/4", "causal+dilated:500/2,4000/3:mode=union",
                                           "blocks:64:local=1:random=2", "blocks:50:global=1:stride=9+causal"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const ra_problem p = problem_of(4000, 4, 2, 64, patterns[i]);
        ra_ring_options o = stored_ring(1, i % 2 ? RA_TRANSPORT_SIM : RA_TRANSPORT_MPI, (ra_order)(i % ORDERS), RA_F32);
        require_all_budgets(&p, &o);
    }
}

static void budgets_of_other_strategies(void **state)
{
    (void)state;
    const ra_problem p = problem_of(4000, 4, 4, 64, "full");
    for (int strategy = RA_STRATEGY_ALLGATHER; strategy <= RA_STRATEGY_BROADCAST; strategy++) {
        ra_ring_options o = stored_ring(1, RA_TRANSPORT_MPI, RA_ORDER_CONTIGUOUS, RA_F32);
        o.strategy = (ra_strategy)strategy;
        require_all_budgets(&p, &o);
    }
}

static void budgets_of_threads(void **state)
{
    (void)state;
    const ra_problem p = problem_of(4000, 4, 4, 64, "full");
    ra_ring_options o = stored_ring(1, RA_TRANSPORT_THREADS, RA_ORDER_CONTIGUOUS, RA_F32);
    require_all_budgets(&p, &o);
}

/* Threads hold their parts at the same time, and one plan together. */
static void threads_share_their_plan(void **state)
{
    (void)state;
    enum { RANKS = 5 };
    const ra_problem p = problem_of(4000, 4, 4, 64, "full");
    ra_ring_options o = stored_ring(RANKS, RA_TRANSPORT_THREADS, RA_ORDER_CONTIGUOUS, RA_F32);
    ra_ring_plan *plan = planned(&p, &o);
    int64_t bytes = -(RANKS - 1) * ra_ring_plan_bytes(plan);
    for (int rank = 0; rank < RANKS; rank++)
        bytes += plan->ranks[rank].info.peak_bytes;
    assert_int_equal(ra_ring_plan_process_bytes(plan), bytes);
    ra_ring_plan_free(plan);
}

static void a_budget_that_nothing_meets(void **state)
{
    (void)state;
    const ra_problem p = problem_of(200, 1, 1, 8, "full");
    ra_ring_options o = stored_ring(3, RA_TRANSPORT_MPI, RA_ORDER_CONTIGUOUS, RA_F32);
    ra_ring_plan *plan = planned(&p, &o);
    int64_t need = ra_ring_plan_process_bytes(plan);
    ra_ring_plan_free(plan);
    ra_options options = RA_OPTIONS_INIT;
    char message[256], holds[RA_BYTES_TEXT], more[RA_BYTES_TEXT];
    int ranks = -1, least_ranks = 0;
    long long least = 0;
    options.threads = 2;
    o.memory = 1000;
    assert_int_equal(ra_ring_plan_create(&p, &options, &o, &plan), RA_ERROR_BUDGET);
    snprintf(message, sizeof message, "memory 1000 bytes: a ring of 3 needs %s in a process, %s too much; ",
             ra_bytes_text(need, holds), ra_bytes_text(need - 1000, more));
    assert_int_equal(strncmp(ra_last_message(), message, strlen(message)), 0);
    assert_int_equal(sscanf(ra_last_message() + strlen(message),
                            "the least that this can be run with is %*g %*s (%lld bytes), in a ring of %d", &least,
                            &least_ranks),
                     2);
    assert_int_equal(ra_ring_smallest(&p, &options, &o, &ranks), RA_OK);
    assert_int_equal(ranks, 0);
    /* With that much it can be run, with a byte less not. */
    o.memory = least;
    o.ranks = least_ranks;
    assert_int_equal(ra_ring_plan_create(&p, &options, &o, &plan), RA_OK);
    ra_ring_plan_free(plan);
    o.memory = least - 1;
    assert_int_equal(ra_ring_smallest(&p, &options, &o, &ranks), RA_OK);
    assert_int_equal(ranks, 0);
}

/* No limit is met by everything. */
static void no_budget_is_met_by_one_rank(void **state)
{
    (void)state;
    const ra_problem p = problem_of(200, 1, 1, 8, "full");
    ra_ring_options o = stored_ring(3, RA_TRANSPORT_MPI, RA_ORDER_CONTIGUOUS, RA_F32);
    int ranks = -1;
    assert_int_equal(ra_ring_smallest(&p, NULL, &o, &ranks), RA_OK);
    assert_int_equal(ranks, 1);
}

/* With pieces of the caller's own there are only so many ranks; nothing is said about other numbers. */
static void a_budget_with_pieces(void **state)
{
    (void)state;
    const ra_problem p = problem_of(200, 1, 1, 8, "full");
    const ra_piece pieces[] = {{0, 50, 2}, {50, 200, 0}};
    ra_ring_options o = stored_ring(3, RA_TRANSPORT_MPI, RA_ORDER_CONTIGUOUS, RA_F32);
    ra_ring_plan *plan;
    o.kv_pieces = pieces, o.kv_piece_count = 2;
    o.memory = 1000;
    assert_int_equal(ra_ring_plan_create(&p, NULL, &o, &plan), RA_ERROR_BUDGET);
    assert_non_null(strstr(ra_last_message(), "memory 1000 bytes: a ring of 3 needs "));
    assert_null(strstr(ra_last_message(), "the least that this can be run with"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_name_the_smallest_ring),
        cmocka_unit_test(budgets_of_causal_rings),
        cmocka_unit_test(budgets_of_windows),
        cmocka_unit_test(budgets_of_sparse_rings),
        cmocka_unit_test(budgets_of_other_strategies),
        cmocka_unit_test(budgets_of_threads),
        cmocka_unit_test(threads_share_their_plan),
        cmocka_unit_test(a_budget_that_nothing_meets),
        cmocka_unit_test(no_budget_is_met_by_one_rank),
        cmocka_unit_test(a_budget_with_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
