/* ringattn attend: attention over .npy files. Everything that can be refused is refused before the work begins. */
#include "attention_files.h"
#include "commands.h"
#include "output_file.h"
#include "progress.h"
#include "report.h"
#include "stats_json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct attend_job {
    attention_files inputs;
    const char *output_path, *lse_path, *stats_path;
    int64_t threads;
    int kernel; /* index of the kernel's name, -1: not given */

    ra_problem problem;
    ra_plan *plan;
    progress bar;
    tensor_file output, lse;
    output_file stats; /* open only when statistics are asked for */
} attend_job;

static const char *const KERNELS[] = {"generic", "avx2", "avx512", NULL};
static const ra_kernel_id KERNEL_IDS[] = {RA_KERNEL_GENERIC, RA_KERNEL_AVX2, RA_KERNEL_AVX512};

static int parse(attend_job *job, int argc, char **argv)
{
    arg_option options[ATTENTION_OPTIONS + 5];
    const arg_option own[] = {
        {.name = "output",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &job->output_path,
         .help = "result: .npy in the query's dtype, layout and number of axes"},
        {.name = "lse",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->lse_path,
         .help = "log-sum-exp of the scaled scores: .npy, float32 [batch, heads, q_len]"},
        {.name = "threads",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .target = &job->threads,
         .min = 1,
         .max = 4096,
         .help = "threads (default: the cores this process may use)"},
        {.name = "kernel",
         .kind = ARG_CHOICE,
         .metavar = "NAME",
         .target = &job->kernel,
         .choices = KERNELS,
         .help = "generic, avx2 or avx512 (default: the fastest here, or what RA_KERNEL says)"},
        {.name = "stats",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->stats_path,
         .help = "statistics of the run as JSON; - means standard output"},
    };
    *job = (attend_job){.kernel = -1};
    attention_files_options(&job->inputs, options);
    memcpy(options + ATTENTION_OPTIONS, own, sizeof own);
    const arg_command command = {
        .verb = "attend",
        .summary = "Exact softmax attention of the queries over the keys and values, from and to .npy files.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .notes = "The output files appear when everything has succeeded, and not before.",
        .example = "ringattn attend --query q.npy --key k.npy --value v.npy --output o.npy --pattern causal",
    };
    return args_parse(&command, argc, argv);
}

/* The name under which `path` is written first must not be another file's, which would be taken for a leftover. */
static int check_temporary(const char *option, const char *path, const char *other_option, const char *other)
{
    char *temporary = path && other ? temporary_name(path) : NULL;
    int code = EXIT_OK;
    if (path && other && !temporary)
        code = report(EXIT_USAGE, "--%s %s: out of memory", option, path);
    else if (same_file(temporary, other))
        code = report(EXIT_USAGE, "--%s %s: the temporary name of --%s %s", other_option, other, option, path);
    free(temporary);
    return code;
}

