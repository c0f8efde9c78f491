/* SPDX-License-Identifier: Apache-2.0 */
/* The machine model: what is read from plans, and what that takes at made-up costs. Nothing is timed. */
#include "bench/model.h"
#include "support/unit.h"

#include <math.h>

static const machine_model MADE_UP = {
    .pair = {[MODEL_PLAIN] = 2, [MODEL_DILATED] = 3, [MODEL_BLOCKS] = 5, [MODEL_DECODE] = 7},
    .row = 100,
    .key = 10,
    .member = 11,
    .apart = 4,
    .cut = 20,
    .region = 1000,
    .byte = 0.5,
    .threads = 2,
};

static void near(double value, double expected)
{
    REQUIRE(fabs(value - expected) <= 1e-9 * fabs(expected), "%.17g instead of %.17g", value, expected);
}

static ra_problem problem_of(int64_t length, const char *pattern)
{
    ra_problem p = RA_PROBLEM_INIT;
    p.q_len = length;
    p.heads = 4;
    p.kv_heads = 2;
    p.head_dim = 16;
    p.value_dim = 8;
    p.pattern = pattern;
    return p;
}

/* ---- Costs ------------------------------------------------------------------------------------------------------- */

static void threads_share_what_there_is(void **state)
{
    (void)state;
    const model_load load = {.pairs = 60, .rows = 3, .keys = 8, .kept = 2, .regions = 1};
    model_work work = {.kind = MODEL_PLAIN, .ranks = 1, .threads = 2, .cores = 2, .all = load, .busiest = load};
    model_prediction p = model_time(&MADE_UP, &work);
    near(p.tiles, (60 * 2 + 3 * 100 + 8 * 10 + 2 * 100) / 2.0);
    near(p.seconds, p.tiles + 1000);
    work.kind = MODEL_BLOCKS;
    near(model_time(&MADE_UP, &work).tiles, p.tiles + 60 * (5 - 2) / 2.0);
}

/* One after the other: everything of all of them. */
static void virtual_ranks_add_up(void **state)
{
    (void)state;
    const model_work work = {.kind = MODEL_DILATED,
                             .ranks = 4,
                             .threads = 2,
                             .cores = 2,
                             .all = {.pairs = 80, .members = 5, .apart = 30, .cut = 6, .regions = 16, .bytes = 100},
                             .busiest = {.pairs = 50, .regions = 4, .bytes = 70}};
    model_prediction p = model_time(&MADE_UP, &work);
    near(p.tiles, (80 * 3 + 5 * 11 + 30 * 4 + 6 * 20) / 2.0);
    near(p.idle, 0);
    near(p.regions, 16 * 1000);
    near(p.bytes, 50);
    near(p.seconds, p.tiles + p.regions + p.bytes);
}

