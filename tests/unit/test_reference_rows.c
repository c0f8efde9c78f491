/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle over storages says what the oracle over tensors says. */
#include "support/ragged.h"
#include "support/sample.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 9, INPUTS = 3 };

static void same(double got, double expected, const sample *s)
{
    bool close = got == expected || (isnan(got) && isnan(expected)) || fabs(got - expected) <= 1e-9;
    REQUIRE(close, "%s: %.17g is not %.17g", sample_text(s), got, expected);
}

static void open_inputs(const sample *s, ra_storage *storages[INPUTS])
{
    for (int i = 0; i < INPUTS; i++)
        assert_int_equal(ra_storage_memory(&s->tensors[i], &storages[i]), RA_OK);
}

static void close_inputs(ra_storage *storages[INPUTS])
{
    for (int i = 0; i < INPUTS; i++)
        ra_storage_free(storages[i]);
}

/* Rows in the oracle's own order, which goes back and forth through batches. */
static void compare(const sample *s, choices *c)
{
    const ra_problem *p = &s->problem;
    oracle_rows expected = sample_oracle(s, MOST_ROWS, c);
    ra_row rows[MOST_ROWS];
    double *outputs = malloc((size_t)(MOST_ROWS * p->value_dim) * sizeof *outputs), lses[MOST_ROWS];
    assert_non_null(outputs);
    for (int i = 0; i < expected.count; i++)
        rows[i] = (ra_row){.batch = expected.at[i][0], .head = expected.at[i][1], .seq = expected.at[i][2]};
    ra_storage *in[INPUTS];
    ra_plan *plan = sample_plan(s, RA_KERNEL_GENERIC, 1);
    open_inputs(s, in);
    assert_int_equal(ra_reference_rows(plan, in[0], in[1], in[2], rows, expected.count, outputs, lses), RA_OK);
    for (int i = 0; i < expected.count; i++) {
        same(lses[i], expected.lse[i], s);
        for (int64_t d = 0; d < p->value_dim; d++)
            same(outputs[i * p->value_dim + d], expected.output[i * p->value_dim + d], s);
    }
    close_inputs(in);
    ra_plan_free(plan);
    oracle_free(&expected);
    free(outputs);
}

static void rows_are_the_oracles(void **state)
{
    (void)state;
    seed_range range = seeds(60);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        char pattern[512];
        sample s;
        problem.batch = choose(&c, 1, 3);
        problem.q_len = choose(&c, 1, 50), problem.kv_len = choose(&c, 1, 700);
        problem.kv_heads = choose(&c, 1, 3), problem.heads = problem.kv_heads * choose(&c, 1, 3);
        problem.head_dim = choose(&c, 1, 40), problem.value_dim = choose(&c, 1, 40);
        choose_pattern(&c, problem.kv_len, pattern, sizeof pattern);
        choose_positions(&c, &problem);
        choose_ragged(&c, &problem, pattern, sizeof pattern);
        problem.pattern = pattern;
        sample_make_any(&s, &problem, ANY_DTYPE, &c);
        compare(&s, &c);
        sample_free(&s);
    }
}

/* What a row does not ask about, because it is outside its hull or in a block that is not kept, is not seen. */
static void sparse_rows_are_the_oracles(void **state)
{
    (void)state;
    seed_range range = seeds(200);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        char pattern[512];
        sample s;
        problem.batch = choose(&c, 1, 2);
        problem.kv_len = choose(&c, 1, 2000);
        problem.q_len = chance(&c, 2) ? problem.kv_len : choose(&c, 1, 2200); /* also before the first key */
        problem.kv_heads = choose(&c, 1, 3), problem.heads = problem.kv_heads * choose(&c, 1, 3);
        problem.head_dim = choose(&c, 1, 8), problem.value_dim = choose(&c, 1, 8);
        choose_sparse(&c, problem.kv_len, pattern, sizeof pattern);
        choose_positions(&c, &problem);
        problem.pattern = pattern;
        sample_make_any(&s, &problem, ANY_DTYPE, &c);
        compare(&s, &c);
        sample_free(&s);
    }
}

/* Infinities and NaN in keys and values, at the ends of blocks and in the middle, in rows that see them or do not. */
static void special_values_are_the_oracles(void **state)
{
    (void)state;
    static const float SPECIAL[] = {INFINITY, -INFINITY, NAN, 1e4f, -1e4f, 0};
    static const char *const PATTERNS[] = {"full", "causal", "window:5,3", "causal+window:300,0"};
    seed_range range = seeds(100);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        sample s;
        problem.q_len = 40, problem.kv_len = choose(&c, 1, 600);
        problem.heads = 2, problem.kv_heads = 1, problem.head_dim = 1, problem.value_dim = 3;
        problem.pattern = PATTERNS[choose(&c, 0, 3)];
        sample_make(&s, &problem);
        for (int64_t i = choose(&c, 1, 3); i > 0; i--) {
            const ra_tensor *t = &s.tensors[chance(&c, 2) ? SAMPLE_KEY : SAMPLE_VALUE];
            int64_t key = chance(&c, 2) ? choose(&c, 0, t->seq - 1) : chance(&c, 2) ? 0 : t->seq - 1;
            ra_tensor_set(t, 0, key, 0, choose(&c, 0, t->dim - 1), (double)SPECIAL[choose(&c, 0, 5)]);
        }
        compare(&s, &c);
        sample_free(&s);
    }
}

typedef struct progress_seen {
    int calls;
    double done, total;
} progress_seen;

static int watch(void *user, double done, double total)
{
    progress_seen *seen = user;
    *seen = (progress_seen){seen->calls + 1, done, total};
    return 0;
}

