/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle of gradients over storages against the definition, written down here for one row with the given output and
 * log-sum-exp, and against the oracle over tensors, which has an output of its own.
 */
#include "plan/batch.h"
#include "support/placed.h"
#include "support/ragged.h"
#include "support/sample.h"
#include "support/unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 9, MOST_DIM = 64, STORAGES = 7 };

/* A problem after its forward pass, and the gradients by its results. */
typedef struct problem {
    sample s;
    placed d_output, d_lse;
    bool with_lse;
    ra_plan *plan;
    ra_storage *in[STORAGES]; /* q, k, v, output, lse, d_output, d_lse or NULL */
} problem;

static void problem_start(problem *p)
{
    const placed *given[] = {&p->d_output, &p->d_lse};
    p->plan = sample_plan(&p->s, RA_KERNEL_GENERIC, 1);
    sample_run(&p->s, RA_KERNEL_GENERIC, 1);
    for (int i = 0; i < STORAGES; i++) {
        const ra_tensor *t = i < SAMPLE_TENSORS ? &p->s.tensors[i] : &given[i - SAMPLE_TENSORS]->view;
        p->in[i] = NULL;
        if (i < STORAGES - 1 || p->with_lse)
            assert_int_equal(ra_storage_memory(t, &p->in[i]), RA_OK);
    }
}

static void problem_shapes(const problem *p, int64_t output[4], int64_t lse[4])
{
    const ra_problem *of = &p->s.problem;
    output[0] = lse[0] = of->batch, output[1] = lse[1] = of->q_len, output[2] = lse[2] = of->heads;
    output[3] = of->value_dim, lse[3] = 1;
}

static void problem_make(problem *p, const ra_problem *of, bool with_lse)
{
    int64_t output[4], lse[4];
    sample_make(&p->s, of);
    problem_shapes(p, output, lse);
    p->d_output = place_dense(output), p->d_lse = place_dense(lse);
    fill_tensor(&p->d_output.view, 4);
    fill_tensor(&p->d_lse.view, 5);
    p->with_lse = with_lse;
}

static void problem_make_any(problem *p, const ra_problem *of, choices *c)
{
    int64_t output[4], lse[4];
    sample_make_any(&p->s, of, ANY_DTYPE, c);
    problem_shapes(p, output, lse);
    p->d_output = place_any(c, output, ANY_DTYPE, 4), p->d_lse = place_any(c, lse, RA_F32, 4);
    fill_tensor(&p->d_output.view, choose_bits(c));
    fill_tensor(&p->d_lse.view, choose_bits(c));
    p->with_lse = chance(c, 2);
}

static void problem_free(problem *p)
{
    for (int i = 0; i < STORAGES; i++)
        ra_storage_free(p->in[i]);
    ra_plan_free(p->plan);
    free(p->d_output.memory);
    free(p->d_lse.memory);
    sample_free(&p->s);
}

static int64_t dim_of(const problem *p, ra_gradient gradient)
{
    return gradient == RA_GRADIENT_VALUE ? p->s.problem.value_dim : p->s.problem.head_dim;
}

static ra_row choose_row(const problem *p, ra_gradient gradient, choices *c)
{
    const ra_problem *of = &p->s.problem;
    bool of_query = gradient == RA_GRADIENT_QUERY;
    return (ra_row){choose(c, 0, of->batch - 1), choose(c, 0, (of_query ? of->q_len : of->kv_len) - 1),
                    choose(c, 0, (of_query ? of->heads : of->kv_heads) - 1)};
}

static ra_status ask(const problem *p, ra_gradient gradient, const ra_row *rows, int64_t count, double *gradients,
                     double *sizes)
{
    ra_storage *const *in = p->in;
    return ra_reference_gradient_rows(p->plan, in[0], in[1], in[2], in[3], in[4], in[5], in[6], gradient, rows, count,
                                      gradients, sizes);
}

/* ---- The definition ---------------------------------------------------------------------------------------------- */

/* Rows of two tensors, multiplied. */
static double product(const ra_tensor *a, ra_row at, const ra_tensor *b, ra_row to)
{
    double sum = 0;
    for (int64_t d = 0; d < a->dim; d++)
        sum += ra_tensor_get(a, at.batch, at.seq, at.head, d) * ra_tensor_get(b, to.batch, to.seq, to.head, d);
    return sum;
}

static double score(const problem *p, ra_row query, ra_row key)
{
    const ra_problem *of = &p->s.problem;
    double scale = of->scale == RA_SCALE_DEFAULT ? 1 / sqrt((double)of->head_dim) : of->scale;
    return scale * product(&p->s.tensors[SAMPLE_QUERY], query, &p->s.tensors[SAMPLE_KEY], key);
}

