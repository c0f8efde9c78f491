/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scores: softcaps, slopes, tables, biases, sinks and dropout, against the oracle with every kernel; the same bits for
 * any number of threads and, with broadcast, of ranks; and the mistakes that others made.
 */
#include "compare.h"
#include "support/ring.h"
#include "support/scores.h"
#include "support/unit.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORACLE_ROWS = 16 };

typedef struct scored {
    ra_problem problem;
    char pattern[256];
    made_scores scores;
    sample sample;
} scored;

static void choose_sizes(choices *c, ra_problem *p)
{
    p->batch = choose(c, 1, 3);
    p->kv_heads = choose(c, 1, 2);
    p->heads = p->kv_heads * choose(c, 1, 3);
    p->head_dim = choose(c, 1, 70);
    p->value_dim = choose(c, 1, 70);
    bool few = chance(c, 4), spans = chance(c, 8);
    p->q_len = choose(c, 1, few ? 8 : 150);
    p->kv_len = choose(c, 1, few ? 400 : 250);
    if (spans) {
        p->batch = p->kv_heads = 1;
        p->heads = 2;
        p->q_len = choose(c, 1, 20);
        p->kv_len = choose(c, 4096, 5000);
    }
}

static void scored_make(choices *c, unsigned terms, scored *s)
{
    s->problem = (ra_problem)RA_PROBLEM_INIT;
    choose_sizes(c, &s->problem);
    choose_pattern(c, s->problem.kv_len, s->pattern, sizeof s->pattern);
    s->problem.pattern = s->pattern;
    choose_positions(c, &s->problem);
    make_scores(c, terms, &s->problem, &s->scores);
    sample_make_any(&s->sample, &s->problem, ANY_DTYPE, c);
}

static void scored_free(scored *s)
{
    sample_free(&s->sample);
    scores_free(&s->scores);
}

/* Rounding grows with scores: those of the products, and what was added to them. */
static double tolerance_of(const scored *s)
{
    return sample_score_scale(&s->sample) + s->scores.size / 4;
}

static void random_scores(void **state)
{
    (void)state;
    seed_range range = seeds(150);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        scored s;
        scored_make(&c, choose_terms(&c), &s);
        oracle_rows expected = sample_oracle(&s.sample, ORACLE_ROWS, &c);
        FOR_EACH_KERNEL (kernel) {
            double output_error, lse_error, scale = tolerance_of(&s);
            sample_run(&s.sample, kernel, (int)choose(&c, 1, 4));
            sample_errors(&s.sample, &expected, &output_error, &lse_error);
            REQUIRE(output_error <= OUTPUT_TOLERANCE * scale && lse_error <= LSE_TOLERANCE * scale,
                    "seed %llu, %s, %s, %s: output off by %.2e, lse by %.2e", (unsigned long long)seed,
                    ra_kernel_name(kernel), sample_text(&s.sample), s.scores.text, output_error, lse_error);
        }
        oracle_free(&expected);
        scored_free(&s);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    seed_range range = seeds(25);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        scored s;
        scored_make(&c, choose_terms(&c), &s);
        sample_run(&s.sample, RA_KERNEL_AUTO, 1);
        char *kept = sample_keep(&s.sample);
        for (int threads = 2; threads <= 8; threads += 3) {
            sample_run(&s.sample, RA_KERNEL_AUTO, threads);
            REQUIRE(sample_same(&s.sample, kept), "seed %llu, %d threads, %s", (unsigned long long)seed, threads,
                    s.scores.text);
        }
        free(kept);
        scored_free(&s);
    }
}

/* ---- Over ranks -------------------------------------------------------------------------------------------------- */

/* One ring of a sample against the oracle, and with broadcast against the bits of a run in one piece. */
static void expect_ring(choices *c, scored *s, uint64_t seed)
{
    static const ra_strategy strategies[] = {RA_STRATEGY_RING, RA_STRATEGY_ALLGATHER, RA_STRATEGY_BROADCAST};
    static const ra_order orders[] = {RA_ORDER_CONTIGUOUS, RA_ORDER_ZIGZAG, RA_ORDER_STRIPED};
    ring_case ring = ring_case_make((way)choose(c, 0, WAYS - 1), (int)choose(c, 1, 5), strategies[choose(c, 0, 2)],
                                    orders[choose(c, 0, 2)]);
    oracle_rows expected = sample_oracle(&s->sample, ORACLE_ROWS, c);
    double output_error, lse_error, scale = tolerance_of(s);
    sample_run(&s->sample, RA_KERNEL_AUTO, 2);
    char *kept = sample_keep(&s->sample);
    ra_status status = ring_case_run(&ring, &s->sample, NULL, NULL);
    REQUIRE(!status, "seed %llu, %s, %s, %s: %s", (unsigned long long)seed, ring_case_text(&ring),
            sample_text(&s->sample), s->scores.text, ra_last_message());
    sample_errors(&s->sample, &expected, &output_error, &lse_error);
    REQUIRE(output_error <= OUTPUT_TOLERANCE * scale && lse_error <= LSE_TOLERANCE * scale,
            "seed %llu, %s, %s, %s: output off by %.2e, lse by %.2e", (unsigned long long)seed, ring_case_text(&ring),
            sample_text(&s->sample), s->scores.text, output_error, lse_error);
    bool promised = ring.options.strategy == RA_STRATEGY_BROADCAST && !strstr(s->pattern, "dilated");
    REQUIRE(!promised || sample_same(&s->sample, kept), "seed %llu, %s, %s, %s: other bits than in one piece",
            (unsigned long long)seed, ring_case_text(&ring), sample_text(&s->sample), s->scores.text);
    free(kept);
    oracle_free(&expected);
}

