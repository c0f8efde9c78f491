/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle of the backward pass against finite differences. The loss sum(d_output * output) + sum(d_lse * lse) is
 * computed here, in double precision and with patterns read here, so that nothing of the library is on both sides.
 */
#include "support/naive.h"
#include "support/naive_scores.h"
#include "support/sample.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUERY, KEY, VALUE, INPUTS };

/* A problem with its inputs and the gradients by its results, all as doubles, dense [batch, seq, heads, dim]. */
typedef struct problem {
    sample s;
    naive_pattern pattern;
    double scale;
    double *inputs[INPUTS], *gradients[INPUTS];
    int64_t counts[INPUTS];
    ra_tensor d_output, d_lse; /* float32 views of memory that is owned */
    bool with_lse;
    naive_scores *scores; /* NULL: none */
} problem;

static void *take(int64_t count, size_t size)
{
    void *memory = calloc((size_t)count + 1, size);
    assert_non_null(memory);
    return memory;
}

/* ---- A problem and its loss -------------------------------------------------------------------------------------- */

static ra_tensor made(const ra_tensor *like, uint64_t seed)
{
    int64_t count = like->batch * like->seq * like->heads * like->dim;
    float *values = take(count, sizeof *values);
    ra_generate(RA_NORMAL, seed, 0, count, values);
    return ra_tensor_dense(values, RA_F32, RA_BSHD, like->batch, like->seq, like->heads, like->dim);
}

static void problem_make(problem *p, const ra_problem *of, bool with_lse)
{
    sample_make(&p->s, of);
    p->pattern = naive_read(p->s.pattern, p->s.problem.kv_len, of->heads);
    p->scale = of->scale == RA_SCALE_DEFAULT ? 1 / sqrt((double)of->head_dim) : of->scale;
    for (int i = 0; i < INPUTS; i++) {
        p->counts[i] = (int64_t)(p->s.bytes[i] / sizeof(float));
        p->inputs[i] = take(p->counts[i], sizeof(double));
        p->gradients[i] = take(p->counts[i], sizeof(double));
        for (int64_t j = 0; j < p->counts[i]; j++)
            p->inputs[i][j] = (double)((const float *)p->s.memory[i])[j];
    }
    p->d_output = made(&p->s.tensors[SAMPLE_OUTPUT], 4);
    p->d_lse = made(&p->s.tensors[SAMPLE_LSE], 5);
    p->with_lse = with_lse;
    p->scores = NULL;
}

static void problem_free(problem *p)
{
    for (int i = 0; i < INPUTS; i++) {
        free(p->inputs[i]);
        free(p->gradients[i]);
    }
    free(p->d_output.data);
    free(p->d_lse.data);
    sample_free(&p->s);
}

/* What one row adds to the loss: sum of d_output * output, and d_lse * lse. 0 for a row that sees no key. */
static double row_loss(const problem *p, int64_t batch, int64_t head, int64_t query)
{
    const ra_problem *of = &p->s.problem;
    int64_t kv_head = head / (of->heads / of->kv_heads);
    int64_t position = of->query_position == RA_SAME ? of->kv_len - of->q_len : of->query_position - of->key_position;
    const double *q = p->inputs[QUERY] + ((batch * of->q_len + query) * of->heads + head) * of->head_dim;
    double sum = p->scores ? naive_sink_weight(p->scores, head) : 0, weighted = 0;
    for (int64_t j = 0; j < of->kv_len; j++) {
        int times = naive_sees(&p->pattern, head, position + query, j);
        int64_t row = (batch * of->kv_len + j) * of->kv_heads + kv_head;
        double score = 0, worth = 0;
        for (int64_t d = 0; d < of->head_dim; d++)
            score += p->scale * q[d] * p->inputs[KEY][row * of->head_dim + d];
        for (int64_t d = 0; d < of->value_dim; d++)
            worth += ra_tensor_get(&p->d_output, batch, query, head, d) * p->inputs[VALUE][row * of->value_dim + d];
        if (p->scores) {
            naive_pair pair = {batch, head, position + query + of->key_position, j + of->key_position, query, j};
            score = naive_score(p->scores, &pair, score);
            worth *= naive_kept(p->scores, &pair);
        }
        sum += times * exp(score);
        weighted += times * exp(score) * worth;
    }
    double by_lse = p->with_lse ? ra_tensor_get(&p->d_lse, batch, query, head, 0) : 0;
    return sum > 0 ? weighted / sum + by_lse * log(sum) : 0;
}