/* At the same time: all wait for the busiest. */
static void ranks_wait_for_the_busiest(void **state)
{
    (void)state;
    model_work work = {.kind = MODEL_PLAIN,
                       .ranks = 4,
                       .threads = 1,
                       .cores = 4,
                       .together = true,
                       .all = {.pairs = 80, .regions = 16, .bytes = 100},
                       .busiest = {.pairs = 35, .regions = 4, .bytes = 70}};
    model_prediction p = model_time(&MADE_UP, &work);
    near(p.tiles, 80 * 2 / 4.0);
    near(p.idle, 35 * 2 - 80 * 2 / 4.0);
    near(p.regions, 4 * 1000);
    near(p.bytes, 35);
    near(p.seconds, 35 * 2 + 4 * 1000 + 35);

    work.cores = 2; /* for four ranks: the mean takes longer than the busiest alone */
    p = model_time(&MADE_UP, &work);
    near(p.tiles, 80 * 2 / 2.0);
    near(p.idle, 0);
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

static model_work work_of_direction(const ra_problem *problem, const ra_ring_options *ring, bool backward)
{
    ra_options options = RA_OPTIONS_INIT;
    model_work work;
    options.threads = 1;
    options.kernel = RA_KERNEL_GENERIC;
    if (ring) {
        ra_ring_plan *plan = NULL;
        assert_int_equal(ra_ring_plan_create(problem, &options, ring, &plan), RA_OK);
        assert_int_equal(model_work_of_ring(problem, &options, ring, plan, &work), RA_OK);
        ra_ring_plan_free(plan);
    } else {
        ra_plan *plan = NULL;
        assert_int_equal(ra_plan_create(problem, &options, &plan), RA_OK);
        assert_int_equal(model_work_of_plan(problem, plan, backward, &work), RA_OK);
        ra_plan_free(plan);
    }
    return work;
}

static model_work work_of(const ra_problem *problem, const ra_ring_options *ring)
{
    return work_of_direction(problem, ring, false);
}

static void work_is_read_from_the_plan(void **state)
{
    (void)state;
    ra_problem problem = problem_of(512, "full");
    model_work work = work_of(&problem, NULL);
    near(work.all.pairs, 4.0 * 512 * 512 * 24);
    near(work.all.rows, 4.0 * 512 * 24);
    near(work.all.regions, 1);
    near(work.busiest.pairs, work.all.pairs);
    assert_int_equal(work.kind, MODEL_PLAIN);

    problem = problem_of(512, "causal");
    work = work_of(&problem, NULL);
    assert_true(work.all.pairs > 4.0 * 512 * 513 / 2 * 24 && work.all.pairs < 1.05 * 4 * 512 * 513 / 2 * 24);
}

/* Every task of a full pattern packs all keys; one of a window those beside its rows; never more than there are. */
static void keys_that_tasks_pack(void **state)
{
    (void)state;
    ra_options options = RA_OPTIONS_INIT;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_plan *plan = NULL;
    ra_problem problem = problem_of(4096, "full");
    options.threads = 1;
    options.kernel = RA_KERNEL_GENERIC;
    assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_OK);
    assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
    ra_plan_free(plan);
    const double tasks = 4096.0 / (double)info.query_tile, each = 4 * 24;
    near(work_of(&problem, NULL).all.keys, tasks * 4096 * each);
    problem.pattern = "window:99,100";
    double banded = work_of(&problem, NULL).all.keys / (tasks * each);
    REQUIRE(fabs(banded - (200 + (double)info.query_tile)) < 5, "%g keys a task", banded);

    /* Striped rows are ranks apart, and see as much more beside them. */
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = 4;
    double together = work_of(&problem, &ring).all.keys;
    ring.order = RA_ORDER_STRIPED;
    model_work work = work_of(&problem, &ring);
    assert_true(work.all.keys > 1.5 * together);
    near(work.all.apart, 0);
    near(work.all.cut, 0);
}

/* Stripes leave few members of a branch side by side: of queries, and of the keys that come round. */
static void stripes_of_gaps(void **state)
{
    (void)state;
    ra_problem problem = problem_of(4096, "dilated:512/1,1024/2");
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = 4;
    ring.lent = 1;
    near(work_of(&problem, &ring).all.apart, 0);
    ring.order = RA_ORDER_STRIPED;
    model_work work = work_of(&problem, &ring);
    near(work.all.members, 1.5 * work.all.rows);
    near(work.all.apart, work.all.pairs);
    near(work.all.cut, work.all.keys);
    ring.strategy = RA_STRATEGY_ALLGATHER;
    work = work_of(&problem, &ring);
    near(work.all.apart, work.all.pairs);
    near(work.all.cut, 0);
}

static void kinds_of_tiles(void **state)
{
    (void)state;
    ra_problem problem = problem_of(512, "causal+dilated:128/1,256/2");
    assert_int_equal(work_of(&problem, NULL).kind, MODEL_DILATED);
    problem.pattern = "blocks:64:local=1";
    assert_int_equal(work_of(&problem, NULL).kind, MODEL_BLOCKS);
    problem.pattern = NULL;
    assert_int_equal(work_of(&problem, NULL).kind, MODEL_PLAIN);
    problem.q_len = 1;
    problem.kv_len = 512;
    assert_int_equal(work_of(&problem, NULL).kind, MODEL_DECODE);
}

