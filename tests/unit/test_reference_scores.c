/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracles with scores: a row over tensors against the definition, written down here with patterns and scores of the
 * tests' own, and the oracle over storages against the one over tensors.
 */
#include "support/naive.h"
#include "support/naive_scores.h"
#include "support/sample.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_ROWS = 9, MOST_DIM = 8, INPUTS = 3 };

/* A problem with scores. It must stay where it is. */
typedef struct problem {
    sample s;
    naive_scores scores;
    naive_pattern pattern;
    ra_plan *plan;
} problem;

static void problem_make(problem *p, const ra_problem *of, const char *pattern, const char *text, choices *c)
{
    ra_problem with = *of;
    with.pattern = pattern;
    sample_make(&p->s, &with);
    naive_scores_make(&p->scores, text, &p->s.problem, c);
    p->s.problem.scores = p->scores.text;
    p->s.problem.score_arrays = &p->scores.arrays;
    p->pattern = naive_read(pattern, p->s.problem.kv_len, of->heads);
    p->pattern.key_position = of->key_position;
    p->plan = sample_plan(&p->s, RA_KERNEL_GENERIC, 1);
}

static void problem_free(problem *p)
{
    ra_plan_free(p->plan);
    naive_scores_free(&p->scores);
    sample_free(&p->s);
}

static void choose_problem(problem *p, const char *pattern, choices *c)
{
    char text[256];
    ra_problem of = RA_PROBLEM_INIT;
    of.batch = choose(c, 1, 3), of.q_len = choose(c, 1, 30), of.kv_len = choose(c, 12, 90);
    of.kv_heads = choose(c, 1, 2), of.heads = of.kv_heads * choose(c, 1, 3);
    of.head_dim = choose(c, 1, MOST_DIM), of.value_dim = choose(c, 1, MOST_DIM);
    choose_scores(c, text, sizeof text);
    if (chance(c, 2))
        of.key_position = choose(c, 0, 40), of.query_position = choose(c, 0, of.key_position + of.kv_len + 9);
    problem_make(p, &of, pattern, text, c);
}

static void same(const problem *p, const char *what, double got, double expected)
{
    bool close = got == expected || (isnan(got) && isnan(expected)) || fabs(got - expected) <= 1e-9;
    REQUIRE(close, "%s, scores %s: %s %.17g is not %.17g", sample_text(&p->s), p->scores.text, what, got, expected);
}

/* ---- The definition ---------------------------------------------------------------------------------------------- */

static double product(const problem *p, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    const ra_problem *of = &p->s.problem;
    double sum = 0;
    for (int64_t d = 0; d < of->head_dim; d++)
        sum += ra_tensor_get(&p->s.tensors[SAMPLE_QUERY], batch, query, head, d) *
               ra_tensor_get(&p->s.tensors[SAMPLE_KEY], batch, key, head / (of->heads / of->kv_heads), d);
    return sum / sqrt((double)of->head_dim);
}

static void define(const problem *p, int64_t batch, int64_t head, int64_t query, double *output, double *lse)
{
    const ra_problem *of = &p->s.problem;
    int64_t place =
        query + (of->query_position == RA_SAME ? of->kv_len - of->q_len : of->query_position - of->key_position);
    double sum = naive_sink_weight(&p->scores, head);
    for (int64_t d = 0; d < of->value_dim; d++)
        output[d] = 0;
    for (int64_t j = 0; j < of->kv_len; j++) {
        naive_pair pair = {batch, head, place + of->key_position, j + of->key_position, query, j};
        double score = naive_score(&p->scores, &pair, product(p, batch, head, query, j));
        double weight = naive_sees(&p->pattern, head, place, j) * exp(score);
        sum += weight;
        for (int64_t d = 0; d < of->value_dim; d++)
            output[d] += weight * naive_kept(&p->scores, &pair) *
                         ra_tensor_get(&p->s.tensors[SAMPLE_VALUE], batch, j, head / (of->heads / of->kv_heads), d);
    }
    for (int64_t d = 0; d < of->value_dim && sum > 0; d++)
        output[d] /= sum;
    *lse = log(sum);
}

