/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn bench backward: gradients in one piece against the machine's arithmetic peak. As in the suite of kernels,
 * cases are interleaved round by round, every sample stands between two readings of the probes, and every case is
 * checked against the oracle on a few rows of each gradient before it is timed.
 */
#include "gradients.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct backward_case {
    const char *name; /* what comes behind length and head dim */
    int64_t batch, length, heads, kv_heads, dim;
    const char *pattern;
    ra_dtype dtype;
    ra_kernel_id kernel; /* RA_KERNEL_AUTO: the machine's best */
    double goal;         /* of the peak, at this length */
} backward_case;

static const backward_case cases[] = {
    {"full", 1, 4096, 8, 8, 64, "full", RA_F32, RA_KERNEL_AUTO, 0.74},
    {"full", 1, 4096, 8, 8, 128, "full", RA_F32, RA_KERNEL_AUTO, 0.80},
    {"full", 1, 8192, 8, 8, 64, "full", RA_F32, RA_KERNEL_AUTO, 0.74},
    {"full", 1, 8192, 8, 8, 128, "full", RA_F32, RA_KERNEL_AUTO, 0.80},
    {"causal", 1, 4096, 8, 8, 64, "causal", RA_F32, RA_KERNEL_AUTO, 0.70},
    {"causal", 1, 4096, 8, 8, 128, "causal", RA_F32, RA_KERNEL_AUTO, 0.76},
    {"causal", 1, 8192, 8, 8, 64, "causal", RA_F32, RA_KERNEL_AUTO, 0.70},
    {"causal", 1, 8192, 8, 8, 128, "causal", RA_F32, RA_KERNEL_AUTO, 0.76},
    {"full one head", 1, 8192, 1, 1, 64, "full", RA_F32, RA_KERNEL_AUTO, 0.70},
    {"causal 4 x 12 heads", 4, 512, 12, 12, 64, "causal", RA_F32, RA_KERNEL_AUTO, 0.60},
    {"full bf16", 1, 4096, 8, 8, 128, "full", RA_BF16, RA_KERNEL_AUTO, 0.76},
    {"full fast", 1, 4096, 8, 8, 64, "full", RA_BF16, RA_KERNEL_AVX512BF16, 1.10},
    {"full fast", 1, 4096, 8, 8, 128, "full", RA_BF16, RA_KERNEL_AVX512BF16, 1.25},
    {"full f16", 1, 4096, 8, 8, 128, "full", RA_F16, RA_KERNEL_AUTO, 0.76},
    {"causal GQA 32:8", 1, 4096, 32, 8, 128, "causal", RA_F32, RA_KERNEL_AUTO, 0.76},
    {"dilated", 1, 65536, 8, 8, 64, "dilated:2048/1,4096/2,8192/4", RA_F32, RA_KERNEL_AUTO, 0.60},
    {"full avx2", 1, 4096, 8, 8, 64, "full", RA_F32, RA_KERNEL_AVX2, 0.70},
    {"full avx2", 1, 4096, 8, 8, 128, "full", RA_F32, RA_KERNEL_AVX2, 0.76},
};
enum { CASES = sizeof cases / sizeof cases[0], NAME_ROOM = 48 };

typedef struct backward_bench {
    const bench_options *options;
    ra_kernel_id kernel;
    int threads;
    bench_pool pool;
    char names[CASES][NAME_ROOM];
    gradients runs[CASES];
    harness_case cases[CASES];
} backward_bench;

/* ---- Cases ------------------------------------------------------------------------------------------------------- */

static int64_t length_of(const backward_bench *b, int index)
{
    return b->options->length ? b->options->length : cases[index].length;
}

/* Cases that differ in nothing but the length are one where the length is given. */
static bool wanted(const backward_bench *b, int index)
{
    for (int i = 0; i < index; i++)
        if (strcmp(b->names[i], b->names[index]) == 0)
            return false;
    return harness_wanted(b->options, b->names[index]) && ra_kernel_available(cases[index].kernel);
}

