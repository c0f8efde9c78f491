/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan that is run with fewer keys than it was made for gives what a plan for that many gives: rows as the oracle has
 * them, and the counts of that plan, in no more memory than was planned.
 */
#include "compare.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUICK = 250, ORACLE_ROWS = 12 };

/* A problem whose pattern does not fix the length, and a shorter one of the same kind. */
static void choose_problem(choices *c, ra_problem *p, char *pattern, size_t size, int64_t *keys)
{
    p->batch = choose(c, 1, 2);
    p->kv_heads = choose(c, 1, 3);
    p->heads = p->kv_heads * choose(c, 1, 3);
    p->head_dim = choose(c, 1, 70);
    p->value_dim = choose(c, 1, 70);
    p->q_len = choose(c, 1, chance(c, 2) ? 6 : 150);
    p->kv_len = choose(c, 1, chance(c, 3) ? 800 : 300);
    if (chance(c, 5)) { /* several spans of keys */
        p->batch = p->heads = p->kv_heads = 1;
        p->q_len = choose(c, 1, 70);
        p->kv_len = choose(c, 4096, 9000);
        p->head_dim = p->value_dim = choose(c, 1, 20);
    }
    *keys = choose(c, 1, chance(c, 4) ? 1 + p->kv_len / 20 : p->kv_len);
    p->pattern = pattern;
    do
        choose_pattern(c, *keys, pattern, size);
    while (strstr(pattern, "documents"));
    choose_positions(c, p);
}

static ra_plan *plan_of(const ra_problem *problem, ra_kernel_id kernel, int threads)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_plan *plan = NULL;
    options.kernel = kernel, options.threads = threads;
    REQUIRE(!ra_plan_create(problem, &options, &plan), "%s", ra_last_message());
    return plan;
}

static ra_plan_info info_of(const ra_plan *plan)
{
    ra_plan_info info = RA_PLAN_INFO_INIT;
    assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
    return info;
}

/* Counts that follow from the problem alone are those of a plan for this length. */
static void check_counts(uint64_t seed, const sample *s, const ra_plan *longer, const ra_stats *stats)
{
    ra_plan *own = plan_of(&s->problem, RA_KERNEL_AUTO, 1);
    ra_plan_info planned = info_of(longer), here = info_of(own);
    REQUIRE(stats->pairs_visible == here.pairs_visible && stats->flops == here.flops,
            "seed %llu, %s: %.0f pairs, %.0f flops, expected %.0f and %.0f", (unsigned long long)seed, sample_text(s),
            stats->pairs_visible, stats->flops, here.pairs_visible, here.flops);
    REQUIRE(stats->planned_peak_bytes == planned.peak_bytes && stats->peak_bytes <= planned.peak_bytes,
            "seed %llu, %s: %lld bytes of %lld", (unsigned long long)seed, sample_text(s), (long long)stats->peak_bytes,
            (long long)planned.peak_bytes);
    ra_plan_free(own);
}

/* The oracle with the longer plan is the oracle with a plan for this length. */
static void check_oracle(uint64_t seed, const sample *s, const ra_plan *longer, const oracle_rows *expected)
{
    double row[70], lse;
    const ra_tensor *t = s->tensors;
    for (int i = 0; i < expected->count; i++) {
        const int64_t *at = expected->at[i];
        REQUIRE(!ra_reference_row(longer, &t[0], &t[1], &t[2], at[0], at[1], at[2], row, &lse), "%s",
                ra_last_message());
        REQUIRE(memcmp(row, expected->output + i * s->problem.value_dim, (size_t)s->problem.value_dim * sizeof *row) ==
                        0 &&
                    lse == expected->lse[i],
                "seed %llu, %s: the oracle differs", (unsigned long long)seed, sample_text(s));
    }
}