static double loss(const problem *p)
{
    const ra_problem *of = &p->s.problem;
    double sum = 0;
    for (int64_t batch = 0; batch < of->batch; batch++)
        for (int64_t head = 0; head < of->heads; head++)
            for (int64_t query = 0; query < of->q_len; query++)
                sum += row_loss(p, batch, head, query);
    return sum;
}

static ra_status ask(problem *p, const ra_plan *plan)
{
    const ra_tensor *t = p->s.tensors;
    for (int i = 0; i < INPUTS; i++)
        for (int64_t j = 0; j < p->counts[i]; j++)
            p->gradients[i][j] = 1e9; /* must be overwritten */
    return ra_reference_backward(plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE], &p->d_output,
                                 p->with_lse ? &p->d_lse : NULL, p->gradients[QUERY], p->gradients[KEY],
                                 p->gradients[VALUE]);
}

/* The derivative of the loss by one of the numbers that it depends on. */
static double difference(const problem *p, double *x)
{
    const double step = 1e-5;
    double before = *x;
    *x = before + step;
    double above = loss(p);
    *x = before - step;
    double below = loss(p);
    *x = before;
    return (above - below) / (2 * step);
}

static void compare_with_differences(problem *p)
{
    static const char *const names[INPUTS] = {"d_q", "d_k", "d_v"};
    ra_plan *plan = sample_plan(&p->s, RA_KERNEL_GENERIC, 1);
    REQUIRE(!ask(p, plan), "%s: %s", sample_text(&p->s), ra_last_message());
    ra_plan_free(plan);
    for (int i = 0; i < INPUTS; i++)
        for (int64_t j = 0; j < p->counts[i]; j++) {
            double expected = difference(p, &p->inputs[i][j]), error = fabs(p->gradients[i][j] - expected);
            REQUIRE(error <= 1e-6, "%s%s, scores %s: %s[%lld] is %.9g, not %.9g", sample_text(&p->s),
                    p->with_lse ? ", d_lse" : "", p->scores ? p->scores->text : "as they are", names[i], (long long)j,
                    p->gradients[i][j], expected);
        }
}

/* ---- Cases ------------------------------------------------------------------------------------------------------- */

static const struct {
    int64_t batch, q_len, kv_len, heads, kv_heads, head_dim, value_dim;
    double scale;
    const char *pattern;
} cases[] = {
    {1, 1, 1, 1, 1, 1, 1, RA_SCALE_DEFAULT, "full"},
    {2, 5, 5, 2, 2, 3, 3, RA_SCALE_DEFAULT, "full"},
    {1, 7, 7, 4, 2, 3, 2, RA_SCALE_DEFAULT, "causal"},
    {1, 3, 9, 3, 1, 2, 4, RA_SCALE_DEFAULT, "causal"},
    {1, 9, 4, 2, 1, 2, 3, RA_SCALE_DEFAULT, "causal"}, /* five rows that see nothing */
    {1, 6, 6, 2, 1, 4, 1, 0, "causal"},
    {1, 6, 8, 2, 1, 1, 4, -0.7, "full"},
    {1, 5, 6, 1, 1, 3, 2, 2.5, "full"},
    {2, 8, 8, 2, 1, 2, 2, RA_SCALE_DEFAULT, "window:2,1"},
    {1, 8, 8, 2, 1, 2, 2, -1, "causal+window:1,0"},
    {1, 10, 3, 1, 1, 2, 2, RA_SCALE_DEFAULT, "window:1"},
    {1, 9, 9, 2, 1, 2, 2, RA_SCALE_DEFAULT, "documents:2,4,3"},
    {1, 4, 9, 2, 1, 2, 2, RA_SCALE_DEFAULT, "causal+documents:6,1,2"},
    {1, 12, 12, 4, 2, 2, 2, RA_SCALE_DEFAULT, "dilated:4/1,12/3"},
    {1, 12, 12, 2, 1, 2, 3, RA_SCALE_DEFAULT, "dilated:6/1,6/1,12/2"}, /* keys that count three times */
    {1, 12, 12, 2, 1, 2, 3, RA_SCALE_DEFAULT, "dilated:6/1,6/1,12/2:mode=union"},
    {1, 11, 11, 4, 2, 2, 2, RA_SCALE_DEFAULT, "dilated:4/2,8/4:mode=grouped"},
    {1, 11, 11, 4, 2, 2, 2, 1.5, "causal+dilated:4/1,9/2:mode=torchscale"},
    {1, 7, 12, 2, 1, 2, 2, RA_SCALE_DEFAULT, "dilated:5/2"}, /* rows in no lattice */
    {1, 12, 12, 2, 1, 2, 2, RA_SCALE_DEFAULT, "blocks:3:local=1:global=1"},
    {1, 10, 13, 2, 2, 2, 2, RA_SCALE_DEFAULT, "causal+blocks:4:stride=2"},
    {1, 12, 12, 2, 1, 2, 2, RA_SCALE_DEFAULT, "dilated:3/1,6/2+blocks:4:local=1"},
};
enum { CASES = sizeof cases / sizeof *cases };

