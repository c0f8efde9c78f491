/* ringattn verify: the library against its oracle, for every kernel that this machine can run. */
#include "args.h"
#include "commands.h"
#include "compare.h"
#include "interrupt.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct verify_case {
    bool quick; /* part of --quick */
    const char *pattern;
    int64_t batch, q_len, kv_len, heads, kv_heads, head_dim, value_dim;
} verify_case;

static const verify_case CASES[] = {
    /* lengths: one, primes, exact blocks, more queries than keys and the other way round */
    {true, "full", 1, 1, 1, 1, 1, 1, 1},
    {true, "full", 2, 67, 131, 4, 2, 64, 64},
    {false, "full", 1, 131, 67, 3, 3, 80, 80},
    {false, "full", 1, 128, 192, 2, 2, 64, 64},
    {false, "full", 3, 17, 17, 2, 1, 64, 64},
    {true, "causal", 1, 257, 257, 2, 1, 64, 64},
    {false, "causal", 2, 127, 127, 4, 4, 128, 128},
    {false, "causal", 1, 64, 64, 1, 1, 64, 64},
    {true, "causal", 1, 131, 67, 2, 2, 3, 5},
    {false, "causal", 1, 67, 131, 2, 2, 64, 32},
    {false, "causal", 1, 1021, 1021, 2, 1, 64, 64},
    /* head dims, and value dims of their own */
    {false, "full", 1, 61, 61, 2, 2, 1, 1},
    {true, "full", 1, 61, 61, 2, 2, 3, 7},
    {false, "causal", 1, 61, 61, 2, 2, 80, 16},
    {false, "causal", 1, 61, 61, 2, 2, 128, 129},
    {true, "causal", 1, 37, 37, 1, 1, 1024, 1024},
    {false, "full", 1, 37, 70, 1, 1, 1, 1024},
    /* windows */
    {false, "window:0", 1, 97, 97, 2, 2, 64, 64},
    {true, "window:16,8", 1, 197, 197, 2, 2, 80, 80},
    {false, "window:40", 2, 67, 131, 2, 1, 64, 64},
    {false, "window:10,70", 1, 131, 67, 2, 2, 64, 64},
    {false, "window:5000", 1, 97, 97, 2, 2, 64, 64},
    {true, "causal+window:33,5", 1, 211, 211, 2, 2, 64, 64},
    {false, "causal+window:128,0", 1, 509, 509, 2, 1, 128, 128},
    /* documents */
    {true, "documents:50,1,77,129", 1, 257, 257, 2, 2, 64, 64},
    {false, "documents:131", 1, 67, 131, 2, 2, 64, 64},
    {true, "causal+documents:64,64,3", 2, 131, 131, 4, 1, 64, 64},
    {false, "documents:30,37", 1, 131, 67, 2, 2, 64, 64},
    {false, "documents:100,97+window:20,50", 1, 197, 197, 2, 2, 80, 80},
    {false, "causal+window:50+documents:100,97", 1, 197, 197, 4, 2, 64, 64},
    /* few queries against many keys */
    {true, "full", 1, 1, 1031, 8, 2, 128, 128},
    {false, "full", 2, 1, 4099, 4, 1, 64, 64},
    {true, "causal", 1, 3, 2053, 4, 4, 64, 64},
    {false, "causal+window:300,0", 1, 2, 4099, 2, 2, 80, 80},
    {false, "causal+documents:4000,99", 1, 5, 4099, 2, 1, 128, 64},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static const ra_dtype DTYPES[] = {RA_F32, RA_F16, RA_BF16};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES, LAYOUT_COUNT = 2 };

/* ---- Tensors in both layouts, with the same contents ------------------------------------------------------------- */

enum { QUERY, KEY, VALUE, OUTPUT, LSE, TENSOR_COUNT, MOST_DIM = 1024 };

typedef struct verify_data {
    ra_tensor tensors[LAYOUT_COUNT][TENSOR_COUNT];
    ra_row *rows;            /* all of them, in the order of a [batch, seq, heads, dim] output */
    double *output, *lse;    /* the oracle's, in the same order, */
    double *spreads, *sizes; /* with what their tolerances follow */
} verify_data;

static bool tensor_make(ra_tensor *tensor, ra_dtype dtype, ra_layout layout, int64_t batch, int64_t seq, int64_t heads,
                        int64_t dim)
{
    void *data = calloc((size_t)(batch * seq * heads * dim), ra_dtype_size(dtype));
    *tensor = ra_tensor_dense(data, dtype, layout, batch, seq, heads, dim);
    return data != NULL;
}