static const char *const PATTERNS[] = {"full",
                                       "causal",
                                       "window:4,2",
                                       "causal+window:9,0",
                                       "chunks:7",
                                       "dilated:6/1,12/3",
                                       "dilated:6/1,6/1,12/2:mode=union",
                                       "blocks:8:local=1:global=1"};
enum { PATTERN_COUNT = sizeof PATTERNS / sizeof *PATTERNS };

static void rows_are_by_definition(void **state)
{
    (void)state;
    seed_range range = seeds(100);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        problem p;
        double output[MOST_DIM], lse, expected[MOST_DIM] = {0}, expected_lse;
        choose_problem(&p, PATTERNS[seed % PATTERN_COUNT], &c);
        const ra_problem *of = &p.s.problem;
        for (int i = 0; i < MOST_ROWS; i++) {
            const ra_tensor *t = p.s.tensors;
            int64_t batch = choose(&c, 0, of->batch - 1), head = choose(&c, 0, of->heads - 1);
            int64_t query = choose(&c, 0, of->q_len - 1);
            assert_int_equal(ra_reference_row(p.plan, &t[0], &t[1], &t[2], batch, head, query, output, &lse), RA_OK);
            define(&p, batch, head, query, expected, &expected_lse);
            same(&p, "lse", lse, expected_lse);
            for (int64_t d = 0; d < of->value_dim; d++)
                same(&p, "output", output[d], expected[d]);
        }
        problem_free(&p);
    }
}

/* ---- Over storages ----------------------------------------------------------------------------------------------- */

static void rows_over_storages(void **state)
{
    (void)state;
    seed_range range = seeds(100);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        problem p;
        ra_storage *in[INPUTS];
        ra_row rows[MOST_ROWS];
        double outputs[MOST_ROWS * MOST_DIM], lses[MOST_ROWS];
        choose_problem(&p, PATTERNS[seed % PATTERN_COUNT], &c);
        oracle_rows expected = sample_oracle(&p.s, MOST_ROWS, &c);
        for (int i = 0; i < INPUTS; i++)
            assert_int_equal(ra_storage_memory(&p.s.tensors[i], &in[i]), RA_OK);
        for (int i = 0; i < expected.count; i++)
            rows[i] = (ra_row){.batch = expected.at[i][0], .head = expected.at[i][1], .seq = expected.at[i][2]};
        assert_int_equal(ra_reference_rows(p.plan, in[0], in[1], in[2], rows, expected.count, outputs, lses), RA_OK);
        for (int64_t i = 0; i < expected.count; i++)
            same(&p, "lse", lses[i], expected.lse[i]);
        for (int64_t i = 0; i < expected.count * p.s.problem.value_dim; i++)
            same(&p, "output", outputs[i], expected.output[i]);
        for (int i = 0; i < INPUTS; i++)
            ra_storage_free(in[i]);
        oracle_free(&expected);
        problem_free(&p);
    }
}

/* ---- Rows without keys ------------------------------------------------------------------------------------------- */

static void an_empty_row_has_its_sink(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        choices c = {1};
        problem p;
        ra_problem of = RA_PROBLEM_INIT;
        double output[2], lse;
        of.q_len = 5, of.kv_len = 3, of.heads = 2, of.head_dim = 2;
        problem_make(&p, &of, "causal", with ? "sinks+dropout:0.5" : "dropout:0.5", &c);
        const ra_tensor *t = p.s.tensors;
        assert_int_equal(ra_reference_row(p.plan, &t[0], &t[1], &t[2], 0, 1, 0, output, &lse), RA_OK);
        assert_true(output[0] == 0 && output[1] == 0);
        assert_true(lse == (with ? p.scores.values[NAIVE_SINKS][1] : -INFINITY));
        problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_by_definition),
        cmocka_unit_test(rows_over_storages),
        cmocka_unit_test(an_empty_row_has_its_sink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
