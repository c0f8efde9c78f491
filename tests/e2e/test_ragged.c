/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ragged batches: packed sequences with query and key lengths of their own, padded batches, masks; each against runs
 * that have nothing of it.
 */
#include "support/ring.h"
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
        if (x != y) /* both may be -inf, and none may be NaN */
            most = fabs(x - y) >= 0 ? fmax(most, fabs(x - y)) : INFINITY;
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

/* Of few queries each, over several spans of keys: some begin in one and end in another, some have nothing. */
static const packed LONG = {{{2, 3000}, {1, 1}, {0, 7}, {1, 0}, {3, 2500}, {1, 9000}, {1, 63}, {2, 5000}}, 8};

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
    problem.pattern = pattern, problem.score_arrays = NULL;
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
    packed_equals_alone(&LONG, "causal");
    packed_equals_alone(&LONG, "window:2100,5");
}

/* The same bits by any number of threads, over ranks that reproduce the spans, and where lengths came from an array. */
static void packed_decoding_has_the_same_bits(void **state)
{
    (void)state;
    sample s;
    make_packed(&s, &LONG, "causal+");
    ra_plan *plan = sample_plan(&s, RA_KERNEL_AUTO, 2);
    ra_plan_info info = RA_PLAN_INFO_INIT;
    assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
    assert_int_equal(info.variant, RA_VARIANT_DECODE);
    assert_true(info.key_spans > 2);
    ra_plan_free(plan);
    sample_run(&s, RA_KERNEL_AUTO, 1);
    char *kept = sample_keep(&s);
    for (int threads = 2; threads <= 4; threads++) {
        sample_wipe(&s);
        sample_run(&s, RA_KERNEL_AUTO, threads);
        assert_true(sample_same(&s, kept));
    }
    for (int ranks = 2; ranks <= 3; ranks++) {
        ring_case c = ring_case_make(WAY_MESSAGES, ranks, RA_STRATEGY_BROADCAST, RA_ORDER_CONTIGUOUS);
        ra_rank_stats stats[3] = {RA_RANK_STATS_INIT, RA_RANK_STATS_INIT, RA_RANK_STATS_INIT};
        sample_wipe(&s);
        REQUIRE(!ring_case_run(&c, &s, stats, NULL), "%s", ra_last_message());
        assert_true(sample_same(&s, kept));
    }
    free(kept);
    sample_free(&s);
}

