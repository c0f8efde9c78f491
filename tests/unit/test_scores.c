/* SPDX-License-Identifier: Apache-2.0 */
/* Scores: what texts mean, which are refused at which character, arrays in memory and in files, dropout's draws. */
#include "score/scores.h"
#include "support/folder.h"
#include "support/unit.h"

#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 2, QUERIES = 3, KEYS = 5, HEADS = 4 };

static ra_problem problem_with(const char *scores, const ra_score_arrays *arrays)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.batch = BATCH, problem.q_len = QUERIES, problem.kv_len = KEYS, problem.heads = HEADS;
    problem.head_dim = 8, problem.scores = scores, problem.score_arrays = arrays;
    return problem;
}

static ra_plan *plan_with(const char *scores, const ra_score_arrays *arrays)
{
    ra_problem problem = problem_with(scores, arrays);
    ra_plan *plan = NULL;
    REQUIRE(!ra_plan_create(&problem, NULL, &plan), "%s: %s", scores ? scores : "no text", ra_last_message());
    return plan;
}

static void refused(const char *scores, const ra_score_arrays *arrays, const char *message)
{
    ra_problem problem = problem_with(scores, arrays);
    ra_plan *plan = NULL;
    REQUIRE(ra_plan_create(&problem, NULL, &plan), "%s: accepted", scores ? scores : "no text");
    REQUIRE(strcmp(ra_last_message(), message) == 0, "%s: %s\nexpected %s", scores ? scores : "no text",
            ra_last_message(), message);
}

/* The score of query i and key j, which was 1.5. */
static double score_of(const ra_plan *plan, int64_t batch, int64_t head, int64_t i, int64_t j)
{
    ra_score_pair pair = {batch, head, i + plan->offset, j, i, j};
    return ra_score_of_pair(plan->scores, &pair, 1.5, NULL, NULL);
}

static void near(double value, double expected)
{
    REQUIRE(fabs(value - expected) <= 1e-12, "%.15g, expected %.15g", value, expected);
}

static void make_file(const char *path, ra_dtype dtype, int dims, const int64_t *shape, const void *elements)
{
    ra_array *array = NULL;
    int64_t count = 1;
    for (int i = 0; i < dims; i++)
        count *= shape[i];
    assert_int_equal(ra_array_create(path, dtype, dims, shape, &array), RA_OK);
    assert_int_equal(ra_array_write(array, 0, count, elements), RA_OK);
    assert_int_equal(ra_array_commit(array), RA_OK);
    ra_array_close(array);
}

/* ---- Meaning -------------------------------------------------------------------------------------------------------
 */

static void no_scores_are_none(void **state)
{
    (void)state;
    ra_plan *plan = plan_with(NULL, NULL);
    assert_null(plan->scores);
    ra_plan_free(plan);
}

static void terms_apply_in_the_order_written(void **state)
{
    (void)state;
    ra_plan *plan = plan_with("softcap:2.5+alibi", NULL);
    near(score_of(plan, 0, 0, 0, 0), 2.5 * tanh(1.5 / 2.5) - 0.25 * 2);
    ra_plan_free(plan);
    plan = plan_with("alibi+softcap:2.5", NULL);
    near(score_of(plan, 0, 0, 0, 0), 2.5 * tanh((1.5 - 0.25 * 2) / 2.5));
    near(score_of(plan, 1, 3, 0, 4), 2.5 * tanh((1.5 - 2 / 256.0) / 2.5));
    ra_plan_free(plan);
}

/* The lists that the paper's own code prints. */
static void slopes_of_the_paper(void **state)
{
    (void)state;
    float slopes[12];
    ra_alibi_slopes(8, slopes);
    for (int i = 0; i < 8; i++)
        near((double)slopes[i], exp2(-(i + 1)));
    ra_alibi_slopes(12, slopes);
    for (int i = 0; i < 8; i++)
        near((double)slopes[i], exp2(-(i + 1)));
    for (int i = 0; i < 4; i++)
        assert_true(slopes[8 + i] == (float)exp2(-0.5 - i));
    ra_alibi_slopes(1, slopes);
    near((double)slopes[0], 1 / 256.0);
    ra_alibi_slopes(3, slopes);
    assert_true(slopes[0] == 1 / 16.0f && slopes[1] == 1 / 256.0f && slopes[2] == 0.25f);
}