/* Of a long sequence only what a row may see passes by. */
static void distant_keys_are_not_read(void **state)
{
    (void)state;
    enum { SEGMENT = 256, DIM = 4, ROWS = 3 };
    const int64_t length = (int64_t)1 << 24;
    const ra_row rows[ROWS] = {{0, length - 1, 0}, {0, 5, 1}, {0, length / 2, 1}};
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    progress_seen seen = {0};
    double outputs[ROWS * DIM];
    problem.q_len = length, problem.heads = 2, problem.head_dim = DIM;
    problem.pattern = "dilated:64/1,256/4";
    options.progress = watch, options.progress_user = &seen;
    const ra_tensor view = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, length, 2, DIM);
    ra_plan *plan;
    ra_storage *x;
    assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_OK);
    assert_int_equal(ra_storage_generator(RA_NORMAL, 1, &view, &x), RA_OK);
    assert_int_equal(ra_reference_rows(plan, x, x, x, rows, ROWS, outputs, NULL), RA_OK);
    assert_true(seen.done == seen.total && seen.total <= 2.0 * SEGMENT * ROWS);
    assert_in_range(seen.calls, 1, 3 * ROWS);
    ra_storage_free(x);
    ra_plan_free(plan);
}

static int stop_at_half(void *user, double done, double total)
{
    int *calls = user;
    assert_true(done <= total);
    ++*calls;
    return done >= total / 2;
}

static void can_be_stopped(void **state)
{
    (void)state;
    enum { LENGTH = 5000 };
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    int calls = 0;
    double output[4];
    const ra_row row = {0, LENGTH - 1, 0};
    problem.q_len = LENGTH, problem.heads = 1, problem.head_dim = 4;
    options.progress = stop_at_half, options.progress_user = &calls;
    const ra_tensor view = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, LENGTH, 1, 4);
    ra_plan *plan;
    ra_storage *x;
    assert_int_equal(ra_plan_create(&problem, &options, &plan), RA_OK);
    assert_int_equal(ra_storage_generator(RA_NORMAL, 1, &view, &x), RA_OK);
    assert_int_equal(ra_reference_rows(plan, x, x, x, &row, 1, output, NULL), RA_ERROR_CANCELLED);
    assert_in_range(calls, 2, LENGTH);
    ra_storage_free(x);
    ra_plan_free(plan);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    double output[4];
    ra_row row = {0, 0, 0};
    problem.q_len = 8, problem.heads = 2, problem.head_dim = 4;
    const ra_tensor view = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, 8, 2, 4);
    const ra_tensor short_view = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, 7, 2, 4);
    ra_plan *plan;
    ra_storage *x, *less;
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    assert_int_equal(ra_storage_generator(RA_NORMAL, 1, &view, &x), RA_OK);
    assert_int_equal(ra_storage_generator(RA_NORMAL, 1, &short_view, &less), RA_OK);
    assert_int_equal(ra_reference_rows(NULL, x, x, x, &row, 1, output, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_reference_rows(plan, x, NULL, x, &row, 1, output, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "key: the storage is NULL");
    assert_int_equal(ra_reference_rows(plan, x, x, less, &row, 1, output, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "value: [batch 1, seq 7, heads 2, dim 4] does not match the problem's "
                                           "[batch 1, seq 8, heads 2, dim 4]");
    assert_int_equal(ra_reference_rows(plan, x, x, x, &row, 1, NULL, NULL), RA_ERROR_ARGUMENT);
    row.head = 2;
    assert_int_equal(ra_reference_rows(plan, x, x, x, &row, 1, output, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "reference: row 0 is batch 0, seq 0, head 2: must be below 1, 8 and 2");
    assert_int_equal(ra_reference_rows(plan, x, x, x, NULL, 0, NULL, NULL), RA_OK);
    ra_storage_free(less);
    ra_storage_free(x);
    ra_plan_free(plan);
}

/* Two keys of the same score, and later ones that are not seen: what rounding grows with is known. */
static void sizes_are_known(void **state)
{
    (void)state;
    float query[] = {9, 9, 1, -2, 9, 9}, keys[] = {3, 1, 3, 1, 100, 100}, values[] = {0, 4, 1000};
    const ra_tensor t[INPUTS] = {ra_tensor_dense(query, RA_F32, RA_BSHD, 1, 3, 1, 2),
                                 ra_tensor_dense(keys, RA_F32, RA_BSHD, 1, 3, 1, 2),
                                 ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 3, 1, 1)};
    const ra_row row = {.seq = 1};
    double output, lse, spread, size;
    ra_problem problem = RA_PROBLEM_INIT;
    ra_plan *plan = NULL;
    ra_storage *in[INPUTS];
    problem.q_len = 3, problem.heads = 1, problem.head_dim = 2, problem.value_dim = 1;
    problem.scale = -10, problem.pattern = "causal";
    for (int i = 0; i < INPUTS; i++)
        assert_int_equal(ra_storage_memory(&t[i], &in[i]), RA_OK);
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    assert_int_equal(ra_reference_rows_sized(plan, in[0], in[1], in[2], &row, 1, &output, &lse, &spread, &size), RA_OK);
    assert_true(output == 2 && fabs(spread - 2) < 1e-12 && fabs(size - 50) < 1e-12);
    assert_true(fabs(lse - (-10 + log(2))) < 1e-12);
    assert_int_equal(ra_reference_rows_sized(plan, in[0], in[1], in[2], &row, 1, &output, &lse, &spread, NULL),
                     RA_ERROR_ARGUMENT);
    ra_plan_free(plan);
    close_inputs(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_oracles),
        cmocka_unit_test(sparse_rows_are_the_oracles),
        cmocka_unit_test(special_values_are_the_oracles),
        cmocka_unit_test(distant_keys_are_not_read),
        cmocka_unit_test(can_be_stopped),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(sizes_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