/* Planned, run once, and checked. */
static ra_status prepare(backward_bench *b, int index)
{
    const backward_case *c = &cases[index];
    int64_t length = length_of(b, index);
    const gradients_spec spec = {.name = b->names[index],
                                 .shape = {c->batch, length, length, c->heads, c->kv_heads, c->dim, c->dtype},
                                 .pattern = c->pattern,
                                 .threads = b->threads,
                                 .kernel = c->kernel == RA_KERNEL_AUTO ? b->kernel : c->kernel};
    b->cases[index] = (harness_case){.name = spec.name,
                                     .kernel = spec.kernel,
                                     .threads = spec.threads,
                                     .run = gradients_sample,
                                     .user = &b->runs[index]};
    const bench_tensors *inputs = bench_pool_get(&b->pool, &spec.shape, spec.name);
    return inputs ? gradients_prepare(&b->runs[index], &spec, inputs, b->options->seed + 3) : RA_ERROR_MEMORY;
}

static int prepare_all(backward_bench *b)
{
    int count = 0;
    for (int i = 0; i < CASES; i++)
        snprintf(b->names[i], NAME_ROOM, "%lld d%lld %s", (long long)length_of(b, i), (long long)cases[i].dim,
                 cases[i].name);
    for (int i = 0; i < CASES; i++) {
        if (!wanted(b, i))
            continue;
        count++;
        ra_status status = prepare(b, i);
        if (status)
            return harness_failed(b->names[i], status);
    }
    return count ? 0 : harness_nothing(b->options);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static void print_head(void)
{
    printf("%-28s %-10s %9s %8s %6s %6s %8s %9s %7s %9s\n", "case", "kernel", "median s", "GFLOP/s", "ratio", "goal",
           "product", "quiet/all", "MiB", "error");
}

static void print_case(const gradients *g, const result_row *row)
{
    char goal[16] = "-";
    if (row->goal > 0)
        snprintf(goal, sizeof goal, "%.2f", row->goal);
    printf("%-28s %-10s %9.4f %8.1f %6.3f %6s %8.3f %5d/%-3d %7.2f %9.1e%s\n", g->spec.name,
           ra_kernel_name(row->kernel), row->seconds.seconds, row->seconds.value / 1e9, row->seconds.ratio, goal,
           row->seconds.product, row->seconds.quiet, row->seconds.count, (double)row->peak_bytes / (1 << 20),
           row->error, gradients_right(g) ? "" : "  FAILED: out of tolerance");
    fflush(stdout);
}

static int report(backward_bench *b, results *kept, int index)
{
    const gradients *g = &b->runs[index];
    const harness_case *c = &b->cases[index];
    result_row row = {.suite = "backward", .of_peak = true, .against = "of peak"};
    row.seconds = sampling_of(&c->taken, harness_undisturbed(b->cases, CASES, c));
    row.against_value = row.seconds.ratio;
    row.goal = length_of(b, index) == cases[index].length ? cases[index].goal : 0;
    gradients_describe(g, &row);
    result_figure(&row, "product", row.seconds.product);
    results_add(kept, &row);
    print_case(g, &row);
    return gradients_right(g) ? 0 : 1;
}

static int run_suite(backward_bench *b, results *kept)
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

static void print_about(const backward_bench *b, const ra_system_info *machine)
{
    printf("ringattn %s, %s, %s, %d threads\n", ra_version(), machine->processor, machine->compiler, b->threads);
    printf("multiply-add peak now %.1f GFLOP/s (%s)\n", probe_now(b->kernel, b->threads).fma / 1e9,
           ra_kernel_name(b->kernel));
    printf(
        "gradients by queries, keys and values: 2 x visible pairs x (3 head dim + 2 value dim) flops; ratio: to the\n"
        "multiply-add peak around each sample; median of the quiet samples, of all where none was quiet; product:\n"
        "what a matrix product in first-level cache reached of the same peak; error: of sampled rows, in parts of\n"
        "the largest element of theirs in the same gradient\n\n");
}

int bench_backward(const bench_options *options)
{
    enum { THREADS = 2 };
    ra_system_info machine = RA_SYSTEM_INFO_INIT;
    results *kept = NULL;
    backward_bench *b = calloc(1, sizeof *b);
    int code = b ? results_open_here(options, &machine, &kept) : 2;
    if (!code) {
        b->options = options;
        b->kernel = machine.kernel;
        b->threads = options->threads ? options->threads : THREADS;
        b->pool.seed = options->seed;
        print_about(b, &machine);
        code = run_suite(b, kept);
    }
    for (int i = 0; b && i < CASES; i++)
        gradients_give(&b->runs[i]);
    if (b)
        bench_pool_give(&b->pool);
    free(b);
    return results_close(kept) ? 1 : code;
}
