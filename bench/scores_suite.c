/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn bench scores: what each term of --scores costs, and a mask of single pairs, beside the plain run of the same
 * problem in the same rounds. Every case is checked against the oracle on a few rows before it is timed.
 */
#include "harness.h"
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 8192, QUICK_LENGTH = 2048, HEADS = 8, DIM = 64, THREADS = 2, REACH = 128 };

/* Arrays in memory, one of which a case may need. */
typedef enum array { NONE, TABLE, BIAS, SINKS, MASK, ARRAYS } array;

typedef struct scores_case {
    const char *name, *pattern, *scores;
    array array;
    double goal; /* seconds to those of the plain run, at most */
} scores_case;

static const scores_case cases[] = {
    {"plain", "full", NULL, NONE, 0},
    {"softcap", "full", "softcap:30", NONE, 1.25},
    {"alibi", "full", "alibi", NONE, 1.10},
    {"relative", "full", "relative", TABLE, 1.10},
    {"bias", "full", "bias", BIAS, 1.25},
    {"sinks", "full", "sinks", SINKS, 1.01},
    {"dropout", "full", "dropout:0.1", NONE, 1.35},
    {"mask 0.5", "mask", NULL, MASK, 1.30},
};
enum { PLAIN, CASES = sizeof cases / sizeof *cases };

/* Arrays of all cases. */
typedef struct made_arrays {
    float table[HEADS * (2 * REACH + 1)], sinks[HEADS];
    float *bias;         /* [length][length], the same for all heads */
    unsigned char *mask; /* the same shape: about half of the pairs */
    ra_tensor views[ARRAYS];
} made_arrays;

typedef struct scores_bench {
    const bench_options *options;
    int64_t length;
    int threads;
    ra_kernel_id kernel;
    bench_pool pool;
    made_arrays arrays;
    ra_score_arrays given[CASES];
    subject runs[CASES];
    harness_case cases[CASES];
} scores_bench;

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */

static ra_status make_arrays(scores_bench *b)
{
    made_arrays *a = &b->arrays;
    int64_t n = b->length, pairs = n * n, reach = 2 * REACH + 1;
    a->bias = malloc((size_t)pairs * sizeof *a->bias);
    a->mask = malloc((size_t)pairs);
    ra_status status = a->bias && a->mask ? RA_OK : RA_ERROR_MEMORY;
    if (status) {
        fprintf(stderr, "ringattn bench: out of memory for a bias of %lld pairs\n", (long long)pairs);
        return status;
    }
    uint64_t seed = b->options->seed + 3;
    status = ra_generate_as(RA_NORMAL, seed, 0, pairs, RA_F32, a->bias);
    if (!status)
        status = ra_generate_as(RA_NORMAL, seed + 1, 0, HEADS * reach, RA_F32, a->table);
    if (!status)
        status = ra_generate_as(RA_NORMAL, seed + 2, 0, HEADS, RA_F32, a->sinks);
    for (int64_t i = 0; i < pairs && !status; i++)
        a->mask[i] = a->bias[i] > 0;
    a->views[TABLE] = (ra_tensor){a->table, RA_F32, 1, 1, HEADS, reach, 0, 0, reach, 1};
    a->views[BIAS] = (ra_tensor){a->bias, RA_F32, 1, n, 1, n, 0, n, 0, 1};
    a->views[SINKS] = (ra_tensor){a->sinks, RA_F32, 1, 1, HEADS, 1, 0, 0, 1, 1};
    a->views[MASK] = (ra_tensor){a->mask, RA_BOOL, 1, n, 1, n, 0, n, 0, 1};
    return status;
}

static const ra_score_arrays *arrays_of(scores_bench *b, int index)
{
    ra_score_arrays *given = &b->given[index];
    const ra_tensor *view = &b->arrays.views[cases[index].array];
    *given = (ra_score_arrays)RA_SCORE_ARRAYS_INIT;
    switch (cases[index].array) {
    case TABLE: given->table = view; break;
    case BIAS: given->bias = view; break;
    case SINKS: given->sinks = view; break;
    case MASK: given->mask = view; break;
    default: break;
    }
    return given;
}

/* ---- Cases ------------------------------------------------------------------------------------------------------- */