/* d_output . v - delta, with the output that was given. */
static double by_weight(const problem *p, ra_row query, ra_row key)
{
    double by_lse = p->with_lse ? ra_tensor_get(&p->d_lse.view, query.batch, query.seq, query.head, 0) : 0;
    return product(&p->d_output.view, query, &p->s.tensors[SAMPLE_VALUE], key) -
           product(&p->d_output.view, query, &p->s.tensors[SAMPLE_OUTPUT], query) + by_lse;
}

static void add_row(const ra_tensor *t, ra_row at, double factor, double *sums)
{
    for (int64_t d = 0; d < t->dim; d++)
        sums[d] += factor * ra_tensor_get(t, at.batch, at.seq, at.head, d);
}

static int times_seen(const problem *p, ra_row query, int64_t key)
{
    return ra_plan_sees(p->plan, query.batch, query.head, query.seq, key);
}

static void define_query(const problem *p, ra_row row, double scale, double *sums)
{
    const ra_problem *of = &p->s.problem;
    ra_row key = {row.batch, 0, row.head / (of->heads / of->kv_heads)};
    double max = -INFINITY, sum = 0;
    for (key.seq = 0; key.seq < of->kv_len; key.seq++)
        if (times_seen(p, row, key.seq))
            max = fmax(max, score(p, row, key));
    for (key.seq = 0; key.seq < of->kv_len; key.seq++)
        if (times_seen(p, row, key.seq))
            sum += times_seen(p, row, key.seq) * exp(score(p, row, key) - max);
    for (key.seq = 0; key.seq < of->kv_len; key.seq++)
        if (times_seen(p, row, key.seq)) {
            double weight = times_seen(p, row, key.seq) * exp(score(p, row, key) - max) / sum;
            add_row(&p->s.tensors[SAMPLE_KEY], key, scale * weight * by_weight(p, row, key), sums);
        }
}

static void define_key_or_value(const problem *p, ra_gradient gradient, ra_row row, double scale, double *sums)
{
    const ra_problem *of = &p->s.problem;
    int64_t group = of->heads / of->kv_heads;
    ra_row query = {row.batch, 0, 0};
    for (query.head = row.head * group; query.head < (row.head + 1) * group; query.head++)
        for (query.seq = 0; query.seq < of->q_len; query.seq++) {
            int times = times_seen(p, query, row.seq);
            if (!times)
                continue;
            double lse = ra_tensor_get(&p->s.tensors[SAMPLE_LSE], query.batch, query.seq, query.head, 0);
            double weight = times * exp(score(p, query, row) - lse);
            if (gradient == RA_GRADIENT_VALUE)
                add_row(&p->d_output.view, query, weight, sums);
            else
                add_row(&p->s.tensors[SAMPLE_QUERY], query, scale * weight * by_weight(p, query, row), sums);
        }
}

static void define(const problem *p, ra_gradient gradient, ra_row row, double *sums)
{
    const ra_problem *of = &p->s.problem;
    double scale = of->scale == RA_SCALE_DEFAULT ? 1 / sqrt((double)of->head_dim) : of->scale;
    for (int64_t d = 0; d < dim_of(p, gradient); d++)
        sums[d] = 0;
    if (gradient == RA_GRADIENT_QUERY)
        define_query(p, row, scale, sums);
    else
        define_key_or_value(p, gradient, row, scale, sums);
}

static void same(const problem *p, ra_gradient gradient, ra_row row, double got, double expected)
{
    bool both = !isfinite(got) && !isfinite(expected);
    REQUIRE(both || fabs(got - expected) <= 1e-9 * fmax(1, fabs(expected)),
            "%s%s, gradient %d, row %lld of head %lld: %.17g is not %.17g", sample_text(&p->s),
            p->with_lse ? ", d_lse" : "", (int)gradient, (long long)row.seq, (long long)row.head, got, expected);
}