static ra_problem case_of(int i)
{
    ra_problem p = RA_PROBLEM_INIT;
    p.batch = cases[i].batch, p.q_len = cases[i].q_len, p.kv_len = cases[i].kv_len;
    p.heads = cases[i].heads, p.kv_heads = cases[i].kv_heads;
    p.head_dim = cases[i].head_dim, p.value_dim = cases[i].value_dim;
    p.scale = cases[i].scale, p.pattern = cases[i].pattern;
    return p;
}

static void gradients_are_differences(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * CASES; i++) {
        ra_problem of = case_of(i / 2);
        problem p;
        problem_make(&p, &of, i % 2);
        compare_with_differences(&p);
        problem_free(&p);
    }
}

/* ---- Scores -------------------------------------------------------------------------------------------------------
 */

/* Gradients of the arrays, which the oracle rounds to float32. */
static void compare_arrays_with_differences(problem *p)
{
    static const char *const names[NAIVE_ARRAYS] = {"d_slopes", "d_table", "d_bias", "d_sinks"};
    naive_scores *n = p->scores;
    for (int i = 0; i < NAIVE_ARRAYS; i++)
        for (int64_t j = 0; n->values[i] && j < n->counts[i]; j++) {
            double expected = difference(p, &n->values[i][j]);
            double got = (double)((const float *)n->gradients[i].data)[j];
            REQUIRE(fabs(got - expected) <= 1e-6 * (1 + fabs(expected)), "%s%s, scores %s: %s[%lld] is %.9g, not %.9g",
                    sample_text(&p->s), p->with_lse ? ", d_lse" : "", n->text, names[i], (long long)j, got, expected);
        }
}

static void gradients_with_scores(ra_problem of, const char *text, choices *c)
{
    naive_scores scores;
    problem p;
    problem_make(&p, &of, chance(c, 2));
    naive_scores_make(&scores, text, &p.s.problem, c);
    naive_scores_want(&scores);
    p.scores = &scores;
    p.s.problem.scores = text, p.s.problem.score_arrays = &scores.arrays;
    p.pattern.key_position = of.key_position;
    compare_with_differences(&p);
    compare_arrays_with_differences(&p);
    naive_scores_free(&scores);
    problem_free(&p);
}

static void gradients_with_scores_are_differences(void **state)
{
    (void)state;
    static const char *const each[] = {"softcap:1.5",
                                       "alibi",
                                       "relative",
                                       "bias",
                                       "sinks",
                                       "dropout:0.5:seed=3",
                                       "bias+softcap:2+relative+sinks+alibi+dropout:0.25"};
    choices c = {7};
    for (int i = 0; i < CASES; i++) {
        char text[256];
        ra_problem of = case_of(i);
        choose_scores(&c, text, sizeof text);
        if (chance(&c, 2))
            of.key_position = choose(&c, 0, 5), of.query_position = choose(&c, 0, of.key_position + of.kv_len + 2);
        gradients_with_scores(of, text, &c);
        gradients_with_scores(case_of(i), each[i % 7], &c);
    }
}

/* ---- All or one ---------------------------------------------------------------------------------------------------
 */