static void random_lengths(void **state)
{
    (void)state;
    bool reached[2][2] = {{false}}; /* [variant][several spans] */
    seed_range range = seeds(QUICK);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT, shorter;
        char pattern[512];
        int64_t keys;
        sample s;
        choose_problem(&c, &problem, pattern, sizeof pattern, &keys);
        shorter = problem;
        shorter.kv_len = keys;
        sample_make_any(&s, &shorter, ANY_DTYPE, &c);
        oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &c);
        double output_error, lse_error, scale = sample_score_scale(&s);
        FOR_EACH_KERNEL (kernel) {
            ra_plan *plan = plan_of(&problem, kernel, (int)choose(&c, 1, 3));
            const ra_tensor *t = s.tensors;
            ra_stats stats = RA_STATS_INIT;
            sample_wipe(&s);
            REQUIRE(!ra_forward(plan, &t[0], &t[1], &t[2], &t[3], &t[4], &stats), "seed %llu, %s: %s",
                    (unsigned long long)seed, sample_text(&s), ra_last_message());
            sample_errors(&s, &expected, &output_error, &lse_error);
            REQUIRE(output_error <= OUTPUT_TOLERANCE * scale && lse_error <= LSE_TOLERANCE * scale,
                    "seed %llu, %s of %lld keys, %s: output off by %.2e, lse by %.2e", (unsigned long long)seed,
                    ra_kernel_name(kernel), (long long)problem.kv_len, sample_text(&s), output_error, lse_error);
            check_counts(seed, &s, plan, &stats);
            check_oracle(seed, &s, plan, &expected);
            reached[stats.variant][info_of(plan).key_spans > 1] = true;
            ra_plan_free(plan);
        }
        oracle_free(&expected);
        sample_free(&s);
    }
    assert_true(reached[RA_VARIANT_TILE][0] && reached[RA_VARIANT_TILE][1]);
    assert_true(reached[RA_VARIANT_DECODE][0] && reached[RA_VARIANT_DECODE][1]);
}

/* Every length of a small problem, with more queries than keys among them. */
static void every_length(void **state)
{
    (void)state;
    static const char *const patterns[] = {"full",
                                           "causal",
                                           "window:3,1",
                                           "causal+window:9,0",
                                           "dilated:8/2,16/3",
                                           "blocks:4:local=1:global=1+causal",
                                           "blocks:8:random=1:seed=3",
                                           "blocks:2:density=0.4",
                                           "dilated:12/4:mode=union+blocks:3:stride=2"};
    enum { KEYS = 90, QUERIES = 40 };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        problem.q_len = QUERIES, problem.kv_len = KEYS, problem.heads = 2, problem.head_dim = problem.value_dim = 4;
        problem.kv_heads = 1;
        problem.pattern = patterns[i];
        ra_plan *plan = plan_of(&problem, RA_KERNEL_AUTO, 2);
        for (int64_t keys = 1; keys <= KEYS; keys++) {
            ra_problem shorter = problem;
            choices c = {1};
            sample s;
            double output_error, lse_error;
            ra_stats stats = RA_STATS_INIT;
            shorter.kv_len = keys;
            sample_make(&s, &shorter);
            sample_wipe(&s);
            const ra_tensor *t = s.tensors;
            oracle_rows expected = sample_oracle(&s, 2 * QUERIES, &c);
            REQUIRE(!ra_forward(plan, &t[0], &t[1], &t[2], &t[3], &t[4], &stats), "%s: %s", sample_text(&s),
                    ra_last_message());
            sample_errors(&s, &expected, &output_error, &lse_error);
            REQUIRE(output_error <= OUTPUT_TOLERANCE && lse_error <= LSE_TOLERANCE,
                    "%s: output off by %.2e, lse by %.2e", sample_text(&s), output_error, lse_error);
            check_counts(0, &s, plan, &stats);
            oracle_free(&expected);
            sample_free(&s);
        }
        ra_plan_free(plan);
    }
}

/* ---- What is refused --------------------------------------------------------------------------------------------- */