/* Rows of each gradient, in any order through batches and heads; sizes are wanted or not. */
static void compare(const problem *p, choices *c)
{
    for (ra_gradient gradient = RA_GRADIENT_QUERY; gradient <= RA_GRADIENT_VALUE; gradient++) {
        int64_t dim = dim_of(p, gradient);
        ra_row rows[MOST_ROWS];
        double got[MOST_ROWS * MOST_DIM], expected[MOST_DIM], sizes[MOST_ROWS];
        for (int i = 0; i < MOST_ROWS; i++)
            rows[i] = choose_row(p, gradient, c);
        assert_int_equal(ask(p, gradient, rows, MOST_ROWS, got, chance(c, 2) ? sizes : NULL), RA_OK);
        for (int i = 0; i < MOST_ROWS; i++) {
            define(p, gradient, rows[i], expected);
            for (int64_t d = 0; d < dim; d++)
                same(p, gradient, rows[i], got[i * dim + d], expected[d]);
        }
    }
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void rows_are_by_definition(void **state)
{
    (void)state;
    static const double scales[] = {0, -0.3, 3};
    seed_range range = seeds(60);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem of = RA_PROBLEM_INIT;
        char pattern[512];
        problem p;
        of.batch = choose(&c, 1, 2);
        of.q_len = choose(&c, 1, 400), of.kv_len = chance(&c, 2) ? of.q_len : choose(&c, 1, 400);
        of.kv_heads = choose(&c, 1, 3), of.heads = of.kv_heads * choose(&c, 1, 3);
        of.head_dim = choose(&c, 1, chance(&c, 5) ? MOST_DIM : 8);
        of.value_dim = choose(&c, 1, chance(&c, 5) ? MOST_DIM : 8);
        of.scale = chance(&c, 3) ? scales[choose(&c, 0, 2)] : RA_SCALE_DEFAULT;
        choose_pattern(&c, of.kv_len, pattern, sizeof pattern);
        choose_positions(&c, &of);
        choose_ragged(&c, &of, pattern, sizeof pattern);
        of.pattern = pattern;
        problem_make_any(&p, &of, &c);
        problem_start(&p);
        compare(&p, &c);
        problem_free(&p);
    }
}

static void special_values(void **state)
{
    (void)state;
    static const float special[] = {INFINITY, -INFINITY, NAN, 1e4f, -1e4f, 0};
    static const char *const patterns[] = {"full", "causal", "window:5,3", "dilated:40/2,80/1"};
    seed_range range = seeds(60);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem of = RA_PROBLEM_INIT;
        problem p;
        of.q_len = choose(&c, 1, 300), of.kv_len = choose(&c, 1, 300), of.heads = 2, of.kv_heads = 1;
        of.head_dim = 2, of.value_dim = 3, of.pattern = patterns[choose(&c, 0, 3)];
        problem_make(&p, &of, true);
        for (int64_t i = choose(&c, 1, 3); i > 0; i--) {
            const ra_tensor *among[] = {&p.s.tensors[0], &p.s.tensors[1], &p.s.tensors[2], &p.d_output.view,
                                        &p.d_lse.view};
            const ra_tensor *t = among[choose(&c, 0, 4)];
            ra_tensor_set(t, 0, choose(&c, 0, t->seq - 1), 0, choose(&c, 0, t->dim - 1),
                          (double)special[choose(&c, 0, 5)]);
        }
        problem_start(&p);
        compare(&p, &c);
        problem_free(&p);
    }
}

/* All rows of a float32 problem are what the oracle over tensors has, as far as its output is known in float32. */
static void rows_are_those_of_the_whole(void **state)
{
    (void)state;
    ra_problem of = RA_PROBLEM_INIT;
    problem p;
    of.batch = 2, of.q_len = 90, of.kv_len = 110, of.heads = 6, of.kv_heads = 2, of.head_dim = 24, of.value_dim = 17;
    of.pattern = "causal+dilated:40/1,110/3";
    problem_make(&p, &of, true);
    problem_start(&p);
    const ra_tensor *t = p.s.tensors;
    double *whole[3], row[MOST_DIM];
    for (int i = 0; i < 3; i++)
        assert_non_null(whole[i] = malloc(p.s.bytes[i] / sizeof(float) * sizeof(double)));
    assert_int_equal(ra_reference_backward(p.plan, &t[0], &t[1], &t[2], &p.d_output.view, &p.d_lse.view, whole[0],
                                           whole[1], whole[2]),
                     RA_OK);
    for (int i = 0; i < 3; i++)
        for (int64_t at = 0; at < t[i].batch * t[i].seq * t[i].heads; at += 7) {
            ra_row which = {at / t[i].heads / t[i].seq, at / t[i].heads % t[i].seq, at % t[i].heads};
            assert_int_equal(ask(&p, (ra_gradient)i, &which, 1, row, NULL), RA_OK);
            for (int64_t d = 0; d < t[i].dim; d++)
                REQUIRE(fabs(row[d] - whole[i][at * t[i].dim + d]) <= 2e-6, "gradient %d, row %lld: %g is not %g", i,
                        (long long)at, row[d], whole[i][at * t[i].dim + d]);
        }
    for (int i = 0; i < 3; i++)
        free(whole[i]);
    problem_free(&p);
}

typedef struct progress_seen {
    int calls;
    double done, total, stop_at;
} progress_seen;

static int watch(void *user, double done, double total)
{
    progress_seen *seen = user;
    assert_true(done <= total);
    seen->calls++, seen->done = done, seen->total = total;
    return done >= seen->stop_at * total;
}

