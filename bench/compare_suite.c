/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn bench compare: the same problems in every way there is: in one piece, over virtual ranks by each strategy
 * and in each order, over ranks that are threads, and as attention was first written, with its scores in memory. All
 * ways of a problem take turns, so that they can be compared; each is checked against the oracle, and stands beside
 * what ringattn advise would have predicted.
 */
#include "calibration.h"
#include "harness.h"
#include "naive_blas.h"
#include "subject.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 8, DIM = 64, SIM_RANKS = 4, THREADS = 2, MOST_CASES = 64, NAME = 96, PATTERN = 128 };
static const double SAMPLE_SECONDS = 0.1;
static const int64_t LENGTHS[] = {2048, 4096, 8192}, QUICK_LENGTHS[] = {2048};

/* One problem or published configuration in one way. */
typedef struct compare_case {
    char name[NAME], pattern[PATTERN];
    const published_case *published;
    bool naive;
    subject subject;
} compare_case;

typedef struct compare_bench {
    const bench_options *options;
    const char *suite;
    ra_kernel_id kernel;
    int threads;
    calibration *calibration; /* of what ringattn advise says; NULL: there is none */
    machine_model model;      /* that its rounds give */
    naive_blas blas;
    bool has_blas;
    bench_pool pool;
    results *kept;
    int reported; /* cases so far */
    int count;
    compare_case *cases;
    harness_case *turns;
} compare_bench;

/* ---- What is compared -------------------------------------------------------------------------------------------- */

static compare_case *add(compare_bench *b, const subject_spec *spec, const char *pattern)
{
    compare_case *c = &b->cases[b->count++];
    snprintf(c->pattern, sizeof c->pattern, "%s", pattern);
    c->subject.spec = *spec;
    c->subject.spec.pattern = c->pattern;
    c->subject.spec.enough = b->options->quick ? 0 : SAMPLE_SECONDS;
    c->subject.spec.kernel = b->kernel;
    return c;
}

static void add_ways(compare_bench *b, int64_t length, const char *pattern)
{
    static const ra_strategy STRATEGIES[] = {RA_STRATEGY_RING, RA_STRATEGY_ALLGATHER, RA_STRATEGY_BROADCAST};
    subject_spec spec = {.shape = bench_shape_square(length, HEADS, DIM), .threads = b->threads};
    snprintf(add(b, &spec, pattern)->name, NAME, "local");
    spec.how = OVER_SIM;
    spec.ranks = SIM_RANKS;
    for (int strategy = 0; strategy < 3; strategy++)
        for (int order = 0; order < 3; order++) {
            spec.strategy = STRATEGIES[strategy];
            spec.order = (ra_order)order;
            snprintf(add(b, &spec, pattern)->name, NAME, "%s %s, %d virtual ranks", ra_strategy_name(spec.strategy),
                     ra_order_name(spec.order), SIM_RANKS);
        }
    spec.how = OVER_THREADS;
    spec.ranks = b->threads;
    spec.threads = 1;
    spec.strategy = RA_STRATEGY_RING;
    spec.order = strstr(pattern, "causal") ? RA_ORDER_ZIGZAG : RA_ORDER_CONTIGUOUS;
    if (spec.ranks > 1)
        snprintf(add(b, &spec, pattern)->name, NAME, "ring %s, %d ranks that are threads", ra_order_name(spec.order),
                 spec.ranks);
}

static void add_naive(compare_bench *b, int64_t length, const char *pattern)
{
    subject_spec spec = {.shape = bench_shape_square(length, HEADS, DIM), .threads = b->threads};
    if (!b->has_blas || !naive_blas_reserve(&b->blas, &spec.shape))
        return;
    compare_case *c = add(b, &spec, pattern);
    snprintf(c->name, NAME, "naive on OpenBLAS");
    c->naive = true;
}

