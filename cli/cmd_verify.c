/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn verify: the library against its oracle, for every kernel that this machine can run, in both directions. The
 * tensors and the oracle's results: verify_data.c.
 */
#include "args.h"
#include "commands.h"
#include "compare.h"
#include "interrupt.h"
#include "report.h"
#include "verify_data.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const verify_case CASES[] = {
    /* lengths: one, primes, exact blocks, more queries than keys and the other way round */
    {true, "full", NULL, 1, 1, 1, 1, 1, 1, 1},
    {true, "full", NULL, 2, 67, 131, 4, 2, 64, 64},
    {false, "full", NULL, 1, 131, 67, 3, 3, 80, 80},
    {false, "full", NULL, 1, 128, 192, 2, 2, 64, 64},
    {false, "full", NULL, 3, 17, 17, 2, 1, 64, 64},
    {true, "causal", NULL, 1, 257, 257, 2, 1, 64, 64},
    {false, "causal", NULL, 2, 127, 127, 4, 4, 128, 128},
    {false, "causal", NULL, 1, 64, 64, 1, 1, 64, 64},
    {true, "causal", NULL, 1, 131, 67, 2, 2, 3, 5},
    {false, "causal", NULL, 1, 67, 131, 2, 2, 64, 32},
    {false, "causal", NULL, 1, 1021, 1021, 2, 1, 64, 64},
    /* head dims, and value dims of their own */
    {false, "full", NULL, 1, 61, 61, 2, 2, 1, 1},
    {true, "full", NULL, 1, 61, 61, 2, 2, 3, 7},
    {false, "causal", NULL, 1, 61, 61, 2, 2, 80, 16},
    {false, "causal", NULL, 1, 61, 61, 2, 2, 128, 129},
    {true, "causal", NULL, 1, 37, 37, 1, 1, 1024, 1024},
    {false, "full", NULL, 1, 37, 70, 1, 1, 1, 1024},
    /* windows */
    {false, "window:0", NULL, 1, 97, 97, 2, 2, 64, 64},
    {true, "window:16,8", NULL, 1, 197, 197, 2, 2, 80, 80},
    {false, "window:40", NULL, 2, 67, 131, 2, 1, 64, 64},
    {false, "window:10,70", NULL, 1, 131, 67, 2, 2, 64, 64},
    {false, "window:5000", NULL, 1, 97, 97, 2, 2, 64, 64},
    {true, "causal+window:33,5", NULL, 1, 211, 211, 2, 2, 64, 64},
    {false, "causal+window:128,0", NULL, 1, 509, 509, 2, 1, 128, 128},
    /* documents */
    {true, "documents:50,1,77,129", NULL, 1, 257, 257, 2, 2, 64, 64},
    {false, "documents:131", NULL, 1, 67, 131, 2, 2, 64, 64},
    {true, "causal+documents:64,64,3", NULL, 2, 131, 131, 4, 1, 64, 64},
    {false, "documents:30,37", NULL, 1, 131, 67, 2, 2, 64, 64},
    {false, "documents:100,97+window:20,50", NULL, 1, 197, 197, 2, 2, 80, 80},
    {false, "causal+window:50+documents:100,97", NULL, 1, 197, 197, 4, 2, 64, 64},
    {true, "documents:3/40,0/10,80/79,7/1", NULL, 2, 90, 130, 4, 2, 64, 64},
    {true, "causal+documents:1/300,1/20,1/700,1/11", "alibi", 1, 4, 1031, 4, 2, 64, 64},
    /* padded batches, and single pairs */
    {true, "causal+lengths", NULL, 3, 67, 131, 4, 2, 64, 64},
    {true, "lengths", NULL, 3, 2, 1031, 4, 2, 64, 64},
    {true, "mask", NULL, 2, 131, 197, 4, 2, 64, 64},
    {false, "window:50+mask+lengths", "alibi", 3, 97, 97, 2, 1, 80, 80},
    {false, "dilated:40/3,90/7+mask", NULL, 1, 197, 197, 4, 2, 64, 64},
    {false, "mask+blocks:32:local=1", NULL, 2, 197, 197, 2, 2, 64, 64},
    /* few queries against many keys */
    {true, "full", NULL, 1, 1, 1031, 8, 2, 128, 128},
    {false, "full", NULL, 2, 1, 4099, 4, 1, 64, 64},
    {true, "causal", NULL, 1, 3, 2053, 4, 4, 64, 64},
    {false, "causal+window:300,0", NULL, 1, 2, 4099, 2, 2, 80, 80},
    {false, "causal+documents:4000,99", NULL, 1, 5, 4099, 2, 1, 128, 64},
    /* scores, in tiles and of few queries */
    {true, "causal", "softcap:30", 1, 131, 131, 2, 1, 64, 64},
    {true, "causal", "alibi", 1, 131, 197, 3, 1, 64, 64},
    {false, "full", "relative", 1, 97, 131, 4, 2, 64, 64},
    {true, "full", "bias", 2, 67, 131, 2, 2, 64, 64},
    {true, "causal+window:50,0", "sinks", 1, 197, 131, 4, 2, 64, 64},
    {false, "causal", "dropout:0.25:seed=3", 1, 131, 131, 2, 2, 64, 64},
    {true, "causal", "relative+softcap:5+bias+alibi+sinks+dropout:0.1", 2, 67, 131, 4, 2, 80, 64},
    {true, "causal", "relative+softcap:5+bias+alibi+sinks+dropout:0.1", 1, 2, 1031, 4, 2, 64, 64},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static const ra_dtype DTYPES[] = {RA_F32, RA_F16, RA_BF16};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