/* Each gradient is the same whether or not the others are wanted. */
static void gradients_one_by_one(void **state)
{
    (void)state;
    ra_problem of = case_of(3);
    problem p;
    problem_make(&p, &of, true);
    const ra_tensor *t = p.s.tensors;
    ra_plan *plan = sample_plan(&p.s, RA_KERNEL_GENERIC, 1);
    assert_int_equal(ask(&p, plan), RA_OK);
    for (int i = 0; i < INPUTS; i++) {
        double *alone = take(p.counts[i], sizeof *alone);
        assert_int_equal(ra_reference_backward(plan, &t[0], &t[1], &t[2], &p.d_output, &p.d_lse, i == 0 ? alone : NULL,
                                               i == 1 ? alone : NULL, i == 2 ? alone : NULL),
                         RA_OK);
        assert_memory_equal(alone, p.gradients[i], (size_t)p.counts[i] * sizeof *alone);
        free(alone);
    }
    ra_plan_free(plan);
    problem_free(&p);
}

/* ---- NaN and infinity -------------------------------------------------------------------------------------------- */

/* Whether every element of row `row` is NaN, or every one is finite. */
static bool row_is(const problem *p, int which, int64_t row, int64_t dim, bool nan)
{
    bool is = true;
    for (int64_t d = 0; d < dim; d++) {
        double x = p->gradients[which][row * dim + d];
        is &= nan ? isnan(x) : isfinite(x);
    }
    return is;
}

/* Which of key/value head 0's rows are NaN, and row `query` of d_q alone: `seen` by query 2, head 0, of 6. */
static void expect_nan(problem *p, bool in_values, const char *what)
{
    const ra_problem *of = &p->s.problem;
    ra_plan *plan = sample_plan(&p->s, RA_KERNEL_GENERIC, 1);
    assert_int_equal(ask(p, plan), RA_OK);
    ra_plan_free(plan);
    for (int64_t row = 0; row < of->q_len * of->heads; row++)
        REQUIRE(row_is(p, QUERY, row, of->head_dim, row == 2 * of->heads), "%s: d_q row %lld", what, (long long)row);
    for (int64_t j = 0; j < of->kv_len; j++) {
        bool seen = naive_sees(&p->pattern, 0, 2, j) > 0;
        REQUIRE(row_is(p, KEY, j, of->head_dim, seen), "%s: d_k row %lld", what, (long long)j);
        REQUIRE(row_is(p, VALUE, j, of->value_dim, seen && in_values), "%s: d_v row %lld", what, (long long)j);
    }
}

static void nan_shows_where_it_belongs(void **state)
{
    (void)state;
    ra_problem of = RA_PROBLEM_INIT;
    problem p;
    of.q_len = 6, of.heads = 2, of.kv_heads = 1, of.head_dim = 3, of.value_dim = 1, of.pattern = "window:1";
    problem_make(&p, &of, true);
    double kept = ra_tensor_get(&p.d_output, 0, 2, 0, 0);
    ra_tensor_set(&p.d_output, 0, 2, 0, 0, (double)NAN);
    expect_nan(&p, true, "d_output");
    ra_tensor_set(&p.d_output, 0, 2, 0, 0, kept);
    kept = ra_tensor_get(&p.d_lse, 0, 2, 0, 0);
    ra_tensor_set(&p.d_lse, 0, 2, 0, 0, (double)NAN);
    expect_nan(&p, false, "d_lse");
    ra_tensor_set(&p.d_lse, 0, 2, 0, 0, kept);
    ra_tensor_set(&p.s.tensors[QUERY], 0, 2, 0, 1, (double)INFINITY); /* scores of +inf, or of -inf alone */
    expect_nan(&p, true, "a query");
    problem_free(&p);
}

/* A NaN in keys and values that nobody sees, and in the results' gradients of rows that see nothing: nowhere. */
static void unseen_nan_shows_nowhere(void **state)
{
    (void)state;
    ra_problem of = RA_PROBLEM_INIT;
    problem p;
    of.q_len = 3, of.kv_len = 9, of.heads = 2, of.kv_heads = 1, of.head_dim = 3, of.value_dim = 2;
    of.pattern = "documents:4,5";
    problem_make(&p, &of, true);
    for (int64_t j = 0; j < 4; j++) {
        ra_tensor_set(&p.s.tensors[KEY], 0, j, 0, 1, (double)NAN);
        ra_tensor_set(&p.s.tensors[VALUE], 0, j, 0, 1, (double)INFINITY);
    }
    ra_plan *plan = sample_plan(&p.s, RA_KERNEL_GENERIC, 1);
    assert_int_equal(ask(&p, plan), RA_OK);
    ra_plan_free(plan);
    for (int i = 0; i < INPUTS; i++)
        for (int64_t j = 0; j < p.counts[i]; j++)
            assert_true(isfinite(p.gradients[i][j]));
    problem_free(&p);
}

