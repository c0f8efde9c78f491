/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn bench extreme: sequences that fit nowhere, in a budget that is kept. Every run is a process of its own
 * (ringattn attend on made-up inputs, output null), so that the system's figure of its memory is its own. What a run
 * gave is printed and kept when it has ended.
 */
#include "fit.h"
#include "launch.h"
#include "stats_row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DILATED "dilated:512/1,1024/2,2048/4,4096/6,8192/12"
enum { DIM = 64, MOST_RUNS = BENCH_MOST_LENGTHS + 1 };
static const int64_t BUDGET = (int64_t)768 << 20, FULL_LENGTH = 262144, FULL_BUDGET = 64 << 20;

/* What takes about ten minutes on two cores. */
static const int64_t LENGTHS[] = {1 << 20, 4 << 20, 16 << 20, 64 << 20};
enum { DEFAULT_LENGTHS = sizeof LENGTHS / sizeof *LENGTHS };

typedef struct extreme_run {
    const char *pattern;
    int64_t length, budget;
} extreme_run;

/* ---- One run ----------------------------------------------------------------------------------------------------- */

static void print_row(const extreme_run *r, const result_row *row)
{
    double seconds = row->seconds.seconds;
    printf("%-8s %11lld %6d %9.1f %12.0f %9.1f %9.1f %9.1f %9.1f %8lld %9.1e%s\n", row->name, (long long)r->length,
           row->ring_size, seconds, (double)r->length / seconds, 1e-9 * row->flops / seconds,
           (double)r->budget / (1 << 20), (double)row->peak_bytes / (1 << 20), (double)row->resident_bytes / (1 << 20),
           (long long)row->hops, row->error, row->error <= row->tolerance ? "" : "  FAILED: out of tolerance");
    fflush(stdout);
}

/* A run that did not come to its end is a row that counts nowhere. */
static void add_failure(results *kept, const extreme_run *r, const char *name)
{
    result_row row = {.suite = "extreme", .name = name, .reason = "it did not run to its end"};
    row.problem = (ra_problem)RA_PROBLEM_INIT;
    row.problem.q_len = r->length;
    row.problem.heads = 1;
    row.problem.head_dim = DIM;
    row.problem.pattern = r->pattern;
    result_figure(&row, "budget_bytes", (double)r->budget);
    results_add(kept, &row);
}

static int run_one(const bench_options *options, const launch *self, results *kept, const extreme_run *r)
{
    char shape[64], budget[32], threads[16], path[] = "/tmp/ringattn-extreme-XXXXXX";
    const char *name = strcmp(r->pattern, "full") == 0 ? "full" : "dilated";
    int file = mkstemp(path);
    if (file < 0) {
        fprintf(stderr, "ringattn bench: no temporary file in /tmp\n");
        return 1;
    }
    close(file);
    snprintf(shape, sizeof shape, "1,%lld,1,%d", (long long)r->length, DIM);
    snprintf(budget, sizeof budget, "%lld", (long long)r->budget);
    snprintf(threads, sizeof threads, "%d", options->threads ? options->threads : 2);
    const char *const arguments[] = {"attend",   "--query",        "gen:1",   "--key",    "gen:2", "--value",
                                     "gen:3",    "--shape",        shape,     "--output", "null",  "--pattern",
                                     r->pattern, "--distribution", "uniform", "--memory", budget,  "--threads",
                                     threads,    "--stats",        path,      NULL};
    int code = launch_run(self, 0, LAUNCH_TALK, arguments);
    json_t *stats = code ? NULL : json_load_file(path, 0, NULL);
    unlink(path);
    if (!stats) {
        printf("%-8s %11lld  FAILED: ringattn attend ended with %d\n", name, (long long)r->length, code);
        bool stopped = code == 130 || code == 143;
        if (!stopped)
            add_failure(kept, r, name);
        return stopped ? 0 : 1;
    }
    result_row row = {.suite = "extreme"};
    stats_row(stats, &row);
    row.name = name;
    result_figure(&row, "budget_bytes", (double)r->budget);
    print_row(r, &row);
    results_add(kept, &row);
    json_decref(stats);
    return row.error <= row.tolerance ? 0 : 1;
}

/* ---- How memory grows -------------------------------------------------------------------------------------------- */

static double planned_bytes(int64_t length, int ranks)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan = NULL;
    problem.q_len = length;
    problem.heads = 1;
    problem.head_dim = DIM;
    problem.pattern = DILATED;
    options.threads = 2;
    ring.ranks = ranks;
    ring.lent = 0;
    ring.lse = 0;
    double bytes =
        ra_ring_plan_create(&problem, &options, &ring, &plan) ? NAN : (double)ra_ring_plan_process_bytes(plan);
    ra_ring_plan_free(plan);
    return bytes;
}

/* Slopes of logarithms: 1 is in proportion, -1 in inverse proportion. */
static void print_fits(void)
{
    enum { POINTS = 4, RANKS = 16 };
    const int64_t length = 4 << 20;
    double x[POINTS], by_length[POINTS], by_ranks[POINTS];
    for (int i = 0; i < POINTS; i++) {
        x[i] = log((double)(1 << i));
        by_length[i] = log(planned_bytes(length << i, RANKS));
        by_ranks[i] = log(planned_bytes(length << (POINTS - 1), RANKS << i));
    }
    fit length_fit = fit_line(x, by_length, POINTS), ranks_fit = fit_line(x, by_ranks, POINTS);
    printf(
        "what a process holds, as planned (and kept: every run compares): with the length, %d ranks, as n^%.3f (95%%: "
        "%.3f..%.3f);\nwith the ranks, %lld tokens, as R^%.3f (95%%: %.3f..%.3f)\n",
        RANKS, length_fit.slope, length_fit.low, length_fit.high, (long long)(length << (POINTS - 1)), ranks_fit.slope,
        ranks_fit.low, ranks_fit.high);
}

int bench_extreme(const bench_options *options)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    launch self;
    results *kept = NULL;
    extreme_run runs[MOST_RUNS];
    int count = 0, code = 0;
    if (ra_system_describe(&machine) || launch_find(&self, NULL, options->interrupted) || results_open(options, &kept))
        return 2;
    int64_t budget = options->memory ? options->memory : BUDGET;
    for (int i = 0; i < options->length_count; i++)
        runs[count++] = (extreme_run){DILATED, options->lengths[i], budget};
    for (int i = 0; !options->length_count && i < (options->quick ? 1 : DEFAULT_LENGTHS); i++)
        runs[count++] = (extreme_run){DILATED, LENGTHS[i], budget};
    if (!options->length_count && !options->quick)
        runs[count++] = (extreme_run){"full", FULL_LENGTH, FULL_BUDGET};
    printf("ringattn %s, %s, %s, %s; " DILATED "\nand full attention, 1 head, head dim %d, float32, made-up inputs, "
           "output null; MiB: budget, accounted, resident\n\n",
           ra_version(), machine.processor, machine.compiler, ra_kernel_name(machine.kernel), DIM);
    printf("%-8s %11s %6s %9s %12s %9s %9s %9s %9s %8s %9s\n", "pattern", "tokens", "ranks", "seconds", "tokens/s",
           "GFLOP/s", "budget", "accounted", "resident", "hops", "error");
    for (int i = 0; i < count && !options->interrupted(); i++)
        code |= run_one(options, &self, kept, &runs[i]);
    if (!options->interrupted()) {
        putchar('\n');
        print_fits();
    }
    return results_close(kept) ? 1 : code;
}
