/* SPDX-License-Identifier: Apache-2.0 */
/* Dilated and block-sparse attention in one piece: against the oracle, against each other, and what they must not do.
 */
#include "compare.h"
#include "support/ragged.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORACLE_ROWS = 16, ORDERS = 3, EVERY_ROW = 1 << 20 };

static void sample_of(sample *s, int64_t q_len, int64_t kv_len, int64_t heads, int64_t kv_heads, const char *pattern)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = q_len, problem.kv_len = kv_len, problem.heads = heads, problem.kv_heads = kv_heads;
    problem.head_dim = 12, problem.value_dim = 10, problem.pattern = pattern;
    sample_make(s, &problem);
}

static ra_options options_of(ra_kernel_id kernel, int threads, ra_tile_order tiles)
{
    ra_options options = RA_OPTIONS_INIT;
    options.kernel = kernel, options.threads = threads, options.tiles = tiles;
    return options;
}

static void require_oracle(const sample *s, const oracle_rows *expected, const ra_options *options, uint64_t seed)
{
    double output_error, lse_error, scale = sample_score_scale(s);
    sample_errors(s, expected, &output_error, &lse_error);
    REQUIRE(output_error <= OUTPUT_TOLERANCE * scale && lse_error <= LSE_TOLERANCE * scale,
            "seed %llu, %s, %s tiles, %s: output off by %.2e, lse by %.2e", (unsigned long long)seed,
            ra_kernel_name(options->kernel), ra_tile_order_name(options->tiles), sample_text(s), output_error,
            lse_error);
}

static const float *output_row(const sample *s, int64_t head, int64_t query)
{
    return (const float *)s->memory[SAMPLE_OUTPUT] + (query * s->problem.heads + head) * s->problem.value_dim;
}

static float lse_of(const sample *s, int64_t head, int64_t query)
{
    return ((const float *)s->memory[SAMPLE_LSE])[query * s->problem.heads + head];
}

/* ---- Against the oracle ------------------------------------------------------------------------------------------ */

static void choose_problem(choices *c, ra_problem *p, char *pattern, size_t size)
{
    p->batch = choose(c, 1, 2);
    p->kv_heads = choose(c, 1, 3);
    p->heads = p->kv_heads * choose(c, 1, 4);
    p->head_dim = choose(c, 1, chance(c, 6) ? 300 : 70);
    p->value_dim = choose(c, 1, 70);
    p->q_len = choose(c, 1, chance(c, 4) ? 9 : 400);
    p->kv_len = chance(c, 2) ? p->q_len : choose(c, 1, 400);
    if (chance(c, 12)) { /* several spans of keys, where there may be any */
        p->batch = 1;
        p->heads = p->kv_heads = 1;
        p->q_len = choose(c, 1, 50);
        p->kv_len = choose(c, 4096, 6000);
    }
    p->pattern = pattern;
    choose_sparse(c, p->kv_len, pattern, size);
    choose_positions(c, p);
    choose_ragged(c, p, pattern, size);
}

/* Every kernel and tile order, any dtypes and strides. */
static void random_problems(void **state)
{
    (void)state;
    seed_range range = seeds(150);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        char pattern[512];
        sample s;
        choose_problem(&c, &problem, pattern, sizeof pattern);
        sample_make_any(&s, &problem, ANY_DTYPE, &c);
        oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &c);
        FOR_EACH_KERNEL (kernel)
            for (int order = 0; order < ORDERS; order++) {
                ra_options options = options_of(kernel, (int)choose(&c, 1, 4), (ra_tile_order)order);
                sample_run_as(&s, &options, NULL);
                require_oracle(&s, &expected, &options, seed);
                REQUIRE(sample_padding_kept(&s), "seed %llu, %s: wrote outside its elements", (unsigned long long)seed,
                        sample_text(&s));
            }
        oracle_free(&expected);
        sample_free(&s);
    }
}

