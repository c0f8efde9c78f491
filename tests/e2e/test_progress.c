/* SPDX-License-Identifier: Apache-2.0 */
/* What a run reports: progress, cancelling, statistics that are the plan's figures, memory within the plan. */
#include "support/sample.h"
#include "support/unit.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

typedef struct watcher {
    pthread_t caller;
    int calls, stop_at; /* stop_at 0: never */
    double last, total;
    double leap; /* the most that was done between two calls */
    bool backward, elsewhere, total_changed;
} watcher;

static int watch(void *user, double done, double total)
{
    watcher *w = user;
    w->backward |= done <= w->last;
    w->elsewhere |= !pthread_equal(pthread_self(), w->caller);
    w->total_changed |= w->calls > 0 && total != w->total;
    w->leap = fmax(w->leap, done - w->last);
    w->last = done;
    w->total = total;
    return ++w->calls == w->stop_at;
}

static const struct shape {
    int64_t q_len, kv_len;
    const char *pattern;
} shapes[] = {
    {500, 500, "causal"}, {20, 9000, "full"},
    {1, 20000, "full"},   {2, 900, "causal+window:500,0"},
    {200, 100, "causal"}, {300, 300, "documents:100,1,199"},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void make_shape(sample *s, const struct shape *shape)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = shape->q_len, problem.kv_len = shape->kv_len, problem.pattern = shape->pattern;
    problem.batch = 2, problem.heads = 2, problem.kv_heads = 1, problem.head_dim = 9;
    sample_make(s, &problem);
}

static ra_status run(const sample *s, int threads, watcher *w, ra_plan_info *info, ra_stats *stats)
{
    const ra_tensor *t = s->tensors;
    ra_options options = RA_OPTIONS_INIT;
    ra_plan *plan;
    options.threads = threads;
    options.progress = w ? watch : NULL;
    options.progress_user = w;
    assert_int_equal(ra_plan_create(&s->problem, &options, &plan), RA_OK);
    assert_int_equal(ra_plan_describe(plan, info), RA_OK);
    ra_status status =
        ra_forward(plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE], &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE], stats);
    ra_plan_free(plan);
    return status;
}

static void progress_goes_forward(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (int threads = 1; threads <= 4; threads++) {
            watcher w = {.caller = pthread_self()};
            ra_plan_info info = RA_PLAN_INFO_INIT;
            sample s;
            make_shape(&s, &shapes[i]);
            assert_int_equal(run(&s, threads, &w, &info, NULL), RA_OK);
            assert_false(w.backward || w.elsewhere || w.total_changed);
            assert_true(w.calls > 0 && w.total == info.pairs_visible && w.last == info.pairs_visible);
            assert_true(threads > 1 || w.calls > 1); /* alone, the calling thread does everything, block after block */
            sample_free(&s);
        }
}

static void cancelling_stops_the_run(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (int threads = 1; threads <= 2; threads++)
            for (int stop_at = 1; stop_at <= 3; stop_at += 2) {
                watcher w = {.caller = pthread_self(), .stop_at = stop_at};
                ra_plan_info info = RA_PLAN_INFO_INIT;
                sample s;
                make_shape(&s, &shapes[i]);
                ra_status status = run(&s, threads, &w, &info, NULL);
                /* The other threads may have left the caller too little to be asked that often. */
                if (w.calls == stop_at) {
                    assert_int_equal(status, RA_ERROR_CANCELLED);
                    assert_non_null(strstr(ra_last_message(), "cancelled"));
                } else {
                    assert_true(threads > 1 && w.calls < stop_at);
                    assert_int_equal(status, RA_OK);
                }
                sample_free(&s);
            }
}

/* Over virtual ranks, whose tasks are taken as one list, several ranks at a time. */
static ra_status run_ring(const sample *s, int ranks, int threads, watcher *w, ra_rank_stats *stats)
{
    const ra_tensor *t = s->tensors;
    ra_options options = RA_OPTIONS_INIT;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan;
    ra_comm *comm;
    options.threads = threads;
    options.progress = watch;
    options.progress_user = w;
    ring.ranks = ranks;
    ring.lent = 1;
    assert_int_equal(ra_ring_plan_create(&s->problem, &options, &ring, &plan), RA_OK);
    assert_int_equal(ra_comm_sim(ranks, &comm), RA_OK);
    ra_status status = ra_ring_forward(plan, comm, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE],
                                       &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE], stats);
    ra_comm_free(comm);
    ra_ring_plan_free(plan);
    return status;
}

