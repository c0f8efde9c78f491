/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hard inputs: never worse than twice the error of attention written down naively in float32, plus 4 eps max|v|. And
 * row sums of more keys than a float can count.
 */
#include "compare.h"
#include "support/sample.h"
#include "support/unit.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The yardstick --------------------------------------------------------------------------------------------- */

/* One row of one head, in float32 throughout, the way it is written in a textbook. */
static void naive_row(const sample *s, int64_t query, float *scores, float *output)
{
    const ra_problem *p = &s->problem;
    const float *q = (const float *)s->memory[SAMPLE_QUERY] + query * p->head_dim, *k = s->memory[SAMPLE_KEY];
    const float *v = s->memory[SAMPLE_VALUE];
    float scale = (float)(p->scale == RA_SCALE_DEFAULT ? 1 / sqrt((double)p->head_dim) : p->scale);
    float max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < p->kv_len; j++) {
        float dot = 0;
        for (int64_t d = 0; d < p->head_dim; d++)
            dot += q[d] * k[j * p->head_dim + d];
        scores[j] = dot * scale;
        max = fmaxf(max, scores[j]);
    }
    for (int64_t d = 0; d < p->value_dim; d++)
        output[d] = 0;
    for (int64_t j = 0; j < p->kv_len; j++) {
        float weight = expf(scores[j] - max);
        sum += weight;
        for (int64_t d = 0; d < p->value_dim; d++)
            output[d] += weight * v[j * p->value_dim + d];
    }
    for (int64_t d = 0; d < p->value_dim; d++)
        output[d] /= sum;
}

static double naive_error(const sample *s, const oracle_rows *expected)
{
    int64_t dim = s->problem.value_dim;
    float *scores = malloc((size_t)s->problem.kv_len * sizeof *scores), *output = malloc((size_t)dim * sizeof *output);
    double error = 0;
    assert_true(scores && output);
    for (int i = 0; i < expected->count; i++) {
        naive_row(s, expected->at[i][2], scores, output);
        for (int64_t d = 0; d < dim; d++)
            error = fmax(error, fabs(output[d] - expected->output[i * dim + d]));
    }
    free(scores);
    free(output);
    return error;
}

static double largest_value(const sample *s)
{
    const float *v = s->memory[SAMPLE_VALUE];
    double largest = 0;
    for (size_t i = 0; i < s->bytes[SAMPLE_VALUE] / sizeof *v; i++)
        largest = fmax(largest, fabs((double)v[i]));
    return largest;
}

/* A log-sum-exp of hundreds has no more digits than one of ten. */
static double largest_lse(const oracle_rows *expected)
{
    double largest = 0;
    for (int i = 0; i < expected->count; i++)
        largest = fmax(largest, fabs(expected->lse[i]));
    return largest;
}

/* ---- Inputs ---------------------------------------------------------------------------------------------------- */

static void as_they_are(sample *s)
{
    (void)s;
}

/* Scores of about -1e4 to 1e4. */
static void make_scores_large(sample *s)
{
    s->problem.scale = 2500 / sqrt((double)s->problem.head_dim);
}

/* Every query finds one key far above the others, early in the sequence. */
static void make_one_key_dominate(sample *s)
{
    int64_t dim = s->problem.head_dim;
    float *q = s->memory[SAMPLE_QUERY], *k = s->memory[SAMPLE_KEY];
    for (int64_t i = 1; i < s->problem.q_len; i++)
        for (int64_t d = 0; d < dim; d++)
            q[i * dim + d] = q[d] + 0.1f * q[i * dim + d];
    for (int64_t d = 0; d < dim; d++)
        k[3 * dim + d] = 20 * q[d];
}

/* Every key is the same. */
static void make_scores_equal(sample *s)
{
    int64_t dim = s->problem.head_dim;
    float *k = s->memory[SAMPLE_KEY];
    for (int64_t j = 1; j < s->problem.kv_len; j++)
        memcpy(k + j * dim, k, (size_t)dim * sizeof *k);
}

/* Each block of keys scores higher than the one before, so that what was summed is rescaled every time. */
static void make_scores_climb(sample *s)
{
    int64_t dim = s->problem.head_dim;
    float *k = s->memory[SAMPLE_KEY], *q = s->memory[SAMPLE_QUERY];
    for (int64_t i = 1; i < s->problem.q_len; i++)
        memcpy(q + i * dim, q, (size_t)dim * sizeof *q);
    for (int64_t j = 0; j < s->problem.kv_len; j++)
        for (int64_t d = 0; d < dim; d++)
            k[j * dim + d] = q[d] * (float)j * 1e-3f;
}