static void blind_rows_give_nothing(void **state)
{
    (void)state;
    ra_problem of = case_of(4);
    problem p;
    problem_make(&p, &of, true);
    int64_t blind = of.q_len - of.kv_len, row = of.heads * of.head_dim;
    for (int64_t i = 0; i < blind * of.heads * of.value_dim; i++)
        ((float *)p.d_output.data)[i] = NAN;
    for (int64_t i = 0; i < blind * of.heads; i++)
        ((float *)p.d_lse.data)[i] = INFINITY;
    ra_plan *plan = sample_plan(&p.s, RA_KERNEL_GENERIC, 1);
    assert_int_equal(ask(&p, plan), RA_OK);
    ra_plan_free(plan);
    for (int64_t i = 0; i < p.counts[QUERY]; i++)
        assert_true(i < blind * row ? p.gradients[QUERY][i] == 0 : isfinite(p.gradients[QUERY][i]));
    for (int64_t i = 0; i < p.counts[KEY]; i++)
        assert_true(isfinite(p.gradients[KEY][i]));
    problem_free(&p);
}

/* ---- Fewer keys, and what is refused ----------------------------------------------------------------------------- */

/* A plan for more keys gives the gradients of a plan for those that are there. */
static void fewer_keys(void **state)
{
    (void)state;
    ra_problem of = case_of(3), longer = of;
    problem p;
    ra_plan *plan = NULL;
    longer.kv_len = of.kv_len + 70;
    problem_make(&p, &of, true);
    assert_int_equal(ra_plan_create(&longer, NULL, &plan), RA_OK);
    double *exact[INPUTS];
    ra_plan *own = sample_plan(&p.s, RA_KERNEL_GENERIC, 1);
    assert_int_equal(ask(&p, own), RA_OK);
    ra_plan_free(own);
    for (int i = 0; i < INPUTS; i++) {
        exact[i] = take(p.counts[i], sizeof *exact[i]);
        memcpy(exact[i], p.gradients[i], (size_t)p.counts[i] * sizeof *exact[i]);
    }
    assert_int_equal(ask(&p, plan), RA_OK);
    for (int i = 0; i < INPUTS; i++) {
        assert_memory_equal(exact[i], p.gradients[i], (size_t)p.counts[i] * sizeof *exact[i]);
        free(exact[i]);
    }
    ra_plan_free(plan);
    problem_free(&p);
}

