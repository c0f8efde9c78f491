/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn bench layer: the layer of a published table, projections included, in one process and over the ranks of an
 * mpirun that have as many threads in all. Cases are interleaved round by round. One process measures everything; the
 * other processes of an mpirun sleep but for the cases that they take part in.
 */
#include "harness.h"
#include "launch.h"
#include "layer_run.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LENGTHS = 4, MOST_CASES = 2 * BENCH_MOST_LENGTHS, NAME_ROOM = 32, GOAL_LENGTH = 32768, END = -1 };
static const int64_t OWN_LENGTHS[LENGTHS] = {4096, 8192, 16384, 32768};
static const double PEAK_GOAL = 0.80, RANKS_GOAL = 1.08;

typedef struct layer_bench {
    const bench_options *options;
    int workers; /* threads of a run in one process, ranks of one thread each */
    ra_kernel_id kernel;
    bool spread; /* this is one of the processes of an mpirun */
    float *weights;
    int count;
    char names[MOST_CASES][NAME_ROOM];
    layer_run runs[MOST_CASES];
    harness_case cases[MOST_CASES]; /* of one length in one process, then over ranks */
} layer_bench;

/* ---- Cases ------------------------------------------------------------------------------------------------------- */

/* A sample of one case, as its leader takes it: the other processes are woken if they have a part in it. */
static ra_status lead(void *user, sample *s)
{
    /* The threads of a probe spin for a while after it; a rank of one thread must not share its core with them. */
    static const struct timespec SETTLE = {0, 250000000};
    layer_run *run = user;
    if (run->spec.ranks) {
        nanosleep(&SETTLE, NULL);
        world_order(run->spec.number);
    }
    ra_status status = layer_pass(run, &s->seconds, &s->share);
    s->value = run->flops / s->seconds;
    return status;
}

static ra_status prepare(layer_bench *b, int index, int64_t length, bool ranks)
{
    char *name = b->names[index];
    snprintf(name, NAME_ROOM, "%lld %s", (long long)length, ranks ? "mpi" : "one process");
    const layer_spec spec = {.name = name,
                             .number = index,
                             .length = length,
                             .ranks = ranks ? b->workers : 0,
                             .threads = ranks ? 1 : b->workers,
                             .seed = b->options->seed};
    if (!ranks && world_rank() > 0)
        return RA_OK;
    b->cases[index] =
        (harness_case){.name = name, .kernel = b->kernel, .threads = b->workers, .run = lead, .user = &b->runs[index]};
    return layer_prepare(&b->runs[index], &spec, b->weights);
}

static bool wanted(const layer_bench *b, int64_t length)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)length);
    return harness_wanted(b->options, text);
}

static int prepare_all(layer_bench *b)
{
    const bench_options *o = b->options;
    const int64_t *lengths = o->length_count ? o->lengths : OWN_LENGTHS;
    int count = o->length_count ? o->length_count : o->quick ? 1 : LENGTHS;
    b->weights = layer_weights(o->seed);
    if (!b->weights)
        return 1;
    for (int i = 0; i < count; i++)
        for (int ranks = 0; wanted(b, lengths[i]) && ranks <= b->spread; ranks++) {
            ra_status status = prepare(b, b->count, lengths[i], ranks);
            if (status)
                return harness_failed(b->names[b->count], status);
            b->count++;
        }
    return b->count ? 0 : harness_nothing(o);
}

/* Once unmeasured, for the check; then round by round. */
static int measure_all(layer_bench *b)
{
    sample unused;
    for (int i = 0; i < b->count && !b->options->interrupted(); i++) {
        ra_status status = lead(&b->runs[i], &unused);
        if (status)
            return harness_failed(b->names[i], status);
    }
    return harness_measure(b->options, b->cases, b->count);
}

static int follow(layer_bench *b)
{
    double seconds, share;
    for (int order; (order = world_order(END)) != END;) {
        ra_status status = layer_pass(&b->runs[order], &seconds, &share);
        if (status)
            return harness_failed(b->names[order], status);
    }
    return 0;
}

/* ---- Reporting --------------------------------------------------------------------------------------------------- */

static const published_figure *published_for(int64_t length, int ranks)
{
    for (int i = 0; i < published_count; i++) {
        const published_case *c = &published_cases[i];
        if (c->heads == LAYER_HEADS && c->length == length && c->ranks == ranks &&
            strcmp(c->pattern, LAYER_PATTERN) == 0)
            return &c->figure;
    }
    return NULL;
}

static void print_head(const layer_bench *b)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    ra_system_describe(&machine);
    printf("ringattn %s, %s, %s, %s\n%s\n", ra_version(), machine.processor, machine.compiler,
           b->spread ? b->options->mpi : "no MPI", ra_layer_blas());
    printf("embed %d, %d heads, %s, float32, forward with all projections\n", LAYER_EMBED, LAYER_HEADS, LAYER_PATTERN);
    printf(
        "of peak: products and attention to the multiply-add peak around each sample; to one: time to the run in one\n"
        "process with %d threads in the same round; attention: seconds of the first rank; MiB: x, y and all that the\n"
        "largest rank holds, parameters aside; part: of what one process holds; error: of %d rows, in parts of the\n"
        "largest element of each; GTX 1080: the published milliseconds for as many cards as there are ranks\n\n",
        b->workers, LAYER_ROWS);
    printf("%-18s %5s %3s %9s %9s %9s %8s %8s %-6s %9s %8s %6s %9s\n", "case", "ranks", "th", "median s", "GTX 1080",
           "attention", "of peak", "to one", "", "quiet/all", "MiB", "part", "error");
}

