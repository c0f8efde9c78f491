/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn bench tiles: the same problem with its tiles worked in each order, interleaved. Times are measured; cache
 * misses are counted by the processor, or, where it does not let us, by valgrind's model, on a shorter sequence and
 * with one thread. Which one won is said from what was measured.
 */
#include "cache_misses.h"
#include "harness.h"
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 8192, MODEL_LENGTH = 1024, HEADS = 8, DIM = 64, THREADS = 2, ORDERS = 3 };

typedef struct tiles_run {
    subject subject;
    bool counted;
    cache_misses misses;
} tiles_run;

typedef struct tiles_bench {
    const bench_options *options;
    int64_t length, heads;
    int threads;
    ra_kernel_id kernel;
    bench_pool pool;
    tiles_run runs[ORDERS];
    harness_case cases[ORDERS];
} tiles_bench;

/* Planned, run once, and checked if that is wanted. */
static ra_status prepare(tiles_bench *b, int order, bool check)
{
    tiles_run *r = &b->runs[order];
    const subject_spec spec = {.name = ra_tile_order_name((ra_tile_order)order),
                               .shape = bench_shape_square(b->length, b->heads, DIM),
                               .threads = b->threads,
                               .kernel = b->kernel,
                               .tiles = (ra_tile_order)order};
    subject_time unused;
    b->cases[order] = (harness_case){
        .name = spec.name, .kernel = b->kernel, .threads = b->threads, .run = subject_sample, .user = &r->subject};
    bench_tensors *tensors = bench_pool_get(&b->pool, &spec.shape, spec.name);
    ra_status status = tensors ? subject_prepare(&r->subject, &spec, tensors) : RA_ERROR_MEMORY;
    r->subject.checked = !check;
    return status ? status : subject_run(&r->subject, &unused);
}

/* ---- Cache misses ------------------------------------------------------------------------------------------------ */

static void count_here(tiles_bench *b, cache_counters *counters)
{
    subject_time unused;
    for (int i = 0; i < ORDERS; i++) {
        cache_counters_start(counters);
        ra_status status = subject_run(&b->runs[i].subject, &unused);
        b->runs[i].counted = cache_counters_stop(counters, &b->runs[i].misses) && !status;
    }
    printf("cache misses: of one run, by the processor's counters\n");
}

static void count_in_model(tiles_bench *b)
{
    launch self;
    char why[256] = "", length[32], input[32];
    if (launch_find(&self, NULL, b->options->interrupted))
        return;
    int64_t modelled = b->length < MODEL_LENGTH ? b->length : MODEL_LENGTH;
    snprintf(length, sizeof length, "%lld", (long long)modelled);
    snprintf(input, sizeof input, "gen:%llu", (unsigned long long)b->options->seed);
    for (int i = 0; i < ORDERS && !*why; i++) {
        const char *const arguments[] = {"bench",     "tiles-run", "--only",  ra_tile_order_name((ra_tile_order)i),
                                         "--length",  length,      "--input", input,
                                         "--threads", "1",         NULL};
        b->runs[i].counted = cache_model_run(&self, arguments, &b->runs[i].misses, why);
    }
    if (*why)
        printf("cache misses: not counted: no counters of the processor here, and %s\n", why);
    else
        printf("cache misses: no counters of the processor here; in valgrind's model of its caches, %lld tokens, one "
               "head,\none thread, data reads and writes of the whole process\n",
               (long long)modelled);
}