/* The element's place in [batch, seq, heads, dim] is its place in the stream, whatever the layout. */
static void tensor_fill(const ra_tensor *t, uint64_t seed)
{
    float values[MOST_DIM];
    for (int64_t row = 0; row < t->batch * t->seq * t->heads; row++) {
        ra_generate(RA_NORMAL, seed, row * t->dim, t->dim, values);
        for (int64_t d = 0; d < t->dim; d++)
            ra_tensor_set(t, row / t->heads / t->seq, row / t->heads % t->seq, row % t->heads, d, values[d]);
    }
}

static bool data_make(verify_data *data, const verify_case *c, ra_dtype dtype)
{
    bool made = true;
    *data = (verify_data){0};
    for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
        ra_tensor *t = data->tensors[layout];
        made &= tensor_make(&t[QUERY], dtype, (ra_layout)layout, c->batch, c->q_len, c->heads, c->head_dim);
        made &= tensor_make(&t[KEY], dtype, (ra_layout)layout, c->batch, c->kv_len, c->kv_heads, c->head_dim);
        made &= tensor_make(&t[VALUE], dtype, (ra_layout)layout, c->batch, c->kv_len, c->kv_heads, c->value_dim);
        made &= tensor_make(&t[OUTPUT], dtype, (ra_layout)layout, c->batch, c->q_len, c->heads, c->value_dim);
        made &= tensor_make(&t[LSE], RA_F32, (ra_layout)layout, c->batch, c->q_len, c->heads, 1);
        for (int i = QUERY; i <= VALUE && made; i++)
            tensor_fill(&t[i], (uint64_t)(1 + i));
    }
    size_t rows = (size_t)(c->batch * c->q_len * c->heads);
    data->output = malloc(rows * (size_t)c->value_dim * sizeof *data->output);
    data->spreads = malloc(rows * (size_t)c->value_dim * sizeof *data->spreads);
    data->lse = malloc(rows * sizeof *data->lse);
    data->sizes = malloc(rows * sizeof *data->sizes);
    data->rows = malloc(rows * sizeof *data->rows);
    for (size_t i = 0; data->rows && i < rows; i++) {
        int64_t row = (int64_t)i;
        data->rows[i] =
            (ra_row){.batch = row / c->heads / c->q_len, .seq = row / c->heads % c->q_len, .head = row % c->heads};
    }
    return made && data->output && data->spreads && data->lse && data->sizes && data->rows;
}

static void data_free(verify_data *data)
{
    for (int layout = 0; layout < LAYOUT_COUNT; layout++)
        for (int i = 0; i < TENSOR_COUNT; i++)
            free(data->tensors[layout][i].data);
    free(data->output);
    free(data->spreads);
    free(data->lse);
    free(data->sizes);
    free(data->rows);
}

/* ---- Comparing --------------------------------------------------------------------------------------------------- */

static ra_status plan_make(const verify_case *c, ra_kernel_id kernel, ra_plan **plan)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.batch = c->batch;
    problem.q_len = c->q_len, problem.kv_len = c->kv_len;
    problem.heads = c->heads, problem.kv_heads = c->kv_heads;
    problem.head_dim = c->head_dim, problem.value_dim = c->value_dim;
    problem.pattern = c->pattern;
    ra_options options = RA_OPTIONS_INIT;
    options.kernel = kernel;
    return ra_plan_create(&problem, &options, plan);
}

static ra_status reference(const verify_case *c, verify_data *data)
{
    const ra_tensor *t = data->tensors[RA_BSHD];
    ra_storage *storages[VALUE + 1] = {NULL};
    ra_plan *plan = NULL;
    ra_status status = plan_make(c, RA_KERNEL_GENERIC, &plan);
    for (int i = QUERY; i <= VALUE && !status; i++)
        status = ra_storage_memory(&t[i], &storages[i]);
    if (!status)
        status = ra_reference_rows_sized(plan, storages[QUERY], storages[KEY], storages[VALUE], data->rows,
                                         c->batch * c->q_len * c->heads, data->output, data->lse, data->spreads,
                                         data->sizes);
    for (int i = QUERY; i <= VALUE; i++)
        ra_storage_free(storages[i]);
    ra_plan_free(plan);
    return status;
}

/* The largest errors, and whether each is within its tolerance. */
typedef struct verdict {
    double output_error, lse_error;
    bool ok;
} verdict;

