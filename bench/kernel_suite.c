/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn bench kernel. Cases are interleaved round by round; every sample stands between two readings of the probes;
 * every case is checked against the oracle on a few rows before it is timed.
 */
#include "harness.h"
#include "naive.h"
#include "subject.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct bench_case {
    const char *name;
    int64_t q_len, kv_len, heads, kv_heads, dim;
    const char *pattern;
    ra_dtype dtype;
    ra_kernel_id kernel; /* RA_KERNEL_AUTO: the machine's best */
    int threads;         /* 0: the options' */
    double goal;
    enum { OF_PEAK, OF_BANDWIDTH, OF_NAIVE } yardstick;
} bench_case;

static const bench_case cases[] = {
    {"8192 d64 full", 8192, 8192, 8, 8, 64, "full", RA_F32, RA_KERNEL_AUTO, 0, 0.82, OF_PEAK},
    {"8192 d128 full", 8192, 8192, 8, 8, 128, "full", RA_F32, RA_KERNEL_AUTO, 0, 0.87, OF_PEAK},
    {"8192 d64 causal", 8192, 8192, 8, 8, 64, "causal", RA_F32, RA_KERNEL_AUTO, 0, 0.80, OF_PEAK},
    {"8192 d128 causal", 8192, 8192, 8, 8, 128, "causal", RA_F32, RA_KERNEL_AUTO, 0, 0.83, OF_PEAK},
    {"1024 d64 full", 1024, 1024, 8, 8, 64, "full", RA_F32, RA_KERNEL_AUTO, 0, 0.75, OF_PEAK},
    {"1024 d64 causal", 1024, 1024, 8, 8, 64, "causal", RA_F32, RA_KERNEL_AUTO, 0, 0.65, OF_PEAK},
    {"8192 d64 full f16", 8192, 8192, 8, 8, 64, "full", RA_F16, RA_KERNEL_AUTO, 0, 0.77, OF_PEAK},
    {"8192 d64 full bf16", 8192, 8192, 8, 8, 64, "full", RA_BF16, RA_KERNEL_AUTO, 0, 0.77, OF_PEAK},
    {"8192 d64 full fast", 8192, 8192, 8, 8, 64, "full", RA_BF16, RA_KERNEL_AVX512BF16, 0, 1.30, OF_PEAK},
    {"8192 d128 full fast", 8192, 8192, 8, 8, 128, "full", RA_BF16, RA_KERNEL_AVX512BF16, 0, 1.50, OF_PEAK},
    {"8192 d64 causal fast", 8192, 8192, 8, 8, 64, "causal", RA_BF16, RA_KERNEL_AVX512BF16, 0, 1.20, OF_PEAK},
    {"8192 d128 causal fast", 8192, 8192, 8, 8, 128, "causal", RA_BF16, RA_KERNEL_AVX512BF16, 0, 1.40, OF_PEAK},
    {"1024 d64 causal fast", 1024, 1024, 8, 8, 64, "causal", RA_BF16, RA_KERNEL_AVX512BF16, 0, 0.95, OF_PEAK},
    {"8192 d64 full GQA 8:2", 8192, 8192, 8, 2, 64, "full", RA_F32, RA_KERNEL_AUTO, 0, 0.80, OF_PEAK},
    {"8192 d64 full one head", 8192, 8192, 1, 1, 64, "full", RA_F32, RA_KERNEL_AUTO, 0, 0.80, OF_PEAK},
    {"decode 131072 d128", 1, 131072, 8, 8, 128, "full", RA_F32, RA_KERNEL_AUTO, 0, 0.80, OF_BANDWIDTH},
    {"avx2 8192 d64 full", 8192, 8192, 8, 8, 64, "full", RA_F32, RA_KERNEL_AVX2, 0, 0.80, OF_PEAK},
    {"avx2 8192 d128 full", 8192, 8192, 8, 8, 128, "full", RA_F32, RA_KERNEL_AVX2, 0, 0.84, OF_PEAK},
    {"generic 2048 d64 full", 2048, 2048, 1, 1, 64, "full", RA_F32, RA_KERNEL_GENERIC, 1, 6.0, OF_NAIVE},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* A case ready to run. */
typedef struct kernel_run {
    const bench_case *c;
    subject subject;
} kernel_run;

typedef struct kernel_bench {
    const bench_options *options;
    ra_kernel_id kernel;
    int threads;
    bench_pool pool;
    kernel_run runs[CASES];
    harness_case cases[CASES];
} kernel_bench;

/* ---- Samples ----------------------------------------------------------------------------------------------------- */

/* How much faster than the naive loops, in one go. */
static ra_status against_naive(const kernel_run *r, sample *s)
{
    const bench_tensors *t = r->subject.whole;
    float *scores = malloc((size_t)r->c->kv_len * sizeof *scores), *output = malloc((size_t)t->key_value_bytes / 2);
    if (!scores || !output) {
        free(scores);
        free(output);
        return RA_ERROR_MEMORY;
    }
    double start = probe_seconds();
    naive_attention(t->q.data, t->k.data, t->v.data, output, scores, r->c->kv_len, r->c->dim,
                    (float)(1 / sqrt((double)r->c->dim)));
    s->value = (probe_seconds() - start) / s->seconds;
    s->yard = 1;
    free(scores);
    free(output);
    return RA_OK;
}

/* Bytes per second, to those of two readings around it. */
static ra_status against_bandwidth(kernel_run *r, sample *s)
{
    const bench_tensors *t = r->subject.whole;
    double before = probe_bandwidth(t->memory, t->key_value_bytes, r->subject.spec.threads);
    ra_status status = subject_sample(&r->subject, s);
    s->value = (double)t->key_value_bytes / s->seconds;
    s->yard = fmax(before, probe_bandwidth(t->memory, t->key_value_bytes, r->subject.spec.threads));
    return status;
}

static ra_status take(void *user, sample *s)
{
    kernel_run *r = user;
    if (r->c->yardstick == OF_BANDWIDTH)
        return against_bandwidth(r, s);
    ra_status status = subject_sample(&r->subject, s);
    return status || r->c->yardstick == OF_PEAK ? status : against_naive(r, s);
}

/* ---- Cases ------------------------------------------------------------------------------------------------------- */

/* Planned, run once, and checked. */
static ra_status prepare(kernel_bench *b, int index)
{
    const bench_case *c = &cases[index];
    kernel_run *r = &b->runs[index];
    const subject_spec spec = {.name = c->name,
                               .shape = {1, c->q_len, c->kv_len, c->heads, c->kv_heads, c->dim, c->dtype},
                               .pattern = c->pattern,
                               .threads = c->threads ? c->threads : b->threads,
                               .kernel = c->kernel == RA_KERNEL_AUTO ? b->kernel : c->kernel};
    subject_time unused;
    r->c = c;
    b->cases[index] =
        (harness_case){.name = c->name, .kernel = spec.kernel, .threads = spec.threads, .run = take, .user = r};
    bench_tensors *tensors = bench_pool_get(&b->pool, &spec.shape, c->name);
    ra_status status = tensors ? subject_prepare(&r->subject, &spec, tensors) : RA_ERROR_MEMORY;
    return status ? status : subject_run(&r->subject, &unused);
}

static int prepare_all(kernel_bench *b)
{
    int count = 0;
    for (int i = 0; i < CASES; i++) {
        if (!harness_wanted(b->options, cases[i].name) || !ra_kernel_available(cases[i].kernel))
            continue;
        count++;
        ra_status status = prepare(b, i);
        if (status)
            return harness_failed(cases[i].name, status);
    }
    return count ? 0 : harness_nothing(b->options);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static void print_head(void)
{
    printf("%-24s %-10s %2s %9s %-8s %6s %6s %8s %9s %7s %9s\n", "case", "kernel", "th", "median", "", "ratio", "goal",
           "product", "quiet/all", "MiB", "error");
}

static void print_case(const kernel_run *r, const sampling_result *result)
{
    const subject *s = &r->subject;
    const char *unit = r->c->yardstick == OF_BANDWIDTH ? "GB/s" : r->c->yardstick == OF_NAIVE ? "x" : "GFLOP/s";
    double shown = r->c->yardstick == OF_NAIVE ? result->value : result->value / 1e9;
    char product[16] = "-"; /* says something about the cases measured against the same peak */
    if (r->c->yardstick == OF_PEAK)
        snprintf(product, sizeof product, "%.3f", result->product);
    printf("%-24s %-10s %2d %9.1f %-8s %6.3f %6.2f %8s %5d/%-3d %7.2f %9.1e%s\n", r->c->name,
           ra_kernel_name(s->spec.kernel), s->spec.threads, shown, unit, result->ratio, r->c->goal, product,
           result->quiet, result->count, (double)s->peak_bytes / (1 << 20), s->error,
           subject_right(s) ? "" : "  FAILED: out of tolerance");
    fflush(stdout);
}

static int report(kernel_bench *b, results *kept, int index)
{
    static const char *const AGAINST[] = {
        [OF_PEAK] = "of peak", [OF_BANDWIDTH] = "of memory bandwidth", [OF_NAIVE] = "x naive loops"};
    const kernel_run *r = &b->runs[index];
    const harness_case *c = &b->cases[index];
    result_row row = {.suite = "kernel", .goal = r->c->goal};
    row.seconds = sampling_of(&c->taken, harness_undisturbed(b->cases, CASES, c));
    row.of_peak = r->c->yardstick == OF_PEAK;
    row.against = AGAINST[r->c->yardstick];
    row.against_value = row.seconds.ratio;
    subject_describe(&r->subject, &row);
    result_figure(&row, "product", row.seconds.product);
    if (r->c->yardstick == OF_BANDWIDTH)
        results_bandwidth(kept, row.seconds.value / row.seconds.ratio);
    results_add(kept, &row);
    print_case(r, &row.seconds);
    return subject_right(&r->subject) ? 0 : 1;
}

static int run_suite(kernel_bench *b, results *kept)
{
    int code = prepare_all(b);
    if (!code)
        code = harness_measure(b->options, b->cases, CASES);
    if (code)
        return code;
    print_head();
    for (int i = 0; i < CASES; i++)
        if (b->cases[i].taken.count)
            code |= report(b, kept, i);
    return code;
}

int bench_kernel(const bench_options *options)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    results *kept = NULL;
    kernel_bench *b = calloc(1, sizeof *b);
    int code = b ? results_open_here(options, &machine, &kept) : 2;
    if (!code) {
        b->options = options;
        b->kernel = machine.kernel;
        b->threads = options->threads ? options->threads : machine.cores;
        b->pool.seed = options->seed;
        printf("ringattn %s, %s, %s, %d threads\n", ra_version(), machine.processor, machine.compiler, b->threads);
        printf("multiply-add peak now %.1f GFLOP/s (%s)\n", probe_now(b->kernel, b->threads).fma / 1e9,
               ra_kernel_name(b->kernel));
        printf("ratio: to the multiply-add peak, the memory bandwidth (decode) or the naive loops (generic), measured "
               "around each sample;\nmedian of the quiet samples, of all where none was quiet; product: what a matrix "
               "product in first-level cache reached\nof the same peak around the same samples\n\n");
        code = run_suite(b, kept);
    }
    for (int i = 0; b && i < CASES; i++)
        subject_give(&b->runs[i].subject);
    if (b)
        bench_pool_give(&b->pool);
    free(b);
    return results_close(kept) ? 1 : code;
}