/* The largest errors, and whether each is within its tolerance. */
typedef struct verdict {
    double output, lse, gradients[GRADIENTS];
    bool ok;
} verdict;

static void judge(double error, double tolerance, double *largest, bool *ok)
{
    *largest = fmax(*largest, error);
    *ok &= error <= tolerance;
}

static void measure(const verify_case *c, const verify_data *data, int layout, bool fast, verdict *found)
{
    const ra_tensor *output = &data->tensors[layout][VERIFY_OUTPUT], *lse = &data->tensors[layout][VERIFY_LSE];
    const verify_rows *r = &data->forward;
    for (int64_t i = 0; i < r->count; i++) {
        const ra_row *row = &r->rows[i];
        const double *expected = r->values + i * r->dim, *spread = r->spreads + i * r->dim;
        for (int64_t d = 0; d < r->dim; d++)
            judge(distance(ra_tensor_get(output, row->batch, row->seq, row->head, d), expected[d], output->dtype),
                  output_tolerance(c->head_dim, r->sizes[i], spread[d], expected[d]) +
                      (fast ? fast_output_tolerance(r->roundings[i * r->dim + d]) : 0),
                  &found->output, &found->ok);
        judge(distance(ra_tensor_get(lse, row->batch, row->seq, row->head, 0), r->lses[i], RA_F32),
              lse_tolerance(c->head_dim, r->sizes[i]), &found->lse, &found->ok);
    }
}

static void measure_gradient(const verify_case *c, const verify_data *data, int layout, int gradient, bool fast,
                             verdict *found)
{
    const ra_tensor *got = &data->tensors[layout][VERIFY_GRADIENTS + gradient];
    const verify_rows *r = &data->gradients[gradient];
    int64_t terms = gradient == RA_GRADIENT_QUERY ? c->kv_len : c->q_len * (c->heads / c->kv_heads);
    for (int64_t i = 0; i < r->count; i++) {
        const ra_row *row = &r->rows[i];
        const double *expected = r->values + i * r->dim;
        double tolerance = gradient_tolerance(terms, r->sizes[i]) + (fast ? fast_gradient_tolerance(r->sizes[i]) : 0);
        for (int64_t d = 0; d < r->dim; d++)
            judge(distance(ra_tensor_get(got, row->batch, row->seq, row->head, d), expected[d], got->dtype), tolerance,
                  &found->gradients[gradient], &found->ok);
    }
}

static ra_status run(const ra_plan *plan, const ra_tensor *t)
{
    const ra_tensor *g = t + VERIFY_GRADIENTS;
    ra_status status =
        ra_forward(plan, &t[VERIFY_QUERY], &t[VERIFY_KEY], &t[VERIFY_VALUE], &t[VERIFY_OUTPUT], &t[VERIFY_LSE], NULL);
    if (!status)
        status = ra_backward(plan, &t[VERIFY_QUERY], &t[VERIFY_KEY], &t[VERIFY_VALUE], &t[VERIFY_GIVEN_OUTPUT],
                             &t[VERIFY_GIVEN_LSE], &t[VERIFY_OUTPUT_GRADIENT], &t[VERIFY_LSE_GRADIENT],
                             &g[RA_GRADIENT_QUERY], &g[RA_GRADIENT_KEY], &g[RA_GRADIENT_VALUE], NULL);
    return status;
}

