/* SPDX-License-Identifier: Apache-2.0 */
/* Which way to run a problem is taken, and what is said of the others: from made-up figures. */
#include "advice_print.h"
#include "support/unit.h"

#include <stdlib.h>

enum { MEMORY = 1000 };

/* A ring of four that takes so long, all of it in tiles. */
static advice_choice ring_of(ra_strategy strategy, double seconds, int64_t bytes)
{
    return (advice_choice){
        .strategy = strategy,
        .ranks = 4,
        .bytes = bytes,
        .work = {.ranks = 4, .all = {.pairs = 100, .rows = 10, .keys = 50}, .busiest = {.pairs = 25}},
        .time = {.seconds = seconds, .tiles = seconds}};
}

static void the_fastest_that_fits(void **state)
{
    (void)state;
    const advice_choice choices[] = {ring_of(RA_STRATEGY_RING, 3, 900), ring_of(RA_STRATEGY_BROADCAST, 2, MEMORY),
                                     ring_of(RA_STRATEGY_ALLGATHER, 1, MEMORY + 1)};
    assert_int_equal(advice_best(choices, 3, MEMORY), 1);
    assert_int_equal(advice_best(choices, 3, MEMORY + 1), 2);
    assert_int_equal(advice_best(choices, 3, 900), 0);
    assert_int_equal(advice_best(choices, 3, 899), -1);
    assert_int_equal(advice_best(choices, 0, MEMORY), -1);
}

/* Of those that a prediction cannot tell apart, the first; but only among those that fit. */
static void the_first_of_those_as_fast(void **state)
{
    (void)state;
    const advice_choice choices[] = {ring_of(RA_STRATEGY_RING, 1.03, 500), ring_of(RA_STRATEGY_RING, 1.01, MEMORY + 1),
                                     ring_of(RA_STRATEGY_RING, 1.015, 500), ring_of(RA_STRATEGY_RING, 1, 500)};
    assert_int_equal(advice_best(choices, 4, MEMORY), 2);
    assert_int_equal(advice_best(choices, 4, MEMORY + 1), 1);
}

static void the_smallest_over_ranks(void **state)
{
    (void)state;
    advice_choice choices[] = {ring_of(RA_STRATEGY_RING, 1, 10), ring_of(RA_STRATEGY_RING, 1, 30),
                               ring_of(RA_STRATEGY_RING, 1, 20), ring_of(RA_STRATEGY_RING, 1, 20)};
    choices[0].local = true;
    assert_int_equal(advice_smallest(choices, 4), 2);
}

static const char *reason_of(const advice_choice *lost, const advice_choice *best)
{
    static char reason[ADVICE_REASON];
    advice_reason(lost, best, MEMORY, reason);
    return reason;
}

static void what_does_not_fit(void **state)
{
    (void)state;
    const advice_choice best = ring_of(RA_STRATEGY_RING, 1, 500);
    advice_choice lost = ring_of(RA_STRATEGY_RING, 0.5, MEMORY + 24);
    assert_string_equal(reason_of(&lost, &best), "needs 24 bytes more than --memory allows");
    lost.strategy = RA_STRATEGY_ALLGATHER;
    assert_string_equal(reason_of(&lost, &best),
                        "needs 24 bytes more than --memory allows: every rank holds all keys and values");
}

/* The part that makes most of the difference is named, with its figures. */
static void what_costs_most(void **state)
{
    (void)state;
    const advice_choice best = ring_of(RA_STRATEGY_RING, 1, 500);
    advice_choice lost = ring_of(RA_STRATEGY_RING, 1.5, 500);

    lost.time = (model_prediction){1.5, 1, 0.3, 0.1, 0.1};
    lost.work.busiest.pairs = 43.75;
    assert_string_equal(reason_of(&lost, &best), "50% slower: its busiest rank has 1.75 times the mean work");

    lost.time = (model_prediction){1.5, 1, 0.1, 0.1, 0.3};
    lost.work.all.bytes = 2e9;
    assert_string_equal(reason_of(&lost, &best), "50% slower: copying 1.863 GiB takes 0.3 s");

    lost.time = (model_prediction){1.5, 1, 0.1, 0.3, 0.1};
    lost.work.all.regions = 64;
    assert_string_equal(reason_of(&lost, &best), "50% slower: beginning and ending 64 steps takes 0.3 s");

    lost.time = (model_prediction){1.5, 1.5, 0, 0, 0};
    lost.work.all.pairs = 150;
    assert_string_equal(reason_of(&lost, &best), "50% slower: with masked lanes it works on 1.50 times as many pairs");

    lost.work.passes = 2;
    assert_string_equal(reason_of(&lost, &best),
                        "50% slower: it goes twice through all pairs, with seven products of each instead of five");

    lost.work.passes = 0;
    lost.work.all.pairs = 100;
    lost.work.all.kept = 35;
    lost.work.all.regions = 18;
    assert_string_equal(reason_of(&lost, &best), "50% slower: its rows are taken up again at each of 3.5 steps");

    lost.work.all.kept = 0;
    lost.work.all.keys = 150;
    assert_string_equal(reason_of(&lost, &best), "50% slower: its tasks pack 3.00 times as many keys");
}

