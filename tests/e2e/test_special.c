/* SPDX-License-Identifier: Apache-2.0 */
/* NaN, infinities, and rows that see nothing: they show in exactly the rows that see them. */
#include "compare.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tiles with edges, decoding, and both with several spans of keys. */
static const struct shape {
    int64_t q_len, kv_len;
    const char *patterns[7];
} shapes[] = {
    {75,
     75,
     {"full", "causal", "window:9,4", "documents:13,50,12", "causal+window:20,0", "causal+documents:30,1,44",
      "window:0"}},
    {90, 70, {"causal", "window:3,30", "documents:7,63"}},
    {2, 150, {"full", "causal", "window:66,0", "causal+documents:130,20", "documents:149,1"}},
    {2, 4200, {"full", "causal+window:2000,0"}},
    {20, 4200, {"causal", "window:300"}},
};

/* What a test does with one shape, pattern and kernel. */
typedef void (*special_test)(sample *s, ra_kernel_id kernel);

static void for_each(special_test test)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int j = 0; j < 7 && shapes[i].patterns[j]; j++)
            FOR_EACH_KERNEL (kernel) {
                ra_problem problem = RA_PROBLEM_INIT;
                sample s;
                problem.q_len = shapes[i].q_len, problem.kv_len = shapes[i].kv_len;
                problem.heads = 2, problem.kv_heads = 1, problem.head_dim = 5, problem.value_dim = 6;
                problem.pattern = shapes[i].patterns[j];
                sample_make(&s, &problem);
                test(&s, kernel);
                sample_free(&s);
            }
}

/* The positions of keys where edges lie, from 0 up; -1 after the last. */
static int64_t next_key(const sample *s, int64_t key)
{
    static const int64_t edges[] = {0, 1, 12, 13, 31, 62, 63, 64, 65, 127, 128, 129, 2111, 2112};
    int64_t last = s->problem.kv_len - 1;
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        if (edges[i] > key && edges[i] < last)
            return edges[i];
    return key < last ? last : -1;
}

typedef struct result {
    float *output, *lse; /* dense, as sample_make lays them out */
} result;

static result keep_result(const sample *s)
{
    result r = {malloc(s->bytes[SAMPLE_OUTPUT]), malloc(s->bytes[SAMPLE_LSE])};
    assert_true(r.output && r.lse);
    memcpy(r.output, s->memory[SAMPLE_OUTPUT], s->bytes[SAMPLE_OUTPUT]);
    memcpy(r.lse, s->memory[SAMPLE_LSE], s->bytes[SAMPLE_LSE]);
    return r;
}

/* After a poisoned run: rows that see `key` are as the oracle has them, the others have the bits of the clean run. */
static void check_rows(const sample *s, ra_kernel_id kernel, const result *clean, int64_t key)
{
    const ra_problem *p = &s->problem;
    const ra_tensor *t = s->tensors;
    const float *output = s->memory[SAMPLE_OUTPUT], *lse = s->memory[SAMPLE_LSE];
    ra_plan *plan = sample_plan(s, kernel, 1);
    for (int64_t query = 0; query < p->q_len; query++)
        for (int64_t head = 0; head < p->heads; head++) {
            int64_t row = query * p->heads + head;
            uint8_t seen;
            assert_int_equal(ra_plan_visible(plan, head, query, key, 1, &seen), RA_OK);
            if (!seen) {
                REQUIRE(same_bits(output + row * p->value_dim, clean->output + row * p->value_dim, p->value_dim) &&
                            same_bits(lse + row, clean->lse + row, 1),
                        "%s, %s: query %lld was touched by key %lld", ra_kernel_name(kernel), sample_text(s),
                        (long long)query, (long long)key);
                continue;
            }
            double expected[6], expected_lse;
            assert_int_equal(ra_reference_row(plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE], 0, head, query,
                                              expected, &expected_lse),
                             RA_OK);
            double error = distance(lse[row], expected_lse, RA_F32) / 10;
            for (int64_t d = 0; d < p->value_dim; d++)
                if (isfinite(expected[d]) || isfinite(output[row * p->value_dim + d]))
                    error = fmax(error, distance(output[row * p->value_dim + d], expected[d], RA_F32));
            REQUIRE(error <= OUTPUT_TOLERANCE, "%s, %s: query %lld, which sees key %lld, is off by %g",
                    ra_kernel_name(kernel), sample_text(s), (long long)query, (long long)key, error);
        }
    ra_plan_free(plan);
}