static void refused(const char *pattern, int64_t k_keys, int64_t v_keys, const char *message)
{
    enum { KEYS = 12 };
    float x[4][KEYS] = {{0}};
    double row[1];
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = 2, problem.kv_len = KEYS, problem.heads = 1, problem.head_dim = 1;
    problem.pattern = pattern;
    ra_plan *plan = plan_of(&problem, RA_KERNEL_AUTO, 1);
    ra_tensor q = ra_tensor_dense(x[0], RA_F32, RA_BSHD, 1, 2, 1, 1), output = q;
    ra_tensor k = ra_tensor_dense(x[1], RA_F32, RA_BSHD, 1, k_keys, 1, 1);
    ra_tensor v = ra_tensor_dense(x[2], RA_F32, RA_BSHD, 1, v_keys, 1, 1);
    output.data = x[3];
    assert_int_equal(ra_forward(plan, &q, &k, &v, &output, NULL, NULL), RA_ERROR_ARGUMENT);
    REQUIRE(strstr(ra_last_message(), message), "\"%s\" is not in \"%s\"", message, ra_last_message());
    assert_int_equal(ra_reference_row(plan, &q, &k, &v, 0, 0, 0, row, NULL), RA_ERROR_ARGUMENT);
    REQUIRE(strstr(ra_last_message(), message), "\"%s\" is not in \"%s\"", message, ra_last_message());
    ra_plan_free(plan);
}

static void lengths_that_do_not_fit(void **state)
{
    (void)state;
    refused("causal", 13, 13, "key: [batch 1, seq 13, heads 1, dim 1] does not match the problem's");
    refused("causal", -1, -1, "key: [batch 1, seq -1,");
    refused("causal", 5, 6, "value: [batch 1, seq 6, heads 1, dim 1] does not match the problem's [batch 1, seq 5,");
    refused("causal", 5, 12, "value: [batch 1, seq 12,");
}

static void patterns_that_fix_the_length(void **state)
{
    (void)state;
    const int64_t shape[] = {3, 3};
    const uint8_t mask[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    ra_array *array = NULL;
    refused("causal+documents:4,8", 11, 11,
            "11 keys: the plan is for 12, and the pattern's documents term is for that length alone");
    assert_int_equal(ra_array_create("test_growing.npy", RA_BOOL, 2, shape, &array), RA_OK);
    assert_int_equal(ra_array_write(array, 0, 9, mask), RA_OK);
    assert_int_equal(ra_array_commit(array), RA_OK);
    ra_array_close(array);
    refused("blocks:4:mask=@test_growing.npy", 8, 8,
            "8 keys: the plan is for 12, and the pattern's mask of blocks is for that length alone");
    assert_int_equal(remove("test_growing.npy"), 0);
}

/* A ring is for one length. */
static void rings_refuse(void **state)
{
    (void)state;
    float x[4][200] = {{0}};
    ra_problem problem = RA_PROBLEM_INIT;
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan = NULL;
    ra_comm *comm = NULL;
    problem.q_len = 200, problem.heads = 1, problem.head_dim = 1, options.ranks = 2;
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &plan), RA_OK);
    assert_int_equal(ra_comm_sim(2, &comm), RA_OK);
    ra_tensor t[4];
    for (int i = 0; i < 4; i++)
        t[i] = ra_tensor_dense(x[i], RA_F32, RA_BSHD, 1, i == 1 || i == 2 ? 150 : 200, 1, 1);
    assert_int_equal(ra_ring_forward(plan, comm, &t[0], &t[1], &t[2], &t[3], NULL, NULL), RA_ERROR_ARGUMENT);
    ra_comm_free(comm);
    ra_ring_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_lengths), cmocka_unit_test(every_length),
                                       cmocka_unit_test(lengths_that_do_not_fit),
                                       cmocka_unit_test(patterns_that_fix_the_length), cmocka_unit_test(rings_refuse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