static void judge(double error, double tolerance, double *largest, bool *ok)
{
    *largest = fmax(*largest, error);
    *ok &= error <= tolerance;
}

static void measure(const verify_case *c, const verify_data *data, int layout, verdict *found)
{
    const ra_tensor *output = &data->tensors[layout][OUTPUT], *lse = &data->tensors[layout][LSE];
    int64_t rows = c->batch * c->q_len * c->heads;
    for (int64_t i = 0; i < rows; i++) {
        const ra_row *row = &data->rows[i];
        const double *expected = data->output + i * c->value_dim, *spread = data->spreads + i * c->value_dim;
        for (int64_t d = 0; d < c->value_dim; d++)
            judge(distance(ra_tensor_get(output, row->batch, row->seq, row->head, d), expected[d], output->dtype),
                  output_tolerance(c->head_dim, data->sizes[i], spread[d], expected[d]), &found->output_error,
                  &found->ok);
        judge(distance(ra_tensor_get(lse, row->batch, row->seq, row->head, 0), data->lse[i], RA_F32),
              lse_tolerance(c->head_dim, data->sizes[i]), &found->lse_error, &found->ok);
    }
}

/* One line of the table: both layouts with one kernel. */
static ra_status verify_kernel(const verify_case *c, verify_data *data, ra_dtype dtype, ra_kernel_id kernel, bool *ok)
{
    verdict found = {.ok = true};
    ra_plan *plan = NULL;
    ra_status status = plan_make(c, kernel, &plan);
    for (int layout = 0; layout < LAYOUT_COUNT && !status; layout++) {
        const ra_tensor *t = data->tensors[layout];
        status = ra_forward(plan, &t[QUERY], &t[KEY], &t[VALUE], &t[OUTPUT], &t[LSE], NULL);
        if (!status)
            measure(c, data, layout, &found);
    }
    ra_plan_free(plan);
    if (status)
        return status;
    char shape[80];
    snprintf(shape, sizeof shape, "%lld x %lld:%lld x %lld:%lld x %lld:%lld", (long long)c->batch, (long long)c->q_len,
             (long long)c->kv_len, (long long)c->heads, (long long)c->kv_heads, (long long)c->head_dim,
             (long long)c->value_dim);
    *ok = found.ok;
    printf("%-34s %-30s %-9s %-8s %.1e  %.1e  %s\n", c->pattern, shape, ra_dtype_name(dtype), ra_kernel_name(kernel),
           found.output_error, found.lse_error, *ok ? "ok" : "FAILED");
    return RA_OK;
}

static ra_status verify_dtype(const verify_case *c, ra_dtype dtype, int *lines, int *failures)
{
    verify_data data;
    ra_status status = RA_OK;
    if (!data_make(&data, c, dtype)) {
        data_free(&data);
        return RA_ERROR_MEMORY;
    }
    status = reference(c, &data);
    for (int id = RA_KERNEL_GENERIC; ra_kernel_name((ra_kernel_id)id) && !status; id++) {
        bool ok = false;
        if (!ra_kernel_available((ra_kernel_id)id))
            continue;
        status = verify_kernel(c, &data, dtype, (ra_kernel_id)id, &ok);
        ++*lines;
        *failures += !ok;
    }
    data_free(&data);
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
        .summary = "The library against its double-precision oracle: patterns, shapes, dtypes and the kernels of\n"
                   "this machine, in both layouts, on standard-normal inputs.",
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
    printf("%-34s %-30s %-9s %-8s %-7s  %s\n", "pattern", "shape", "dtype", "kernel", "output", "lse");
    for (int i = 0; i < CASE_COUNT; i++)
        for (int d = 0; d < DTYPE_COUNT && (CASES[i].quick || !quick); d++) {
            ra_status status = verify_dtype(&CASES[i], DTYPES[d], &lines, &failures);
            if (status == RA_ERROR_MEMORY)
                return report(EXIT_USAGE, "out of memory");
            if (status)
                return report_failure(status);
            if (interrupted())
                return interrupt_exit();
        }
    printf("\ntolerance: output %.0e, lse %.0e, more for rows of large scores\n", OUTPUT_TOLERANCE, LSE_TOLERANCE);
    printf("%s: %d of %d lines within tolerance\n", failures ? "FAILED" : "ok", lines - failures, lines);
    return failures ? EXIT_WORK : EXIT_OK;
}