/* One row of a long sequence of made-up data. */
static ra_status ask_long(ra_gradient gradient, const char *pattern, int64_t length, progress_seen *seen)
{
    enum { DIM = 4 };
    const ra_row row = {0, length / 2, 1};
    const ra_tensor view = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, length, 2, DIM);
    const ra_tensor one = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, length, 2, 1);
    ra_problem of = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    double got[DIM], size;
    ra_plan *plan;
    ra_storage *x, *lse;
    of.q_len = length, of.heads = 2, of.head_dim = DIM, of.pattern = pattern;
    options.progress = watch, options.progress_user = seen;
    assert_int_equal(ra_plan_create(&of, &options, &plan), RA_OK);
    assert_int_equal(ra_storage_generator(RA_NORMAL, 1, &view, &x), RA_OK);
    assert_int_equal(ra_storage_generator(RA_NORMAL, 2, &one, &lse), RA_OK);
    ra_status status = ra_reference_gradient_rows(plan, x, x, x, x, lse, x, lse, gradient, &row, 1, got, &size);
    ra_storage_free(lse);
    ra_storage_free(x);
    ra_plan_free(plan);
    return status;
}

/* Of a long sequence only what a row has to do with passes by. */
static void distant_rows_are_not_read(void **state)
{
    (void)state;
    for (ra_gradient gradient = RA_GRADIENT_QUERY; gradient <= RA_GRADIENT_VALUE; gradient++) {
        progress_seen seen = {.stop_at = 2};
        assert_int_equal(ask_long(gradient, "dilated:64/1,256/4", (int64_t)1 << 22, &seen), RA_OK);
        assert_true(seen.done == seen.total && seen.total <= 4 * 256);
        assert_in_range(seen.calls, 1, 4);
    }
}

static void can_be_stopped(void **state)
{
    (void)state;
    for (ra_gradient gradient = RA_GRADIENT_QUERY; gradient <= RA_GRADIENT_VALUE; gradient++) {
        progress_seen seen = {.stop_at = 0.5};
        assert_int_equal(ask_long(gradient, "full", 5000, &seen), RA_ERROR_CANCELLED);
        assert_true(seen.done < seen.total);
        assert_in_range(seen.calls, 2, 5000);
    }
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    ra_problem of = RA_PROBLEM_INIT;
    problem p;
    double got[8];
    ra_row row = {0, 0, 0};
    of.q_len = 4, of.kv_len = 8, of.heads = 2, of.kv_heads = 1, of.head_dim = 4, of.value_dim = 3;
    problem_make(&p, &of, true);
    problem_start(&p);
    ra_storage *const *s = p.in;
    assert_int_equal(
        ra_reference_gradient_rows(NULL, s[0], s[1], s[2], s[3], s[4], s[5], s[6], RA_GRADIENT_KEY, &row, 1, got, NULL),
        RA_ERROR_ARGUMENT);
    for (int i = 0; i < STORAGES; i++) { /* each one missing, each one wrong */
        ra_storage *kept = p.in[i];
        p.in[i] = NULL;
        assert_int_equal(ask(&p, RA_GRADIENT_KEY, &row, 1, got, NULL), i == 6 ? RA_OK : RA_ERROR_ARGUMENT);
        p.in[i] = p.in[i == 1 ? 3 : 1];
        assert_int_equal(ask(&p, RA_GRADIENT_KEY, &row, 1, got, NULL), RA_ERROR_ARGUMENT);
        p.in[i] = kept;
    }
    assert_non_null(strstr(ra_last_message(), "d_lse: [batch 1, seq 8, heads 1, dim 4]"));
    assert_int_equal(ask(&p, (ra_gradient)3, &row, 1, got, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "gradient 3: no such gradient");
    assert_int_equal(ask(&p, RA_GRADIENT_KEY, &row, 1, NULL, NULL), RA_ERROR_ARGUMENT);
    row.seq = 4;
    assert_int_equal(ask(&p, RA_GRADIENT_KEY, &row, 1, got, NULL), RA_OK);
    assert_int_equal(ask(&p, RA_GRADIENT_QUERY, &row, 1, got, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "reference: row 0 is batch 0, seq 4, head 0: must be below 1, 4 and 2");
    row.head = 1, row.seq = 0;
    assert_int_equal(ask(&p, RA_GRADIENT_QUERY, &row, 1, got, NULL), RA_OK);
    assert_int_equal(ask(&p, RA_GRADIENT_VALUE, &row, 1, got, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ask(&p, RA_GRADIENT_VALUE, NULL, 0, NULL, NULL), RA_OK);
    problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_by_definition),
        cmocka_unit_test(special_values),
        cmocka_unit_test(rows_are_those_of_the_whole),
        cmocka_unit_test(distant_rows_are_not_read),
        cmocka_unit_test(can_be_stopped),
        cmocka_unit_test(refuses_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