static void arrays_in_memory(void **state)
{
    (void)state;
    float slopes[HEADS] = {1, 2, 3, 4}, table[3] = {10, 20, 30}, sinks[HEADS] = {5, 6, 7, 8};
    float bias[2][KEYS] = {{0, 1, 2, 3, 4}, {100, 101, 102, 103, 104}};
    ra_tensor s = ra_tensor_dense(slopes, RA_F32, RA_BSHD, 1, 1, HEADS, 1), t = s, b = s, k = s;
    t = ra_tensor_dense(table, RA_F32, RA_BSHD, 1, 1, 1, 3);
    b = ra_tensor_dense(bias, RA_F32, RA_BSHD, BATCH, 1, 1, KEYS);
    k.data = sinks;
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    arrays.slopes = &s, arrays.table = &t, arrays.bias = &b, arrays.sinks = &k;
    ra_plan *plan = plan_with("alibi+relative+bias+sinks", &arrays);
    memset(&s, 0, sizeof s); /* the views have been copied */
    slopes[1] = -2;          /* and their elements have not */
    /* Query 0 is at position 2. */
    near(score_of(plan, 0, 1, 0, 2), 1.5 + 20 + 2);
    near(score_of(plan, 1, 1, 0, 4), 1.5 + 2 * 2 + 30 + 104);
    near(score_of(plan, 1, 2, 2, 0), 1.5 - 3 * 4 + 10 + 100);
    near(ra_score_at(&plan->scores->sinks, 0, 0, 3, 0), 8);
    ra_plan_free(plan);
}

/* Each entry's derivative against a difference. */
static void derivatives(void **state)
{
    (void)state;
    float table[3] = {1, 2, 3}, bias[KEYS] = {1, 2, 3, 4, 5};
    ra_tensor t = ra_tensor_dense(table, RA_F32, RA_BSHD, 1, 1, 1, 3);
    ra_tensor b = ra_tensor_dense(bias, RA_F32, RA_BSHD, 1, 1, 1, KEYS);
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    arrays.table = &t, arrays.bias = &b;
    ra_plan *plan = plan_with("relative+softcap:3+bias", &arrays);
    ra_score_pair pair = {0, 0, 2, 1, 0, 1};
    double slope = 0, changed[RA_SCORE_KINDS], step = 1e-6;
    double score = ra_score_of_pair(plan->scores, &pair, 1.5, &slope, changed);
    double up = ra_score_of_pair(plan->scores, &pair, 1.5 + step, NULL, NULL);
    double down = ra_score_of_pair(plan->scores, &pair, 1.5 - step, NULL, NULL);
    near(score, 3 * tanh(2.5 / 3) + 2);
    REQUIRE(fabs((up - down) / (2 * step) - slope) < 1e-9, "slope %g, by difference %g", slope,
            (up - down) / (2 * step));
    near(changed[0], slope);
    near(changed[1], 1);
    near(changed[2], 1);
    ra_plan_free(plan);
}