static void print_line(const verify_case *c, ra_dtype dtype, ra_kernel_id kernel, const verdict *found)
{
    char shape[80], what[80];
    snprintf(what, sizeof what, "%s%s%s", c->pattern, c->scores ? ", " : "", c->scores ? c->scores : "");
    snprintf(shape, sizeof shape, "%lld x %lld:%lld x %lld:%lld x %lld:%lld", (long long)c->batch, (long long)c->q_len,
             (long long)c->kv_len, (long long)c->heads, (long long)c->kv_heads, (long long)c->head_dim,
             (long long)c->value_dim);
    printf("%-34s %-30s %-9s %-10s %.1e  %.1e", what, shape, ra_dtype_name(dtype), ra_kernel_name(kernel),
           found->output, found->lse);
    for (int i = 0; i < GRADIENTS; i++)
        printf("  %.1e", found->gradients[i]);
    printf("  %s\n", found->ok ? "ok" : "FAILED");
}

/* One line of the table: both layouts with one kernel. */
static ra_status verify_kernel(const verify_case *c, verify_data *data, ra_dtype dtype, ra_kernel_id kernel, bool *ok)
{
    verdict found = {.ok = true};
    bool fast = ra_kernel_precision(kernel) == RA_PRECISION_FAST;
    ra_plan *plan = NULL;
    ra_status status = verify_plan(data, c, kernel, &plan);
    for (int layout = 0; layout < VERIFY_LAYOUTS && !status; layout++) {
        status = run(plan, data->tensors[layout]);
        if (status)
            break;
        measure(c, data, layout, fast, &found);
        for (int i = 0; i < GRADIENTS; i++)
            measure_gradient(c, data, layout, i, fast, &found);
    }
    ra_plan_free(plan);
    *ok = found.ok;
    if (!status)
        print_line(c, dtype, kernel, &found);
    return status;
}

static ra_status verify_dtype(const verify_case *c, ra_dtype dtype, int *lines, int *failures)
{
    verify_data data;
    ra_status status = RA_OK;
    if (!verify_data_make(&data, c, dtype)) {
        verify_data_free(&data);
        return RA_ERROR_MEMORY;
    }
    status = verify_data_reference(&data, c);
    for (int id = RA_KERNEL_GENERIC; ra_kernel_name((ra_kernel_id)id) && !status; id++) {
        bool ok = false;
        bool fast = ra_kernel_precision((ra_kernel_id)id) == RA_PRECISION_FAST;
        if (!ra_kernel_available((ra_kernel_id)id) || (fast && dtype != RA_BF16))
            continue;
        status = verify_kernel(c, &data, dtype, (ra_kernel_id)id, &ok);
        ++*lines;
        *failures += !ok;
    }
    verify_data_free(&data);
    return status;
}

int cmd_verify(int argc, char **argv)
{
    bool quick = false;
    const arg_option options[] = {
        {.name = "quick", .kind = ARG_FLAG, .target = &quick, .help = "a part of the table, in seconds"},
    };
    const arg_command command = {
        .verb = "verify",
        .summary = "Compares the library with its double-precision oracle: patterns, scores, shapes, dtypes and the\n"
                   "kernels of this machine, in both layouts, on standard-normal inputs, with gradients (d_q, d_k,\n"
                   "d_v).",
        .options = options,
        .option_count = 1,
        .notes = "Shapes are batch x queries:keys x heads:kv heads x head dim:value dim. Errors are absolute,\n"
                 "beyond the rounding of the stored value. Exit code 1: something is out of tolerance.",
        .example = "ringattn verify --quick",
    };
    int code = args_parse(&command, argc, argv);
    if (code != ARGS_RUN)
        return code;

    int lines = 0, failures = 0;
    printf("%-34s %-30s %-9s %-10s %-7s  %-7s  %-7s  %-7s  %s\n", "pattern", "shape", "dtype", "kernel", "output",
           "lse", "d_q", "d_k", "d_v");
    for (int i = 0; i < CASE_COUNT; i++)
        for (int d = 0; d < DTYPE_COUNT && (CASES[i].quick || !quick); d++) {
            if (fflush(stdout) != 0)
                return report(EXIT_WORK, "standard output: cannot write: %s", strerror(errno));
            ra_status status = verify_dtype(&CASES[i], DTYPES[d], &lines, &failures);
            if (status == RA_ERROR_MEMORY)
                return report(EXIT_USAGE, "out of memory");
            if (status)
                return report_failure(status);
            if (interrupted())
                return interrupt_exit();
        }
    printf("\ntolerance: output %.0e, lse %.0e, more for rows with large scores; of gradients by the number and size\n"
           "of the terms of a row; with products of bfloat16 more by the rounding of weights (docs/MATH.md)\n",
           OUTPUT_TOLERANCE, LSE_TOLERANCE);
    printf("%s: %d of %d lines within tolerance\n", failures ? "FAILED" : "ok", lines - failures, lines);
    return failures ? EXIT_WORK : EXIT_OK;
}
