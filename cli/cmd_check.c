/* ringattn check: trust a result by recomputing some of its rows with the oracle. */
#include "attention_files.h"
#include "commands.h"
#include "compare.h"
#include "progress.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct check_job {
    attention_files inputs;
    const char *output_path, *lse_path;
    int64_t rows;
    double tolerance;

    ra_problem problem;
    ra_plan *plan;
    tensor_file output, lse;
} check_job;

/* The largest distance so far, and where it was. */
typedef struct worst {
    double distance;
    int64_t batch, head, query;
} worst;

static int parse(check_job *job, int argc, char **argv)
{
    arg_option options[ATTENTION_OPTIONS + 4];
    const arg_option own[] = {
        {.name = "output",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &job->output_path,
         .help = "the result to check"},
        {.name = "lse",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->lse_path,
         .help = "its log-sum-exp, to be checked too"},
        {.name = "rows",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .target = &job->rows,
         .min = 1,
         .max = INT64_MAX,
         .help = "rows to recompute, spread over batch, heads and queries (default 64)"},
        {.name = "tolerance",
         .kind = ARG_REAL,
         .metavar = "X",
         .target = &job->tolerance,
         .help = "largest error of the output, beyond the rounding of the stored value\n"
                 "(default 2e-6); a log-sum-exp may be off by 2e-5"},
    };
    *job = (check_job){.rows = 64, .tolerance = OUTPUT_TOLERANCE};
    attention_files_options(&job->inputs, options);
    memcpy(options + ATTENTION_OPTIONS, own, sizeof own);
    const arg_command command = {
        .verb = "check",
        .summary = "Recompute sampled rows of a result in double precision and report the largest error.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .notes = "The default tolerance is for inputs of unit variance. Exit code 1: a row is out of tolerance.",
        .example = "ringattn check --query q.npy --key k.npy --value v.npy --output o.npy --pattern causal",
    };
    return args_parse(&command, argc, argv);
}

static int open_results(check_job *job)
{
    const ra_problem *p = &job->problem;
    int code = tensor_file_open(&job->output, job->output_path, (tensor_axes)job->inputs.layout);
    if (!code)
        code = tensor_file_open(&job->lse, job->lse_path, AXES_BHS);
    if (code)
        return code;
    const tensor_file *results[] = {&job->output, &job->lse};
    const int64_t dims[] = {p->value_dim, 1};
    for (int i = 0; i < 2; i++) {
        const ra_tensor *t = &results[i]->tensor;
        char text[256];
        if (results[i]->path &&
            (t->batch != p->batch || t->seq != p->q_len || t->heads != p->heads || t->dim != dims[i]))
            return report(EXIT_USAGE, "%s: expected batch %lld, length %lld, heads %lld, dim %lld",
                          tensor_file_describe(results[i], text, sizeof text), (long long)p->batch, (long long)p->q_len,
                          (long long)p->heads, (long long)dims[i]);
    }
    return EXIT_OK;
}

static int load(check_job *job)
{
    attention_files *in = &job->inputs;
    tensor_file *const files[ATTENTION_FILES] = {&in->query, &in->key, &in->value, &job->output, &job->lse};
    int code = tensor_files_allocate(files, ATTENTION_FILES);
    if (!code)
        code = attention_files_load(in);
    if (!code)
        code = tensor_file_load(&job->output);
    return code ? code : tensor_file_load(&job->lse);
}

/* One row out of each of `parts` nearly equal parts of [0, total), scattered so that no period of the data is met. */
static int64_t sample(int64_t part, int64_t parts, int64_t total)
{
    int64_t size = total / parts, rest = total % parts;
    int64_t first = part * size + (part < rest ? part : rest), count = size + (part < rest);
    uint64_t scattered = (uint64_t)(part + 1) * 0x9e3779b97f4a7c15U;
    return first + (int64_t)((scattered >> 1) % (uint64_t)count);
}

static void keep_worst(worst *w, double distance, int64_t batch, int64_t head, int64_t query)
{
    if (distance > w->distance)
        *w = (worst){distance, batch, head, query};
}

static ra_status compare_rows(check_job *job, int64_t rows, int64_t total, double *row, worst *output, worst *lse)
{
    const ra_problem *p = &job->problem;
    const attention_files *in = &job->inputs;
    progress bar;
    ra_status status = RA_OK;
    progress_start(&bar, "check", "rows/s", 1);
    for (int64_t i = 0; i < rows && !status; i++) {
        int64_t at = sample(i, rows, total);
        int64_t query = at % p->q_len, head = at / p->q_len % p->heads, batch = at / p->q_len / p->heads;
        double expected_lse;
        status = ra_reference_row(job->plan, &in->query.tensor, &in->key.tensor, &in->value.tensor, batch, head, query,
                                  row, &expected_lse);
        for (int64_t d = 0; d < p->value_dim && !status; d++)
            keep_worst(
                output,
                distance(ra_tensor_get(&job->output.tensor, batch, query, head, d), row[d], job->output.tensor.dtype),
                batch, head, query);
        if (!status && job->lse_path)
            keep_worst(lse, distance(ra_tensor_get(&job->lse.tensor, batch, query, head, 0), expected_lse, RA_F32),
                       batch, head, query);
        if (!status && progress_step(&bar, (double)(i + 1), (double)rows))
            status = RA_ERROR_CANCELLED;
    }
    progress_end(&bar);
    return status;
}

static bool print_worst(const char *what, const worst *w, double tolerance)
{
    bool ok = w->distance <= tolerance;
    printf("%s: largest error %.2e, tolerance %.2e: %s", what, w->distance, tolerance, ok ? "ok" : "FAILED");
    if (!ok)
        printf(" at batch %lld, head %lld, query %lld", (long long)w->batch, (long long)w->head, (long long)w->query);
    putchar('\n');
    return ok;
}

static int check_rows(check_job *job)
{
    const ra_problem *p = &job->problem;
    int64_t total = p->batch * p->heads * p->q_len, rows = job->rows < total ? job->rows : total;
    worst output = {0}, lse = {0};
    double *row = malloc((size_t)p->value_dim * sizeof *row);
    if (!row)
        return report(EXIT_USAGE, "out of memory: a row of %lld values", (long long)p->value_dim);
    ra_status status = compare_rows(job, rows, total, row, &output, &lse);
    free(row);
    if (status)
        return report_failure(status);
    printf("%lld of %lld rows recomputed\n", (long long)rows, (long long)total);
    bool ok = print_worst("output", &output, job->tolerance);
    if (job->lse_path)
        ok &= print_worst("lse", &lse, LSE_TOLERANCE);
    return ok ? EXIT_OK : EXIT_WORK;
}

int cmd_check(int argc, char **argv)
{
    check_job job;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    code = attention_files_open(&job.inputs, &job.problem);
    if (!code)
        code = open_results(&job);
    if (!code && ra_plan_create(&job.problem, NULL, &job.plan))
        code = report_refusal();
    if (!code)
        code = load(&job);
    if (!code)
        code = check_rows(&job);
    ra_plan_free(job.plan);
    tensor_file_close(&job.lse);
    tensor_file_close(&job.output);
    attention_files_close(&job.inputs);
    return code;
}