static void count_misses(tiles_bench *b)
{
    cache_counters counters;
    if (cache_counters_open(&counters)) {
        count_here(b, &counters);
        cache_counters_close(&counters);
    } else
        count_in_model(b);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static double report(const tiles_bench *b, results *kept, int order, int *code)
{
    const tiles_run *r = &b->runs[order];
    const harness_case *c = &b->cases[order];
    probe_reading best = harness_undisturbed(b->cases, ORDERS, c);
    sampling_relation relation = sampling_against(&c->taken, &b->cases[0].taken, best);
    result_row row = {.suite = "tiles", .of_peak = true, .against = "time to row", .against_value = relation.ratio};
    char first[32] = "-", last[32] = "-";
    bool right = subject_right(&r->subject);
    row.seconds = sampling_of(&c->taken, best);
    subject_describe(&r->subject, &row);
    if (r->counted) {
        snprintf(first, sizeof first, "%lld", (long long)r->misses.first_level);
        snprintf(last, sizeof last, "%lld", (long long)r->misses.last_level);
        result_figure(&row, "first_level_misses", (double)r->misses.first_level);
        result_figure(&row, "last_level_misses", (double)r->misses.last_level);
    }
    results_add(kept, &row);
    printf("%-12s %9.4f %12.3f %5d/%-3d %15s %15s %9.1e%s\n", row.name, relation.seconds, relation.ratio,
           relation.quiet, relation.count, first, last, row.error, right ? "" : "  FAILED: out of tolerance");
    *code |= !right;
    return relation.ratio;
}

static int report_all(const tiles_bench *b, results *kept)
{
    int code = 0, fastest = 0;
    double ratios[ORDERS], next = 0;
    printf("\n%-12s %9s %12s %9s %15s %15s %9s\n", "tiles", "median s", "time to row", "quiet/all", "first-level",
           "last-level", "error");
    for (int i = 0; i < ORDERS; i++) {
        ratios[i] = report(b, kept, i, &code);
        fastest = ratios[i] < ratios[fastest] ? i : fastest;
    }
    for (int i = 0; i < ORDERS; i++)
        if (i != fastest && (next == 0 || ratios[i] < next))
            next = ratios[i];
    printf("\n%s was the fastest, by %.1f%%\n", ra_tile_order_name((ra_tile_order)fastest),
           100 * (next / ratios[fastest] - 1));
    return code;
}

static int failed(void)
{
    fprintf(stderr, "ringattn bench: %s\n", ra_last_message());
    return 1;
}

static int run_suite(tiles_bench *b, results *kept)
{
    for (int i = 0; i < ORDERS; i++)
        if (prepare(b, i, true))
            return failed();
    int code = harness_measure(b->options, b->cases, ORDERS);
    if (code || b->options->interrupted())
        return code;
    count_misses(b);
    return report_all(b, kept);
}

static void give(tiles_bench *b)
{
    for (int i = 0; i < ORDERS; i++)
        subject_give(&b->runs[i].subject);
    bench_pool_give(&b->pool);
    free(b);
}

static tiles_bench *make(const bench_options *options, int64_t length, int64_t heads, int threads)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    tiles_bench *b = calloc(1, sizeof *b);
    if (!b || ra_system_describe(&machine)) {
        fprintf(stderr, "ringattn bench: %s\n", b ? ra_last_message() : "out of memory");
        free(b);
        return NULL;
    }
    b->options = options;
    b->length = options->length ? options->length : length;
    b->heads = heads;
    b->threads = options->threads ? options->threads : threads;
    b->kernel = machine.kernel;
    b->pool.seed = options->seed;
    printf("ringattn %s, %s, %s, %s, %d thread%s; length %lld, %lld head%s, head dim %d, float32\n", ra_version(),
           machine.processor, machine.compiler, ra_kernel_name(machine.kernel), b->threads, b->threads > 1 ? "s" : "",
           (long long)b->length, (long long)heads, heads > 1 ? "s" : "", DIM);
    return b;
}

int bench_tiles(const bench_options *options)
{
    results *kept = NULL;
    tiles_bench *b = make(options, LENGTH, HEADS, THREADS);
    if (!b)
        return 2;
    int code = results_open(options, &kept);
    if (!code)
        code = run_suite(b, kept);
    give(b);
    return results_close(kept) ? 1 : code;
}

int bench_tiles_run(const bench_options *options)
{
    int order = 0;
    while (order < ORDERS && (!options->only || strcmp(options->only, ra_tile_order_name((ra_tile_order)order)) != 0))
        order++;
    if (order == ORDERS) {
        fprintf(stderr, "ringattn bench: --only %s: must be row, serpentine or hilbert\n",
                options->only ? options->only : "is missing");
        return 2;
    }
    tiles_bench *b = make(options, MODEL_LENGTH, 1, 1);
    if (!b)
        return 2;
    int code = prepare(b, order, false) ? failed() : 0;
    give(b);
    return code;
}
