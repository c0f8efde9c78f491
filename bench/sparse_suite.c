/*
 * ringattn bench sparse: patterns that leave most pairs out, against the multiply-add peak on the pairs they compute,
 * against a run that computes all of them, and against themselves over a longer sequence. Cases are interleaved round
 * by round, every sample stands between two readings of the probes, and every case is checked against the oracle.
 */
#include "bench.h"
#include "sampling.h"
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 16384, HEADS = 8, DIM = 64, THREADS = 2 };
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
    int64_t length;
    bench_tensors *tensors; /* shared by all cases of a length */
    ra_plan *plan;
    double plan_seconds, seconds; /* to plan; the shortest run */
    double error;
    samples taken;
} sparse_run;

typedef struct sparse_bench {
    const bench_options *options;
    int64_t length;
    int threads;
    ra_kernel_id kernel;
    sparse_run runs[CASES];
    bench_tensors tensors[CASES];
    int lengths;
} sparse_bench;

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

static ra_status plan_case(const sparse_bench *b, const char *pattern, int64_t length, ra_plan **plan, double *seconds)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    problem.q_len = length;
    problem.heads = HEADS;
    problem.head_dim = DIM;
    problem.pattern = pattern;
    options.threads = b->threads;
    options.kernel = b->kernel;
    double start = probe_seconds();
    ra_status status = ra_plan_create(&problem, &options, plan);
    *seconds = probe_seconds() - start;
    return status;
}