static const struct input {
    const char *name;
    void (*make)(sample *s);
    int64_t kv_len, head_dim, value_dim;
} inputs[] = {
    {"scores of 1e4", make_scores_large, 300, 64, 16},
    {"scores of 1e4", make_scores_large, 300, 300, 16},
    {"one key dominates", make_one_key_dominate, 300, 64, 16},
    {"equal scores", make_scores_equal, 1000, 64, 16},
    {"climbing scores", make_scores_climb, 1500, 64, 16},
    {"1024 dimensions", as_they_are, 300, 1024, 40},
    {"a long row", as_they_are, 20000, 16, 8},
    {"as usual", as_they_are, 2048, 64, 64},
};

static void no_worse_than_twice_the_naive_way(void **state)
{
    (void)state;
    static const int64_t q_lens[] = {2, 30};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        for (int j = 0; j < 2; j++) {
            ra_problem problem = RA_PROBLEM_INIT;
            choices c = {1};
            sample s;
            problem.q_len = q_lens[j], problem.kv_len = inputs[i].kv_len, problem.heads = 1;
            problem.head_dim = inputs[i].head_dim, problem.value_dim = inputs[i].value_dim;
            sample_make(&s, &problem);
            inputs[i].make(&s);
            oracle_rows expected = sample_oracle(&s, (int)q_lens[j], &c);
            double allowed = 2 * naive_error(&s, &expected) + 4 * FLT_EPSILON * largest_value(&s);
            double lse_allowed = LSE_TOLERANCE * fmax(1, largest_lse(&expected) / 32);
            FOR_EACH_KERNEL (kernel) {
                double error, lse_error;
                sample_run(&s, kernel, 1);
                sample_errors(&s, &expected, &error, &lse_error);
                REQUIRE(error <= allowed, "%s, %s, %s: off by %.2e of %.2e", inputs[i].name, ra_kernel_name(kernel),
                        sample_text(&s), error, allowed);
                REQUIRE(lse_error <= lse_allowed, "%s, %s, %s: lse off by %.2e", inputs[i].name, ra_kernel_name(kernel),
                        sample_text(&s), lse_error);
            }
            oracle_free(&expected);
            sample_free(&s);
        }
}

/* ---- Row sums -------------------------------------------------------------------------------------------------- */

/*
 * `keys` times the same key and value, by strides of 0. A float that counts the weights one by one stays at 2^24. With
 * enough batches the keys are not split into spans, so that a single sum has to hold them all.
 */
static void count_keys(int64_t keys, int64_t batch, int64_t q_len)
{
    float one = 0.5f, value = 3;
    float *output = calloc((size_t)(batch * q_len), sizeof *output),
          *lse = calloc((size_t)(batch * q_len), sizeof *lse);
    assert_true(output && lse);
    ra_tensor q = {&one, RA_F32, batch, q_len, 1, 1, 0, 0, 0, 0}, k = {&one, RA_F32, batch, keys, 1, 1, 0, 0, 0, 0};
    ra_tensor v = k, o = ra_tensor_dense(output, RA_F32, RA_BSHD, batch, q_len, 1, 1), l = o;
    v.data = &value;
    l.data = lse;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.batch = batch, problem.q_len = q_len, problem.kv_len = keys, problem.heads = 1, problem.head_dim = 1;
    FOR_EACH_KERNEL (kernel) {
        ra_options options = RA_OPTIONS_INIT;
        ra_plan *plan;
        options.kernel = kernel;
        assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_OK);
        assert_int_equal(ra_forward(plan, &q, &k, &v, &o, &l, NULL), RA_OK);
        ra_plan_free(plan);
        for (int64_t i = 0; i < batch * q_len; i++) {
            double error = fabs(lse[i] - (0.25 + log((double)keys)));
            REQUIRE(error <= 2e-5 && fabsf(output[i] - value) <= 1e-6f, "%s, %lld keys: lse off by %.2e, output %.7f",
                    ra_kernel_name(kernel), (long long)keys, error, output[i]);
        }
    }
    free(output);
    free(lse);
}

static void sums_of_many_keys(void **state)
{
    (void)state;
    count_keys(INT64_C(1) << 25, 1, 1);
    count_keys(INT64_C(1) << 20, 1, 30);
}

static void sums_past_what_a_float_counts(void **state)
{
    (void)state;
    count_keys(INT64_C(1) << 25, 33, 1);
    count_keys(INT64_C(1) << 25, 33, 12);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_worse_than_twice_the_naive_way),
        cmocka_unit_test(sums_of_many_keys),
    };
    const struct CMUnitTest long_tests[] = {cmocka_unit_test(sums_past_what_a_float_counts)};
    if (argc > 1 && strcmp(argv[1], "long") == 0)
        return cmocka_run_group_tests(long_tests, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