static void dropout_is_as_frequent_as_said(void **state)
{
    (void)state;
    enum { ROWS = 300, COLUMNS = 700 };
    ra_plan *plan = plan_with("dropout:0.25:seed=7", NULL), *other = plan_with("dropout:0.25:seed=8", NULL);
    double kept = 0, both = 0;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            ra_score_pair pair = {0, 1, i, j, i, j};
            double factor = ra_score_kept(plan->scores, &pair);
            REQUIRE(factor == 0 || factor == 1 / 0.75, "factor %g", factor);
            kept += factor > 0;
            both += factor > 0 && ra_score_kept(other->scores, &pair) > 0;
        }
    /* Five standard deviations of a fair draw, sqrt(n p (1 - p)) = 198 and 228. */
    REQUIRE(fabs(kept - 0.75 * ROWS * COLUMNS) < 1000, "%g of %d kept", kept, ROWS * COLUMNS);
    REQUIRE(fabs(both - 0.5625 * ROWS * COLUMNS) < 1150, "%g of %d kept by both seeds", both, ROWS * COLUMNS);
    ra_plan_free(plan);
    ra_plan_free(other);
    plan = plan_with("dropout:0", NULL);
    ra_score_pair pair = {0, 0, 0, 0, 0, 0};
    assert_true(ra_score_kept(plan->scores, &pair) == 1);
    ra_plan_free(plan);
}

/* ---- T5's buckets --------------------------------------------------------------------------------------------------
 */

/* Where buckets of the model's own code begin, for 32 buckets and a distance of 128: 16 each way, or 32 backward. */
static void tables_of_t5(void **state)
{
    (void)state;
    enum { BUCKETS = 32, FAR = 128, WIDTH = 2 * FAR + 1, TWO = 2 };
    static const int both[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91, 129};
    static const int back[] = {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113, 129};
    float weights[BUCKETS][TWO], table[TWO][WIDTH];
    for (int i = 0; i < BUCKETS; i++)
        weights[i][0] = (float)i, weights[i][1] = (float)-i;
    assert_int_equal(ra_relative_from_buckets(weights[0], BUCKETS, TWO, 1, FAR, table[0]), RA_OK);
    for (int bucket = 0; bucket < 16; bucket++)
        for (int apart = both[bucket]; apart < both[bucket + 1]; apart++) {
            assert_true(table[0][FAR - apart] == (float)bucket);
            assert_true(table[1][FAR - apart] == (float)-bucket);
            assert_true(apart == 0 || table[0][FAR + apart] == (float)(16 + bucket));
        }
    assert_int_equal(ra_relative_from_buckets(weights[0], BUCKETS, TWO, 0, FAR, table[0]), RA_OK);
    for (int apart = 0; apart < 16; apart++)
        assert_true(table[0][FAR - apart] == (float)apart && table[0][FAR + apart] == 0);
    for (int bucket = 16; bucket < 32; bucket++)
        for (int apart = back[bucket - 16]; apart < back[bucket - 15]; apart++)
            assert_true(table[0][FAR - apart] == (float)bucket);
}

static void buckets_that_are_refused(void **state)
{
    (void)state;
    float one[64] = {0};
    assert_int_equal(ra_relative_from_buckets(NULL, 32, 1, 1, 128, one), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "weights is NULL");
    assert_int_equal(ra_relative_from_buckets(one, 3, 1, 1, 128, one), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "buckets 3: must be 4..16777216");
    assert_int_equal(ra_relative_from_buckets(one, 32, 0, 1, 128, one), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "heads 0: must be >= 1");
    assert_int_equal(ra_relative_from_buckets(one, 32, 1, 1, 8, one), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "max_distance 8: must be 9..16777216 with 32 buckets");
}

/* ---- Files ---------------------------------------------------------------------------------------------------------
 */