/* Nothing to sum: zeros, and no memory is touched without elements. */
static void no_keys_no_queries(void **state)
{
    (void)state;
    ra_problem of = RA_PROBLEM_INIT;
    problem p;
    of.q_len = 4, of.kv_len = 0, of.heads = 2, of.head_dim = 3;
    for (int i = 0; i < 2; i++) {
        problem_make(&p, &of, true);
        ra_plan *plan = sample_plan(&p.s, RA_KERNEL_GENERIC, 1);
        assert_int_equal(ask(&p, plan), RA_OK);
        for (int which = 0; which < INPUTS; which++)
            for (int64_t j = 0; j < p.counts[which]; j++)
                assert_true(p.gradients[which][j] == 0);
        ra_plan_free(plan);
        problem_free(&p);
        of.q_len = 0, of.kv_len = 4;
    }
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    ra_problem of = case_of(11);
    problem p;
    problem_make(&p, &of, true);
    const ra_tensor *q = &p.s.tensors[0], *k = &p.s.tensors[1], *v = &p.s.tensors[2], *o = &p.d_output, *l = &p.d_lse;
    ra_tensor less = *o, half = *l, fewer_k = *k, fewer_v = *v;
    double *d_q = p.gradients[QUERY];
    ra_plan *plan = sample_plan(&p.s, RA_KERNEL_GENERIC, 1);
    assert_int_equal(ra_reference_backward(NULL, q, k, v, o, l, d_q, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "plan is NULL");
    assert_int_equal(ra_reference_backward(plan, NULL, k, v, o, l, d_q, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_reference_backward(plan, q, NULL, v, o, l, d_q, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_reference_backward(plan, q, k, NULL, o, l, d_q, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_reference_backward(plan, q, k, v, NULL, l, d_q, NULL, NULL), RA_ERROR_ARGUMENT);
    less.dim = 1;
    assert_int_equal(ra_reference_backward(plan, q, k, v, &less, l, d_q, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "d_output: "));
    half.dtype = RA_F16;
    assert_int_equal(ra_reference_backward(plan, q, k, v, o, &half, d_q, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "d_lse: dtype float16: must be float32 or float64");
    fewer_k.seq = fewer_v.seq = 5; /* documents fix the length */
    assert_int_equal(ra_reference_backward(plan, q, &fewer_k, v, o, l, d_q, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_reference_backward(plan, q, &fewer_k, &fewer_v, o, l, d_q, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_reference_backward(plan, q, k, v, o, NULL, NULL, NULL, NULL), RA_OK);
    ra_plan_free(plan);
    problem_free(&p);
}

/* ---- Doubles ------------------------------------------------------------------------------------------------------
 */

enum { DOUBLES_SEQ = 5, DOUBLES_DIM = 3, DOUBLES = DOUBLES_SEQ * DOUBLES_DIM };

static double loss_of_doubles(const ra_plan *plan, const ra_tensor t[INPUTS], const double *d_output)
{
    double loss = 0;
    for (int64_t i = 0; i < DOUBLES_SEQ; i++) {
        double row[DOUBLES_DIM];
        assert_int_equal(ra_reference_row(plan, &t[QUERY], &t[KEY], &t[VALUE], 0, 0, i, row, NULL), RA_OK);
        for (int d = 0; d < DOUBLES_DIM; d++)
            loss += row[d] * d_output[i * DOUBLES_DIM + d];
    }
    return loss;
}

/* Differences this small vanish if an input is rounded to float32 on the way. */
static void doubles_are_read_as_they_are(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = DOUBLES_SEQ, problem.heads = 1, problem.head_dim = DOUBLES_DIM, problem.pattern = "causal";
    ra_plan *plan = NULL;
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    double data[INPUTS + 1][DOUBLES], gradients[INPUTS][DOUBLES];
    ra_tensor t[INPUTS + 1];
    for (int i = 0; i <= INPUTS; i++) {
        for (int j = 0; j < DOUBLES; j++)
            data[i][j] = sin(1 + i + 1.7 * j);
        t[i] = ra_tensor_dense(data[i], RA_F64, RA_BSHD, 1, DOUBLES_SEQ, 1, DOUBLES_DIM);
    }
    assert_int_equal(ra_reference_backward(plan, &t[QUERY], &t[KEY], &t[VALUE], &t[INPUTS], NULL, gradients[QUERY],
                                           gradients[KEY], gradients[VALUE]),
                     RA_OK);
    const double step = 1e-6;
    for (int i = 0; i < INPUTS; i++)
        for (int j = 0; j < DOUBLES; j++) {
            double kept = data[i][j];
            data[i][j] = kept + step;
            double above = loss_of_doubles(plan, t, data[INPUTS]);
            data[i][j] = kept - step;
            double below = loss_of_doubles(plan, t, data[INPUTS]);
            data[i][j] = kept;
            assert_true(fabs((above - below) / (2 * step) - gradients[i][j]) < 1e-8);
        }
    assert_int_equal(ra_forward(plan, &t[QUERY], &t[KEY], &t[VALUE], &t[INPUTS], NULL, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "query: dtype 6 (float64): must be float32, float16 or bfloat16");
    ra_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(gradients_with_scores_are_differences),
        cmocka_unit_test(gradients_one_by_one),
        cmocka_unit_test(nan_shows_where_it_belongs),
        cmocka_unit_test(unseen_nan_shows_nowhere),
        cmocka_unit_test(blind_rows_give_nothing),
        cmocka_unit_test(fewer_keys),
        cmocka_unit_test(no_keys_no_queries),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(doubles_are_read_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
