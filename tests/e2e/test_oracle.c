/* SPDX-License-Identifier: Apache-2.0 */
/* Random problems with every kernel of this machine against the double-precision oracle. */
#include "compare.h"
#include "support/ragged.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdio.h>

enum { QUICK = 350, ORACLE_ROWS = 16 };

static int64_t choose_dim(choices *c)
{
    switch (choose(c, 0, 9)) {
    case 0: return choose(c, 1, 4);
    case 1: return 64;
    case 2: return 128;
    case 3: return choose(c, 250, 300);
    case 4: return choose(c, 1, 12) == 1 ? choose(c, 300, 1024) : 80;
    default: return choose(c, 1, 150);
    }
}

static void choose_lengths(choices *c, ra_problem *p)
{
    switch (choose(c, 0, 11)) {
    case 0: /* few queries: the decoding variant */
    case 1:
        p->q_len = choose(c, 1, 8);
        p->kv_len = choose(c, 1, 700);
        break;
    case 2: /* as long as they should have been enough for several spans of keys, in either variant */
        p->batch = 1;
        p->heads = p->kv_heads = choose(c, 1, 2);
        p->q_len = choose(c, 1, 40);
        p->kv_len = choose(c, 4096, 9000);
        p->head_dim = choose(c, 1, 70);
        p->value_dim = choose(c, 1, 70);
        break;
    case 3: p->kv_len = p->q_len = 64 * choose(c, 1, 4); break;
    case 4: p->kv_len = p->q_len = choose(c, 1, 700); break;
    case 5: /* more queries than keys */
        p->kv_len = choose(c, 1, 60);
        p->q_len = p->kv_len + choose(c, 1, 200);
        break;
    default:
        p->q_len = choose(c, 1, 150);
        p->kv_len = choose(c, 1, 300);
        break;
    }
}

static double choose_scale(choices *c)
{
    static const double scales[] = {0, -0.3, 0.01, 3};
    return chance(c, 3) ? scales[choose(c, 0, 3)] : RA_SCALE_DEFAULT;
}

static void choose_problem(choices *c, ra_problem *p, char *pattern, size_t size)
{
    p->batch = choose(c, 1, 3);
    p->kv_heads = choose(c, 1, 3);
    p->heads = p->kv_heads * choose(c, 1, 4);
    p->head_dim = choose_dim(c);
    p->value_dim = chance(c, 2) ? choose_dim(c) : p->head_dim;
    choose_lengths(c, p);
    p->scale = choose_scale(c);
    p->pattern = pattern;
    choose_pattern(c, p->kv_len, pattern, size);
    choose_positions(c, p);
    choose_ragged(c, p, pattern, size);
}

static void random_problems(void **state)
{
    (void)state;
    seed_range range = seeds(QUICK);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        char pattern[512];
        sample s;
        choose_problem(&c, &problem, pattern, sizeof pattern);
        sample_make_any(&s, &problem, ANY_DTYPE, &c);
        oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &c);
        oracle_size(&s, &expected);
        FOR_EACH_KERNEL (kernel) {
            double output_part, lse_part;
            sample_run(&s, kernel, (int)choose(&c, 1, 4));
            sample_errors_sized(&s, &expected, &output_part, &lse_part);
            REQUIRE(output_part <= 1 && lse_part <= 1,
                    "seed %llu, %s, %s: output off by %.2f of its tolerance, lse by %.2f", (unsigned long long)seed,
                    ra_kernel_name(kernel), sample_text(&s), output_part, lse_part);
            REQUIRE(sample_padding_kept(&s), "seed %llu, %s, %s: wrote outside its elements", (unsigned long long)seed,
                    ra_kernel_name(kernel), sample_text(&s));
        }
        oracle_free(&expected);
        sample_free(&s);
    }
}

/* The random problems must reach what they are there for. */
static void spans_and_variants_are_reached(void **state)
{
    (void)state;
    bool reached[2][2] = {{false}}; /* [variant][several spans] */
    for (uint64_t seed = 1; seed <= QUICK; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        ra_plan_info info = RA_PLAN_INFO_INIT;
        ra_plan *plan;
        char pattern[512];
        choose_problem(&c, &problem, pattern, sizeof pattern);
        assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
        assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
        reached[info.variant][info.key_spans > 1] = true;
        ra_plan_free(plan);
    }
    assert_true(reached[RA_VARIANT_TILE][0] && reached[RA_VARIANT_TILE][1]);
    assert_true(reached[RA_VARIANT_DECODE][0] && reached[RA_VARIANT_DECODE][1]);
}

/* Lengths 1 to 9 of everything, where off-by-one errors live. */
static void every_small_length(void **state)
{
    (void)state;
    static const char *const patterns[] = {"full", "causal", "window:2,1", "causal+window:1,0"};
    for (int64_t q_len = 1; q_len <= 9; q_len++)
        for (int64_t kv_len = 1; kv_len <= 9; kv_len++)
            for (int i = 0; i < 4; i++) {
                ra_problem problem = RA_PROBLEM_INIT;
                problem.q_len = q_len, problem.kv_len = kv_len, problem.heads = 1, problem.head_dim = 3;
                problem.value_dim = 2;
                problem.pattern = patterns[i];
                choices c = {1};
                sample s;
                sample_make(&s, &problem);
                oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &c);
                FOR_EACH_KERNEL (kernel) {
                    double output_error, lse_error;
                    sample_run(&s, kernel, 1);
                    sample_errors(&s, &expected, &output_error, &lse_error);
                    REQUIRE(output_error <= OUTPUT_TOLERANCE && lse_error <= LSE_TOLERANCE,
                            "%s, %s: output off by %.2e, lse by %.2e", ra_kernel_name(kernel), sample_text(&s),
                            output_error, lse_error);
                }
                oracle_free(&expected);
                sample_free(&s);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_length),
        cmocka_unit_test(random_problems),
        cmocka_unit_test(spans_and_variants_are_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