/* Planned, run once, and checked. */
static ra_status prepare(scores_bench *b, int index)
{
    const scores_case *c = &cases[index];
    const subject_spec spec = {.name = c->name,
                               .shape = bench_shape_square(b->length, HEADS, DIM),
                               .pattern = c->pattern,
                               .scores = c->scores,
                               .arrays = arrays_of(b, index),
                               .threads = b->threads,
                               .kernel = b->kernel};
    subject_time unused;
    b->cases[index] = (harness_case){
        .name = c->name, .kernel = b->kernel, .threads = b->threads, .run = subject_sample, .user = &b->runs[index]};
    bench_tensors *tensors = bench_pool_get(&b->pool, &spec.shape, c->name);
    ra_status status = tensors ? subject_prepare(&b->runs[index], &spec, tensors) : RA_ERROR_MEMORY;
    return status ? status : subject_run(&b->runs[index], &unused);
}

static int prepare_all(scores_bench *b)
{
    int count = 0;
    for (int i = 0; i < CASES; i++)
        count += harness_wanted(b->options, cases[i].name);
    if (!count)
        return harness_nothing(b->options);
    if (make_arrays(b))
        return 2;
    for (int i = 0; i < CASES; i++) {
        if (i != PLAIN && !harness_wanted(b->options, cases[i].name))
            continue;
        ra_status status = prepare(b, i);
        if (status)
            return harness_failed(cases[i].name, status);
    }
    return 0;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static int report(scores_bench *b, results *kept, int index)
{
    const subject *s = &b->runs[index];
    const harness_case *c = &b->cases[index];
    probe_reading best = harness_undisturbed(b->cases, CASES, c);
    sampling_relation to_plain = sampling_against(&c->taken, &b->cases[PLAIN].taken, best);
    result_row row = {.suite = "scores", .of_peak = true, .goal = cases[index].goal, .against = "time to plain"};
    row.seconds = sampling_of(&c->taken, best);
    row.against_value = to_plain.ratio;
    subject_describe(s, &row);
    results_add(kept, &row);
    char goal[16] = "-";
    if (row.goal > 0)
        snprintf(goal, sizeof goal, "%.2f", row.goal);
    printf("%-10s %9.4f %8.1f %14.3f %6s %5d/%-3d %9.1e%s\n", cases[index].name, row.seconds.seconds,
           row.seconds.value / 1e9, to_plain.ratio, goal, to_plain.quiet, to_plain.count, row.error,
           subject_right(s) ? "" : "  FAILED: out of tolerance");
    fflush(stdout);
    return subject_right(s) ? 0 : 1;
}

static int run_suite(scores_bench *b, results *kept)
{
    int code = prepare_all(b);
    if (!code)
        code = harness_measure(b->options, b->cases, CASES);
    if (code)
        return code;
    printf("%-10s %9s %8s %14s %6s %9s %9s\n", "case", "median s", "GFLOP/s", "time to plain", "goal", "quiet/all",
           "error");
    for (int i = 0; i < CASES; i++)
        if (b->cases[i].taken.count)
            code |= report(b, kept, i);
    return code;
}

int bench_scores(const bench_options *options)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    results *kept = NULL;
    scores_bench *b = calloc(1, sizeof *b);
    int code = b ? results_open_here(options, &machine, &kept) : 2;
    if (!code) {
        b->options = options;
        b->length = options->length ? options->length : options->quick ? QUICK_LENGTH : LENGTH;
        b->threads = options->threads ? options->threads : THREADS;
        b->kernel = machine.kernel;
        b->pool.seed = options->seed;
        printf("ringattn %s, %s, %s, %s, %d threads\n", ra_version(), machine.processor, machine.compiler,
               ra_kernel_name(machine.kernel), b->threads);
        printf("%lld tokens, %d heads, head dim %d, float32; time to plain: to the plain case in the same round;\n"
               "medians of the quiet rounds, of all where none was quiet\n\n",
               (long long)b->length, HEADS, DIM);
        code = run_suite(b, kept);
    }
    for (int i = 0; b && i < CASES; i++)
        subject_give(&b->runs[i]);
    if (b) {
        bench_pool_give(&b->pool);
        free(b->arrays.bias);
        free(b->arrays.mask);
    }
    free(b);
    return results_close(kept) ? 1 : code;
}