/* Causal: the last of contiguous ranks has 7 of 16 parts of the pairs; zigzag ranks have the same. */
static void the_busiest_rank(void **state)
{
    (void)state;
    const ra_problem problem = problem_of(1024, "causal");
    const double whole = work_of(&problem, NULL).all.pairs, rows = 4.0 * 1024 * 24;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = 4;
    ring.transport = RA_TRANSPORT_THREADS;
    model_work work = work_of(&problem, &ring);
    assert_true(work.together && work.ranks == 4 && work.threads == 1);
    near(work.all.pairs, whole);
    near(work.all.rows, rows);
    near(work.all.kept, 0.2 * rows / 4 * (1 + 2 + 3 + 4)); /* a causal rank sees nothing of those after it */
    near(work.all.regions, 1 + 2 + 3 + 4 + 4);
    near(work.busiest.rows, rows / 4);
    REQUIRE(fabs(work.busiest.pairs / whole - 7.0 / 16) < 0.01, "%g of the work", work.busiest.pairs / whole);
    ring.order = RA_ORDER_ZIGZAG;
    work = work_of(&problem, &ring);
    near(work.busiest.pairs, whole / 4);
}

static void bytes_that_are_copied(void **state)
{
    (void)state;
    const ra_problem problem = problem_of(1024, "full");
    const double keys = 1024.0 * 2 * 24 * 4, queries = 1024.0 * 4 * 24 * 4; /* with values, and with outputs */
    const struct {
        ra_transport_kind transport;
        int lent;
        double bytes; /* of all ranks */
    } cases[] = {{RA_TRANSPORT_SIM, 1, 0},
                 {RA_TRANSPORT_SIM, 0, 4 * keys + queries}, /* of others' keys three quarters, and own ones */
                 {RA_TRANSPORT_THREADS, 1, 0},
                 {RA_TRANSPORT_THREADS, 0, keys + queries},
                 {RA_TRANSPORT_MPI, 1, 2 * 3 * keys}, /* in and out */
                 {RA_TRANSPORT_MPI, 0, 7 * keys + queries}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ra_ring_options ring = RA_RING_OPTIONS_INIT;
        ring.ranks = 4;
        ring.transport = cases[i].transport;
        ring.lent = cases[i].lent;
        model_work work = work_of(&problem, &ring);
        REQUIRE(work.all.bytes == cases[i].bytes, "%s, lent %d: %g bytes", ra_transport_name(ring.transport), ring.lent,
                work.all.bytes);
        near(work.busiest.bytes, cases[i].bytes / 4);
    }
}

/* ---- Gradients --------------------------------------------------------------------------------------------------- */

/* Five products of a pair in one piece: three by the head dim, two by the value dim. There is no decoding. */
static void gradients_in_one_piece(void **state)
{
    (void)state;
    ra_problem problem = problem_of(512, "full");
    model_work work = work_of_direction(&problem, NULL, true);
    near(work.all.pairs, 4.0 * 512 * 512 * (3 * 16 + 2 * 8));
    near(work.all.rows, 4.0 * 512 * 24);
    near(work.passes, 1);
    problem.q_len = 1;
    problem.kv_len = 512;
    assert_int_equal(work_of_direction(&problem, NULL, true).kind, MODEL_PLAIN);
}