static void arrays_in_files(void **state)
{
    (void)state;
    const float slopes[HEADS] = {1, 2, 3, 4}, table[HEADS][3] = {{0}, {10, 20, 30}, {0}, {0}};
    uint16_t bias[QUERIES][KEYS];
    for (int i = 0; i < QUERIES; i++)
        for (int j = 0; j < KEYS; j++)
            bias[i][j] = (uint16_t)(0x3f80 + 0x80 * i + 0x40 * (j == 4)); /* bfloat16: 2^i, of the last key half more */
    make_file("a.npy", RA_F32, 1, (const int64_t[]){HEADS}, slopes);
    make_file("b.npy", RA_F32, 2, (const int64_t[]){HEADS, 3}, table);
    make_file("b.safetensors#b", RA_BF16, 4, (const int64_t[]){1, 1, QUERIES, KEYS}, bias);
    ra_plan *plan = plan_with("alibi:@a.npy+relative:@b.npy+bias:@b.safetensors#b+sinks:@a.npy", NULL);
    near(score_of(plan, 1, 1, 2, 0), 1.5 - 2 * 4 + 10 + 4);
    near(score_of(plan, 0, 1, 1, 4), 1.5 - 2 + 30 + 3);
    near(ra_score_at(&plan->scores->sinks, 0, 0, 2, 0), 3);
    float part[2][2] = {{0}};
    const ra_bias_source *source = &plan->scores->bias_source;
    source->read(source->file, 1, 3, 1, 2, 3, 2, part[0], 2);
    assert_int_equal(source->failed(source->file), RA_OK);
    assert_true(part[0][0] == 2 && part[0][1] == 3 && part[1][0] == 4 && part[1][1] == 6);
    ra_plan_free(plan);
}

/* What cannot be read is NaN, and the cause is told once. */
static void a_bias_that_becomes_shorter(void **state)
{
    (void)state;
    const float bias[KEYS] = {1, 2, 3, 4, 5};
    make_file("a.npy", RA_F32, 4, (const int64_t[]){1, 1, 1, KEYS}, bias);
    ra_plan *plan = plan_with("bias:@a.npy", NULL);
    const ra_bias_source *source = &plan->scores->bias_source;
    assert_int_equal(truncate("a.npy", 128 + 2 * sizeof(float)), 0);
    float part[KEYS] = {0};
    source->read(source->file, 0, 0, 0, 1, 0, 2, part, KEYS);
    assert_int_equal(source->failed(source->file), RA_OK);
    assert_true(part[1] == 2);
    source->read(source->file, 0, 0, 0, 1, 1, 4, part, KEYS);
    assert_true(isnan(part[3]));
    assert_int_equal(source->failed(source->file), RA_ERROR_FILE);
    assert_string_equal(ra_last_message(), "a.npy: ends at byte 136: it became shorter while it was read");
    assert_int_equal(source->failed(source->file), RA_OK);
    ra_plan_free(plan);
}

static void files_that_do_not_fit(void **state)
{
    (void)state;
    const float values[60] = {[2] = INFINITY};
    make_file("a.npy", RA_F32, 1, (const int64_t[]){3}, values);
    refused(
        "softcap:1+alibi:@a.npy", NULL,
        "scores \"softcap:1+alibi:@a.npy\", character 17: a.npy: float32 of shape (3,): slopes must be float32 [4], "
        "one for each query head");
    refused("relative:@a.npy", NULL,
            "scores \"relative:@a.npy\", character 10: a.npy: float32 of shape (3,): a relative table must be float32 "
            "[4 or 1, an odd number]");
    make_file("a.npy", RA_F32, 2, (const int64_t[]){1, 4}, values);
    refused(
        "relative:@a.npy", NULL,
        "scores \"relative:@a.npy\", character 10: a.npy: float32 of shape (1, 4): a relative table must be float32 "
        "[4 or 1, an odd number]");
    refused("bias:@a.npy", NULL,
            "scores \"bias:@a.npy\", character 6: a.npy: float32 of shape (1, 4): a bias must be float32, float16 or "
            "bfloat16 [batch 2 or 1, heads 4 or 1, q_len 3 or 1, kv_len 5]");
    make_file("a.npy", RA_I64, 4, (const int64_t[]){1, 1, 3, 5}, values);
    refused(
        "bias:@a.npy", NULL,
        "scores \"bias:@a.npy\", character 6: a.npy: int64 of shape (1, 1, 3, 5): a bias must be float32, float16 or "
        "bfloat16 [batch 2 or 1, heads 4 or 1, q_len 3 or 1, kv_len 5]");
    make_file("a.npy", RA_F32, 1, (const int64_t[]){4}, values);
    refused("sinks:@a.npy", NULL, "scores \"sinks:@a.npy\", character 6: sinks: inf for head 2: must be finite");
    refused("alibi:@b.npy", NULL,
            "scores \"alibi:@b.npy\", character 7: b.npy: cannot open: No such file or directory");
}

