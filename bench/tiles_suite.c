/*
 * ringattn bench tiles: the same problem with its tiles worked in each order, interleaved. Times are measured; cache
 * misses are counted by the processor, or, where it does not let us, by valgrind's model, on a shorter sequence and
 * with one thread. Which one won is said from what was measured.
 */
#include "bench.h"
#include "cache_misses.h"
#include "sampling.h"
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 8192, MODEL_LENGTH = 1024, HEADS = 8, DIM = 64, THREADS = 2, ORDERS = 3 };

typedef struct tiles_run {
    ra_tile_order order;
    const bench_tensors *tensors; /* of all runs */
    ra_plan *plan;
    double error;
    samples taken;
    bool counted;
    cache_misses misses;
} tiles_run;

typedef struct tiles_bench {
    const bench_options *options;
    int64_t length, heads;
    int threads;
    ra_kernel_id kernel;
    bench_tensors tensors;
    tiles_run runs[ORDERS];
} tiles_bench;

static ra_status run_once(void *user, double *seconds)
{
    const tiles_run *r = user;
    ra_stats stats = RA_STATS_INIT;
    const bench_tensors *t = r->tensors;
    ra_status status = ra_forward(r->plan, &t->q, &t->k, &t->v, &t->output, NULL, &stats);
    *seconds = stats.seconds_compute;
    return status;
}

static ra_status plan_order(const tiles_bench *b, tiles_run *r, ra_tile_order order)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    problem.q_len = b->length;
    problem.heads = b->heads;
    problem.head_dim = DIM;
    options.threads = b->threads;
    options.tiles = r->order = order;
    r->tensors = &b->tensors;
    return ra_plan_create(&problem, &options, &r->plan);
}

static ra_status take_tensors(tiles_bench *b)
{
    const bench_shape shape = {b->length, b->length, b->heads, b->heads, DIM, RA_F32};
    ra_status status = bench_tensors_take(&b->tensors, &shape, "tiles");
    if (!status)
        bench_tensors_fill(&b->tensors, b->options->seed);
    return status;
}

static ra_status prepare(tiles_bench *b, tiles_run *r, ra_tile_order order)
{
    double seconds;
    ra_status status = plan_order(b, r, order);
    if (!status)
        status = run_once(r, &seconds);
    for (int i = 0; i < BENCH_CHECKED_ROWS && !status; i++)
        status = bench_check_row(r->plan, &b->tensors, bench_checked_query(&b->tensors, i),
                                 bench_checked_head(&b->tensors, i), &r->error);
    return status;
}

/* ---- Cache misses ------------------------------------------------------------------------------------------------ */

static void count_here(tiles_bench *b, cache_counters *counters)
{
    double seconds;
    for (int i = 0; i < ORDERS; i++) {
        cache_counters_start(counters);
        ra_status status = run_once(&b->runs[i], &seconds);
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

static int print_results(const tiles_bench *b)
{
    static double readings[2 * ORDERS * SAMPLING_MOST];
    int n = 0, code = 0, fastest = 0;
    double ratios[ORDERS];
    for (int i = 0; i < ORDERS; i++)
        n += sampling_readings(&b->runs[i].taken, readings + n);
    probe_reading best = sampling_undisturbed(readings, n);
    printf("\n%-12s %9s %12s %9s %15s %15s %9s\n", "tiles", "median s", "time to row", "quiet/all", "first-level",
           "last-level", "error");
    for (int i = 0; i < ORDERS; i++) {
        const tiles_run *r = &b->runs[i];
        bool right = r->error <= bench_tolerance(RA_F32);
        sampling_relation relation = sampling_against(&r->taken, &b->runs[0].taken, best);
        char first[32] = "-", last[32] = "-";
        if (r->counted) {
            snprintf(first, sizeof first, "%lld", (long long)r->misses.first_level);
            snprintf(last, sizeof last, "%lld", (long long)r->misses.last_level);
        }
        ratios[i] = 1 / relation.ratio;
        fastest = ratios[i] < ratios[fastest] ? i : fastest;
        printf("%-12s %9.4f %12.3f %5d/%-3d %15s %15s %9.1e%s\n", ra_tile_order_name(r->order), 1 / relation.value,
               ratios[i], relation.quiet, relation.count, first, last, r->error,
               right ? "" : "  FAILED: out of tolerance");
        code |= !right;
    }
    double next = 0;
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

static int run_suite(tiles_bench *b)
{
    bool terminal = isatty(STDERR_FILENO);
    if (take_tensors(b))
        return 1;
    for (int i = 0; i < ORDERS; i++)
        if (prepare(b, &b->runs[i], (ra_tile_order)i))
            return failed();
    for (int round = 0; round < b->options->rounds; round++)
        for (int i = 0; i < ORDERS && !b->options->interrupted(); i++) {
            if (terminal)
                fprintf(stderr, "\rround %d of %d ", round + 1, b->options->rounds);
            /* Whoever comes first in a round may find the machine in another state: everyone does once. */
            tiles_run *r = &b->runs[(round + i) % ORDERS];
            if (sampling_take(&r->taken, b->kernel, b->threads, run_once, r))
                return failed();
        }
    if (terminal)
        fprintf(stderr, "\r%40s\r", "");
    if (b->options->interrupted())
        return 0;
    count_misses(b);
    return print_results(b);
}

static void give(tiles_bench *b)
{
    for (int i = 0; i < ORDERS; i++)
        ra_plan_free(b->runs[i].plan);
    bench_tensors_give(&b->tensors);
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
    printf("ringattn %s, %s, %s, %s, %d thread%s; length %lld, %lld head%s, head dim %d, float32\n", ra_version(),
           machine.processor, machine.compiler, ra_kernel_name(machine.kernel), b->threads, b->threads > 1 ? "s" : "",
           (long long)b->length, (long long)heads, heads > 1 ? "s" : "", DIM);
    return b;
}

int bench_tiles(const bench_options *options)
{
    tiles_bench *b = make(options, LENGTH, HEADS, THREADS);
    if (!b)
        return 2;
    int code = run_suite(b);
    give(b);
    return code;
}

int bench_tiles_run(const bench_options *options)
{
    int order = 0;
    double seconds;
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
    bool right = !take_tensors(b) && !plan_order(b, &b->runs[order], (ra_tile_order)order) &&
                 !run_once(&b->runs[order], &seconds);
    int code = right ? 0 : failed();
    give(b);
    return code;
}