/* Once through the problem where sums can travel between real ranks, else twice, with seven products. */
static void gradients_over_ranks(void **state)
{
    (void)state;
    const double once = 3 * 16 + 2 * 8, twice = 4 * 16 + 3 * 8;
    const struct {
        ra_strategy strategy;
        ra_transport_kind transport;
        double pair, passes;
    } cases[] = {
        {RA_STRATEGY_RING, RA_TRANSPORT_SIM, once, 1},      {RA_STRATEGY_ALLGATHER, RA_TRANSPORT_SIM, once, 1},
        {RA_STRATEGY_ALLGATHER, RA_TRANSPORT_MPI, once, 1}, {RA_STRATEGY_BROADCAST, RA_TRANSPORT_SIM, twice, 2},
        {RA_STRATEGY_RING, RA_TRANSPORT_THREADS, once, 1},  {RA_STRATEGY_RING, RA_TRANSPORT_MPI, once, 1},
        {RA_STRATEGY_BROADCAST, RA_TRANSPORT_MPI, twice, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int kv_heads = 1; kv_heads <= 4; kv_heads *= 4) { /* keys travel, and queries */
            ra_problem problem = problem_of(1024, "full");
            ra_ring_options ring = RA_RING_OPTIONS_INIT;
            problem.kv_heads = kv_heads;
            ring.backward = 1;
            ring.ranks = 4;
            ring.strategy = cases[i].strategy;
            ring.transport = cases[i].transport;
            model_work work = work_of(&problem, &ring);
            near(work.all.pairs, 4.0 * 1024 * 1024 * cases[i].pair);
            near(work.busiest.pairs, work.all.pairs / 4);
            near(work.all.rows, cases[i].passes * 4.0 * 1024 * 24);
            near(work.passes, cases[i].passes);
        }
}

/*
 * Inputs in each pass, gradients once, and what others sent: nothing is read where it lies. With ring, keys and values
 * go along with their sums, and these back to their owners.
 */
static void bytes_of_gradients(void **state)
{
    (void)state;
    const ra_problem problem = problem_of(1024, "full");
    const double keys = 1024.0 * 2 * 24 * 4;                  /* with values */
    const double queries = 1024.0 * 4 * (16 + 8 + 8 + 1) * 4; /* outputs, their gradients, lse */
    const double moved = 1024.0 * 4 * (16 + 8 + 1 + 1) * 4;   /* queries that travel, with deltas */
    const double inputs = keys + queries, results = 1024.0 * 4 * 16 * 4 + keys;
    for (int lent = 0; lent <= 1; lent++) {
        ra_ring_options ring = RA_RING_OPTIONS_INIT;
        ring.ranks = 4;
        ring.backward = 1;
        ring.lent = lent;
        model_work work = work_of(&problem, &ring);
        near(work.all.bytes, inputs + results + 3 * (keys + keys) + keys);
        near(work.busiest.bytes, work.all.bytes / 4);
        ring.strategy = RA_STRATEGY_BROADCAST;
        ring.transport = RA_TRANSPORT_MPI;
        near(work_of(&problem, &ring).all.bytes, 2 * inputs + results + 2 * 3 * (keys + moved));
    }
}

static void a_prediction_plans_by_itself(void **state)
{
    (void)state;
    ra_problem problem = problem_of(512, "causal");
    ra_options options = RA_OPTIONS_INIT;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    model_work work = work_of(&problem, NULL);
    double seconds = 0;
    options.threads = 1;
    options.kernel = RA_KERNEL_GENERIC;
    ring.ranks = 3;
    assert_int_equal(model_predict(&MADE_UP, &problem, &options, NULL, &seconds), RA_OK);
    near(seconds, model_time(&MADE_UP, &work).seconds);
    work = work_of(&problem, &ring);
    assert_int_equal(model_predict(&MADE_UP, &problem, &options, &ring, &seconds), RA_OK);
    near(seconds, model_time(&MADE_UP, &work).seconds);
    problem.pattern = "spiral";
    assert_int_equal(model_predict(&MADE_UP, &problem, &options, NULL, &seconds), RA_ERROR_ARGUMENT);
    assert_int_equal(model_predict(&MADE_UP, &problem, &options, &ring, &seconds), RA_ERROR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_what_there_is),
        cmocka_unit_test(virtual_ranks_add_up),
        cmocka_unit_test(ranks_wait_for_the_busiest),
        cmocka_unit_test(work_is_read_from_the_plan),
        cmocka_unit_test(keys_that_tasks_pack),
        cmocka_unit_test(stripes_of_gaps),
        cmocka_unit_test(kinds_of_tiles),
        cmocka_unit_test(the_busiest_rank),
        cmocka_unit_test(bytes_that_are_copied),
        cmocka_unit_test(gradients_in_one_piece),
        cmocka_unit_test(gradients_over_ranks),
        cmocka_unit_test(bytes_of_gradients),
        cmocka_unit_test(a_prediction_plans_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