static void poison(sample *s, ra_kernel_id kernel, int which, int64_t dim)
{
    static const double poisons[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    sample_run(s, kernel, 2);
    result clean = keep_result(s);
    for (int64_t key = next_key(s, -1); key >= 0; key = next_key(s, key))
        for (int i = 0; i < 3; i++) {
            const ra_tensor *t = &s->tensors[which];
            double before = ra_tensor_get(t, 0, key, 0, dim);
            ra_tensor_set(t, 0, key, 0, dim, poisons[i]);
            sample_run(s, kernel, 2);
            check_rows(s, kernel, &clean, key);
            ra_tensor_set(t, 0, key, 0, dim, before);
        }
    free(clean.output);
    free(clean.lse);
}

static void poison_keys(sample *s, ra_kernel_id kernel)
{
    poison(s, kernel, SAMPLE_KEY, 3);
}

static void poison_values(sample *s, ra_kernel_id kernel)
{
    poison(s, kernel, SAMPLE_VALUE, 5);
}

/* A query belongs to one row alone. */
static void poison_queries(sample *s, ra_kernel_id kernel)
{
    static const double poisons[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    const ra_problem *p = &s->problem;
    sample_run(s, kernel, 2);
    result clean = keep_result(s);
    for (int64_t query = 0; query < p->q_len; query += p->q_len / 2 + 1)
        for (int i = 0; i < 3; i++) {
            const ra_tensor *t = &s->tensors[SAMPLE_QUERY];
            const float *output = s->memory[SAMPLE_OUTPUT], *lse = s->memory[SAMPLE_LSE];
            double before = ra_tensor_get(t, 0, query, 1, 2);
            ra_tensor_set(t, 0, query, 1, 2, poisons[i]);
            sample_run(s, kernel, 2);
            ra_tensor_set(t, 0, query, 1, 2, before);
            for (int64_t row = 0; row < p->q_len * p->heads; row++) {
                bool poisoned = row == query * p->heads + 1 && clean.lse[row] > -INFINITY, shows = true;
                for (int64_t at = row * p->value_dim; at < (row + 1) * p->value_dim; at++)
                    shows &= poisoned ? isnan(output[at]) : same_bits(&output[at], &clean.output[at], 1);
                shows &= poisoned ? isnan(lse[row]) : same_bits(&lse[row], &clean.lse[row], 1);
                REQUIRE(shows, "%s, %s: %g in query %lld of head 1, row %lld", ra_kernel_name(kernel), sample_text(s),
                        poisons[i], (long long)query, (long long)row);
            }
        }
    free(clean.output);
    free(clean.lse);
}

static void in_a_key(void **state)
{
    (void)state;
    for_each(poison_keys);
}

static void in_a_value(void **state)
{
    (void)state;
    for_each(poison_values);
}

static void in_a_query(void **state)
{
    (void)state;
    for_each(poison_queries);
}

/* ---- Infinite scores ------------------------------------------------------------------------------------------- */

/* One query of ones against keys whose first element decides the score. */
static float attend_to(ra_kernel_id kernel, int64_t q_len, const float *scores, int64_t count, float *lse)
{
    ra_problem problem = RA_PROBLEM_INIT;
    sample s;
    problem.q_len = q_len, problem.kv_len = count, problem.heads = 1, problem.head_dim = 1;
    sample_make(&s, &problem);
    for (int64_t i = 0; i < q_len; i++)
        ra_tensor_set(&s.tensors[SAMPLE_QUERY], 0, i, 0, 0, 1);
    for (int64_t i = 0; i < count; i++) {
        ra_tensor_set(&s.tensors[SAMPLE_KEY], 0, i, 0, 0, scores[i]);
        ra_tensor_set(&s.tensors[SAMPLE_VALUE], 0, i, 0, 0, 7);
    }
    sample_run(&s, kernel, 1);
    float output = (float)ra_tensor_get(&s.tensors[SAMPLE_OUTPUT], 0, q_len - 1, 0, 0);
    *lse = (float)ra_tensor_get(&s.tensors[SAMPLE_LSE], 0, q_len - 1, 0, 0);
    sample_free(&s);
    return output;
}

static void infinite_scores(void **state)
{
    (void)state;
    enum { KEYS = 130 };
    static const int64_t q_lens[] = {1, 40};
    static const int odd_ones[] = {0, 63, 64, 129};
    FOR_EACH_KERNEL (kernel)
        for (int i = 0; i < 8; i++) {
            int64_t q_len = q_lens[i % 2];
            float scores[KEYS], lse;
            for (int k = 0; k < KEYS; k++)
                scores[k] = -INFINITY;
            assert_true(isnan(attend_to(kernel, q_len, scores, KEYS, &lse)) && isnan(lse));
            scores[odd_ones[i / 2]] = 0.5f; /* the only key that counts */
            assert_true(attend_to(kernel, q_len, scores, KEYS, &lse) == 7);
            assert_true(fabsf(lse - 0.5f) < 1e-6f);
            scores[odd_ones[i / 2]] = INFINITY;
            assert_true(isnan(attend_to(kernel, q_len, scores, KEYS, &lse)) && isnan(lse));
            scores[(odd_ones[i / 2] + 1) % KEYS] = 0.5f;
            assert_true(isnan(attend_to(kernel, q_len, scores, KEYS, &lse)) && isnan(lse));
            scores[odd_ones[i / 2]] = NAN;
            assert_true(isnan(attend_to(kernel, q_len, scores, KEYS, &lse)) && isnan(lse));
        }
}

/* ---- Rows that see nothing ------------------------------------------------------------------------------------- */

/* Even when everything that they do not see is NaN. */
static void rows_without_keys(void **state)
{
    (void)state;
    static const int64_t lengths[][2] = {{100, 40}, {2, 1}, {70, 64}};
    FOR_EACH_KERNEL (kernel)
        for (int i = 0; i < 3; i++) {
            ra_problem problem = RA_PROBLEM_INIT;
            sample s;
            problem.q_len = lengths[i][0], problem.kv_len = lengths[i][1];
            problem.heads = 2, problem.head_dim = 5, problem.pattern = "causal";
            sample_make(&s, &problem);
            memset(s.memory[SAMPLE_KEY], 0xff, s.bytes[SAMPLE_KEY]);
            memset(s.memory[SAMPLE_VALUE], 0xff, s.bytes[SAMPLE_VALUE]);
            sample_run(&s, kernel, 2);
            const float *output = s.memory[SAMPLE_OUTPUT], *lse = s.memory[SAMPLE_LSE];
            for (int64_t row = 0; row < problem.q_len * 2; row++) {
                bool empty = row / 2 < problem.q_len - problem.kv_len;
                assert_true(empty ? lse[row] == -INFINITY : isnan(lse[row]));
                for (int64_t at = row * 5; at < (row + 1) * 5; at++)
                    assert_true(empty ? output[at] == 0 && !signbit(output[at]) : isnan(output[at]));
            }
            sample_free(&s);
        }
}

/* A quotient that underflows leaves no sign of what it was: an exact no-op elsewhere could have changed it. */
static void zeros_are_positive(void **state)
{
    (void)state;
    enum { KEYS = 40 };
    FOR_EACH_KERNEL (kernel)
        for (int64_t q_len = 1; q_len <= 40; q_len += 39) {
            ra_problem problem = RA_PROBLEM_INIT;
            sample s;
            problem.q_len = q_len, problem.kv_len = KEYS, problem.heads = 1, problem.head_dim = 1, problem.scale = 0;
            sample_make(&s, &problem);
            for (int64_t i = 0; i < KEYS; i++)
                ra_tensor_set(&s.tensors[SAMPLE_VALUE], 0, i, 0, 0, i == 5 ? -0x1p-149 : 0);
            sample_run(&s, kernel, 1);
            const float *output = s.memory[SAMPLE_OUTPUT];
            for (int64_t i = 0; i < q_len; i++)
                assert_true(output[i] == 0 && !signbit(output[i]));
            sample_free(&s);
        }
}

/* ---- Half-precision outputs ------------------------------------------------------------------------------------ */

static void float16_output_overflows_to_infinity(void **state)
{
    (void)state;
    FOR_EACH_KERNEL (kernel)
        for (int64_t q_len = 1; q_len <= 30; q_len += 29) {
            float x[30] = {0}, values[30] = {0};
            uint16_t halves[30] = {0};
            ra_tensor q = ra_tensor_dense(x, RA_F32, RA_BSHD, 1, q_len, 1, 1), k = q, v = q;
            ra_tensor output = ra_tensor_dense(halves, RA_F16, RA_BSHD, 1, q_len, 1, 1);
            ra_problem problem = RA_PROBLEM_INIT;
            ra_options options = RA_OPTIONS_INIT;
            ra_plan *plan;
            static const float given[] = {65519, 65520, -65520, 1e9f};
            static const uint16_t stored[] = {0x7bff, 0x7c00, 0xfc00, 0x7c00};
            problem.q_len = q_len, problem.heads = 1, problem.head_dim = 1, problem.pattern = "window:0";
            options.kernel = kernel;
            v.data = values;
            assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_OK);
            for (int i = 0; i < 4; i++) {
                for (int64_t j = 0; j < q_len; j++)
                    values[j] = given[i];
                assert_int_equal(ra_forward(plan, &q, &k, &v, &output, NULL, NULL), RA_OK);
                for (int64_t j = 0; j < q_len; j++)
                    assert_int_equal(halves[j], stored[i]);
            }
            ra_plan_free(plan);
        }
}

/* A scale that would make the query infinite, with scores that are not: two keys of equal score, one far below. */
static void finite_scores_of_large_scales(void **state)
{
    (void)state;
    static const double scales[] = {1e10, -1e10, 3e38};
    static const float queries[] = {1e30f, 1e30f, 1e-20f}, keys[] = {1e-30f, -1e-30f, 1e-10f};
    FOR_EACH_KERNEL (kernel)
        for (int64_t q_len = 1; q_len <= 30; q_len += 29)
            for (int i = 0; i < 3; i++) {
                float x[30], key[3] = {keys[i], keys[i], -keys[i]}, value[3] = {1, 2, 100}, result[30];
                ra_tensor q = ra_tensor_dense(x, RA_F32, RA_BSHD, 1, q_len, 1, 1);
                ra_tensor k = ra_tensor_dense(key, RA_F32, RA_BSHD, 1, 3, 1, 1), v = k, output = q;
                ra_problem problem = RA_PROBLEM_INIT;
                ra_options options = RA_OPTIONS_INIT;
                ra_plan *plan;
                problem.q_len = q_len, problem.kv_len = 3, problem.heads = 1, problem.head_dim = 1;
                problem.scale = scales[i];
                options.kernel = kernel;
                v.data = value, output.data = result;
                for (int64_t j = 0; j < q_len; j++)
                    x[j] = queries[i];
                assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_OK);
                assert_int_equal(ra_forward(plan, &q, &k, &v, &output, NULL, NULL), RA_OK);
                for (int64_t j = 0; j < q_len; j++)
                    assert_true(result[j] == 1.5f);
                ra_plan_free(plan);
            }
}

