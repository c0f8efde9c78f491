/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn bench ring: one problem in one piece, and over ranks that have as many threads in all. Cases are compared
 * with the run in one piece of the same round; tensors are in memory and split beforehand; a sample is the time of the
 * whole ra_ring_forward, on the slowest rank. One process measures everything; the other processes of an mpirun sleep
 * but for the cases that they take part in.
 */
#include "harness.h"
#include "launch.h"
#include "subject.h"
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 8, DIM = 64, LENGTH = 8192, SIM_RANKS = 8, END = -1 };

typedef struct ring_case {
    const char *name, *pattern;
    subject_how how;
    ra_order order;
    int base;    /* the case in one piece that it is compared with */
    double goal; /* the most that the ratio of their times may be; 0: only shown */
} ring_case;

enum { LOCAL_FULL = 0, LOCAL_CAUSAL = 4 };
static const ring_case cases[] = {
    {"local full", "full", IN_ONE_PIECE, RA_ORDER_CONTIGUOUS, LOCAL_FULL, 0},
    {"sim full", "full", OVER_SIM, RA_ORDER_CONTIGUOUS, LOCAL_FULL, 1.05},
    {"threads full", "full", OVER_THREADS, RA_ORDER_CONTIGUOUS, LOCAL_FULL, 0},
    {"mpi full", "full", OVER_MPI, RA_ORDER_CONTIGUOUS, LOCAL_FULL, 1.08},
    {"local causal", "causal", IN_ONE_PIECE, RA_ORDER_CONTIGUOUS, LOCAL_CAUSAL, 0},
    {"mpi causal zigzag", "causal", OVER_MPI, RA_ORDER_ZIGZAG, LOCAL_CAUSAL, 1.12},
    {"mpi causal contiguous", "causal", OVER_MPI, RA_ORDER_CONTIGUOUS, LOCAL_CAUSAL, 0},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* All that runs share. */
typedef struct ring_bench {
    const bench_options *options;
    int64_t length;
    int workers; /* threads of a run in one piece, ranks of one thread each */
    ra_kernel_id kernel;
    bench_pool pool;
    bool spread; /* this is one of the processes of an mpirun */
    subject runs[CASES];
    harness_case cases[CASES];
} ring_bench;

/* ---- Cases ------------------------------------------------------------------------------------------------------- */

static bool wanted(const ring_bench *b, int index)
{
    if (cases[index].how == OVER_MPI && !b->spread)
        return false;
    if (harness_wanted(b->options, cases[index].name))
        return true;
    for (int i = 0; cases[index].how == IN_ONE_PIECE && i < CASES; i++) /* what a wanted case is compared with */
        if (i != index && cases[i].base == index && harness_wanted(b->options, cases[i].name) &&
            (cases[i].how != OVER_MPI || b->spread))
            return true;
    return false;
}

/* A sample of one case, as its leader takes it: the other processes are woken if they have a part in it. */
static ra_status lead(void *user, sample *s)
{
    subject *run = user;
    if (run->spec.how == OVER_MPI)
        world_order(run->spec.number);
    return subject_sample(run, s);
}

static ra_status prepare(ring_bench *b, int index, bench_tensors *whole)
{
    const ring_case *c = &cases[index];
    bool one_thread = c->how == OVER_THREADS || c->how == OVER_MPI;
    const subject_spec spec = {.name = c->name,
                               .number = index,
                               .shape = bench_shape_square(b->length, HEADS, DIM),
                               .pattern = c->pattern,
                               .how = c->how,
                               .order = c->order,
                               .ranks = c->how == OVER_SIM ? SIM_RANKS : b->workers,
                               .threads = one_thread ? 1 : b->workers,
                               .kernel = b->kernel};
    b->cases[index] = (harness_case){
        .name = c->name, .kernel = b->kernel, .threads = b->workers, .run = lead, .user = &b->runs[index]};
    return subject_prepare(&b->runs[index], &spec, whole);
}

static int prepare_all(ring_bench *b)
{
    const bench_shape shape = bench_shape_square(b->length, HEADS, DIM);
    bench_tensors *whole = bench_pool_get(&b->pool, &shape, "bench ring");
    int some = 0;
    if (!whole)
        return 1;
    for (int i = 0; i < CASES; i++) {
        if (!wanted(b, i))
            continue;
        some++;
        ra_status status = prepare(b, i, whole);
        if (status)
            return harness_failed(cases[i].name, status);
    }
    return some ? 0 : harness_nothing(b->options);
}

/* Once unmeasured, for the check; then round by round. */
static int measure_all(ring_bench *b)
{
    sample unused;
    for (int i = 0; i < CASES && !b->options->interrupted(); i++) {
        ra_status status = b->cases[i].run ? lead(&b->runs[i], &unused) : RA_OK;
        if (status)
            return harness_failed(cases[i].name, status);
    }
    return harness_measure(b->options, b->cases, CASES);
}

static int follow(ring_bench *b)
{
    subject_time unused;
    for (int order; (order = world_order(END)) != END;) {
        ra_status status = subject_run(&b->runs[order], &unused);
        if (status)
            return harness_failed(cases[order].name, status);
    }
    return 0;
}

/* ---- Reporting --------------------------------------------------------------------------------------------------- */

static void print_head(const ring_bench *b)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    ra_system_describe(&machine);
    printf("ringattn %s, %s, %s, %s\n", ra_version(), machine.processor, machine.compiler,
           b->spread ? b->options->mpi : "no MPI");
    printf("length %lld, %d heads, head dim %d, float32, tensors in memory\n", (long long)b->length, HEADS, DIM);
    printf("ratio: to the run in one piece with %d threads in the same round, median of the rounds where both were "
           "quiet,\nof all where none was; compute, wait: seconds of the slowest rank (sim: of all); balance: most "
           "pairs of a rank\nto the mean\n\n",
           b->workers);
    printf("%-22s %5s %3s %9s %9s %7s %5s %-7s %9s %9s %9s %5s %8s %9s\n", "case", "ranks", "th", "median s", "local s",
           "ratio", "goal", "", "quiet/all", "compute", "wait", "hops", "balance", "error");
}

