/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn check: trust a result by recomputing some of its rows with the oracle. Results are an output, its
 * log-sum-exp, and gradients, whoever has computed them.
 */
#include "commands.h"
#include "report.h"
#include "sampled_gradients.h"
#include "sampled_rows.h"

#include <math.h>
#include <string.h>

enum { RESULTS = SAMPLED_RESULTS + GRADIENTS };

typedef struct check_job {
    attention_files inputs;
    gradient_files files;
    int64_t rows;
    double tolerance;

    ra_problem problem;
    ra_plan *plan;
    sampled_result sample[RESULTS]; /* output and log-sum-exp, then gradients */
    progress bar;
} check_job;

static void describe_gradients(arg_option options[GRADIENT_OPTIONS])
{
    static const char QUERY[] = "gradient of the queries, to be checked; --output and --lse are then those of its\n"
                                "forward pass, without them a forward pass is run first";
    static const char *const HELP[GRADIENTS] = {QUERY, "gradient of the keys, to be checked",
                                                "gradient of the values, to be checked"};
    for (int i = 0; i < GRADIENTS; i++)
        options[GRADIENT_OPTIONS - GRADIENTS + i].help = HELP[i];
}

static int parse(check_job *job, int argc, char **argv)
{
    enum { OWN = 4 };
    arg_option options[ATTENTION_OPTIONS + OWN + GRADIENT_OPTIONS];
    const arg_option own[OWN] = {
        {.name = "output",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->files.output_path,
         .help = "the result to check"},
        {.name = "lse",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->files.lse_path,
         .help = "its log-sum-exp, to be checked too"},
        {.name = "rows",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .target = &job->rows,
         .min = 1,
         .max = INT64_MAX,
         .help = "rows to recompute of each result, spread over batch, heads and positions\n"
                 "(default 64)"},
        {.name = "tolerance",
         .kind = ARG_REAL,
         .metavar = "X",
         .target = &job->tolerance,
         .help = "largest error of the output and of gradients, beyond the rounding of the stored\n"
                 "value (default 2e-6, a log-sum-exp 2e-5, and more where scores or values are\n"
                 "large; of gradients what float32 arithmetic costs)"},
    };
    *job = (check_job){.rows = SAMPLED_ROWS, .tolerance = NAN};
    attention_files_options(&job->inputs, options);
    memcpy(options + ATTENTION_OPTIONS, own, sizeof own);
    gradient_files_options(&job->files, options + ATTENTION_OPTIONS + OWN);
    describe_gradients(options + ATTENTION_OPTIONS + OWN);
    const arg_command command = {
        .verb = "check",
        .summary = "Recompute sampled rows of a result in double precision and report the largest error. A result is\n"
                   "an output or gradients, of this library or of another one.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .notes =
            "Keys and values are read once, in little memory; for gradients of keys and values, queries are. The\n"
            "default tolerance is 2e-6 for inputs of unit variance. It grows with the rounding of larger scores, and\n"
            "where all tensors are bfloat16 with that of weights in products of bfloat16 (docs/MATH.md).\n"
            "A forward pass that is run first takes memory for all tensors.\n"
            "Exit code 1: a row is out of tolerance.",
        .example = "ringattn check --query q.npy --key k.npy --value v.npy --output o.npy --pattern causal",
    };
    return args_parse(&command, argc, argv);
}

static bool wants_gradients(const check_job *job)
{
    const gradient_files *f = &job->files;
    return gradient_files_any(f) || f->output_gradient_path || f->lse_gradient_path;
}

static int check_options(const check_job *job)
{
    if (wants_gradients(job))
        return gradient_files_check(&job->files, false);
    return job->files.output_path ? EXIT_OK : report(EXIT_USAGE, "--output FILE is missing: see ringattn check --help");
}

static int open_results(check_job *job)
{
    gradient_files *f = &job->files;
    int code = gradient_files_open(f, &job->inputs, &job->problem);
    for (int i = 0; i < GRADIENTS && !code; i++) {
        const tensor_shape s = gradient_shape(i, &job->inputs);
        code = tensor_file_open(&f->gradients[i], f->paths[i], (tensor_axes)job->inputs.layout);
        if (!code)
            code = tensor_file_expect(&f->gradients[i], s.batch, s.seq, s.heads, s.dim);
    }
    return code;
}

static int take(check_job *job, int which, tensor_file *file)
{
    if (which >= SAMPLED_RESULTS)
        return sampled_gradients_take(job->sample + SAMPLED_RESULTS, which - SAMPLED_RESULTS, file, job->rows,
                                      job->tolerance);
    return sampled_rows_take(job->sample, which, file, job->rows, which == SAMPLED_LSE ? NAN : job->tolerance);
}

/* Choose the rows of each result that are recomputed. */
static int read_sample(check_job *job)
{
    gradient_files *f = &job->files;
    tensor_file *const files[RESULTS] = {&f->output, &f->lse, &f->gradients[0], &f->gradients[1], &f->gradients[2]};
    int code = EXIT_OK;
    sampled_rows_init(job->sample);
    sampled_gradients_init(job->sample + SAMPLED_RESULTS);
    for (int i = 0; i < RESULTS && !code; i++) {
        if (!files[i]->path)
            continue;
        code = take(job, i, files[i]);
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

/* The forward pass that gradients belong to, if its results are not given: all tensors in memory. */
static int run_forward(check_job *job)
{
    attention_files *in = &job->inputs;
    gradient_files *f = &job->files;
    enum { INPUTS = 3, FILES = 5 };
    tensor_file *const files[FILES] = {&in->query, &in->key, &in->value, &f->output, &f->lse};
    if (f->output_path)
        return EXIT_OK;
    gradient_files_hold_forward(f, in);
    int code = tensor_files_allocate(files, FILES);
    for (int i = 0; i < INPUTS && !code; i++)
        code = tensor_file_load(files[i]);
    return code ? code : gradient_files_forward(f, in, job->plan, &job->bar, NULL);
}

static int compare(check_job *job)
{
    int code = EXIT_OK;
    if (job->files.output_path)
        code = sampled_rows_compare(job->sample, job->plan, &job->inputs, &job->bar);
    if (code || !wants_gradients(job))
        return code;
    code = run_forward(job);
    if (!code)
        code =
            sampled_gradients_compare(job->sample + SAMPLED_RESULTS, job->plan, &job->inputs, &job->files, &job->bar);
    return code;
}

static int check(check_job *job)
{
    const gradient_files *f = &job->files;
    job->inputs.others_made_up = gen_named(f->output_gradient_path) || gen_named(f->lse_gradient_path);
    int code = check_options(job);
    if (!code)
        code = attention_files_open(&job->inputs, &job->problem);
    if (!code)
        code = open_results(job);
    if (!code)
        code = make_plan(job);
    if (!code)
        code = read_sample(job);
    if (!code)
        code = compare(job);
    if (code)
        return code;
    sampled_results_print(job->sample, RESULTS);
    return sampled_results_ok(job->sample, RESULTS) ? EXIT_OK : EXIT_WORK;
}

int cmd_check(int argc, char **argv)
{
    check_job job;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    code = check(&job);
    sampled_results_free(job.sample, RESULTS);
    ra_plan_free(job.plan);
    gradient_files_close(&job.files);
    attention_files_close(&job.inputs);
    return code;
}
