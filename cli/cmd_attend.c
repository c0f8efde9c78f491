/* ringattn attend: attention over .npy files. Everything that can be refused is refused before the work begins. */
#include "attention_files.h"
#include "commands.h"
#include "job.h"
#include "output_file.h"
#include "progress.h"
#include "report.h"
#include "ring_args.h"
#include "ring_run.h"
#include "stats_json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct attend_job {
    attention_files inputs;
    const char *output_path, *lse_path, *stats_path;
    ring_args ring;

    ra_problem problem;
    ra_plan *plan; /* in one piece, */
    ring_run over; /* or over ranks */
    bool spread;
    progress bar;
    tensor_file output, lse;
    output_file stats; /* open only when statistics are asked for */
} attend_job;

static int parse(attend_job *job, int argc, char **argv)
{
    enum { OWN = 3 };
    arg_option options[ATTENTION_OPTIONS + OWN + RING_OPTIONS];
    const arg_option own[OWN] = {
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
        {.name = "stats",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->stats_path,
         .help = "statistics of the run as JSON; - means standard output"},
    };
    *job = (attend_job){0};
    attention_files_options(&job->inputs, options);
    memcpy(options + ATTENTION_OPTIONS, own, sizeof own);
    ring_args_options(&job->ring, options + ATTENTION_OPTIONS + OWN);
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

/* In one piece or over ranks; everything that can be refused is refused here. */
static int make_plan(attend_job *job)
{
    const attention_files *in = &job->inputs;
    if (job->spread) {
        job->over.problem = &job->problem;
        job->over.args = &job->ring;
        int code = ring_args_check(&job->ring, job_size(), &job->over.ranks);
        return code ? code : ring_run_plan(&job->over, &in->query, &in->key, &in->value, job->lse_path != NULL);
    }
    ra_options options = ring_args_run(&job->ring);
    options.progress = progress_step;
    options.progress_user = &job->bar;
    return ra_plan_create(&job->problem, &options, &job->plan) ? report_refusal() : EXIT_OK;
}

typedef int (*file_maker)(tensor_file *file, const char *path, tensor_axes axes, const tensor_shape *shape);

static int make_outputs(attend_job *job, file_maker maker)
{
    const ra_problem *p = &job->problem;
    const tensor_file *query = &job->inputs.query;
    const tensor_shape output = {query->dims, query->tensor.dtype, p->batch, p->q_len, p->heads, p->value_dim};
    const tensor_shape lse = {3, RA_F32, p->batch, p->q_len, p->heads, 1};
    int code = maker(&job->output, job->output_path, (tensor_axes)job->inputs.layout, &output);
    return code ? code : maker(&job->lse, job->lse_path, AXES_BHS, &lse);
}

/* The first process of a job makes the files; the others write their rows into them. */
static int create_outputs(attend_job *job)
{
    int code = EXIT_OK;
    if (job_rank() == 0) {
        code = make_outputs(job, tensor_file_create);
        if (!code && job->stats_path)
            code = output_file_open(&job->stats, job->stats_path);
    }
    code = job_agree(code);
    if (!code && job_rank() > 0)
        code = make_outputs(job, tensor_file_join);
    return job_agree(code);
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

/* The whole tensors in memory, one run. */
static int run_in_one_piece(attend_job *job, ra_stats *stats)
{
    int code = take_memory(job);
    if (!code)
        code = attention_files_load(&job->inputs);
    if (!code)
        code = compute(job, stats);
    if (!code)
        code = tensor_file_save(&job->output);
    return code ? code : tensor_file_save(&job->lse);
}

static int run_over_ranks(attend_job *job)
{
    attention_files *in = &job->inputs;
    tensor_file *const files[RING_FILES] = {&in->query, &in->key, &in->value, &job->output, &job->lse};
    int code = ring_run_execute(&job->over, files);
    if (!code && job_rank() > 0) { /* before the first process gives the files their names */
        tensor_file_close(&job->lse);
        tensor_file_close(&job->output);
    }
    return code ? code : job_agree(code);
}

static int write_stats(attend_job *job, const ra_stats *stats, double started)
{
    run_record record = {.problem = &job->problem,
                         .stats = job->spread ? NULL : stats,
                         .dtype = job->output.tensor.dtype,
                         .layout = (ra_layout)job->inputs.layout,
                         .seconds_total = progress_clock() - started};
    if (job->spread) {
        record.ring = &job->over.options;
        record.plan = job->over.plan;
        record.ranks = job->over.stats;
        record.seconds_compute = job->over.seconds;
    }
    if (stats_json_write(&record, job->stats.stream))
        return report(EXIT_WORK, "%s: cannot write the statistics", job->stats.path);
    return output_file_finish(&job->stats);
}

/* Everything is written under temporary names first; then the names change, which is quick and hardly fails. */
static int deliver(attend_job *job, const ra_stats *stats, double started)
{
    int code = job->stats_path ? write_stats(job, stats, started) : EXIT_OK;
    if (!code)
        code = tensor_file_commit(&job->output);
    if (!code)
        code = tensor_file_commit(&job->lse);
    if (!code && job->stats_path)
        code = output_file_commit(&job->stats);
    return code;
}

static int attend(attend_job *job)
{
    double started = progress_clock();
    ra_stats stats = RA_STATS_INIT;
    int code = attention_files_open(&job->inputs, &job->problem);
    if (!code)
        code = check_paths(job);
    if (!code)
        code = make_plan(job);
    code = job_agree(code);
    if (!code)
        code = create_outputs(job);
    if (!code)
        code = job->spread ? run_over_ranks(job) : run_in_one_piece(job, &stats);
    if (!code && job_rank() == 0)
        code = deliver(job, &stats, started);
    return code;
}

int cmd_attend(int argc, char **argv)
{
    attend_job job;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    job.spread = ring_args_given(&job.ring);
    code = EXIT_OK;
    if (job.ring.transport == RA_TRANSPORT_MPI)
        code = job_begin(job.ring.timeout > 0 ? job.ring.timeout : 1);
    if (code)
        return code;
    code = attend(&job);
    output_file_close(&job.stats);
    tensor_file_close(&job.lse);
    tensor_file_close(&job.output);
    ring_run_free(&job.over);
    ra_plan_free(job.plan);
    attention_files_close(&job.inputs);
    return job_end(code);
}