static void print_row(const result_row *row, const sampling_relation *s, double compute, double wait, double balance)
{
    char goal[16] = "-";
    const char *verdict = row->goal <= 0 ? "" : s->ratio <= row->goal ? "met" : "missed";
    if (row->goal > 0)
        snprintf(goal, sizeof goal, "%.2f", row->goal);
    printf("%-22s %5d %3d %9.4f %9.4f %7.3f %5s %-7s %5d/%-3d %9.4f %9.4f %5lld %8.3f %9.1e%s\n", row->name,
           row->ring_size, row->threads, s->seconds, s->base, s->ratio, goal, verdict, s->quiet, s->count, compute,
           wait, (long long)row->hops, balance, row->error,
           row->error <= row->tolerance ? "" : "  FAILED: out of tolerance");
}

static int report(ring_bench *b, results *kept, int index)
{
    subject *run = &b->runs[index];
    const harness_case *c = &b->cases[index];
    probe_reading best = harness_undisturbed(b->cases, CASES, c);
    sampling_relation relation = sampling_against(&c->taken, &b->cases[cases[index].base].taken, best);
    double compute = sampling_median(run->compute, run->timed), wait = sampling_median(run->wait, run->timed);
    result_row row = {.suite = "ring", .of_peak = true, .goal = cases[index].goal, .against = "time to local"};
    row.seconds = sampling_of(&c->taken, best);
    row.against_value = relation.ratio;
    subject_describe(run, &row);
    result_figure(&row, "compute_seconds", compute);
    result_figure(&row, "wait_seconds", wait);
    result_figure(&row, "balance", subject_balance(run));
    results_add(kept, &row);
    print_row(&row, &relation, compute, wait, subject_balance(run));
    return subject_right(run) ? 0 : 1;
}