/* Lengths and segments 1 to 9, where off-by-one errors live; every row. */
static void every_small_length(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "dilated:3/2",       "dilated:2/1,5/3+causal",   "dilated:4/3,4/3,2/2:mode=union",
        "blocks:2:random=1", "blocks:3:stride=2+causal", "blocks:1:global=1"};
    for (int64_t q_len = 1; q_len <= 9; q_len++)
        for (int64_t kv_len = 1; kv_len <= 9; kv_len++)
            for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
                choices c = {1};
                sample s;
                sample_of(&s, q_len, kv_len, 3, 1, patterns[i]);
                oracle_rows expected = sample_oracle(&s, EVERY_ROW, &c);
                ra_options options = options_of(RA_KERNEL_AUTO, 1, (ra_tile_order)((q_len + kv_len) % ORDERS));
                sample_run_as(&s, &options, NULL);
                require_oracle(&s, &expected, &options, 0);
                oracle_free(&expected);
                sample_free(&s);
            }
}

/* ---- Equal by definition ----------------------------------------------------------------------------------------- */

/* Two patterns over the same tensors, each with its statistics. */
typedef struct twins {
    sample a, b;
    ra_stats a_stats, b_stats;
} twins;

static void twins_run(twins *t, int64_t length, int64_t heads, const char *a, const char *b, const ra_options *options)
{
    t->a_stats = t->b_stats = (ra_stats)RA_STATS_INIT;
    sample_of(&t->a, length, length, heads, 1, a);
    sample_of(&t->b, length, length, heads, 1, b);
    sample_run_as(&t->a, options, &t->a_stats);
    sample_run_as(&t->b, options, &t->b_stats);
}

static void twins_free(twins *t)
{
    sample_free(&t->a);
    sample_free(&t->b);
}

/* The largest distances between the twins' results, when b's lse is to be larger than a's by so much. */
static double twins_distance(const twins *t, double lse_more)
{
    const ra_problem *p = &t->a.problem;
    double most = 0;
    for (int64_t row = 0; row < p->q_len * p->heads; row++) {
        int64_t head = row % p->heads, query = row / p->heads;
        const float *x = output_row(&t->a, head, query), *y = output_row(&t->b, head, query);
        for (int64_t d = 0; d < p->value_dim; d++)
            most = fmax(most, distance(y[d], x[d], RA_F32));
        most = fmax(most, distance(lse_of(&t->b, head, query), lse_of(&t->a, head, query) + lse_more, RA_F32) / 10);
    }
    return most;
}

