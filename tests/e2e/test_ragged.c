/*
 * Ragged batches: packed sequences with query and key lengths of their own, each against a run of that sequence alone.
 */
#include "support/sample.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows first .. first + count - 1 of a tensor. */
static ra_tensor rows_of(const ra_tensor *t, int64_t first, int64_t count)
{
    ra_tensor rows = *t;
    rows.data = (char *)t->data + first * t->seq_stride * (int64_t)ra_dtype_size(t->dtype);
    rows.seq = count;
    return rows;
}

static double farthest(const ra_tensor *a, const ra_tensor *b)
{
    double most = 0;
    for (int64_t i = 0; i < a->seq * a->heads * a->dim; i++) {
        int64_t seq = i / a->dim / a->heads, head = i / a->dim % a->heads, dim = i % a->dim;
        double x = ra_tensor_get(a, 0, seq, head, dim), y = ra_tensor_get(b, 0, seq, head, dim);
        most = x == y ? most : fmax(most, fabs(x - y)); /* both may be -inf */
    }
    return most;
}

/* ---- Packed sequences -------------------------------------------------------------------------------------------- */

typedef struct packed {
    int64_t lengths[8][2];
    int count;
} packed;

static const packed MIXED = {{{3, 70}, {0, 5}, {1, 130}, {40, 40}, {9, 4}, {2, 0}, {1, 1}}, 7};
static const packed DECODING = {{{1, 90}, {1, 300}, {1, 1}, {1, 64}}, 4};

static void make_packed(sample *s, const packed *p, const char *before)
{
    char text[256];
    int64_t queries = 0, keys = 0;
    snprintf(text, sizeof text, "%sdocuments:", before);
    for (int i = 0; i < p->count; i++) {
        queries += p->lengths[i][0];
        keys += p->lengths[i][1];
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld/%lld", i ? "," : "",
                 (long long)p->lengths[i][0], (long long)p->lengths[i][1]);
    }
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = queries, problem.kv_len = keys, problem.heads = 4, problem.kv_heads = 2, problem.head_dim = 24;
    problem.pattern = text;
    sample_make(s, &problem);
}

/* One sequence by itself: its rows of the same tensors. */
static void run_alone(const sample *s, const packed *p, int number, const char *pattern, sample *alone)
{
    ra_problem problem = s->problem;
    int64_t query = 0, key = 0;
    for (int i = 0; i < number; i++) {
        query += p->lengths[i][0];
        key += p->lengths[i][1];
    }
    problem.q_len = p->lengths[number][0], problem.kv_len = p->lengths[number][1];
    problem.pattern = pattern;
    sample_make(alone, &problem);
    ra_plan *plan = sample_plan(alone, RA_KERNEL_AUTO, 2);
    const ra_tensor *t = s->tensors;
    ra_tensor q = rows_of(&t[SAMPLE_QUERY], query, problem.q_len), k = rows_of(&t[SAMPLE_KEY], key, problem.kv_len);
    ra_tensor v = rows_of(&t[SAMPLE_VALUE], key, problem.kv_len);
    REQUIRE(!ra_forward(plan, &q, &k, &v, &alone->tensors[SAMPLE_OUTPUT], &alone->tensors[SAMPLE_LSE], NULL), "%s",
            ra_last_message());
    ra_plan_free(plan);
}

static void packed_equals_alone(const packed *p, const char *pattern)
{
    sample s, alone;
    char before[64];
    snprintf(before, sizeof before, "%s+", pattern);
    make_packed(&s, p, before);
    sample_run(&s, RA_KERNEL_AUTO, 2);
    for (int i = 0, query = 0; i < p->count; query += (int)p->lengths[i++][0]) {
        run_alone(&s, p, i, pattern, &alone);
        ra_tensor output = rows_of(&s.tensors[SAMPLE_OUTPUT], query, p->lengths[i][0]);
        ra_tensor lse = rows_of(&s.tensors[SAMPLE_LSE], query, p->lengths[i][0]);
        double off = fmax(farthest(&output, &alone.tensors[SAMPLE_OUTPUT]), farthest(&lse, &alone.tensors[SAMPLE_LSE]));
        REQUIRE(off < 2e-6, "%s, sequence %d: %g off", s.pattern, i, off);
        sample_free(&alone);
    }
    sample_free(&s);
}