static void random_rings(void **state)
{
    (void)state;
    seed_range range = seeds(80);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed + 1000};
        scored s;
        scored_make(&c, choose_terms(&c), &s);
        expect_ring(&c, &s, seed);
        scored_free(&s);
    }
}

/*
 * Rows at the seam of two packed sequences are not one behind the other, so what a table adds to their tile takes
 * another way. Which rows share a tile depends on the ranks; the bits of a row do not.
 */
static void a_table_adds_the_same_bits_in_every_tile(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++)
        FOR_EACH_KERNEL (kernel) {
            choices c = {seed};
            scored s = {.problem = RA_PROBLEM_INIT, .pattern = "documents:9/44,6/2,51/12,57/25,8/8"};
            s.problem.q_len = 131, s.problem.kv_len = 91;
            s.problem.heads = 4, s.problem.kv_heads = 2;
            s.problem.head_dim = s.problem.value_dim = 8;
            s.problem.pattern = s.pattern;
            make_scores(&c, WITH_RELATIVE, &s.problem, &s.scores);
            sample_make(&s.sample, &s.problem);
            sample_run(&s.sample, kernel, 1);
            char *kept = sample_keep(&s.sample);
            for (int ranks = 2; ranks <= 5; ranks++) {
                ring_case ring = ring_case_make(WAY_SIM, ranks, RA_STRATEGY_BROADCAST, (ra_order)(ranks % 3));
                ring.run.kernel = kernel;
                REQUIRE(!ring_case_run(&ring, &s.sample, NULL, NULL), "%s", ra_last_message());
                REQUIRE(sample_same(&s.sample, kept), "seed %llu, %s, %s: other bits than in one piece",
                        (unsigned long long)seed, ra_kernel_name(kernel), ring_case_text(&ring));
            }
            free(kept);
            scored_free(&s);
        }
}

/* ---- Mistakes that others made ----------------------------------------------------------------------------------- */

enum { LENGTH = 150 };

/* One head of LENGTH positions, queries and keys all zeros unless said otherwise: weights follow from scores alone. */
static void plain_make(scored *s, const char *pattern, const char *text)
{
    memset(s, 0, sizeof *s);
    s->problem = (ra_problem)RA_PROBLEM_INIT;
    s->problem.q_len = s->problem.kv_len = LENGTH;
    s->problem.heads = s->problem.kv_heads = 1;
    s->problem.head_dim = s->problem.value_dim = 4;
    snprintf(s->pattern, sizeof s->pattern, "%s", pattern);
    s->problem.pattern = s->pattern;
    snprintf(s->scores.text, sizeof s->scores.text, "%s", text);
    s->scores.arrays = (ra_score_arrays)RA_SCORE_ARRAYS_INIT;
    s->problem.scores = s->scores.text;
    s->problem.score_arrays = &s->scores.arrays;
}

static float lse_at(const scored *s, int64_t query)
{
    const ra_tensor *lse = &s->sample.tensors[SAMPLE_LSE];
    return ((const float *)lse->data)[query * lse->seq_stride];
}

static float output_at(const scored *s, int64_t query)
{
    const ra_tensor *output = &s->sample.tensors[SAMPLE_OUTPUT];
    return ((const float *)output->data)[query * output->seq_stride];
}

/* A hidden key has a score of -infinity, which a softcap would bring back to -C. */
static void softcap_after_the_mask(void **state)
{
    (void)state;
    scored s;
    plain_make(&s, "causal", "softcap:2");
    sample_make(&s.sample, &s.problem);
    memset(s.sample.memory[SAMPLE_QUERY], 0, s.sample.bytes[SAMPLE_QUERY]);
    sample_run(&s.sample, RA_KERNEL_AUTO, 1);
    for (int64_t query = 0; query < LENGTH; query++)
        assert_true(fabs(lse_at(&s, query) - log((double)query + 1)) < 1e-5);
    scored_free(&s);
}