/* To the bit, as long as tiles go row by row. */
static void one_long_segment_is_full_attention(void **state)
{
    (void)state;
    static const char *const texts[][2] = {{"full", "dilated:300/1"},
                                           {"full", "dilated:9223372036854775807/1:mode=union"},
                                           {"full", "dilated:1000/1:mode=grouped"},
                                           {"causal", "causal+dilated:300/1:mode=torchscale"},
                                           {"window:20,70", "dilated:301/1+window:20,70"},
                                           {"full", "blocks:64:density=1"},
                                           {"causal", "blocks:300+causal"},
                                           {"causal+window:40", "blocks:16:local=99+causal+window:40"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        FOR_EACH_KERNEL (kernel)
            for (int order = 0; order < ORDERS; order++) {
                ra_options options = options_of(kernel, 2, (ra_tile_order)order);
                twins t;
                twins_run(&t, 300, 3, texts[i][0], texts[i][1], &options);
                REQUIRE(twins_distance(&t, 0) <= OUTPUT_TOLERANCE, "%s, %s tiles: \"%s\" is not \"%s\" by %.2e",
                        ra_kernel_name(kernel), ra_tile_order_name(options.tiles), texts[i][1], texts[i][0],
                        twins_distance(&t, 0));
                REQUIRE(order != RA_TILES_ROW || same_bits(t.a.memory[SAMPLE_OUTPUT], t.b.memory[SAMPLE_OUTPUT],
                                                           (int64_t)(t.a.bytes[SAMPLE_OUTPUT] / sizeof(float))),
                        "%s: \"%s\" has other bits than \"%s\"", ra_kernel_name(kernel), texts[i][1], texts[i][0]);
                assert_true(t.a_stats.pairs_visible == t.b_stats.pairs_visible);
                twins_free(&t);
            }
}

/* The same keys, each twice: the same weights, twice their sum, twice the pairs. Where each counts once, nothing more.
 */
static void two_identical_branches_equal_one(void **state)
{
    (void)state;
    static const char *const texts[][3] = {
        {"dilated:64/1", "dilated:64/1,64/1", "dilated:64/1,64/1:mode=union"},
        {"dilated:50/3", "dilated:50/3,50/3", "dilated:50/3,50/3:mode=union"},
        {"dilated:90/4+causal", "dilated:90/4,90/4+causal", "dilated:90/4,90/4:mode=union+causal"},
        {"blocks:16:random=2+dilated:70/2", "blocks:16:random=2+dilated:70/2,70/2",
         "dilated:70/2,70/2:mode=union+blocks:16:random=2"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int order = 0; order < ORDERS; order++) {
            ra_options options = options_of(RA_KERNEL_AUTO, 2, (ra_tile_order)order);
            twins t;
            twins_run(&t, 250, 5, texts[i][0], texts[i][1], &options);
            REQUIRE(twins_distance(&t, log(2)) <= OUTPUT_TOLERANCE, "\"%s\": off by %.2e", texts[i][1],
                    twins_distance(&t, log(2)));
            assert_true(t.b_stats.pairs_visible == 2 * t.a_stats.pairs_visible);
            twins_free(&t);
            twins_run(&t, 250, 5, texts[i][0], texts[i][2], &options);
            REQUIRE(twins_distance(&t, 0) <= OUTPUT_TOLERANCE, "\"%s\": off by %.2e", texts[i][2],
                    twins_distance(&t, 0));
            assert_true(t.b_stats.pairs_visible == t.a_stats.pairs_visible);
            twins_free(&t);
        }
}

static void tile_orders_agree(void **state)
{
    (void)state;
    static const char *const patterns[] = {"full",
                                           "causal",
                                           "window:40,7",
                                           "documents:100,500,400",
                                           "dilated:64/1,300/3+causal",
                                           "dilated:64/2,500/5:mode=union",
                                           "blocks:32:local=1:random=3",
                                           "blocks:50:global=1+causal"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        FOR_EACH_KERNEL (kernel) {
            sample s;
            sample_of(&s, 1000, 1000, 2, 1, patterns[i]);
            choices c = {i};
            oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &c);
            for (int order = 0; order < ORDERS; order++) {
                ra_options options = options_of(kernel, 1, (ra_tile_order)order);
                sample_run_as(&s, &options, NULL);
                require_oracle(&s, &expected, &options, i);
                char *one = sample_keep(&s);
                for (options.threads = 2; options.threads <= 5; options.threads++) {
                    sample_run_as(&s, &options, NULL);
                    REQUIRE(sample_same(&s, one), "%s, %s, %s tiles: other bits with %d threads",
                            ra_kernel_name(kernel), sample_text(&s), ra_tile_order_name(options.tiles),
                            options.threads);
                }
                free(one);
            }
            oracle_free(&expected);
            sample_free(&s);
        }
}

/* ---- What other systems got wrong -------------------------------------------------------------------------------- */

/* Results with another rate, another segment or without are far apart, and each is what its own oracle says. */
static void dilation_really_changes_the_result(void **state)
{
    (void)state;
    static const char *const texts[] = {"full",         "dilated:64/1",  "dilated:64/2",
                                        "dilated:64/4", "dilated:128/4", "dilated:64/1,128/4"};
    enum { TEXTS = sizeof texts / sizeof *texts };
    for (int i = 0; i < TEXTS; i++)
        for (int j = 0; j < i; j++) {
            ra_options options = options_of(RA_KERNEL_AUTO, 1, RA_TILES_ROW);
            twins t;
            twins_run(&t, 256, 4, texts[j], texts[i], &options);
            choices c = {1};
            oracle_rows expected = sample_oracle(&t.b, ORACLE_ROWS, &c);
            require_oracle(&t.b, &expected, &options, 0);
            REQUIRE(twins_distance(&t, 0) > 0.1, "\"%s\" and \"%s\" are the same", texts[i], texts[j]);
            oracle_free(&expected);
            twins_free(&t);
        }
}

/* With blocks of the size of a tile of keys: so many are kept, so many are computed, and no more. */
static void density_of_a_tenth_computes_a_tenth_of_the_blocks(void **state)
{
    (void)state;
    enum { BLOCKS = 40, SIZE = 64, LENGTH = BLOCKS * SIZE, HEADS = 2 };
    FOR_EACH_KERNEL (kernel) {
        ra_options options = options_of(kernel, 2, RA_TILES_ROW);
        ra_stats stats = RA_STATS_INIT;
        ra_plan_info info = RA_PLAN_INFO_INIT;
        sample s;
        sample_of(&s, LENGTH, LENGTH, HEADS, 1, "blocks:64:density=0.1");
        ra_plan *plan = sample_plan(&s, kernel, 2);
        assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
        sample_run_as(&s, &options, &stats);
        const double kept = HEADS * BLOCKS * BLOCKS / 10.0;
        assert_true(info.density == 0.1);
        assert_true(stats.pairs_visible == kept * SIZE * SIZE && info.pairs_visible == stats.pairs_visible);
        /* Whole groups of rows against whole blocks of keys; the last group of a block may not be full. */
        double groups = floor(stats.tiles / kept), lanes = stats.pairs_worked / stats.tiles / SIZE;
        assert_true(stats.tiles == kept * groups && groups * lanes >= SIZE && (groups - 1) * lanes < SIZE);
        ra_plan_free(plan);
        sample_free(&s);
    }
}

/* Queries that no branch selects, or that are before the first position. */
static void an_empty_row_gives_zeros(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        int64_t q_len, kv_len, heads;
    } cases[] = {{"dilated:8/4", 100, 100, 1},
                 {"dilated:64/3,90/5", 100, 100, 7},
                 {"dilated:16/4,64/8:mode=grouped", 100, 100, 3},
                 {"dilated:30/7:mode=torchscale+causal", 100, 100, 2},
                 {"dilated:8/2:mode=union+window:1", 90, 40, 2},
                 {"blocks:16:local=1", 90, 40, 2},
                 {"blocks:16:random=1+causal", 100, 20, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        FOR_EACH_KERNEL (kernel)
            for (int order = 0; order < ORDERS; order++) {
                sample s;
                sample_of(&s, cases[i].q_len, cases[i].kv_len, cases[i].heads, 1, cases[i].pattern);
                ra_options options = options_of(kernel, 1, (ra_tile_order)order);
                ra_plan *plan = sample_plan(&s, kernel, 1);
                int64_t empty = 0, all = s.problem.q_len * s.problem.heads;
                sample_run_as(&s, &options, NULL);
                for (int64_t row = 0; row < all; row++) {
                    static const float zeros[10];
                    uint8_t counts[100];
                    int64_t head = row % s.problem.heads, query = row / s.problem.heads, seen = 0;
                    assert_int_equal(ra_plan_visible(plan, head, query, 0, s.problem.kv_len, counts), RA_OK);
                    for (int64_t key = 0; key < s.problem.kv_len; key++)
                        seen += counts[key];
                    bool zero =
                        same_bits(output_row(&s, head, query), zeros, 10) && lse_of(&s, head, query) == -INFINITY;
                    REQUIRE(zero == (seen == 0), "%s, %s: head %lld, query %lld", ra_kernel_name(kernel),
                            sample_text(&s), (long long)head, (long long)query);
                    empty += seen == 0;
                }
                REQUIRE(empty > 0 && empty < all, "%s: %lld empty rows", sample_text(&s), (long long)empty);
                ra_plan_free(plan);
                sample_free(&s);
            }
}

static void poison(const sample *s, int64_t first, int64_t end, float key, float value)
{
    const ra_tensor *k = &s->tensors[SAMPLE_KEY], *v = &s->tensors[SAMPLE_VALUE];
    for (int64_t row = first; row < end; row++)
        for (int64_t head = 0; head < k->heads; head++) {
            ra_tensor_set(k, 0, row, head, 0, (double)key);
            ra_tensor_set(v, 0, row, head, v->dim - 1, (double)value);
        }
}

/* Rows that do not see a key keep their bits whatever it holds; those that do take it on. */
static void keys_that_are_not_seen_never_touch_a_row(void **state)
{
    (void)state;
    static const char *const patterns[] = {"blocks:16:local=1:random=2",
                                           "blocks:7:stride=3",
                                           "blocks:64:random=1+causal",
                                           "dilated:64/1,150/3",
                                           "dilated:40/2,150/3:mode=union",
                                           "dilated:200/5:mode=torchscale+causal",
                                           "blocks:20:random=2+dilated:90/1,200/4:mode=union"};
    static const float poisons[][2] = {{NAN, NAN}, {1, INFINITY}, {INFINITY, 1}, {1, NAN}};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        for (int turn = 0; turn < 12; turn++)
            FOR_EACH_KERNEL (kernel) {
                sample s;
                sample_of(&s, 200, 200, 4, 2, patterns[i]);
                ra_options options = options_of(kernel, 2, (ra_tile_order)(turn % ORDERS));
                ra_plan *plan = sample_plan(&s, kernel, 1);
                int64_t key = (turn * 37 + 3) % 200;
                sample_run_as(&s, &options, NULL);
                float *before = malloc(s.bytes[SAMPLE_OUTPUT]);
                assert_non_null(before);
                memcpy(before, s.memory[SAMPLE_OUTPUT], s.bytes[SAMPLE_OUTPUT]);
                poison(&s, key, key + 1, poisons[turn % 4][0], poisons[turn % 4][1]);
                sample_run_as(&s, &options, NULL);
                for (int64_t row = 0; row < 4 * (int64_t)200; row++) {
                    uint8_t times;
                    assert_int_equal(ra_plan_visible(plan, row % 4, row / 4, key, 1, &times), RA_OK);
                    const float *now = output_row(&s, row % 4, row / 4);
                    REQUIRE(times ? !isfinite(now[9]) || turn % 4 == 2 : same_bits(now, before + row * 10, 10),
                            "%s, %s, %s tiles: key %lld in row %lld of head %lld", ra_kernel_name(kernel),
                            sample_text(&s), ra_tile_order_name(options.tiles), (long long)key, (long long)(row / 4),
                            (long long)(row % 4));
                }
                free(before);
                ra_plan_free(plan);
                sample_free(&s);
            }
}

/* The statistics have the mask's count, pair by pair. */
static void statistics_count_the_pairs_of_the_mask(void **state)
{
    (void)state;
    seed_range range = seeds(60);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        char pattern[512];
        int64_t kv_len = choose(&c, 1, 200), kv_heads = choose(&c, 1, 2);
        choose_sparse(&c, kv_len, pattern, sizeof pattern);
        sample s;
        sample_of(&s, choose(&c, 1, 200), kv_len, kv_heads * choose(&c, 1, 3), kv_heads, pattern);
        ra_options options = options_of(RA_KERNEL_AUTO, 1, (ra_tile_order)choose(&c, 0, 2));
        ra_stats stats = RA_STATS_INIT;
        ra_plan *plan = sample_plan(&s, RA_KERNEL_AUTO, 1);
        double pairs = 0;
        for (int64_t row = 0; row < s.problem.q_len * s.problem.heads; row++) {
            uint8_t counts[200];
            assert_int_equal(ra_plan_visible(plan, row % s.problem.heads, row / s.problem.heads, 0, kv_len, counts),
                             RA_OK);
            for (int64_t key = 0; key < kv_len; key++)
                pairs += counts[key];
        }
        sample_run_as(&s, &options, &stats);
        REQUIRE(stats.pairs_visible == pairs, "seed %llu, %s: %.0f pairs, not %.0f", (unsigned long long)seed,
                sample_text(&s), stats.pairs_visible, pairs);
        ra_plan_free(plan);
        sample_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_length),
        cmocka_unit_test(random_problems),
        cmocka_unit_test(one_long_segment_is_full_attention),
        cmocka_unit_test(two_identical_branches_equal_one),
        cmocka_unit_test(tile_orders_agree),
        cmocka_unit_test(dilation_really_changes_the_result),
        cmocka_unit_test(density_of_a_tenth_computes_a_tenth_of_the_blocks),
        cmocka_unit_test(an_empty_row_gives_zeros),
        cmocka_unit_test(keys_that_are_not_seen_never_touch_a_row),
        cmocka_unit_test(statistics_count_the_pairs_of_the_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
