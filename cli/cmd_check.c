/* ringattn check: trust a result by recomputing some of its rows with the oracle. */
#include "commands.h"
#include "report.h"
#include "sampled_rows.h"

#include <math.h>
#include <string.h>

typedef struct check_job {
    attention_files inputs;
    const char *output_path, *lse_path;
    int64_t rows;
    double tolerance;

    ra_problem problem;
    ra_plan *plan;
    tensor_file output, lse;
    sampled_result sample[SAMPLED_RESULTS];
    progress bar;
} check_job;

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
         .help = "largest error of the output, beyond the rounding of the stored value (default\n"
                 "2e-6, a log-sum-exp 2e-5, and more where scores or values are large)"},
    };
    *job = (check_job){.rows = SAMPLED_ROWS, .tolerance = NAN};
    attention_files_options(&job->inputs, options);
    memcpy(options + ATTENTION_OPTIONS, own, sizeof own);
    const arg_command command = {
        .verb = "check",
        .summary = "Recompute sampled rows of a result in double precision and report the largest error.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .notes = "Keys and values pass by once, in little memory. The default tolerance is 2e-6 for inputs of unit\n"
                 "variance and grows with the rounding of larger scores (docs/MATH.md).\n"
                 "Exit code 1: a row is out of tolerance.",
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
    code = tensor_file_expect(&job->output, p->batch, p->q_len, p->heads, p->value_dim);
    return code ? code : tensor_file_expect(&job->lse, p->batch, p->q_len, p->heads, 1);
}

/* The rows that are looked at, of each result that there is. */
static int read_sample(check_job *job)
{
    tensor_file *const files[] = {[SAMPLED_OUTPUT] = &job->output, [SAMPLED_LSE] = &job->lse};
    const double tolerances[] = {[SAMPLED_OUTPUT] = job->tolerance, [SAMPLED_LSE] = NAN};
    int code = EXIT_OK;
    sampled_rows_init(job->sample);
    for (int i = 0; i < SAMPLED_RESULTS && !code; i++) {
        if (!files[i]->path)
            continue;
        code = sampled_rows_take(job->sample, i, files[i], job->rows, tolerances[i]);
        if (!code)
            code = sampled_result_read(&job->sample[i]);
    }
    return code;
}

static int make_plan(check_job *job)
{
    ra_options options = RA_OPTIONS_INIT;
    options.progress = progress_step;
    options.progress_user = &job->bar;
    return ra_plan_create(&job->problem, &options, &job->plan) ? report_refusal() : EXIT_OK;
}

static int check(check_job *job)
{
    int code = attention_files_open(&job->inputs, &job->problem);
    if (!code)
        code = open_results(job);
    if (!code)
        code = make_plan(job);
    if (!code)
        code = read_sample(job);
    if (!code)
        code = sampled_rows_compare(job->sample, job->plan, &job->inputs, &job->bar);
    if (code)
        return code;
    sampled_results_print(job->sample, SAMPLED_RESULTS);
    return sampled_results_ok(job->sample, SAMPLED_RESULTS) ? EXIT_OK : EXIT_WORK;
}

int cmd_check(int argc, char **argv)
{
    check_job job;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    code = check(&job);
    sampled_results_free(job.sample, SAMPLED_RESULTS);
    ra_plan_free(job.plan);
    tensor_file_close(&job.lse);
    tensor_file_close(&job.output);
    attention_files_close(&job.inputs);
    return code;
}
