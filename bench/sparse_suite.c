/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn bench sparse: patterns that leave most pairs out, against the multiply-add peak on the pairs they compute,
 * against a run that computes all of them, and against themselves over a longer sequence. Cases are interleaved round
 * by round, every sample stands between two readings of the probes, and every case is checked against the oracle.
 */
#include "harness.h"
#include "subject.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 16384, QUICK_LENGTH = 4096, HEADS = 8, DIM = 64, THREADS = 2 };
enum { LONG_ROUNDS = 2 }; /* of the longest case, which takes a minute */

typedef enum yardstick { NOTHING, OF_PEAK, FASTER, PER_TOKEN } yardstick;

typedef struct sparse_case {
    const char *name, *pattern;
    int times; /* the suite's length */
    yardstick yardstick;
    const char *base; /* the case that it is compared with */
    double goal;
} sparse_case;

#define DILATED "dilated:2048/1,4096/2,8192/4"

static const sparse_case cases[] = {
    {"dense", "full", 1, NOTHING, NULL, 0},
    {"blocks of 64", "blocks:64:density=0.1", 1, FASTER, "dense", 6.5},
    {"blocks of 128", "blocks:128:density=0.1", 1, FASTER, "dense", 8.0},
    {"window", "window:512,0+causal", 8, OF_PEAK, NULL, 0.60},
    {"dilated", DILATED, 4, OF_PEAK, NULL, 0.70},
    {"dilated, long", DILATED, 64, PER_TOKEN, "dilated", 1.10},
};
enum { CASES = sizeof cases / sizeof *cases };

/* A case ready to run. */
typedef struct sparse_run {
    const sparse_case *c;
    double plan_seconds;
    subject subject;
} sparse_run;

typedef struct sparse_bench {
    const bench_options *options;
    int64_t length;
    int threads;
    ra_kernel_id kernel;
    bench_pool pool;
    sparse_run runs[CASES];
    harness_case cases[CASES];
} sparse_bench;

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

static ra_status plan_case(const sparse_bench *b, const char *pattern, int64_t length, double *seconds)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    ra_plan *plan = NULL;
    problem.q_len = length;
    problem.heads = HEADS;
    problem.head_dim = DIM;
    problem.pattern = pattern;
    options.threads = b->threads;
    options.kernel = b->kernel;
    double start = probe_seconds();
    ra_status status = ra_plan_create(&problem, &options, &plan);
    *seconds = probe_seconds() - start;
    ra_plan_free(plan);
    return status;
}

/* The shortest of a few times, as of the runs. */
static ra_status time_planning(const sparse_bench *b, sparse_run *r)
{
    enum { TIMES = 3 };
    ra_status status = RA_OK;
    r->plan_seconds = INFINITY;
    for (int i = 0; i < TIMES && !status; i++) {
        double seconds;
        status = plan_case(b, r->c->pattern, r->c->times * b->length, &seconds);
        r->plan_seconds = fmin(r->plan_seconds, seconds);
    }
    return status;
}

/* Before anything else has taken memory. */
static int plan_long(const sparse_bench *b)
{
    const char *pattern = "blocks:64:density=0.1";
    int64_t length = 64 * b->length;
    double seconds;
    int64_t before = probe_resident_peak();
    if (plan_case(b, pattern, length, &seconds)) {
        fprintf(stderr, "ringattn bench: %s\n", ra_last_message());
        return 1;
    }
    printf("planning %s for %lld tokens and %d heads: %.2f s, %.1f MiB more than before (goal 64)\n\n", pattern,
           (long long)length, HEADS, seconds, (double)(probe_resident_peak() - before) / (1 << 20));
    return 0;
}

/* ---- Cases ------------------------------------------------------------------------------------------------------- */

static int index_of(const char *name)
{
    int i = 0;
    while (i < CASES && strcmp(cases[i].name, name) != 0)
        i++;
    return i;
}

/* Those asked for, and what they are compared with. */
static bool wanted(const bench_options *options, const sparse_case *c)
{
    if (harness_wanted(options, c->name))
        return true;
    for (int i = 0; i < CASES; i++)
        if (cases[i].base && strcmp(cases[i].base, c->name) == 0 && harness_wanted(options, cases[i].name))
            return true;
    return false;
}

/* Planned, run once, and checked. */
static ra_status prepare(sparse_bench *b, int index)
{
    sparse_run *r = &b->runs[index];
    const sparse_case *c = r->c = &cases[index];
    const subject_spec spec = {.name = c->name,
                               .shape = bench_shape_square(c->times * b->length, HEADS, DIM),
                               .pattern = c->pattern,
                               .threads = b->threads,
                               .kernel = b->kernel};
    subject_time unused;
    int longest = 0;
    for (int i = 0; i < CASES; i++)
        longest = cases[i].times > longest ? cases[i].times : longest;
    b->cases[index] = (harness_case){.name = c->name,
                                     .kernel = b->kernel,
                                     .threads = b->threads,
                                     .most = c->times == longest ? LONG_ROUNDS : 0,
                                     .run = subject_sample,
                                     .user = &r->subject};
    ra_status status = time_planning(b, r);
    bench_tensors *tensors = status ? NULL : bench_pool_get(&b->pool, &spec.shape, c->name);
    if (!status)
        status = tensors ? subject_prepare(&r->subject, &spec, tensors) : RA_ERROR_MEMORY;
    return status ? status : subject_run(&r->subject, &unused);
}