/* Weights of n keys of score 0 and one sink of score 0 are 1 / (n + 1), however many branches, spans and ranks. */
static void sinks_counted_once_a_branch_or_once_a_rank(void **state)
{
    (void)state;
    static const char *const patterns[] = {"full", "dilated:150/1,150/1,150/1"};
    static const double keys[] = {LENGTH, 3 * LENGTH};
    float sink = 0;
    for (int i = 0; i < 2; i++) {
        scored s;
        plain_make(&s, patterns[i], "sinks");
        s.scores.views[SCORE_SINKS] = (ra_tensor){&sink, RA_F32, 1, 1, 1, 1, 1, 1, 1, 1};
        s.scores.arrays.sinks = &s.scores.views[SCORE_SINKS];
        sample_make(&s.sample, &s.problem);
        memset(s.sample.memory[SAMPLE_QUERY], 0, s.sample.bytes[SAMPLE_QUERY]);
        sample_run(&s.sample, RA_KERNEL_AUTO, 1);
        assert_true(fabs(lse_at(&s, 7) - log(keys[i] + 1)) < 1e-5);
        for (way way = 0; way < WAYS; way++) {
            ring_case ring = ring_case_make(way, 3, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS);
            assert_int_equal(ring_case_run(&ring, &s.sample, NULL, NULL), RA_OK);
            assert_true(fabs(lse_at(&s, 7) - log(keys[i] + 1)) < 1e-5);
        }
        sample_free(&s.sample);
    }
}

/* A query that sees no key still has its sink: zeros, and the sink for a log-sum-exp. */
static void a_row_without_keys_has_its_sink(void **state)
{
    (void)state;
    float sink = 1.5f;
    scored s;
    plain_make(&s, "causal", "sinks");
    s.problem.q_len = LENGTH + 5; /* five queries before the first key */
    s.scores.views[SCORE_SINKS] = (ra_tensor){&sink, RA_F32, 1, 1, 1, 1, 1, 1, 1, 1};
    s.scores.arrays.sinks = &s.scores.views[SCORE_SINKS];
    sample_make(&s.sample, &s.problem);
    sample_run(&s.sample, RA_KERNEL_AUTO, 1);
    for (int64_t query = 0; query < 5; query++)
        assert_true(output_at(&s, query) == 0 && lse_at(&s, query) == sink);
    assert_true(output_at(&s, 5) != 0);
    sample_free(&s.sample);
}

/* A bias that shows one key alone to each query, the one that it is to find: on every rank by the whole sequence. */
static void bias_indexed_by_local_rows(void **state)
{
    (void)state;
    static float bias[LENGTH][LENGTH];
    scored s;
    plain_make(&s, "full", "bias");
    for (int64_t query = 0; query < LENGTH; query++)
        for (int64_t key = 0; key < LENGTH; key++)
            bias[query][key] = key == (query * 7 + 3) % LENGTH ? 0.0f : -300.0f;
    s.scores.views[SCORE_BIAS] = (ra_tensor){bias, RA_F32, 1, LENGTH, 1, LENGTH, 0, LENGTH, 0, 1};
    s.scores.arrays.bias = &s.scores.views[SCORE_BIAS];
    sample_make(&s.sample, &s.problem);
    const float *value = s.sample.tensors[SAMPLE_VALUE].data;
    int64_t stride = s.sample.tensors[SAMPLE_VALUE].seq_stride;
    for (ra_order order = RA_ORDER_CONTIGUOUS; order <= RA_ORDER_STRIPED; order++)
        for (way way = 0; way < WAYS; way++) {
            ring_case ring = ring_case_make(way, 4, RA_STRATEGY_RING, order);
            REQUIRE(!ring_case_run(&ring, &s.sample, NULL, NULL), "%s", ra_last_message());
            for (int64_t query = 0; query < LENGTH; query++)
                assert_true(fabsf(output_at(&s, query) - value[(query * 7 + 3) % LENGTH * stride]) < 1e-6f);
        }
    sample_free(&s.sample);
}

/* Query 1 sees the mean of the values of all keys. */
static void expect_mean(const scored *s)
{
    const ra_tensor *value = &s->sample.tensors[SAMPLE_VALUE];
    double mean = 0;
    for (int64_t key = 0; key < LENGTH; key++)
        mean += (double)((const float *)value->data)[key * value->seq_stride] / LENGTH;
    assert_true(fabs(output_at(s, 1) - mean) < 1e-6 && lse_at(s, 1) > -FLT_MAX);
}

