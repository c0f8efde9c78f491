/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes of 0. Without a batch or without queries there is nothing to do; without keys every row is empty: zeros, and a
 * log-sum-exp of -infinity.
 */
#include "support/ring.h"
#include "support/sample.h"
#include "support/unit.h"

#include <math.h>
#include <string.h>

enum { STRATEGIES = 3, ORDERS = 3 };

static const char *const patterns[] = {"full",
                                       "causal",
                                       "window:3,1",
                                       "dilated:8/2,16/3",
                                       "blocks:16:local=1+causal",
                                       "blocks:16:random=2",
                                       "blocks:4:density=0.3",
                                       "dilated:8/2:mode=union+blocks:3"};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

static const int64_t sizes[][3] = {{0, 130, 200}, {1, 0, 200}, {2, 130, 0}, {1, 3, 0}, {1, 0, 0}, {0, 0, 0}, {0, 5, 0}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void make(sample *s, int size, int pattern)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.batch = sizes[size][0], problem.q_len = sizes[size][1], problem.kv_len = sizes[size][2];
    problem.heads = 4, problem.kv_heads = 2, problem.head_dim = 8, problem.value_dim = 5;
    problem.pattern = patterns[pattern];
    sample_make(s, &problem);
}

static bool rows_are_empty(const sample *s)
{
    const ra_tensor *o = &s->tensors[SAMPLE_OUTPUT], *lse = &s->tensors[SAMPLE_LSE];
    bool empty = true;
    for (int64_t i = 0; i < o->batch * o->seq * o->heads; i++) {
        int64_t head = i % o->heads, query = i / o->heads % o->seq, batch = i / o->heads / o->seq;
        empty &= ra_tensor_get(lse, batch, query, head, 0) == -INFINITY;
        for (int64_t d = 0; d < o->dim; d++) {
            double value = ra_tensor_get(o, batch, query, head, d);
            empty &= value == 0 && !signbit(value);
        }
    }
    return empty;
}

static void in_one_piece(void **state)
{
    (void)state;
    for (int size = 0; size < SIZES; size++)
        for (int pattern = 0; pattern < PATTERNS; pattern++) {
            sample s;
            ra_options options = RA_OPTIONS_INIT;
            ra_stats stats = RA_STATS_INIT;
            options.threads = 2;
            make(&s, size, pattern);
            sample_run_as(&s, &options, &stats);
            REQUIRE(rows_are_empty(&s) && stats.pairs_visible == 0 && stats.tiles == 0 && stats.flops == 0 &&
                        stats.peak_bytes == stats.planned_peak_bytes && stats.threads == 1,
                    "%s", sample_text(&s));
            sample_free(&s);
        }
}

/* Views without elements need no memory, and a plan for some keys can be run with none. */
static void without_memory(void **state)
{
    (void)state;
    float q[3 * 4], output[3 * 4] = {1}, lse[3];
    double row[4], row_lse;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = 3, problem.kv_len = 10, problem.heads = 1, problem.head_dim = 4;
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        ra_plan *plan = NULL;
        problem.pattern = patterns[pattern];
        assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
        ra_generate(RA_NORMAL, 1, 0, 3 * 4, q);
        memset(output, 0xff, sizeof output);
        memset(lse, 0xff, sizeof lse);
        ra_tensor tq = ra_tensor_dense(q, RA_F32, RA_BSHD, 1, 3, 1, 4), to = tq;
        ra_tensor tk = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, 0, 1, 4);
        ra_tensor tl = ra_tensor_dense(lse, RA_F32, RA_BSHD, 1, 3, 1, 1);
        to.data = output;
        assert_int_equal(ra_forward(plan, &tq, &tk, &tk, &to, &tl, NULL), RA_OK);
        for (int i = 0; i < 12; i++)
            assert_true(output[i] == 0 && lse[i / 4] == -INFINITY);
        assert_int_equal(ra_reference_row(plan, &tq, &tk, &tk, 0, 0, 1, row, &row_lse), RA_OK);
        assert_true(row[0] == 0 && row[3] == 0 && row_lse == -INFINITY);
        ra_plan_free(plan);
    }
}