static int prepare_all(sparse_bench *b)
{
    int count = 0;
    for (int i = 0; i < CASES; i++) {
        if (!wanted(b->options, &cases[i]))
            continue;
        count++;
        ra_status status = prepare(b, i);
        if (status)
            return harness_failed(cases[i].name, status);
    }
    return count ? 0 : harness_nothing(b->options);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

/* What the case's yardstick says, of the rounds that were quiet if there were any. */
static double judge(const sparse_bench *b, const sparse_run *r, const sampling_result *own, probe_reading best,
                    int *quiet)
{
    *quiet = own->quiet;
    if (r->c->yardstick == OF_PEAK)
        return own->ratio;
    if (r->c->yardstick == NOTHING)
        return 0;
    int index = (int)(r - b->runs), base = index_of(r->c->base);
    sampling_relation relation = sampling_against(&b->cases[index].taken, &b->cases[base].taken, best);
    *quiet = relation.quiet;
    if (r->c->yardstick == FASTER)
        return 1 / relation.ratio;
    return relation.ratio * cases[base].times / r->c->times; /* seconds a token to the other's */
}

static int report(sparse_bench *b, results *kept, int index)
{
    static const char *const UNITS[] = {NULL, "of peak", "x dense", "time a token"};
    const sparse_run *r = &b->runs[index];
    const harness_case *c = &b->cases[index];
    probe_reading best = harness_undisturbed(b->cases, CASES, c);
    result_row row = {.suite = "sparse", .of_peak = true, .goal = r->c->goal, .against = UNITS[r->c->yardstick]};
    ra_plan_info info = RA_PLAN_INFO_INIT;
    int quiet;
    row.seconds = sampling_of(&c->taken, best);
    row.against_value = judge(b, r, &row.seconds, best, &quiet);
    subject_describe(&r->subject, &row);
    ra_plan_describe(subject_plan(&r->subject), &info);
    result_figure(&row, "density", info.density);
    result_figure(&row, "plan_seconds", r->plan_seconds);
    results_add(kept, &row);
    bool right = subject_right(&r->subject);
    char goal[24] = "", shown[32] = "";
    if (row.against) {
        snprintf(shown, sizeof shown, "%.3f %s", row.against_value, row.against);
        snprintf(goal, sizeof goal, "%.2f", r->c->goal);
    }
    printf("%-14s %8lld %9.4f %9.1f %-18s %5s %5d/%-3d %8.5f %9.4f %6.2f%% %9.1e%s\n", r->c->name,
           (long long)row.problem.q_len, row.seconds.seconds, 1e-9 * row.flops / row.seconds.seconds, shown, goal,
           quiet, c->taken.count, info.density, r->plan_seconds, 100 * r->plan_seconds / row.seconds.seconds, row.error,
           right ? "" : "  FAILED: out of tolerance");
    fflush(stdout);
    return right ? 0 : 1;
}

static int run_suite(sparse_bench *b, results *kept)
{
    int code = plan_long(b);
    if (!code)
        code = prepare_all(b);
    if (!code)
        code = harness_measure(b->options, b->cases, CASES);
    if (code)
        return code;
    printf("%-14s %8s %9s %9s %-18s %5s %9s %8s %9s %7s %9s\n", "case", "length", "median s", "GFLOP/s", "", "goal",
           "quiet/all", "density", "plan s", "of run", "error");
    for (int i = 0; i < CASES; i++)
        if (b->cases[i].taken.count)
            code |= report(b, kept, i);
    return code;
}

int bench_sparse(const bench_options *options)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    results *kept = NULL;
    sparse_bench *b = calloc(1, sizeof *b);
    if (!b || results_open_here(options, &machine, &kept)) {
        free(b);
        return 2;
    }
    b->options = options;
    b->length = options->length ? options->length : options->quick ? QUICK_LENGTH : LENGTH;
    b->threads = options->threads ? options->threads : THREADS;
    b->kernel = machine.kernel;
    b->pool.seed = options->seed;
    printf("ringattn %s, %s, %s, %s, %d threads\n", ra_version(), machine.processor, machine.compiler,
           ra_kernel_name(machine.kernel), b->threads);
    printf("%d heads, head dim %d, float32; of peak: multiply-adds on visible pairs to the peak around each sample;\n"
           "x dense: how much faster than the dense case in the same round; time a token: to the shorter run's in the\n"
           "same round; medians of the quiet rounds, of all where none was quiet\n\n",
           HEADS, DIM);
    int code = run_suite(b, kept);
    for (int i = 0; i < CASES; i++)
        subject_give(&b->runs[i].subject);
    bench_pool_give(&b->pool);
    free(b);
    return results_close(kept) ? 1 : code;
}