static void add_published(compare_bench *b)
{
    for (int i = 0; i < published_count; i++) {
        const published_case *p = &published_cases[i];
        /* Several cards are ranks with a core each; rings on one card are virtual. */
        bool real = p->ranks > 1 && p->heads == 12;
        const subject_spec spec = {.shape = {p->batch, p->length, p->length, p->heads, p->heads, p->dim, RA_F32},
                                   .how = p->ranks == 1 ? IN_ONE_PIECE
                                          : real        ? OVER_THREADS
                                                        : OVER_SIM,
                                   .ranks = p->ranks,
                                   .threads = real ? 1 : b->threads};
        compare_case *c = add(b, &spec, p->pattern);
        snprintf(c->name, NAME, "%s", p->name);
        c->published = p;
    }
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static void run_naive(compare_bench *b, compare_case *c, double *seconds)
{
    double start = probe_seconds();
    naive_blas_attention(&b->blas, c->subject.whole, strcmp(c->pattern, "causal") == 0, b->threads);
    *seconds = probe_seconds() - start;
}

/* The only naive case of a set, with the bench as `user`. */
static ra_status sample_naive(void *user, sample *s)
{
    compare_bench *b = user;
    for (int i = 0; i < b->count; i++)
        if (b->cases[i].naive) {
            run_naive(b, &b->cases[i], &s->seconds);
            s->value = b->cases[i].subject.flops / s->seconds;
        }
    return RA_OK;
}

/* Its sums are plain float32 sums over the whole row: it may be further off than tiles are, and is told apart below. */
static ra_status check_naive(compare_bench *b, compare_case *c)
{
    double unused;
    ra_status status = RA_OK;
    run_naive(b, c, &unused);
    c->subject.checked = true;
    for (int i = 0; i < BENCH_CHECKED_ROWS && !status; i++)
        status = bench_check_row(c->subject.plan, c->subject.whole, i, &c->subject.error);
    c->subject.peak_bytes = b->blas.bytes;
    return status;
}

/* The calibration takes turns with the cases: a slow minute is slow to both. */
static ra_status sample_calibration(void *user, sample *s)
{
    double start = probe_seconds();
    ra_status status = calibration_round(user);
    s->seconds = probe_seconds() - start;
    return status;
}

/* Planned, run once, and checked. */
static ra_status prepare(compare_bench *b, compare_case *c, harness_case *turn)
{
    subject_time unused;
    subject_spec spec = c->subject.spec;
    spec.name = c->name;
    *turn = (harness_case){.name = c->name,
                           .kernel = b->kernel,
                           .threads = b->threads,
                           .run = c->naive ? sample_naive : subject_sample,
                           .user = c->naive ? (void *)b : (void *)&c->subject};
    bench_tensors *tensors = bench_pool_get(&b->pool, &spec.shape, c->name);
    ra_status status = tensors ? subject_prepare(&c->subject, &spec, tensors) : RA_ERROR_MEMORY;
    if (status)
        return status;
    return c->naive ? check_naive(b, c) : subject_run(&c->subject, &unused);
}

/* ---- Predictions ------------------------------------------------------------------------------------------------- */

/* After the cases. */
static void add_calibration(compare_bench *b)
{
    if (!b->calibration)
        return;
    calibration_begin(b->calibration);
    b->turns[b->count] = (harness_case){.name = "the calibration",
                                        .kernel = b->kernel,
                                        .threads = b->threads,
                                        .run = sample_calibration,
                                        .user = b->calibration};
}

/*
 * What the calibration of each round says of a case beside what the case took in that round: the median of these
 * ratios, times the row's own time. 0: no prediction.
 */
static double predicted(const compare_bench *b, int index, double seconds)
{
    const subject *s = &b->cases[index].subject;
    const samples *taken = &b->turns[index].taken, *rounds = &b->turns[b->count].taken;
    int count = taken->count < rounds->count ? taken->count : rounds->count;
    double ratios[SAMPLING_MOST], all[SAMPLING_MOST], usual = 0;
    if (b->cases[index].naive || count == 0 ||
        model_predict(&b->model, &s->problem, &s->options, s->ring ? &s->ring_options : NULL, &usual))
        return 0;
    for (int i = 0; i < rounds->count; i++)
        all[i] = rounds->at[i].seconds;
    double median = sampling_median(all, rounds->count);
    for (int i = 0; i < count; i++)
        ratios[i] = usual * rounds->at[i].seconds / median / taken->at[i].seconds;
    return seconds * sampling_median(ratios, count);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static void print_head(void)
{
    printf("%-42s %5s %9s %6s %9s %7s %8s %6s %6s %9s %9s\n", "", "ranks", "median s", "spread", "GFLOP/s", "of peak",
           "to local", "hops", "MiB", "predicted", "error");
}

static void print_row(const result_row *row, double ratio)
{
    const sampling_result *s = &row->seconds;
    char predicted[16] = "-", against[16] = "-";
    if (row->predicted_seconds > 0)
        snprintf(predicted, sizeof predicted, "%.2f", row->predicted_seconds / s->seconds);
    if (ratio > 0)
        snprintf(against, sizeof against, "%.3f", ratio);
    printf("%-42s %5d %9.4f %5.1f%% %9.1f %7.3f %8s %6lld %6.1f %9s %9.1e%s\n", row->name, row->ring_size, s->seconds,
           100 * (s->high - s->low) / s->seconds, 1e-9 * row->flops / s->seconds, s->ratio, against,
           (long long)row->hops, (double)row->peak_bytes / (1 << 20), predicted, row->error,
           row->error <= row->tolerance ? "" : "  FAILED: out of tolerance");
    fflush(stdout);
}

static int report(compare_bench *b, int index)
{
    const compare_case *c = &b->cases[index];
    const harness_case *turn = &b->turns[index];
    probe_reading best = harness_undisturbed(b->turns, b->count, turn);
    result_row row = {.suite = b->suite, .of_peak = true, .seconds = sampling_of(&turn->taken, best)};
    double ratio = 0;
    row.predicted_seconds = predicted(b, index, row.seconds.seconds);
    subject_describe(&c->subject, &row);
    row.published = c->published ? &c->published->figure : NULL;
    if (c->naive)
        row.method = "openblas";
    if (!c->published && index > 0 && b->turns[0].taken.count) {
        ratio = sampling_against(&turn->taken, &b->turns[0].taken, best).ratio;
        row.against = "time to local";
        row.against_value = ratio;
    }
    results_add(b->kept, &row);
    print_row(&row, ratio);
    b->reported++;
    return row.error <= row.tolerance ? 0 : 1;
}

/* The cases that were added, in turns; what they held is given back. */
static int run_set(compare_bench *b, int rounds)
{
    int code = 0, prepared = 0;
    bench_options own = *b->options;
    own.rounds = rounds;
    for (int i = 0; i < b->count && !code && !b->options->interrupted(); i++) {
        if (!harness_wanted(b->options, b->cases[i].name))
            continue;
        prepared++;
        ra_status status = prepare(b, &b->cases[i], &b->turns[i]);
        if (status)
            code = harness_failed(b->cases[i].name, status);
    }
    if (prepared && !code)
        add_calibration(b);
    if (!code)
        code = harness_measure(&own, b->turns, b->count + 1);
    if (!code && b->turns[b->count].taken.count)
        calibration_learn(b->calibration, &b->model);
    for (int i = 0; i < b->count && !code; i++)
        if (b->turns[i].taken.count)
            code |= report(b, i);
    for (int i = 0; i < b->count; i++)
        subject_give(&b->cases[i].subject);
    memset(b->cases, 0, MOST_CASES * sizeof *b->cases);
    memset(b->turns, 0, MOST_CASES * sizeof *b->turns);
    b->count = 0;
    return code;
}

/* With the heads that most cases have; once unmeasured. */
static void open_calibration(compare_bench *b)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    problem.q_len = LENGTHS[0];
    problem.heads = HEADS;
    problem.head_dim = DIM;
    options.kernel = b->kernel;
    options.threads = b->threads;
    ra_status status = calibration_open(&problem, &options, RA_F32, false, &b->calibration);
    if (!status)
        status = calibration_round(b->calibration);
    if (status) {
        printf("without predictions: %s\n", ra_last_message());
        calibration_close(b->calibration);
        b->calibration = NULL;
    }
}

/* More where a round takes less: a case of some milliseconds is soon disturbed. */
static int rounds_of(const bench_options *options, int64_t length)
{
    return length <= LENGTHS[0]   ? options->short_rounds
           : length <= LENGTHS[1] ? (options->rounds + options->short_rounds) / 2
                                  : options->rounds;
}

static int compare_length(compare_bench *b, int64_t length)
{
    char documents[PATTERN];
    snprintf(documents, sizeof documents, "documents:%lld,%lld,%lld,%lld", (long long)length / 4, (long long)length / 4,
             (long long)length / 4, (long long)(length - length / 4 * 3));
    const char *const patterns[] = {
        "full", "causal", "window:512,0+causal", documents, "dilated:512/1,1024/2,2048/4", "blocks:64:density=0.1"};
    int code = 0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns && !b->options->interrupted(); i++) {
        add_ways(b, length, patterns[i]);
        if (i < 2)
            add_naive(b, length, patterns[i]);
        printf("\n%lld tokens, %s\n", (long long)length, patterns[i]);
        print_head();
        code |= run_set(b, rounds_of(b->options, length));
    }
    bench_pool_give(&b->pool);
    return code;
}