/* ---- Refusals ------------------------------------------------------------------------------------------------------
 */

#define AT(text, character, what, found)                                                                               \
    refused(text, NULL, "scores \"" text "\", character " character ": expected " what ", found " found)

static void texts_that_are_refused(void **state)
{
    (void)state;
    const char all[] = "scores \"%s\", character %d: expected one of softcap:C, alibi[:@FILE.npy], relative:@FILE.npy, "
                       "bias:@FILE.npy, sinks:@FILE.npy, dropout:P[:seed=S], found %s";
    char message[512];
    snprintf(message, sizeof message, all, "", 1, "the end");
    refused("", NULL, message);
    snprintf(message, sizeof message, all, "alibi+", 7, "the end");
    refused("alibi+", NULL, message);
    snprintf(message, sizeof message, all, "Softcap:3", 1, "\"Softcap:3\"");
    refused("Softcap:3", NULL, message);
    AT("softcap", "8", "\":C\" after \"softcap\"", "the end");
    AT("softcap:0", "9", "a cap > 0, in decimals of up to 15 digits", "\"0\"");
    AT("softcap:-1", "9", "a cap > 0, in decimals of up to 15 digits", "\"-1\"");
    AT("softcap:inf", "9", "a cap > 0, in decimals of up to 15 digits", "\"inf\"");
    AT("softcap:nan+alibi", "9", "a cap > 0, in decimals of up to 15 digits", "\"nan+alibi\"");
    AT("softcap:3e9", "10", "\"+\" or the end", "\"e9\"");
    AT("dropout:1", "9", "a probability in [0, 1), as a decimal fraction of up to 15 digits", "\"1\"");
    AT("dropout:-0.5", "9", "a probability in [0, 1), as a decimal fraction of up to 15 digits", "\"-0.5\"");
    AT("dropout:.5:sed=1", "11", "\":seed=S\", \"+\" or the end after the probability of \"dropout\"", "\":sed=1\"");
    AT("dropout:.5:seed=-1", "17", "a seed, >= 0", "\"-1\"");
    AT("alibi+softcap:1+alibi", "17", "a term that was not given before", "\"alibi\"");
    AT("bias", "5", "\":@FILE.npy\" after \"bias\", or bias among the score_arrays", "the end");
    AT("relative+alibi", "9", "\":@FILE.npy\" after \"relative\", or table among the score_arrays", "\"+alibi\"");
    AT("sinks:a.npy", "6", "\":@FILE.npy\", \"+\" or the end after \"sinks\"", "\":a.npy\"");
    AT("alibi:@", "8", "a path after \"@\"", "the end");
}

static void arrays_that_are_refused(void **state)
{
    (void)state;
    float values[2 * HEADS * KEYS] = {0};
    ra_tensor list = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 1, HEADS, 1), wrong = list;
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    arrays.slopes = &list;
    refused(NULL, &arrays, "score_arrays: slopes is given, but in scores \"\" there is no term \"alibi\"");
    refused("softcap:3", &arrays,
            "score_arrays: slopes is given, but in scores \"softcap:3\" there is no term \"alibi\"");
    wrong.heads = 3;
    arrays.slopes = &wrong;
    refused(
        "alibi", &arrays,
        "scores \"alibi\", character 6: slopes: [batch 1, seq 1, heads 3, dim 1] does not match the problem's [batch "
        "1, seq 1, heads 4, dim 1]");
    wrong = list, wrong.dtype = RA_BF16;
    refused("alibi", &arrays, "scores \"alibi\", character 6: slopes: dtype bfloat16: must be float32");
    arrays.slopes = &list, values[1] = NAN;
    refused("alibi", &arrays, "scores \"alibi\", character 6: slopes: nan for head 1: must be finite");
    arrays.slopes = NULL, arrays.table = &wrong;
    wrong = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 1, HEADS, 4);
    refused("relative", &arrays, "scores \"relative\", character 9: table: dim 4: must be odd, 2M + 1");
    wrong.dim = 3;
    refused("relative", &arrays, "scores \"relative\", character 9: table: nan at [0, 1]: must be finite");
    arrays.table = NULL, arrays.bias = &wrong;
    wrong = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 2, 1, KEYS);
    refused(
        "bias", &arrays,
        "scores \"bias\", character 5: bias: [batch 1, seq 2, heads 1, dim 5] does not match the problem's [batch 1, "
        "seq 3, heads 1, dim 5]");
}