static void over_ranks(void **state)
{
    (void)state;
    for (int size = 0; size < SIZES; size++)
        for (int at = 0; at < WAYS * STRATEGIES * ORDERS; at++) {
            sample s;
            ra_rank_stats stats[3] = {RA_RANK_STATS_INIT};
            int ranks = 1 + at % 3, pattern = (at + size) % PATTERNS;
            ring_case c = ring_case_make((way)(at % WAYS), ranks, (ra_strategy)(at / WAYS % STRATEGIES),
                                         (ra_order)(at / WAYS / STRATEGIES));
            make(&s, size, pattern);
            REQUIRE(!ring_case_run(&c, &s, stats, NULL), "%s, %s: %s", ring_case_text(&c), sample_text(&s),
                    ring_message(0));
            REQUIRE(rows_are_empty(&s), "%s, %s: rows are not empty", ring_case_text(&c), sample_text(&s));
            for (int rank = 0; rank < ranks; rank++)
                REQUIRE(stats[rank].pairs_visible == 0 && stats[rank].peak_bytes <= stats[rank].planned_peak_bytes,
                        "%s, %s: %g pairs", ring_case_text(&c), sample_text(&s), stats[rank].pairs_visible);
            sample_free(&s);
        }
}

/* A budget is no obstacle: one rank is enough, and what does not fit is refused. */
static void budgets(void **state)
{
    (void)state;
    for (int size = 0; size < SIZES; size++) {
        ra_ring_options options = RA_RING_OPTIONS_INIT;
        ra_ring_plan *plan = NULL;
        sample s;
        int ranks = -1;
        make(&s, size, size);
        options.memory = 1 << 30, options.ranks = 3, options.lent = 0;
        REQUIRE(!ra_ring_smallest(&s.problem, NULL, &options, &ranks) && ranks == 1, "%s: %d", sample_text(&s), ranks);
        assert_int_equal(ra_ring_plan_create(&s.problem, NULL, &options, &plan), RA_OK);
        assert_true(ra_ring_plan_process_bytes(plan) > 1);
        ra_ring_plan_free(plan);
        options.memory = 1;
        assert_int_equal(ra_ring_smallest(&s.problem, NULL, &options, &ranks), RA_OK);
        assert_int_equal(ranks, 0);
        assert_int_equal(ra_ring_plan_create(&s.problem, NULL, &options, &plan), RA_ERROR_BUDGET);
        sample_free(&s);
    }
}

/* The oracle over storages. */
static void reference_rows(void **state)
{
    (void)state;
    sample s;
    ra_storage *storages[3] = {NULL};
    ra_row rows[2] = {{1, 129, 3}, {0, 0, 0}};
    double outputs[10], lses[2];
    make(&s, 2, 1);
    ra_plan *plan = sample_plan(&s, RA_KERNEL_AUTO, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ra_storage_memory(&s.tensors[i], &storages[i]), RA_OK);
    assert_int_equal(ra_reference_rows(plan, storages[0], storages[1], storages[2], rows, 2, outputs, lses), RA_OK);
    assert_true(outputs[0] == 0 && outputs[9] == 0 && lses[0] == -INFINITY && lses[1] == -INFINITY);
    for (int i = 0; i < 3; i++)
        ra_storage_free(storages[i]);
    ra_plan_free(plan);
    sample_free(&s);
}

static int report(void *user, double done, double total)
{
    *(int *)user += done == total;
    return 0;
}

/* The last call of a run says that all is done, also where that is nothing. */
static void progress_is_told(void **state)
{
    (void)state;
    int calls = 0;
    sample s;
    ra_options options = RA_OPTIONS_INIT;
    options.progress = report, options.progress_user = &calls;
    make(&s, 2, 0);
    sample_run_as(&s, &options, NULL);
    assert_int_equal(calls, 1);
    sample_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_one_piece),   cmocka_unit_test(without_memory),
                                       cmocka_unit_test(over_ranks),     cmocka_unit_test(budgets),
                                       cmocka_unit_test(reference_rows), cmocka_unit_test(progress_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