/* Model libraries write the lowest float over whole rows of padding: scores that are all alike, and no NaN. */
static void lowest_floats_taken_for_infinity(void **state)
{
    (void)state;
    static float bias[2][LENGTH][2 * LENGTH];
    for (int apart = 1; apart <= 2; apart++)
        for (int64_t queries = 2; queries <= LENGTH; queries += LENGTH - 2) {
            scored s;
            plain_make(&s, "full", "bias");
            s.problem.q_len = queries;
            for (int64_t key = 0; key < LENGTH; key++)
                bias[apart - 1][1][apart * key] = -FLT_MAX;
            s.scores.views[SCORE_BIAS] =
                (ra_tensor){bias[apart - 1], RA_F32, 1, queries, 1, LENGTH, 0, (int64_t)2 * LENGTH, 0, apart};
            s.scores.arrays.bias = &s.scores.views[SCORE_BIAS];
            sample_make(&s.sample, &s.problem);
            FOR_EACH_KERNEL (kernel) {
                sample_run(&s.sample, kernel, 1);
                expect_mean(&s);
            }
            ring_case ring = ring_case_make(0, 3, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS);
            assert_int_equal(ring_case_run(&ring, &s.sample, NULL, NULL), RA_OK);
            expect_mean(&s);
            sample_free(&s.sample);
        }
}

/*
 * Weights of steep scores times values make subnormal numbers, which some processors take long for. With scores they
 * are zeros, without they are not, and the caller's arithmetic is as it was.
 */
static void results_below_the_smallest_normal_float(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "softcap:2"};
    volatile float small = 1e-30f;
    for (int scored_run = 0; scored_run < 2; scored_run++) {
        scored s;
        plain_make(&s, "full", texts[scored_run]);
        if (!scored_run)
            s.problem.scores = NULL;
        sample_make(&s.sample, &s.problem);
        float *values = s.sample.memory[SAMPLE_VALUE];
        for (size_t i = 0; i < s.sample.bytes[SAMPLE_VALUE] / sizeof *values; i++)
            values[i] = 1e-39f;
        FOR_EACH_KERNEL (kernel) {
            sample_run(&s.sample, kernel, 1);
#ifdef __SSE__
            assert_true((output_at(&s, 0) == 0) == (scored_run == 1));
#endif
            assert_true(small * 1e-10f > 0);
        }
        sample_free(&s.sample);
    }
}

/* The same pairs are dropped whatever the number of ranks: log-sum-exps do not show it, outputs do. */
static void dropout_that_differs_between_ring_sizes(void **state)
{
    (void)state;
    scored s;
    plain_make(&s, "causal", "dropout:0.5:seed=3");
    sample_make(&s.sample, &s.problem);
    sample_run(&s.sample, RA_KERNEL_AUTO, 1);
    char *kept = sample_keep(&s.sample);
    for (int ranks = 1; ranks <= 5; ranks++) {
        ring_case ring = ring_case_make(WAY_SIM, ranks, RA_STRATEGY_BROADCAST, RA_ORDER_ZIGZAG);
        assert_int_equal(ring_case_run(&ring, &s.sample, NULL, NULL), RA_OK);
        assert_true(sample_same(&s.sample, kept));
    }
    free(kept);
    sample_free(&s.sample);
}

/* Queries that are moved 10 positions behind their keys are 10 further away. */
static void alibi_by_index_instead_of_position(void **state)
{
    (void)state;
    float slope = 0.25f;
    for (int64_t behind = 0; behind <= 10; behind += 10) {
        scored s;
        plain_make(&s, "full", "alibi");
        s.problem.q_len = s.problem.kv_len = 1;
        s.problem.key_position = 5;
        s.problem.query_position = 5 + behind;
        s.scores.views[SCORE_SLOPES] = (ra_tensor){&slope, RA_F32, 1, 1, 1, 1, 1, 1, 1, 1};
        s.scores.arrays.slopes = &s.scores.views[SCORE_SLOPES];
        sample_make(&s.sample, &s.problem);
        memset(s.sample.memory[SAMPLE_QUERY], 0, s.sample.bytes[SAMPLE_QUERY]);
        sample_run(&s.sample, RA_KERNEL_AUTO, 1);
        assert_true(fabs(lse_at(&s, 0) + 0.25 * (double)behind) < 1e-6);
        sample_free(&s.sample);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_scores),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(random_rings),
        cmocka_unit_test(a_table_adds_the_same_bits_in_every_tile),
        cmocka_unit_test(softcap_after_the_mask),
        cmocka_unit_test(sinks_counted_once_a_branch_or_once_a_rank),
        cmocka_unit_test(a_row_without_keys_has_its_sink),
        cmocka_unit_test(bias_indexed_by_local_rows),
        cmocka_unit_test(lowest_floats_taken_for_infinity),
        cmocka_unit_test(results_below_the_smallest_normal_float),
        cmocka_unit_test(dropout_that_differs_between_ring_sizes),
        cmocka_unit_test(alibi_by_index_instead_of_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