/* Files that the pattern names after '@', up to the next '+', are read too. */
static int check_pattern_paths(const attend_job *job, const char *option, const char *path)
{
    for (const char *at = job->inputs.pattern; path && at && (at = strchr(at, '@')); at++) {
        char named[PATH_MAX];
        snprintf(named, sizeof named, "%.*s", (int)strcspn(at + 1, "+"), at + 1);
        if (same_file(path, named))
            return report(EXIT_USAGE, "--%s %s: the same file as in --pattern", option, path);
        if (check_temporary(option, path, "pattern", named))
            return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* No file may be both read and written, or written twice. */
static int check_paths(const attend_job *job)
{
    const struct {
        const char *option, *path;
    } files[] = {{"query", job->inputs.query_path}, {"key", job->inputs.key_path}, {"value", job->inputs.value_path},
                 {"output", job->output_path},      {"lse", job->lse_path},        {"stats", job->stats_path}};
    enum { INPUTS = 3, FILES = sizeof files / sizeof *files };
    int code = EXIT_OK;
    for (int written = INPUTS; written < FILES && !code; written++) {
        code = check_pattern_paths(job, files[written].option, files[written].path);
        for (int other = 0; other < written && !code; other++)
            if (same_file(files[written].path, files[other].path))
                code = report(EXIT_USAGE, "--%s %s: the same file as --%s", files[written].option, files[written].path,
                              files[other].option);
        for (int other = 0; other < FILES && !code; other++)
            code = check_temporary(files[written].option, files[written].path, files[other].option, files[other].path);
    }
    return code;
}

static int make_plan(attend_job *job)
{
    ra_options options = RA_OPTIONS_INIT;
    options.threads = (int)job->threads;
    options.kernel = job->kernel < 0 ? RA_KERNEL_AUTO : KERNEL_IDS[job->kernel];
    options.progress = progress_step;
    options.progress_user = &job->bar;
    return ra_plan_create(&job->problem, &options, &job->plan) ? report_refusal() : EXIT_OK;
}

static int create_outputs(attend_job *job)
{
    const ra_problem *p = &job->problem;
    const tensor_file *query = &job->inputs.query;
    int code = tensor_file_create(&job->output, job->output_path, (tensor_axes)job->inputs.layout, query->dims,
                                  query->tensor.dtype, p->batch, p->q_len, p->heads, p->value_dim);
    if (!code)
        code = tensor_file_create(&job->lse, job->lse_path, AXES_BHS, 3, RA_F32, p->batch, p->q_len, p->heads, 1);
    if (!code && job->stats_path)
        code = output_file_open(&job->stats, job->stats_path);
    return code;
}

static int take_memory(attend_job *job)
{
    attention_files *in = &job->inputs;
    tensor_file *const files[ATTENTION_FILES] = {&in->query, &in->key, &in->value, &job->output, &job->lse};
    return tensor_files_allocate(files, ATTENTION_FILES);
}

static int compute(attend_job *job, ra_stats *stats)
{
    ra_plan_info info = RA_PLAN_INFO_INIT;
    if (ra_plan_describe(job->plan, &info))
        return report_refusal();
    double pair_gflop = info.pairs_visible > 0 ? 1e-9 * info.flops / info.pairs_visible : 0;
    progress_start(&job->bar, "attend", "Gflop/s", pair_gflop);
    const attention_files *in = &job->inputs;
    ra_status status = ra_forward(job->plan, &in->query.tensor, &in->key.tensor, &in->value.tensor, &job->output.tensor,
                                  job->lse_path ? &job->lse.tensor : NULL, stats);
    progress_end(&job->bar);
    return status ? report_failure(status) : EXIT_OK;
}

static int write_stats(attend_job *job, const ra_stats *stats, double started)
{
    run_record record = {&job->problem, stats, job->output.tensor.dtype, (ra_layout)job->inputs.layout,
                         progress_clock() - started};
    if (stats_json_write(&record, job->stats.stream))
        return report(EXIT_WORK, "%s: cannot write the statistics", job->stats.path);
    return output_file_finish(&job->stats);
}

/* Everything is written under temporary names first; then the names change, which is quick and hardly fails. */
static int deliver(attend_job *job, const ra_stats *stats, double started)
{
    int code = tensor_file_save(&job->output);
    if (!code)
        code = tensor_file_save(&job->lse);
    if (!code && job->stats_path)
        code = write_stats(job, stats, started);
    if (!code)
        code = tensor_file_commit(&job->output);
    if (!code)
        code = tensor_file_commit(&job->lse);
    if (!code && job->stats_path)
        code = output_file_commit(&job->stats);
    return code;
}

int cmd_attend(int argc, char **argv)
{
    double started = progress_clock();
    ra_stats stats = RA_STATS_INIT;
    attend_job job;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    code = attention_files_open(&job.inputs, &job.problem);
    if (!code)
        code = check_paths(&job);
    if (!code)
        code = make_plan(&job);
    if (!code)
        code = create_outputs(&job);
    if (!code)
        code = take_memory(&job);
    if (!code)
        code = attention_files_load(&job.inputs);
    if (!code)
        code = compute(&job, &stats);
    if (!code)
        code = deliver(&job, &stats, started);
    output_file_close(&job.stats);
    tensor_file_close(&job.lse);
    tensor_file_close(&job.output);
    ra_plan_free(job.plan);
    attention_files_close(&job.inputs);
    return code;
}