/* The shortest of a few times, as of the runs. */
static ra_status plan_well(const sparse_bench *b, sparse_run *r)
{
    enum { TIMES = 3 };
    ra_status status = RA_OK;
    for (int i = 0; i < TIMES && !status; i++) {
        double seconds;
        ra_plan_free(r->plan);
        status = plan_case(b, r->c->pattern, r->length, &r->plan, &seconds);
        r->plan_seconds = i && r->plan_seconds < seconds ? r->plan_seconds : seconds;
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
    ra_plan *plan = NULL;
    if (plan_case(b, pattern, length, &plan, &seconds)) {
        fprintf(stderr, "ringattn bench: %s\n", ra_last_message());
        return 1;
    }
    ra_plan_free(plan);
    printf("planning %s for %lld tokens and %d heads: %.2f s, %.1f MiB more than before (goal 64)\n\n", pattern,
           (long long)length, HEADS, seconds, (double)(probe_resident_peak() - before) / (1 << 20));
    return 0;
}

/* ---- Cases ------------------------------------------------------------------------------------------------------- */

static sparse_run *find(sparse_bench *b, const char *name)
{
    for (int i = 0; i < CASES; i++)
        if (b->runs[i].c && strcmp(b->runs[i].c->name, name) == 0)
            return &b->runs[i];
    return NULL;
}

/* Those asked for, and what they are compared with. */
static bool wanted(const bench_options *options, const sparse_case *c)
{
    if (!options->only || strstr(c->name, options->only))
        return true;
    for (int i = 0; i < CASES; i++)
        if (cases[i].base && strcmp(cases[i].base, c->name) == 0 && strstr(cases[i].name, options->only))
            return true;
    return false;
}

static ra_status share_tensors(sparse_bench *b, sparse_run *r)
{
    for (int i = 0; i < b->lengths && !r->tensors; i++)
        if (b->tensors[i].q.seq == r->length)
            r->tensors = &b->tensors[i];
    if (r->tensors)
        return RA_OK;
    const bench_shape shape = {r->length, r->length, HEADS, HEADS, DIM, RA_F32};
    r->tensors = &b->tensors[b->lengths++];
    ra_status status = bench_tensors_take(r->tensors, &shape, r->c->name);
    if (!status)
        bench_tensors_fill(r->tensors, b->options->seed);
    return status;
}

static ra_status run_once(void *user, double *seconds)
{
    sparse_run *r = user;
    ra_stats stats = RA_STATS_INIT;
    const bench_tensors *t = r->tensors;
    ra_status status = ra_forward(r->plan, &t->q, &t->k, &t->v, &t->output, NULL, &stats);
    *seconds = stats.seconds_compute;
    r->seconds = r->seconds > 0 && r->seconds < *seconds ? r->seconds : *seconds;
    return status;
}

static ra_status prepare(sparse_bench *b, sparse_run *r, const sparse_case *c)
{
    double seconds;
    r->c = c;
    r->length = c->times * b->length;
    ra_status status = plan_well(b, r);
    if (!status)
        status = share_tensors(b, r);
    if (!status)
        status = run_once(r, &seconds);
    for (int i = 0; i < BENCH_CHECKED_ROWS && !status; i++)
        status = bench_check_row(r->plan, r->tensors, bench_checked_query(r->tensors, i),
                                 bench_checked_head(r->tensors, i), &r->error);
    return status;
}

static int failed(const sparse_case *c)
{
    fprintf(stderr, "ringattn bench: %s: %s\n", c->name, ra_last_message());
    return 1;
}

static int run_rounds(sparse_bench *b)
{
    bool terminal = isatty(STDERR_FILENO);
    int longest = 0;
    for (int i = 0; i < CASES; i++)
        longest = cases[i].times > longest ? cases[i].times : longest;
    for (int round = 0; round < b->options->rounds; round++)
        for (int i = 0; i < CASES && !b->options->interrupted(); i++) {
            sparse_run *r = &b->runs[i];
            if (!r->c || (r->c->times == longest && round >= LONG_ROUNDS))
                continue;
            if (terminal)
                fprintf(stderr, "\rround %d of %d, %s%20s", round + 1, b->options->rounds, r->c->name, "");
            if (sampling_take(&r->taken, b->kernel, b->threads, run_once, r))
                return failed(r->c);
        }
    if (terminal)
        fprintf(stderr, "\r%60s\r", "");
    return 0;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

/* What the case's yardstick says, of the rounds that were quiet if there were any. */
static double judge(sparse_bench *b, const sparse_run *r, probe_reading best, int *quiet)
{
    const sparse_run *base = r->c->base ? find(b, r->c->base) : NULL;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_plan_describe(r->plan, &info);
    sampling_result own = sampling_of(&r->taken, best);
    *quiet = own.quiet;
    if (r->c->yardstick == OF_PEAK)
        return own.ratio * info.flops;
    if (!base)
        return 0;
    sampling_relation relation = sampling_against(&r->taken, &base->taken, best);
    *quiet = relation.quiet;
    if (r->c->yardstick == FASTER)
        return relation.ratio;
    return (double)base->length / ((double)r->length * relation.ratio); /* seconds a token to the other's */
}

static int report(sparse_bench *b, const sparse_run *r, probe_reading best)
{
    static const char *const UNITS[] = {"", "of peak", "x dense", "time a token"};
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_plan_describe(r->plan, &info);
    int quiet = 0;
    double verdict = judge(b, r, best, &quiet);
    bool right = r->error <= bench_tolerance(RA_F32);
    char goal[24] = "", shown[32] = "";
    if (r->c->yardstick != NOTHING) {
        snprintf(shown, sizeof shown, "%.3f %s", verdict, UNITS[r->c->yardstick]);
        snprintf(goal, sizeof goal, "%.2f", r->c->goal);
    }
    printf("%-14s %8lld %9.4f %9.1f %-18s %5s %5d/%-3d %8.5f %9.4f %6.2f%% %9.1e%s\n", r->c->name, (long long)r->length,
           r->seconds, 1e-9 * info.flops / r->seconds, shown, goal, quiet, r->taken.count, info.density,
           r->plan_seconds, 100 * r->plan_seconds / r->seconds, r->error, right ? "" : "  FAILED: out of tolerance");
    fflush(stdout);
    return right ? 0 : 1;
}

static int print_results(sparse_bench *b)
{
    static double readings[2 * CASES * SAMPLING_MOST];
    int code = 0, n = 0;
    for (int i = 0; i < CASES; i++)
        n += sampling_readings(&b->runs[i].taken, readings + n);
    probe_reading best = sampling_undisturbed(readings, n);
    printf("%-14s %8s %9s %9s %-18s %5s %9s %8s %9s %7s %9s\n", "case", "length", "shortest", "GFLOP/s", "", "goal",
           "quiet/all", "density", "plan s", "of run", "error");
    for (int i = 0; i < CASES; i++)
        if (b->runs[i].c && b->runs[i].taken.count)
            code |= report(b, &b->runs[i], best);
    return code;
}

static int run_suite(sparse_bench *b)
{
    int count = 0;
    for (int i = 0; i < CASES; i++) {
        if (!wanted(b->options, &cases[i]))
            continue;
        count++;
        if (prepare(b, &b->runs[i], &cases[i]))
            return failed(&cases[i]);
    }
    if (count == 0) {
        fprintf(stderr, "ringattn bench: no case has \"%s\" in its name\n", b->options->only);
        return 2;
    }
    int code = run_rounds(b);
    return code ? code : print_results(b);
}

int bench_sparse(const bench_options *options)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    sparse_bench *b = calloc(1, sizeof *b);
    if (!b || ra_system_describe(&machine)) {
        fprintf(stderr, "ringattn bench: %s\n", b ? ra_last_message() : "out of memory");
        free(b);
        return 2;
    }
    b->options = options;
    b->length = options->length ? options->length : LENGTH;
    b->threads = options->threads ? options->threads : THREADS;
    b->kernel = machine.kernel;
    printf("ringattn %s, %s, %s, %s, %d threads\n", ra_version(), machine.processor, machine.compiler,
           ra_kernel_name(machine.kernel), b->threads);
    printf("%d heads, head dim %d, float32; of peak: multiply-adds on visible pairs to the peak around each sample;\n"
           "x dense: how much faster than the dense case in the same round; time a token: to the shorter run's in the\n"
           "same round; medians of the quiet rounds, of all where none was quiet\n\n",
           HEADS, DIM);
    int code = plan_long(b);
    if (!code)
        code = run_suite(b);
    for (int i = 0; i < CASES; i++)
        ra_plan_free(b->runs[i].plan);
    for (int i = 0; i < b->lengths; i++)
        bench_tensors_give(&b->tensors[i]);
    free(b);
    return code;
}