static void virtual_ranks_report(void **state)
{
    (void)state;
    enum { MOST = 19 };
    for (int i = 0; i < SHAPES; i++)
        for (int ranks = 3; ranks <= MOST; ranks += 8)
            for (int threads = 1; threads <= 3; threads++) {
                watcher w = {.caller = pthread_self()};
                ra_rank_stats stats[MOST];
                double pairs = 0;
                sample s;
                make_shape(&s, &shapes[i]);
                for (int rank = 0; rank < ranks; rank++)
                    stats[rank] = (ra_rank_stats)RA_RANK_STATS_INIT;
                assert_int_equal(run_ring(&s, ranks, threads, &w, stats), RA_OK);
                assert_false(w.backward || w.elsewhere || w.total_changed);
                for (int rank = 0; rank < ranks; rank++) {
                    pairs += stats[rank].pairs_visible;
                    assert_true(stats[rank].rank == rank && stats[rank].seconds_compute >= 0);
                    assert_true(stats[rank].seconds_total >= stats[rank].seconds_compute);
                    assert_true(stats[rank].peak_bytes <= stats[rank].planned_peak_bytes);
                }
                assert_true(w.last == w.total && w.total == pairs);

                watcher stopper = {.caller = pthread_self(), .stop_at = 2};
                ra_status status = run_ring(&s, ranks, threads, &stopper, NULL);
                assert_int_equal(status, stopper.calls == 2 ? RA_ERROR_CANCELLED : RA_OK);
                assert_true(status == RA_OK || strstr(ra_last_message(), "cancelled"));
                sample_free(&s);
            }
}

/* Ranks of a second and a third list go on where those before them have ended. */
static void lists_of_ranks_report(void **state)
{
    (void)state;
    enum { RANKS = 19 };
    const struct shape shape = {RANKS * 64, RANKS * 64, "full"};
    watcher w = {.caller = pthread_self()};
    sample s;
    make_shape(&s, &shape);
    assert_int_equal(run_ring(&s, RANKS, 1, &w, NULL), RA_OK);
    assert_false(w.backward);
    assert_true(w.leap < w.total / 10);
    sample_free(&s);
}

static void statistics_are_the_plans(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (int threads = 1; threads <= 4; threads++) {
            ra_plan_info info = RA_PLAN_INFO_INIT;
            ra_stats stats = RA_STATS_INIT;
            sample s;
            make_shape(&s, &shapes[i]);
            assert_int_equal(run(&s, threads, NULL, &info, &stats), RA_OK);
            assert_int_equal(stats.size, sizeof stats);
            assert_int_equal(stats.kernel, info.kernel);
            assert_int_equal(stats.variant, info.variant);
            assert_in_range(stats.threads, 1, info.threads);
            assert_true(stats.tiles == info.tiles && stats.pairs_visible == info.pairs_visible);
            assert_true(stats.pairs_worked == info.pairs_worked && stats.flops == info.flops);
            assert_true(stats.pairs_worked >= stats.pairs_visible && stats.seconds_compute > 0);
            assert_true(stats.planned_peak_bytes == info.peak_bytes);
            assert_true(stats.peak_bytes > 0 && stats.peak_bytes <= stats.planned_peak_bytes);
            sample_free(&s);
        }
}

/* The memory that is promised for long sequences is what a run of such a length really takes. */
static void a_long_run_stays_within_its_plan(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_stats stats = RA_STATS_INIT;
    sample s;
    problem.q_len = 8192, problem.heads = 1, problem.head_dim = 64, problem.pattern = "causal+window:64,0";
    sample_make(&s, &problem);
    assert_int_equal(run(&s, 2, NULL, &info, &stats), RA_OK);
    assert_in_range(stats.peak_bytes, 1, (4 << 20) - 1);
    assert_in_range(info.peak_bytes, stats.peak_bytes, (4 << 20) - 1);
    sample_free(&s);
}

/* A caller of an older version has less room. */
static void shorter_statistics(void **state)
{
    (void)state;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_stats stats = RA_STATS_INIT;
    sample s;
    make_shape(&s, &shapes[0]);
    stats.size = offsetof(ra_stats, planned_peak_bytes);
    stats.planned_peak_bytes = stats.peak_bytes = -7;
    assert_int_equal(run(&s, 1, NULL, &info, &stats), RA_OK);
    assert_true(stats.tiles == info.tiles && stats.planned_peak_bytes == -7 && stats.peak_bytes == -7);
    stats.size = 0;
    assert_int_equal(run(&s, 1, NULL, &info, &stats), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "ra_stats: size 0: set the struct up with RA_STATS_INIT");
    sample_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_goes_forward),    cmocka_unit_test(cancelling_stops_the_run),
        cmocka_unit_test(statistics_are_the_plans), cmocka_unit_test(a_long_run_stays_within_its_plan),
        cmocka_unit_test(shorter_statistics),       cmocka_unit_test(virtual_ranks_report),
        cmocka_unit_test(lists_of_ranks_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
