/*
 * ringattn bench kernel. Cases are interleaved round by round; every sample stands between two readings of the probes;
 * every case is checked against the oracle on a few rows before it is timed.
 */
#include "bench.h"
#include "naive.h"
#include "sampling.h"
#include "tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    {"8192 d64 full GQA 8:2", 8192, 8192, 8, 2, 64, "full", RA_F32, RA_KERNEL_AUTO, 0, 0.80, OF_PEAK},
    {"8192 d64 full one head", 8192, 8192, 1, 1, 64, "full", RA_F32, RA_KERNEL_AUTO, 0, 0.80, OF_PEAK},
    {"decode 131072 d128", 1, 131072, 8, 8, 128, "full", RA_F32, RA_KERNEL_AUTO, 0, 0.80, OF_BANDWIDTH},
    {"avx2 8192 d64 full", 8192, 8192, 8, 8, 64, "full", RA_F32, RA_KERNEL_AVX2, 0, 0.80, OF_PEAK},
    {"avx2 8192 d128 full", 8192, 8192, 8, 8, 128, "full", RA_F32, RA_KERNEL_AVX2, 0, 0.84, OF_PEAK},
    {"generic 2048 d64 full", 2048, 2048, 1, 1, 64, "full", RA_F32, RA_KERNEL_GENERIC, 1, 6.0, OF_NAIVE},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* A case ready to run. */
typedef struct bench_run {
    const bench_case *c;
    ra_kernel_id kernel;
    int threads;
    ra_plan *plan;
    bench_tensors tensors;
    double error; /* against the oracle */
    int64_t peak_bytes;
    samples taken;
} bench_run;

static ra_status check_rows(bench_run *r)
{
    ra_status status = RA_OK;
    for (int i = 0; i < BENCH_CHECKED_ROWS && !status; i++)
        status = bench_check_row(r->plan, &r->tensors, bench_checked_query(&r->tensors, i),
                                 bench_checked_head(&r->tensors, i), &r->error);
    return status;
}

static ra_status prepare(bench_run *r, const bench_case *c, ra_kernel_id best, int threads, uint64_t seed)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    r->c = c;
    r->kernel = options.kernel = c->kernel == RA_KERNEL_AUTO ? best : c->kernel;
    r->threads = options.threads = c->threads ? c->threads : threads;
    problem.q_len = c->q_len;
    problem.kv_len = c->kv_len;
    problem.heads = c->heads;
    problem.kv_heads = c->kv_heads;
    problem.head_dim = c->dim;
    problem.pattern = c->pattern;
    ra_status status = ra_plan_create(&problem, &options, &r->plan);
    if (status)
        return status;
    bench_tensors *t = &r->tensors;
    const bench_shape shape = {c->q_len, c->kv_len, c->heads, c->kv_heads, c->dim, c->dtype};
    status = bench_tensors_take(t, &shape, c->name);
    if (status)
        return status;
    bench_tensors_fill(t, seed);
    ra_stats stats = RA_STATS_INIT;
    status = ra_forward(r->plan, &t->q, &t->k, &t->v, &t->output, NULL, &stats);
    r->peak_bytes = stats.peak_bytes;
    return status ? status : check_rows(r);
}

/* How much faster than the naive loops, in one go. */
static ra_status against_naive(bench_run *r, double seconds, double *ratio)
{
    float *scores = malloc((size_t)r->c->kv_len * sizeof *scores),
          *output = malloc((size_t)r->tensors.key_value_bytes / 2);
    if (!scores || !output) {
        free(scores);
        free(output);
        return RA_ERROR_MEMORY;
    }
    double start = probe_seconds();
    naive_attention(r->tensors.q.data, r->tensors.k.data, r->tensors.v.data, output, scores, r->c->kv_len, r->c->dim,
                    (float)(1 / sqrt((double)r->c->dim)));
    *ratio = (probe_seconds() - start) / seconds;
    free(scores);
    free(output);
    return RA_OK;
}

/* One sample: what is measured, between two readings of its yardstick. */
static ra_status measure(bench_run *r)
{
    sample *s = &r->taken.at[r->taken.count++];
    const bench_tensors *t = &r->tensors;
    ra_stats stats = RA_STATS_INIT;
    s->before = probe_now(r->kernel, r->threads);
    if (r->c->yardstick == OF_BANDWIDTH)
        s->before.fma = probe_bandwidth(t->memory, t->key_value_bytes, r->threads);
    double processor = probe_processor_seconds(), start = probe_seconds();
    ra_status status = ra_forward(r->plan, &t->q, &t->k, &t->v, &t->output, NULL, &stats);
    if (status)
        return status;
    s->share = (probe_processor_seconds() - processor) / ((probe_seconds() - start) * r->threads);
    s->value = stats.flops / stats.seconds_compute;
    s->after = probe_now(r->kernel, r->threads);
    if (r->c->yardstick == OF_BANDWIDTH) {
        s->value = (double)t->key_value_bytes / stats.seconds_compute;
        s->after.fma = probe_bandwidth(t->memory, t->key_value_bytes, r->threads);
    }
    if (r->c->yardstick == OF_NAIVE) {
        s->before.fma = s->after.fma = 1;
        return against_naive(r, stats.seconds_compute, &s->value);
    }
    return RA_OK;
}