/* Of a plan for longer sequences. Queries move from one sequence to another, which has more of them than any had. */
static void packed_decoding_may_shrink(void **state)
{
    (void)state;
    sample s;
    packed now = LONG;
    make_packed(&s, &LONG, "causal+");
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    ra_tensor view = {now.lengths, RA_I64, 1, now.count, 1, 2, 0, 2, 0, 1};
    arrays.documents = &view;
    s.problem.pattern = "documents+causal", s.problem.score_arrays = &arrays;
    ra_plan *plan = sample_plan(&s, RA_KERNEL_AUTO, 2);
    ra_tensor *t = s.tensors;
    now.lengths[0][1] -= 2900, now.lengths[5][1] -= 4000, now.lengths[7][1] = 0;
    now.lengths[4][0] += 2, now.lengths[7][0] -= 2;
    ra_tensor k = rows_of(&t[SAMPLE_KEY], 0, s.problem.kv_len - 11900), v = k;
    v.data = t[SAMPLE_VALUE].data;
    REQUIRE(!ra_forward(plan, &t[0], &k, &v, &t[3], &t[4], NULL), "%s", ra_last_message());
    for (int i = 0, query = 0; i < now.count; query += (int)now.lengths[i++][0]) {
        sample alone;
        run_alone(&s, &now, i, "causal", &alone);
        ra_tensor output = rows_of(&t[SAMPLE_OUTPUT], query, now.lengths[i][0]);
        assert_true(farthest(&output, &alone.tensors[SAMPLE_OUTPUT]) < 2e-6);
        sample_free(&alone);
    }
    ra_plan_free(plan);
    sample_free(&s);
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

/* One plan for sequences that have fewer keys in another run, forward and backward. */
static void documents_may_shrink_and_not_grow(void **state)
{
    (void)state;
    sample s;
    packed now = MIXED;
    make_packed(&s, &MIXED, "causal+");
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    ra_tensor view = {now.lengths, RA_I64, 1, now.count, 1, 2, 0, 2, 0, 1};
    arrays.documents = &view;
    s.problem.pattern = "documents+causal", s.problem.score_arrays = &arrays;
    ra_plan *plan = sample_plan(&s, RA_KERNEL_AUTO, 2);
    ra_tensor *t = s.tensors;
    ra_stats stats = RA_STATS_INIT;
    now.lengths[0][1] -= 30, now.lengths[3][1] -= 7;
    now.lengths[0][0] += 2, now.lengths[4][0] -= 2;
    ra_tensor k = rows_of(&t[SAMPLE_KEY], 0, s.problem.kv_len - 37);
    ra_tensor v = rows_of(&t[SAMPLE_VALUE], 0, s.problem.kv_len - 37);
    assert_int_equal(ra_forward(plan, &t[0], &t[1], &t[2], &t[3], &t[4], NULL), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "the keys of the 7 documents add up to 213, but there are 250"));
    REQUIRE(!ra_forward(plan, &t[0], &k, &v, &t[3], &t[4], &stats), "%s", ra_last_message());
    assert_true(stats.peak_bytes <= stats.planned_peak_bytes);
    for (int i = 0, query = 0; i < now.count; query += (int)now.lengths[i++][0]) {
        sample alone;
        run_alone(&s, &now, i, "causal", &alone);
        ra_tensor output = rows_of(&t[SAMPLE_OUTPUT], query, now.lengths[i][0]);
        assert_true(farthest(&output, &alone.tensors[SAMPLE_OUTPUT]) < 2e-6);
        sample_free(&alone);
    }
    REQUIRE(!ra_backward(plan, &t[0], &k, &v, &t[3], &t[4], &t[3], NULL, NULL, NULL, NULL, NULL), "%s",
            ra_last_message());
    now.lengths[1][1] = 6, now.lengths[0][1]--;
    assert_int_equal(ra_forward(plan, &t[0], &k, &v, &t[3], &t[4], NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(),
                        "documents: document 2 has 6 keys: the plan is for 5, and lengths may only shrink");
    ra_plan_free(plan);
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

/* ---- Padded batches ---------------------------------------------------------------------------------------------- */

enum { BATCH = 3, LENGTH = 150 };

/* The valid keys of three elements: padding on the left, on the right, on both sides; and where their query 0 is. */
static const int64_t PADDED[BATCH][3] = {{40, LENGTH, 0}, {0, 90, 17}, {33, 34, 1000}};

typedef struct padded {
    sample s;
    int64_t lengths[BATCH][3];
    ra_tensor view;
    ra_score_arrays arrays;
} padded;

static void make_padded(padded *p, int64_t q_len, const char *pattern, int columns)
{
    ra_problem problem = RA_PROBLEM_INIT;
    memcpy(p->lengths, PADDED, sizeof PADDED);
    p->view = (ra_tensor){p->lengths, RA_I64, BATCH, 1, 1, columns, 3, 0, 0, 1};
    p->arrays = (ra_score_arrays)RA_SCORE_ARRAYS_INIT;
    p->arrays.lengths = &p->view;
    problem.batch = BATCH, problem.q_len = q_len, problem.kv_len = LENGTH, problem.heads = 4, problem.kv_heads = 2;
    problem.head_dim = 24, problem.pattern = pattern, problem.score_arrays = &p->arrays;
    sample_make(&p->s, &problem);
}

/* Whatever is in the padding must not be touched. */
static void spoil_padding(padded *p)
{
    for (int64_t batch = 0; batch < BATCH; batch++)
        for (int64_t key = 0; key < LENGTH; key++)
            for (int which = SAMPLE_KEY; which <= SAMPLE_VALUE; which++)
                for (int64_t i = 0; i < 48 && (key < PADDED[batch][0] || key >= PADDED[batch][1]); i++)
                    ra_tensor_set(&p->s.tensors[which], batch, key, i / 24, i % 24, NAN);
}

static ra_tensor element_of(const ra_tensor *t, int64_t batch)
{
    ra_tensor one = *t;
    one.data = (char *)t->data + batch * t->batch_stride * (int64_t)ra_dtype_size(t->dtype);
    one.batch = 1;
    return one;
}

/* An element alone, without its padding, with positions in the place of lengths; how far it is off. */
static double off_from_alone(const padded *p, int64_t batch, const char *pattern, bool placed)
{
    ra_problem problem = p->s.problem;
    int64_t lo = p->lengths[batch][0], hi = p->lengths[batch][1];
    sample alone;
    problem.batch = 1, problem.kv_len = hi - lo, problem.pattern = pattern, problem.score_arrays = NULL;
    problem.key_position = lo;
    problem.query_position = placed ? p->lengths[batch][2] : LENGTH - problem.q_len;
    sample_make(&alone, &problem);
    ra_plan *plan = sample_plan(&alone, RA_KERNEL_AUTO, 2);
    ra_tensor one[SAMPLE_TENSORS];
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        one[i] = element_of(&p->s.tensors[i], batch);
    ra_tensor k = rows_of(&one[SAMPLE_KEY], lo, hi - lo), v = rows_of(&one[SAMPLE_VALUE], lo, hi - lo);
    REQUIRE(
        !ra_forward(plan, &one[SAMPLE_QUERY], &k, &v, &alone.tensors[SAMPLE_OUTPUT], &alone.tensors[SAMPLE_LSE], NULL),
        "%s", ra_last_message());
    double off = fmax(farthest(&one[SAMPLE_OUTPUT], &alone.tensors[SAMPLE_OUTPUT]),
                      farthest(&one[SAMPLE_LSE], &alone.tensors[SAMPLE_LSE]));
    ra_plan_free(plan);
    sample_free(&alone);
    return off;
}

static void padded_equals_alone(int64_t q_len, const char *pattern, bool placed)
{
    padded p;
    char text[64];
    snprintf(text, sizeof text, "%s+lengths", pattern);
    make_padded(&p, q_len, text, placed ? 3 : 2);
    spoil_padding(&p);
    sample_run(&p.s, RA_KERNEL_AUTO, 2);
    for (int64_t batch = 0; batch < BATCH; batch++) {
        double off = off_from_alone(&p, batch, pattern, placed);
        REQUIRE(off < 2e-6, "%s, %lld queries, element %lld: %g off", text, (long long)q_len, (long long)batch, off);
    }
    sample_free(&p.s);
}

/* Also when it is on the other side. */
static void padding_is_hidden_on_the_side_that_it_is_on(void **state)
{
    (void)state;
    static const char *const patterns[] = {"full", "causal", "window:20,5", "chunks:37", "dilated:30/3,90/7"};
    for (int i = 0; i < 5; i++)
        for (int placed = 0; placed < 2; placed++) {
            padded_equals_alone(LENGTH, patterns[i], placed);
            padded_equals_alone(2, patterns[i], placed);
        }
}

/* The same plan for lengths that shrink from run to run, and no other. */
static void lengths_may_shrink_and_not_grow(void **state)
{
    (void)state;
    padded p;
    make_padded(&p, 40, "causal+lengths", 2);
    ra_plan *plan = sample_plan(&p.s, RA_KERNEL_AUTO, 2);
    const ra_tensor *t = p.s.tensors;
    ra_stats stats = RA_STATS_INIT;
    for (int i = 0; i < 3; i++) {
        REQUIRE(!ra_forward(plan, &t[0], &t[1], &t[2], &t[3], &t[4], &stats), "%s", ra_last_message());
        assert_true(stats.peak_bytes <= stats.planned_peak_bytes);
        for (int64_t batch = 0; batch < BATCH; batch++)
            assert_true(off_from_alone(&p, batch, "causal", false) < 2e-6);
        p.lengths[0][0] += 20, p.lengths[1][1] -= 20;
    }
    p.lengths[1][1] = 91;
    assert_int_equal(ra_forward(plan, &t[0], &t[1], &t[2], &t[3], &t[4], NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(),
                        "lengths: batch element 1 has the keys 0 to 91: the plan is for 0 to 90, and "
                        "lengths may only shrink");
    p.lengths[1][1] = -1;
    assert_int_equal(ra_forward(plan, &t[0], &t[1], &t[2], &t[3], &t[4], NULL), RA_ERROR_ARGUMENT);
    ra_plan_free(plan);
    sample_free(&p.s);
}

static void ranks_need_the_lengths_of_their_plan(void **state)
{
    (void)state;
    padded p;
    make_padded(&p, 40, "lengths", 2);
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    ra_ring_plan *ring = NULL;
    ra_comm *comm = NULL;
    options.ranks = 2, options.lent = 1;
    REQUIRE(!ra_ring_plan_create(&p.s.problem, NULL, &options, &ring), "%s", ra_last_message());
    assert_int_equal(ra_comm_sim(2, &comm), RA_OK);
    const ra_tensor *t = p.s.tensors;
    REQUIRE(!ra_ring_forward(ring, comm, &t[0], &t[1], &t[2], &t[3], &t[4], NULL), "%s", ra_last_message());
    p.lengths[0][0]++;
    assert_int_equal(ra_ring_forward(ring, comm, &t[0], &t[1], &t[2], &t[3], &t[4], NULL), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "lengths: the array has changed since the plan was made"));
    ra_comm_free(comm);
    ra_ring_plan_free(ring);
    sample_free(&p.s);
}

/* One long element among short ones is no task of its own: its keys are split over tasks. */
static void a_ragged_batch_is_divided_by_its_work(void **state)
{
    (void)state;
    enum { MANY = 64, LONG = 1 << 17 };
    static int64_t lengths[MANY][2];
    ra_tensor view = {lengths, RA_I64, MANY, 1, 1, 2, 2, 0, 0, 1};
    ra_problem problem = RA_PROBLEM_INIT;
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_plan *plan = NULL;
    for (int i = 0; i < MANY; i++)
        lengths[i][1] = i == 5 ? LONG : 500;
    arrays.lengths = &view;
    problem.batch = MANY, problem.q_len = 1, problem.kv_len = LONG, problem.heads = 8, problem.head_dim = 64;
    REQUIRE(!ra_plan_create(&problem, NULL, &plan), "%s", ra_last_message());
    assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
    assert_int_equal(info.key_spans, 1); /* 64 elements of the same length are enough tasks */
    ra_plan_free(plan);
    problem.pattern = "lengths", problem.score_arrays = &arrays;
    REQUIRE(!ra_plan_create(&problem, NULL, &plan), "%s", ra_last_message());
    assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
    assert_true(info.key_spans >= 32);
    ra_plan_free(plan);
}

/* ---- Masks ------------------------------------------------------------------------------------------------------- */

enum { MASKED = 256 };

typedef struct masked {
    sample s;
    uint8_t pairs[MASKED][MASKED];
    ra_tensor view;
    ra_score_arrays arrays;
} masked;

static masked *make_masked(void)
{
    masked *m = calloc(1, sizeof *m);
    assert_non_null(m);
    ra_problem problem = RA_PROBLEM_INIT;
    m->view = (ra_tensor){m->pairs, RA_BOOL, 1, MASKED, 1, MASKED, 0, MASKED, 0, 1};
    m->arrays = (ra_score_arrays)RA_SCORE_ARRAYS_INIT;
    m->arrays.mask = &m->view;
    problem.batch = 2, problem.q_len = problem.kv_len = MASKED, problem.heads = 4, problem.kv_heads = 2;
    problem.head_dim = 24, problem.pattern = "mask", problem.score_arrays = &m->arrays;
    sample_make(&m->s, &problem);
    return m;
}

static void free_masked(masked *m)
{
    sample_free(&m->s);
    free(m);
}

/* All pairs of queries and keys in squares of 64, as the bits of a row of squares say. */
static void fill_squares(masked *m, const unsigned rows[4])
{
    for (int query = 0; query < MASKED; query++)
        for (int key = 0; key < MASKED; key++)
            m->pairs[query][key] = rows[query / 64] >> (key / 64) & 1;
}

static void blocks_that_a_mask_leaves_empty_are_not_computed(void **state)
{
    (void)state;
    masked *m = make_masked();
    ra_options options = RA_OPTIONS_INIT;
    ra_stats all = RA_STATS_INIT, one = RA_STATS_INIT;
    fill_squares(m, (const unsigned[]){15, 15, 15, 15});
    sample_run_as(&m->s, &options, &all);
    assert_true(all.pairs_visible == 8.0 * MASKED * MASKED && all.pairs_worked >= all.pairs_visible);
    fill_squares(m, (const unsigned[]){2, 2, 2, 2}); /* keys 64 to 127 */
    sample_run_as(&m->s, &options, &one);
    assert_true(4 * one.tiles == all.tiles && 4 * one.pairs_worked == all.pairs_worked);
    fill_squares(m, (const unsigned[]){1, 2, 4, 8}); /* groups are in two squares at most */
    sample_run_as(&m->s, &options, &one);
    assert_true(2 * one.tiles <= all.tiles && 4 * one.pairs_visible == all.pairs_visible);
    fill_squares(m, (const unsigned[]){0, 0, 0, 0});
    sample_run_as(&m->s, &options, &one);
    assert_true(one.tiles == 0 && one.pairs_worked == 0);
    for (int64_t query = 0; query < MASKED; query++)
        assert_true(ra_tensor_get(&m->s.tensors[SAMPLE_OUTPUT], 1, query, 3, 5) == 0 &&
                    ra_tensor_get(&m->s.tensors[SAMPLE_LSE], 1, query, 3, 0) == -INFINITY);
    free_masked(m);
}

static void outputs_share_no_memory_with_a_mask(void **state)
{
    (void)state;
    masked *m = make_masked();
    ra_plan *plan = sample_plan(&m->s, RA_KERNEL_AUTO, 1);
    const ra_tensor *t = m->s.tensors;
    ra_tensor lse = t[SAMPLE_LSE];
    lse.data = m->pairs;
    assert_int_equal(ra_forward(plan, &t[0], &t[1], &t[2], &t[3], &lse, NULL), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "mask"));
    ra_plan_free(plan);
    free_masked(m);
}

/* A mask goes by index: of fewer keys it hides what it hides of these. */
static void a_mask_serves_fewer_keys(void **state)
{
    (void)state;
    masked *m = make_masked();
    sample *s = &m->s, fewer;
    for (int i = 0; i < MASKED * MASKED; i++)
        m->pairs[i / MASKED][i % MASKED] = (i * 7 / 3 + i / 11) % 5 < 2;
    ra_plan *plan = sample_plan(s, RA_KERNEL_AUTO, 2);
    ra_tensor k = rows_of(&s->tensors[SAMPLE_KEY], 0, 170), v = rows_of(&s->tensors[SAMPLE_VALUE], 0, 170);
    const ra_tensor *t = s->tensors;
    REQUIRE(!ra_forward(plan, &t[0], &k, &v, &t[3], &t[4], NULL), "%s", ra_last_message());
    ra_plan_free(plan);
    ra_problem problem = s->problem;
    problem.kv_len = 170, m->view.dim = 170;
    sample_make(&fewer, &problem);
    plan = sample_plan(&fewer, RA_KERNEL_AUTO, 2);
    REQUIRE(!ra_forward(plan, &t[0], &k, &v, &fewer.tensors[3], &fewer.tensors[4], NULL), "%s", ra_last_message());
    assert_true(farthest(&t[3], &fewer.tensors[3]) < 2e-6 && farthest(&t[4], &fewer.tensors[4]) < 2e-6);
    ra_plan_free(plan);
    sample_free(&fewer);
    free_masked(m);
}

/* Four ranks with 64 queries and keys each. */
static void rows_that_a_mask_hides_do_not_travel(void **state)
{
    (void)state;
    static const ra_strategy strategies[] = {RA_STRATEGY_RING, RA_STRATEGY_BROADCAST};
    const int64_t row = 2 * (24 + 24) * 2 * (int64_t)sizeof(float); /* batch, dims, key/value heads */
    for (int i = 0; i < 2; i++) {
        masked *m = make_masked();
        ra_rank_stats stats[4] = {RA_RANK_STATS_INIT, RA_RANK_STATS_INIT, RA_RANK_STATS_INIT, RA_RANK_STATS_INIT};
        ring_case c = ring_case_make(WAY_MESSAGES, 4, strategies[i], RA_ORDER_CONTIGUOUS);
        fill_squares(m, (const unsigned[]){1, 2, 4, 8}); /* each rank its own keys */
        REQUIRE(!ring_case_run(&c, &m->s, stats, NULL), "%s", ra_last_message());
        for (int rank = 0; rank < 4; rank++)
            assert_int_equal(stats[rank].bytes_received, 0);
        m->pairs[70][3] = 1; /* a query of rank 1 sees one key of rank 0, */
        m->pairs[80][3] = 1;
        m->pairs[255][130] = 1; /* and one of rank 3 a key of rank 2 */
        REQUIRE(!ring_case_run(&c, &m->s, stats, NULL), "%s", ra_last_message());
        for (int rank = 0; rank < 4; rank++)
            assert_int_equal(stats[rank].bytes_received, rank % 2 ? row : 0);
        free_masked(m);
    }
}

static void arrays_that_are_no_masks_or_lengths_are_refused(void **state)
{
    (void)state;
    masked *m = make_masked();
    int64_t lengths[2][3] = {{0, MASKED, 0}, {0, MASKED, 0}};
    ra_tensor view = {lengths, RA_I64, 2, 1, 1, 3, 3, 0, 0, 1};
    ra_problem problem = m->s.problem;
    m->view.dim = MASKED - 1;
    refuse(&problem, "character 1: mask: bool [batch 1, seq 256, heads 1, dim 255]: must be bool [2 or 1, 256, 4 or 1, "
                     "256]");
    m->view.dim = MASKED, m->view.dtype = RA_F32;
    refuse(&problem, "mask: float32 [batch 1");
    m->view.dtype = RA_BOOL;
    problem.pattern = "causal";
    refuse(&problem, "score_arrays: mask is given, but pattern \"causal\" has no \"mask\" by itself");
    problem.pattern = "mask+mask";
    refuse(&problem, "character 6: expected a term of another kind");
    problem.pattern = "mask+lengths";
    refuse(&problem, "character 13: expected \":@FILE.npy\" after \"lengths\", or lengths among the score_arrays");
    m->arrays.lengths = &view;
    lengths[1][0] = -1;
    refuse(&problem, "character 6: lengths: batch element 1 has the keys -1 to 256: must be within 0 to 256");
    lengths[1][0] = 5, lengths[1][1] = 4;
    refuse(&problem, "batch element 1 has the keys 5 to 4");
    lengths[1][1] = MASKED + 1;
    refuse(&problem, "batch element 1 has the keys 5 to 257");
    lengths[1][1] = MASKED, lengths[0][2] = INT64_C(1) << 62;
    refuse(&problem, "batch element 0 has its first query at position 4611686018427387904");
    lengths[0][2] = 0, problem.query_position = 7;
    refuse(&problem, "query position 7 beside lengths that have a position for each element");
    problem.query_position = RA_SAME, view.batch = 1;
    refuse(&problem, "lengths of 1 elements with 3 columns: must be [2, 2] or [2, 3]");
    free_masked(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packed_sequence_is_as_if_alone),
        cmocka_unit_test(keys_between_packed_windows_are_left_out),
        cmocka_unit_test(packed_decoding_has_the_same_bits),
        cmocka_unit_test(packed_decoding_may_shrink),
        cmocka_unit_test(documents_from_memory_are_those_of_the_text),
        cmocka_unit_test(documents_may_shrink_and_not_grow),
        cmocka_unit_test(arrays_that_are_no_documents_are_refused),
        cmocka_unit_test(padding_is_hidden_on_the_side_that_it_is_on),
        cmocka_unit_test(lengths_may_shrink_and_not_grow),
        cmocka_unit_test(ranks_need_the_lengths_of_their_plan),
        cmocka_unit_test(a_ragged_batch_is_divided_by_its_work),
        cmocka_unit_test(blocks_that_a_mask_leaves_empty_are_not_computed),
        cmocka_unit_test(a_mask_serves_fewer_keys),
        cmocka_unit_test(outputs_share_no_memory_with_a_mask),
        cmocka_unit_test(rows_that_a_mask_hides_do_not_travel),
        cmocka_unit_test(arrays_that_are_no_masks_or_lengths_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