static void a_packed_sequence_is_as_if_alone(void **state)
{
    (void)state;
    packed_equals_alone(&MIXED, "causal");
    packed_equals_alone(&MIXED, "window:11,3");
    packed_equals_alone(&MIXED, "full");
    packed_equals_alone(&DECODING, "causal");
    packed_equals_alone(&DECODING, "window:40,0");
}

/* Keys between the windows of packed sequences are not worked on: 300 keys of the second one, of which 41 are seen. */
static void keys_between_packed_windows_are_left_out(void **state)
{
    (void)state;
    sample s;
    ra_stats stats = RA_STATS_INIT, all = RA_STATS_INIT;
    ra_options options = RA_OPTIONS_INIT;
    make_packed(&s, &DECODING, "window:40,0+");
    sample_run_as(&s, &options, &stats);
    sample_free(&s);
    make_packed(&s, &DECODING, "causal+");
    sample_run_as(&s, &options, &all);
    sample_free(&s);
    assert_true(stats.tiles < all.tiles);
    assert_true(stats.pairs_visible == 4 * (41 + 41 + 1 + 41));
}

static void documents_from_memory_are_those_of_the_text(void **state)
{
    (void)state;
    sample s;
    make_packed(&s, &MIXED, "causal+");
    sample_run(&s, RA_KERNEL_AUTO, 2);
    char *kept = sample_keep(&s);
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    ra_tensor view = {(void *)MIXED.lengths, RA_I64, 1, MIXED.count, 1, 2, 0, 2, 0, 1};
    arrays.documents = &view;
    s.problem.pattern = "documents+causal";
    s.problem.score_arrays = &arrays;
    sample_run(&s, RA_KERNEL_AUTO, 2);
    assert_true(sample_same(&s, kept));
    free(kept);
    sample_free(&s);
}

static void refuse(const ra_problem *problem, const char *message)
{
    ra_plan *plan = NULL;
    ra_status status = ra_plan_create(problem, NULL, &plan);
    REQUIRE(status && strstr(ra_last_message(), message), "%s, expected %s", ra_last_message(), message);
    assert_null(plan);
}

static void arrays_that_are_no_documents_are_refused(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    int64_t lengths[] = {2, 4, 4, 6};
    ra_tensor view = {lengths, RA_I64, 1, 2, 1, 2, 0, 2, 0, 1};
    arrays.documents = &view;
    problem.q_len = 6, problem.kv_len = 10, problem.heads = 1, problem.head_dim = 8;
    problem.score_arrays = &arrays;
    refuse(&problem, "score_arrays: documents is given, but pattern \"full\" has no \"documents\" by itself");
    problem.pattern = "documents:2/4,4/6";
    refuse(&problem, "has no \"documents\" by itself");
    problem.pattern = "causal+documents";
    problem.query_position = 3;
    refuse(&problem, "character 8: query position 3 beside documents:Q/K");
    problem.query_position = RA_SAME;
    view.dtype = RA_F32;
    refuse(&problem, "character 8: documents: float32 [batch 1, seq 2, heads 1, dim 2]: must be int64");
    view.dtype = RA_I64;
    lengths[3] = -6;
    refuse(&problem, "document 2 has lengths 4/-6: must be >= 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packed_sequence_is_as_if_alone),
        cmocka_unit_test(keys_between_packed_windows_are_left_out),
        cmocka_unit_test(documents_from_memory_are_those_of_the_text),
        cmocka_unit_test(arrays_that_are_no_documents_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