static void gradients_that_are_refused(void **state)
{
    (void)state;
    float values[HEADS] = {0}, d_values[HEADS];
    ra_tensor list = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 1, HEADS, 1), gradient = list;
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    gradient.data = d_values;
    arrays.d_sinks = &gradient;
    refused("alibi", &arrays, "score_arrays: d_sinks is given, but in scores \"alibi\" there is no term \"sinks\"");
    arrays.d_sinks = NULL, arrays.d_slopes = &gradient;
    ra_plan *plan = plan_with("alibi", &arrays);
    assert_non_null(plan->scores->d_slopes);
    assert_ptr_equal(plan->scores->d_slopes->data, d_values);
    ra_plan_free(plan);
    gradient.heads = 3;
    refused("alibi", &arrays,
            "d_slopes: [batch 1, seq 1, heads 3, dim 1] does not match the problem's [batch 1, seq 1, heads 4, dim 1]");
    gradient.heads = HEADS, gradient.dtype = RA_F16;
    refused("alibi", &arrays, "d_slopes: dtype float16: must be float32");
    gradient.dtype = RA_F32, gradient.data = values, arrays.slopes = &list;
    refused("alibi", &arrays, "d_slopes: shares memory with slopes: must lie elsewhere");
}

static void a_bias_fixes_the_keys(void **state)
{
    (void)state;
    float bias[KEYS] = {0}, x[BATCH * KEYS * HEADS * 8] = {0};
    double output[8];
    ra_tensor b = ra_tensor_dense(bias, RA_F32, RA_BSHD, 1, 1, 1, KEYS);
    ra_tensor q = ra_tensor_dense(x, RA_F32, RA_BSHD, BATCH, QUERIES, HEADS, 8), k = q;
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    arrays.bias = &b;
    ra_plan *plan = plan_with("bias", &arrays);
    k.seq = 4;
    assert_int_equal(ra_reference_row(plan, &q, &k, &k, 0, 0, 0, output, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(),
                        "4 keys: the plan is for 5, and the bias of the scores is for that length alone");
    ra_plan_free(plan);
    plan = plan_with("alibi", NULL);
    assert_int_equal(ra_reference_row(plan, &q, &k, &k, 0, 0, 0, output, NULL), RA_OK);
    ra_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_scores_are_none),
        cmocka_unit_test(terms_apply_in_the_order_written),
        cmocka_unit_test(slopes_of_the_paper),
        cmocka_unit_test(arrays_in_memory),
        cmocka_unit_test(derivatives),
        cmocka_unit_test(dropout_is_as_frequent_as_said),
        cmocka_unit_test(tables_of_t5),
        cmocka_unit_test(buckets_that_are_refused),
        IN_FOLDER(arrays_in_files),
        IN_FOLDER(a_bias_that_becomes_shorter),
        IN_FOLDER(files_that_do_not_fit),
        cmocka_unit_test(texts_that_are_refused),
        cmocka_unit_test(arrays_that_are_refused),
        cmocka_unit_test(gradients_that_are_refused),
        cmocka_unit_test(a_bias_fixes_the_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