static int compare_published(compare_bench *b)
{
    b->suite = "seed-table";
    printf(
        "\nconfigurations of published reports, run here; what was published is in the rows, and in ringattn report\n");
    print_head();
    add_published(b);
    int code = run_set(b, b->options->rounds);
    bench_pool_give(&b->pool);
    return code;
}

/* ---- The suite --------------------------------------------------------------------------------------------------- */

/* What reading memory gives, from more of it than any cache holds. */
static double bandwidth(const compare_bench *b)
{
    enum { BYTES = 256 << 20 };
    char *memory = malloc(BYTES);
    double best = 0;
    if (!memory)
        return 0;
    memset(memory, 1, BYTES);
    for (int i = 0; i < 3; i++)
        best = fmax(best, probe_bandwidth(memory, BYTES, b->threads));
    free(memory);
    return best;
}

static int run_suite(compare_bench *b)
{
    const int64_t *lengths = b->options->length_count ? b->options->lengths
                             : b->options->quick      ? QUICK_LENGTHS
                                                      : LENGTHS;
    int count = b->options->length_count ? b->options->length_count : b->options->quick ? 1 : 3, code = 0;
    char why[256] = "";
    double bytes = bandwidth(b);
    results_bandwidth(b->kept, bytes);
    b->has_blas = naive_blas_open(&b->blas, why);
    printf("%d heads, head dim %d, float32, tensors in memory; reading memory gives %.1f GB/s\n", HEADS, DIM,
           1e-9 * bytes);
    printf("to local: time to that of the run in one piece in the same rounds; MiB: accounted, beyond the tensors;\n"
           "predicted: what ringattn advise would have said, to the median\n");
    if (!b->has_blas)
        printf("without naive attention on OpenBLAS: %s\n", why);
    open_calibration(b);
    for (int i = 0; i < count && !b->options->interrupted(); i++)
        code |= compare_length(b, lengths[i]);
    if (b->options->seed_table && !b->options->interrupted())
        code |= compare_published(b);
    return code || b->reported || b->options->interrupted() ? code : harness_nothing(b->options);
}

int bench_compare(const bench_options *options)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    compare_bench b = {.options = options, .suite = "compare"};
    int code = 2;
    b.cases = calloc(MOST_CASES, sizeof *b.cases);
    b.turns = calloc(MOST_CASES, sizeof *b.turns);
    if (!b.cases || !b.turns)
        fprintf(stderr, "ringattn bench: out of memory\n");
    else if (ra_system_describe(&machine))
        fprintf(stderr, "ringattn bench: %s\n", ra_last_message());
    else if (!results_open(options, &b.kept)) {
        b.kernel = machine.kernel;
        b.threads = options->threads ? options->threads : machine.cores < THREADS ? machine.cores : THREADS;
        b.pool.seed = options->seed;
        printf("ringattn %s, %s, %s, %s, %d threads\n", ra_version(), machine.processor, machine.compiler,
               ra_kernel_name(b.kernel), b.threads);
        code = run_suite(&b);
        calibration_close(b.calibration);
        naive_blas_close(&b.blas);
    }
    free(b.cases);
    free(b.turns);
    return results_close(b.kept) ? 1 : code;
}