/* float16 and bfloat16 outputs are the float32 output, rounded once to the nearest. */
static void outputs_are_rounded_to_nearest(void **state)
{
    (void)state;
    enum { KEYS = 100, HEADS = 2, DIM = 24, MOST = 70 * HEADS * DIM };
    static float x[3][KEYS * HEADS * DIM], wide[MOST];
    static uint16_t half[MOST];
    for (int i = 0; i < 3; i++)
        ra_generate(RA_NORMAL, (uint64_t)i, 0, KEYS * HEADS * DIM, x[i]);
    FOR_EACH_KERNEL (kernel) {
        for (int64_t q_len = 1; q_len <= 70; q_len += 23) { /* both variants */
            ra_problem problem = RA_PROBLEM_INIT;
            ra_options options = RA_OPTIONS_INIT;
            ra_plan *plan;
            problem.q_len = q_len, problem.kv_len = KEYS, problem.heads = HEADS, problem.head_dim = DIM;
            options.kernel = kernel, options.threads = 1;
            assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_OK);
            ra_tensor q = ra_tensor_dense(x[0], RA_F32, RA_BSHD, 1, q_len, HEADS, DIM), output = q;
            ra_tensor k = ra_tensor_dense(x[1], RA_F32, RA_BSHD, 1, KEYS, HEADS, DIM), v = k;
            v.data = x[2], output.data = wide;
            assert_int_equal(ra_forward(plan, &q, &k, &v, &output, NULL, NULL), RA_OK);
            for (int bf16 = 0; bf16 < 2; bf16++) {
                output = ra_tensor_dense(half, bf16 ? RA_BF16 : RA_F16, RA_BSHD, 1, q_len, HEADS, DIM);
                assert_int_equal(ra_forward(plan, &q, &k, &v, &output, NULL, NULL), RA_OK);
                for (int64_t i = 0; i < q_len * HEADS * DIM; i++) {
                    double value = ra_tensor_get(&output, 0, i / HEADS / DIM, i / DIM % HEADS, i % DIM),
                           wanted = wide[i];
                    /* A step is 2^-7 or 2^-10 of the power of two below the value, and half of one the most. */
                    int exponent;
                    frexp(wanted, &exponent);
                    double half_step = ldexp(0.5, exponent - 1 - (bf16 ? 7 : 10));
                    REQUIRE(fabs(value - wanted) <= half_step || fabs(wanted) < 0x1p-14, "%s, %d queries: %a became %a",
                            ra_kernel_name(kernel), (int)q_len, wanted, value);
                }
            }
            ra_plan_free(plan);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_key),
        cmocka_unit_test(in_a_value),
        cmocka_unit_test(in_a_query),
        cmocka_unit_test(infinite_scores),
        cmocka_unit_test(rows_without_keys),
        cmocka_unit_test(zeros_are_positive),
        cmocka_unit_test(float16_output_overflows_to_infinity),
        cmocka_unit_test(finite_scores_of_large_scales),
        cmocka_unit_test(outputs_are_rounded_to_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