static int report_all(ring_bench *b, results *kept)
{
    int code = 0;
    print_head(b);
    for (int i = 0; i < CASES; i++)
        if (b->cases[i].taken.count)
            code |= report(b, kept, i);
    if (!b->spread)
        printf("\nwithout the cases of MPI: %s\n", b->options->mpi ? "no mpirun of the MPI that is built in was found"
                                                                   : "this ringattn was built without it");
    return code;
}

/* ---- The suite --------------------------------------------------------------------------------------------------- */

static int run_all(ring_bench *b)
{
    results *kept = NULL;
    int code = prepare_all(b);
    if (code)
        return code;
    if (world_rank() > 0)
        return follow(b);
    code = results_open(b->options, &kept);
    if (!code)
        code = measure_all(b);
    if (!code && b->spread)
        world_order(END);
    if (!code)
        code = report_all(b, kept);
    return results_close(kept) ? 1 : code;
}

/* How many threads and ranks: two, unless there is one core only. */
static int choose_workers(const bench_options *options, ra_system_info *machine)
{
    if (ra_system_describe(machine)) {
        fprintf(stderr, "ringattn bench: %s\n", ra_last_message());
        return 0;
    }
    int workers = options->threads ? options->threads : machine->cores < 2 ? machine->cores : 2;
    if (workers <= machine->cores)
        return workers;
    fprintf(stderr, "ringattn bench: %d threads, and this process may use %d core%s\n", workers, machine->cores,
            machine->cores == 1 ? "" : "s");
    return 0;
}

static int run_suite(const bench_options *options, bool spread)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    ring_bench *b = calloc(1, sizeof *b);
    int code = 2;
    if (!b)
        return 1;
    b->options = options;
    b->spread = spread;
    b->length = options->length ? options->length : LENGTH;
    b->workers = choose_workers(options, &machine);
    b->kernel = machine.kernel;
    b->pool.seed = options->seed;
    if (b->workers && spread && world_size() != b->workers)
        fprintf(stderr, "ringattn bench: %d processes for %d ranks\n", world_size(), b->workers);
    else if (b->workers)
        code = run_all(b);
    for (int i = 0; i < CASES; i++)
        subject_give(&b->runs[i]);
    bench_pool_give(&b->pool);
    free(b);
    return code;
}

int bench_ring_rank(const bench_options *options)
{
    int code = world_begin();
    if (code)
        return code;
    code = run_suite(options, true);
    world_end(code);
    return code;
}

int bench_ring(const bench_options *options)
{
    launch l;
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    if (launch_find(&l, options->mpi, options->interrupted))
        return 2;
    if (!l.mpirun[0])
        return run_suite(options, false);
    int workers = choose_workers(options, &machine);
    if (!workers)
        return 2;
    char threads[16], rounds[16], length[24], input[32], seconds[32];
    snprintf(threads, sizeof threads, "%d", workers);
    snprintf(rounds, sizeof rounds, "%d", options->rounds);
    snprintf(length, sizeof length, "%lld", (long long)(options->length ? options->length : LENGTH));
    snprintf(seconds, sizeof seconds, "%.17g", options->seconds);
    snprintf(input, sizeof input, "gen:%llu", (unsigned long long)options->seed);
    const char *arguments[LAUNCH_MOST_ARGUMENTS] = {"bench",   "ring-rank", "--threads", threads, "--rounds",  rounds,
                                                    "--input", input,       "--length",  length,  "--seconds", seconds};
    int count = 12;
    if (options->only) {
        arguments[count++] = "--only";
        arguments[count++] = options->only;
    }
    if (options->output) {
        arguments[count++] = "--output";
        arguments[count++] = options->output;
    }
    int code = launch_run(&l, workers, LAUNCH_RESULTS_TOO, arguments);
    return code < 0 ? 2 : code;
}