static void what_is_as_fast(void **state)
{
    (void)state;
    const advice_choice best = ring_of(RA_STRATEGY_RING, 1, 500);
    advice_choice lost = ring_of(RA_STRATEGY_BROADCAST, 1.004, 512);
    assert_string_equal(reason_of(&lost, &best), "no faster (+0.4%), and holds 12 bytes more");
    lost.bytes = 500;
    lost.time.seconds = 0.99;
    assert_string_equal(reason_of(&lost, &best), "no faster than what is simpler (-1.0%)");
}

/* ---- What to type ------------------------------------------------------------------------------------------------ */

static void command_is(const advice *a, const char *expected)
{
    char *command = advice_command(a);
    assert_non_null(command);
    assert_string_equal(command, expected);
    free(command);
}

#define ATTEND "ringattn attend --query q.npy --key k.npy --value v.npy --output o.npy --pattern "

static void the_command(void **state)
{
    (void)state;
    advice a = {.problem = RA_PROBLEM_INIT, .options = RA_OPTIONS_INIT, .ring = RA_RING_OPTIONS_INIT, .count = 1};
    a.problem.pattern = "causal+window:5,0";
    a.ring.memory = MEMORY;
    a.choices[0] = ring_of(RA_STRATEGY_BROADCAST, 1, 500);
    a.choices[0].order = RA_ORDER_ZIGZAG;
    a.choices[0].work.threads = 3;
    command_is(&a,
               ATTEND "causal+window:5,0 --ring 4 --strategy broadcast --order zigzag --transport sim --memory 1000");
    a.options.threads = 2;
    a.options.kernel = RA_KERNEL_GENERIC;
    command_is(&a, ATTEND "causal+window:5,0 --ring 4 --strategy broadcast --order zigzag --transport sim --memory 1000"
                          " --threads 2 --kernel generic");
    a.choices[0].local = true;
    command_is(&a, ATTEND "causal+window:5,0 --threads 2 --kernel generic");
}

/* Gradients are computed from the results of a forward pass. */
static void the_command_of_gradients(void **state)
{
    (void)state;
    advice a = {.problem = RA_PROBLEM_INIT, .options = RA_OPTIONS_INIT, .ring = RA_RING_OPTIONS_INIT, .count = 1};
    a.problem.pattern = "causal";
    a.ring.memory = MEMORY;
    a.ring.backward = 1;
    a.choices[0] = ring_of(RA_STRATEGY_RING, 1, 500);
    command_is(&a, "ringattn gradient --query q.npy --key k.npy --value v.npy --output o.npy --lse lse.npy"
                   " --output-gradient do.npy --query-gradient dq.npy --key-gradient dk.npy --value-gradient dv.npy"
                   " --pattern causal --ring 4 --strategy ring --order contiguous --transport sim --memory 1000");
}

/* Processes elsewhere may have other defaults; a shell must not take a pattern apart. */
static void the_command_of_processes(void **state)
{
    (void)state;
    advice a = {.problem = RA_PROBLEM_INIT, .options = RA_OPTIONS_INIT, .ring = RA_RING_OPTIONS_INIT, .count = 1};
    a.problem.pattern = "documents:@my file's.npy";
    a.ring.memory = MEMORY;
    a.ring.transport = RA_TRANSPORT_MPI;
    a.choices[0] = ring_of(RA_STRATEGY_RING, 1, 500);
    a.choices[0].work.threads = 3;
    command_is(&a, "mpirun -n 4 " ATTEND "'documents:@my file'\\''s.npy' --strategy ring --order contiguous"
                   " --transport mpi --memory 1000 --threads 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_that_fits),
        cmocka_unit_test(the_first_of_those_as_fast),
        cmocka_unit_test(the_smallest_over_ranks),
        cmocka_unit_test(what_does_not_fit),
        cmocka_unit_test(what_costs_most),
        cmocka_unit_test(what_is_as_fast),
        cmocka_unit_test(the_command),
        cmocka_unit_test(the_command_of_gradients),
        cmocka_unit_test(the_command_of_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