static void print_row(const result_row *row, const sampling_relation *relation, double attention, double part)
{
    char published[16] = "-", to_one[16] = "-";
    const char *verdict = "";
    bool ranks = row->ring_size > 0;
    if (row->published)
        snprintf(published, sizeof published, "%.2f", row->published->seconds * 1e3);
    if (ranks)
        snprintf(to_one, sizeof to_one, "%.3f", relation->ratio);
    if (row->goal > 0)
        verdict = (ranks ? relation->ratio <= row->goal : row->seconds.ratio >= row->goal) ? "met" : "missed";
    printf("%-18s %5d %3d %9.4f %9s %9.4f %8.3f %8s %-6s %5d/%-3d %8.1f %6.3f %9.1e%s\n", row->name,
           ranks ? row->ring_size : 1, row->threads, row->seconds.seconds, published, attention, row->seconds.ratio,
           to_one, verdict, row->seconds.quiet, row->seconds.count, (double)row->peak_bytes / (1 << 20), part,
           row->error, row->error <= row->tolerance ? "" : "  FAILED: out of tolerance");
}

static int report(layer_bench *b, results *kept, int index)
{
    layer_run *run = &b->runs[index];
    const harness_case *c = &b->cases[index];
    bool ranks = run->spec.ranks > 0;
    int one = ranks ? index - 1 : index;
    probe_reading best = harness_undisturbed(b->cases, b->count, c);
    sampling_relation relation = sampling_against(&c->taken, &b->cases[one].taken, best);
    result_row row = {.suite = "layer", .of_peak = true, .kernel = b->kernel};
    row.seconds = sampling_of(&c->taken, best);
    row.published = published_for(run->spec.length, ranks ? run->spec.ranks : 1);
    row.against = ranks ? "time to one process" : "of peak";
    row.against_value = ranks ? relation.ratio : row.seconds.ratio;
    if (run->spec.length == GOAL_LENGTH)
        row.goal = ranks ? RANKS_GOAL : PEAK_GOAL;
    layer_describe(run, &row);
    double part = run->bytes / b->runs[one].bytes;
    result_figure(&row, "memory_to_one", part);
    results_add(kept, &row);
    print_row(&row, &relation, sampling_median(run->attention, run->timed), part);
    return layer_right(run) && run->bytes <= run->planned ? 0 : 1;
}

static int report_all(layer_bench *b, results *kept)
{
    int code = 0;
    print_head(b);
    for (int i = 0; i < b->count; i++)
        if (b->cases[i].taken.count)
            code |= report(b, kept, i);
    if (!b->spread)
        printf("\nwithout the cases of MPI: %s\n", b->options->mpi ? "no mpirun of the MPI that is built in was found"
                                                                   : "this ringattn was built without it");
    return code;
}

/* ---- The suite --------------------------------------------------------------------------------------------------- */

static int run_all(layer_bench *b)
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
    layer_bench *b = calloc(1, sizeof *b);
    int code = 2;
    if (!b)
        return 1;
    b->options = options;
    b->spread = spread;
    b->workers = choose_workers(options, &machine);
    b->kernel = machine.kernel;
    if (b->workers && spread && world_size() != b->workers)
        fprintf(stderr, "ringattn bench: %d processes for %d ranks\n", world_size(), b->workers);
    else if (b->workers)
        code = run_all(b);
    for (int i = 0; i < MOST_CASES; i++)
        layer_give(&b->runs[i]);
    free(b->weights);
    free(b);
    return code;
}

const char *bench_layer_blas(void)
{
    return ra_layer_blas();
}

int bench_layer_rank(const bench_options *options)
{
    int code = world_begin();
    if (code)
        return code;
    code = run_suite(options, true);
    world_end(code);
    return code;
}

/* The options of every process, as its arguments. */
static int launch_ranks(const launch *l, const bench_options *options, int workers)
{
    char threads[16], rounds[16], input[32], seconds[32], lengths[24 * BENCH_MOST_LENGTHS] = "";
    snprintf(threads, sizeof threads, "%d", workers);
    snprintf(rounds, sizeof rounds, "%d", options->rounds);
    snprintf(seconds, sizeof seconds, "%.17g", options->seconds);
    snprintf(input, sizeof input, "gen:%llu", (unsigned long long)options->seed);
    const char *arguments[LAUNCH_MOST_ARGUMENTS] = {"bench", "layer-rank", "--threads", threads,     "--rounds",
                                                    rounds,  "--input",    input,       "--seconds", seconds};
    int count = 10, at = 0;
    for (int i = 0; i < options->length_count; i++)
        at +=
            snprintf(lengths + at, sizeof lengths - (size_t)at, "%s%lld", i ? "," : "", (long long)options->lengths[i]);
    if (options->quick)
        arguments[count++] = "--quick";
    if (options->length_count)
        arguments[count++] = "--length", arguments[count++] = lengths;
    if (options->only)
        arguments[count++] = "--only", arguments[count++] = options->only;
    if (options->output)
        arguments[count++] = "--output", arguments[count++] = options->output;
    int code = launch_run(l, workers, LAUNCH_RESULTS_TOO, arguments);
    return code < 0 ? 2 : code;
}

int bench_layer(const bench_options *options)
{
    launch l;
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    if (launch_find(&l, options->mpi, options->interrupted))
        return 2;
    if (!l.mpirun[0])
        return run_suite(options, false);
    int workers = choose_workers(options, &machine);
    return workers ? launch_ranks(&l, options, workers) : 2;
}