/* Of the cases that share a probe. */
static probe_reading undisturbed(const bench_run *runs, int count, ra_kernel_id kernel, int threads)
{
    static double readings[2 * CASES * SAMPLING_MOST];
    int n = 0;
    for (int i = 0; i < count; i++)
        if (runs[i].kernel == kernel && runs[i].threads == threads)
            n += sampling_readings(&runs[i].taken, readings + n);
    return sampling_undisturbed(readings, n);
}

static int report(const bench_run *r, probe_reading best)
{
    sampling_result result = sampling_of(&r->taken, best);
    bool right = r->error <= bench_tolerance(r->c->dtype);
    const char *unit = r->c->yardstick == OF_BANDWIDTH ? "GB/s" : r->c->yardstick == OF_NAIVE ? "x" : "GFLOP/s";
    double shown = r->c->yardstick == OF_NAIVE ? result.value : result.value / 1e9;
    char product[16] = "-"; /* says something about the cases measured against the same peak */
    if (r->c->yardstick == OF_PEAK)
        snprintf(product, sizeof product, "%.3f", result.product);
    printf("%-24s %-8s %2d %9.1f %-8s %6.3f %6.2f %8s %5d/%-3d %7.2f %9.1e%s\n", r->c->name, ra_kernel_name(r->kernel),
           r->threads, shown, unit, result.ratio, r->c->goal, product, result.quiet, result.count,
           (double)r->peak_bytes / (1 << 20), r->error, right ? "" : "  FAILED: out of tolerance");
    fflush(stdout);
    return right ? 0 : 1;
}

static int failed(const bench_case *c)
{
    fprintf(stderr, "ringattn bench: %s: %s\n", c->name, ra_last_message());
    return 1;
}

static int run_cases(const bench_options *options, bench_run *runs, ra_kernel_id best_kernel, int threads)
{
    int count = 0, code = 0;
    bool terminal = isatty(STDERR_FILENO);
    for (int i = 0; i < CASES; i++) {
        const bench_case *c = &cases[i];
        if ((options->only && !strstr(c->name, options->only)) || !ra_kernel_available(c->kernel))
            continue;
        if (prepare(&runs[count++], c, best_kernel, threads, options->seed))
            return failed(c);
    }
    if (count == 0) {
        fprintf(stderr, "ringattn bench: no case has \"%s\" in its name\n", options->only);
        return 2;
    }
    for (int round = 0; round < options->rounds; round++)
        for (int i = 0; i < count && !options->interrupted(); i++) {
            if (terminal)
                fprintf(stderr, "\rround %d of %d, case %d of %d ", round + 1, options->rounds, i + 1, count);
            if (measure(&runs[i]))
                return failed(runs[i].c);
        }
    if (terminal)
        fprintf(stderr, "\r%40s\r", "");
    printf("%-24s %-8s %2s %9s %-8s %6s %6s %8s %9s %7s %9s\n", "case", "kernel", "th", "median", "", "ratio", "goal",
           "product", "quiet/all", "MiB", "error");
    for (int i = 0; i < count; i++)
        code |= report(&runs[i], undisturbed(runs, count, runs[i].kernel, runs[i].threads));
    return code;
}

int bench_kernel(const bench_options *options)
{
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    if (ra_system_describe(&machine)) {
        fprintf(stderr, "ringattn bench: %s\n", ra_last_message());
        return 2;
    }
    int threads = options->threads ? options->threads : machine.cores;
    probe_reading reading = probe_now(machine.kernel, threads);
    printf("ringattn %s, %s, %s, %d threads\n", ra_version(), machine.processor, machine.compiler, threads);
    printf("multiply-add peak now %.1f GFLOP/s (%s)\n", reading.fma / 1e9, ra_kernel_name(machine.kernel));
    printf("ratio: to the multiply-add peak, the memory bandwidth (decode) or the naive loops (generic), measured "
           "around each sample;\nmedian of the quiet samples, of all where none was quiet; product: what a matrix "
           "product in "
           "first-level cache reached\nof the same peak around the same samples\n\n");
    bench_run *runs = calloc(CASES, sizeof *runs);
    if (!runs)
        return 1;
    int code = run_cases(options, runs, machine.kernel, threads);
    for (int i = 0; i < CASES; i++) {
        ra_plan_free(runs[i].plan);
        bench_tensors_give(&runs[i].tensors);
    }
    free(runs);
    return code;
}
