/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Query heads that share a key/value head, with few queries: their rows stand side by side in the lanes of a group.
 * Each row is what the oracle has, with the bits that it has alone (broadcast over ranks stacks nothing), for any
 * threads.
 */
#include "compare.h"
#include "support/ring.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUICK = 120, ORACLE_ROWS = 14 };

static float sinks[64];

/* Some queries, and heads of which several fit a group, one, or none. */
static void choose_problem(choices *c, ra_problem *p, char *pattern, size_t size)
{
    p->batch = choose(c, 1, 3);
    p->kv_heads = choose(c, 1, 3);
    p->heads = p->kv_heads * choose(c, 2, 9);
    p->head_dim = choose(c, 1, 70);
    p->value_dim = choose(c, 1, 70);
    p->q_len = choose(c, 1, chance(c, 3) ? 70 : 40);
    p->kv_len = choose(c, 1, 300);
    if (chance(c, 4)) { /* several spans of keys */
        p->batch = p->kv_heads = 1;
        p->heads = choose(c, 2, 7);
        p->kv_len = choose(c, 4096, 6000);
        p->head_dim = p->value_dim = choose(c, 1, 20);
    }
    p->pattern = pattern;
    choose_intervals(c, p->kv_len, pattern, size);
    choose_positions(c, p);
}

static void check_oracle(uint64_t seed, const sample *s, const oracle_rows *rows)
{
    double output, lse, scale = sample_score_scale(s);
    sample_errors(s, rows, &output, &lse);
    REQUIRE(output <= OUTPUT_TOLERANCE * scale && lse <= LSE_TOLERANCE * scale,
            "seed %llu, %s: output off by %.2e, lse by %.2e", (unsigned long long)seed, sample_text(s), output, lse);
}

/* One rank has the heads one by one; so do several. */
static void check_ranks(uint64_t seed, const sample *s, ra_kernel_id kernel, const char *bits, choices *c)
{
    ring_case ring = ring_case_make(WAY_SIM, (int)choose(c, 2, 3), RA_STRATEGY_BROADCAST, RA_ORDER_CONTIGUOUS);
    ring.run.kernel = kernel;
    REQUIRE(!ring_case_run(&ring, s, NULL, NULL), "seed %llu, %s: %s", (unsigned long long)seed, sample_text(s),
            ra_last_message());
    REQUIRE(sample_same(s, bits), "seed %llu, %s: broadcast has other bits", (unsigned long long)seed, sample_text(s));
}

static void try_problem(uint64_t seed)
{
    choices c = {seed};
    char pattern[512];
    ra_problem problem = RA_PROBLEM_INIT;
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    choose_problem(&c, &problem, pattern, sizeof pattern);
    const ra_tensor of_heads = ra_tensor_dense(sinks, RA_F32, RA_BSHD, 1, 1, problem.heads, 1);
    arrays.sinks = &of_heads;
    if (chance(&c, 3))
        problem.scores = "sinks", problem.score_arrays = &arrays;
    else if (chance(&c, 3))
        problem.scores = chance(&c, 2) ? "softcap:2" : "alibi+dropout:0.2";
    sample s;
    if (chance(&c, 2))
        sample_make_any(&s, &problem, ANY_DTYPE, &c);
    else
        sample_make(&s, &problem);
    oracle_rows rows = sample_oracle(&s, ORACLE_ROWS, &c);
    FOR_EACH_KERNEL (kernel) {
        sample_run(&s, kernel, 1);
        check_oracle(seed, &s, &rows);
        char *bits = sample_keep(&s);
        sample_run(&s, kernel, (int)choose(&c, 2, 5));
        REQUIRE(sample_same(&s, bits), "seed %llu, %s: threads have other bits", (unsigned long long)seed,
                sample_text(&s));
        check_ranks(seed, &s, kernel, bits, &c);
        free(bits);
    }
    oracle_free(&rows);
    sample_free(&s);
}

static void test_random(void **state)
{
    (void)state;
    for (int i = 0; i < 64; i++)
        sinks[i] = (float)(i % 5) - 2.0f;
    seed_range range = seeds(QUICK);
    for (uint64_t seed = range.first; seed < range.end; seed++)
        try_problem(seed);
}

/* 16 queries of 4 heads fill the lanes of one group: as many tiles as one head of 64 queries has. */
static void test_tiles(void **state)
{
    (void)state;
    ra_problem few = RA_PROBLEM_INIT, many = RA_PROBLEM_INIT;
    ra_plan_info a = RA_PLAN_INFO_INIT, b = RA_PLAN_INFO_INIT;
    ra_plan *plan = NULL;
    few.q_len = 16, few.kv_len = 1000, few.heads = 32, few.kv_heads = 8, few.head_dim = 32;
    many = few;
    many.q_len = 64, many.heads = 8;
    FOR_EACH_KERNEL (kernel) {
        ra_options options = RA_OPTIONS_INIT;
        options.kernel = kernel;
        assert_int_equal(ra_plan_create(&few, &options, &plan), RA_OK);
        assert_int_equal(ra_plan_describe(plan, &a), RA_OK);
        ra_plan_free(plan);
        assert_int_equal(ra_plan_create(&many, &options, &plan), RA_OK);
        assert_int_equal(ra_plan_describe(plan, &b), RA_OK);
        ra_plan_free(plan);
        if (a.variant == RA_VARIANT_TILE)
            assert_true(a.pairs_worked <= 1.5 * b.pairs_worked);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_tiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
