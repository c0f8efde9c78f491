/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn gradient: gradients of attention, over tensors in files. The forward pass is run first if
 * its results are not given. What can be refused is refused before the work begins.
 */
#include "commands.h"
#include "gradient_ring.h"
#include "job.h"
#include "report.h"
#include "sampled_gradients.h"
#include "sampled_rows.h"
#include "score_gradients.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LIKE_TENSOR = -1 };

typedef struct gradient_job {
    run_job run;
    gradient_files files;
    score_gradients scores;
    int dtype; /* of all gradients: an ra_dtype, or LIKE_TENSOR */
    const char *checkpoint_path, *checkpoint_every;
    double seconds_forward;
    gradient_ring ring; /* over ranks */
} gradient_job;

/* ---- Options ----------------------------------------------------------------------------------------------------- */

static void describe_gradients(arg_option options[GRADIENT_OPTIONS])
{
    static const char QUERY[] = "result: FILE.npy or FILE.safetensors#NAME (default name: query_gradient), in the\n"
                                "query's shape, layout and dtype; null: it is computed and kept nowhere, but for a\n"
                                "checksum and some rows that are recomputed, as by ringattn check";
    static const char KEY[] = "the same for the keys (default name: key_gradient)";
    static const char VALUE[] = "the same for the values (default name: value_gradient). Any of the three may be left\n"
                                "out and is then not computed";
    static const char *const HELP[GRADIENTS] = {QUERY, KEY, VALUE};
    for (int i = 0; i < GRADIENTS; i++)
        options[GRADIENT_OPTIONS - GRADIENTS + i].help = HELP[i];
    options[0].required = true; /* the output gradient */
}

static int parse(gradient_job *job, int argc, char **argv)
{
    enum { OWN = 6 };
    arg_option options[ATTENTION_OPTIONS + GRADIENT_OPTIONS + OWN + RUN_OPTIONS + RING_OPTIONS];
    arg_option *next = options;
    const arg_option own[OWN] = {
        {.name = "output",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->files.output_path,
         .help = "result of ringattn attend for these queries, keys and values; sampled rows of it\n"
                 "are recomputed and compared. Without --output and --lse the forward pass\n"
                 "is run first, and the gradients have the same bits"},
        {.name = "lse",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->files.lse_path,
         .help = "the log-sum-exp of the same forward pass"},
        {.name = "gradient-dtype",
         .kind = ARG_DTYPE,
         .metavar = "T",
         .target = &job->dtype,
         .help = "float32, float16 or bfloat16, which .npy cannot hold (default: that of the\n"
                 "gradient's tensor)"},
        {.name = "scores-gradient",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->scores.path,
         .help = "gradients of the arrays of --scores: FILE.safetensors with tensors named alibi,\n"
                 "relative, bias and sinks, float32, of the arrays' shapes"},
        {.name = "checkpoint", .kind = ARG_TEXT, .metavar = "FILE", .target = &job->checkpoint_path},
        {.name = "checkpoint-every", .kind = ARG_TEXT, .metavar = "SECONDS", .target = &job->checkpoint_every},
    };
    *job = (gradient_job){.dtype = LIKE_TENSOR};
    attention_files_options(&job->run.inputs, next);
    gradient_files_options(&job->files, next += ATTENTION_OPTIONS);
    describe_gradients(next);
    memcpy(next += GRADIENT_OPTIONS, own, sizeof own);
    run_job_options(&job->run, next += OWN);
    next[RUN_TOLERANCE].help = "largest error of those rows (default: what float32 arithmetic costs, docs/MATH.md)";
    ring_args_options(&job->run.ring, next + RUN_OPTIONS);
    const arg_command command = {
        .verb = "gradient",
        .summary = "Exact gradients of softmax attention with respect to queries, keys and values, from and to files.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .notes = "The output files appear when everything has succeeded, and not before. All sums are float32,\n"
                 "rounded once to the dtype of their file. The bits do not depend on the number of threads. Over\n"
                 "ranks, the results of a forward pass that is run first are scratch files beside the gradients,\n"
                 "or in TMPDIR if all gradients are null. Tensors that are larger than half of the free\n"
                 "memory are streamed, as with --memory of that half and --strategy broadcast.",
        .example = "ringattn gradient --query q.npy --key k.npy --value v.npy --output-gradient do.npy \\\n"
                   "           --query-gradient dq.npy --key-gradient dk.npy --value-gradient dv.npy --pattern causal",
    };
    return args_parse(&command, argc, argv);
}

/* A run of this kind cannot be saved. */
static int check_checkpoint(const gradient_job *job)
{
    const char *given = job->checkpoint_path ? job->checkpoint_path : job->checkpoint_every;
    if (!given)
        return EXIT_OK;
    return report(EXIT_USAGE, "--checkpoint%s %s: a run of gradients cannot be saved: leave it out",
                  job->checkpoint_path ? "" : "-every", given);
}

/* ---- Before the run ---------------------------------------------------------------------------------------------- */

static int refuse_8_bits(const attention_files *in)
{
    const char *option = in->key.scale ? "key" : "value";
    const tensor_file *file = in->key.scale ? &in->key : &in->value;
    if (!file->scale)
        return EXIT_OK;
    return report(EXIT_USAGE, "--%s %s: 8 bits have no gradients: they are for ringattn attend", option, file->path);
}

static int open_inputs(gradient_job *job)
{
    run_job *run = &job->run;
    gradient_files *f = &job->files;
    run->inputs.others_made_up = gen_named(f->output_gradient_path) || gen_named(f->lse_gradient_path);
    int code = run_job_open(run);
    if (!code)
        code = refuse_8_bits(&run->inputs);
    if (!code)
        code = gradient_files_open(f, &run->inputs, &run->problem);
    run_job_reads(run, "output", f->output_path, &f->output);
    run_job_reads(run, "lse", f->lse_path, &f->lse);
    run_job_reads(run, "output-gradient", f->output_gradient_path, &f->output_gradient);
    run_job_reads(run, "lse-gradient", f->lse_gradient_path, &f->lse_gradient);
    return code;
}

static void name_results(gradient_job *job)
{
    run_job *run = &job->run;
    for (int i = 0; i < GRADIENTS; i++) {
        tensor_shape shape = gradient_shape(i, &run->inputs);
        if (job->dtype != LIKE_TENSOR)
            shape.dtype = (ra_dtype)job->dtype;
        run_job_writes(run, gradient_option(i), job->files.paths[i], &job->files.gradients[i],
                       (tensor_axes)run->inputs.layout, &shape);
    }
    run->nulls.count = GRADIENTS;
    sampled_gradients_init(run->nulls.results);
}

static int check_paths(const gradient_job *job)
{
    const run_job *run = &job->run;
    const run_paths others = {.pattern = run->problem.pattern,
                              .scores = run->problem.scores,
                              .stats = run->stats_path,
                              .scores_gradient = job->scores.path};
    return run_files_check(run->reads, run->read_count, run->results, run->result_count, &others);
}

/* The first of the two that is out of tolerance. */
static int report_foreign(const gradient_job *job, const sampled_result sample[SAMPLED_RESULTS])
{
    bool output = !sampled_result_ok(&sample[SAMPLED_OUTPUT]);
    const sampled_result *r = &sample[output ? SAMPLED_OUTPUT : SAMPLED_LSE];
    return report(EXIT_USAGE,
                  "--%s %s: not of this forward pass: it has %.9g at batch %lld, head %lld, query %lld, where these "
                  "queries, keys and values give %.9g (tolerance %.2e): give what ringattn attend wrote for the same "
                  "options, or leave --output and --lse out",
                  r->name, output ? job->files.output_path : job->files.lse_path, r->got, (long long)r->where.batch,
                  (long long)r->where.head, (long long)r->where.seq, r->expected, r->tolerance);
}

/* Sampled rows of an output and a log-sum-exp that were given are recomputed: a gradient cannot be right without them.
 */
static int check_forward(gradient_job *job)
{
    tensor_file *const files[] = {[SAMPLED_OUTPUT] = &job->files.output, [SAMPLED_LSE] = &job->files.lse};
    sampled_result sample[SAMPLED_RESULTS];
    run_job *run = &job->run;
    int code = EXIT_OK;
    if (!job->files.output_path || job_rank() > 0)
        return EXIT_OK;
    sampled_rows_init(sample);
    for (int i = 0; i < SAMPLED_RESULTS && !code; i++) {
        code = sampled_rows_take(sample, i, files[i], SAMPLED_ROWS, NAN);
        if (!code)
            code = sampled_result_read(&sample[i]);
    }
    if (!code)
        code = sampled_rows_compare(sample, run_job_problem_plan(run), &run->inputs, run_job_bar(run));
    if (!code && !sampled_results_ok(sample, SAMPLED_RESULTS))
        code = report_foreign(job, sample);
    sampled_results_free(sample, SAMPLED_RESULTS);
    return code;
}

static int prepare(gradient_job *job)
{
    run_job *run = &job->run;
    double bytes;
    int code = check_checkpoint(job);
    if (!code)
        code = gradient_files_check(&job->files, job->scores.path != NULL);
    if (!code)
        code = open_inputs(job);
    if (code)
        return code;
    name_results(job);
    if (!job->files.output_path)
        gradient_files_hold_forward(&job->files, &run->inputs);
    code = fingerprints_take(&run->prints, run->reads, run->read_count, run->problem.scores);
    if (!code)
        code = run_job_check_rows(run);
    if (!code && run_job_too_large(run, &bytes))
        run_job_read_in_parts(run, bytes);
    if (!code)
        code = check_paths(job);
    if (!code)
        code = score_gradients_prepare(&job->scores, &run->problem);
    if (!code)
        code = run->spread ? gradient_ring_plan(&job->ring, run, &job->files) : run_job_plan(run);
    return code ? code : check_forward(job);
}

static int sample(run_job *run, int which)
{
    return sampled_gradients_take(run->nulls.results, which, run->results[which].file, run->rows, run->tolerance);
}

/* ---- The run ----------------------------------------------------------------------------------------------------- */

static const ra_tensor *wanted(const tensor_file *file)
{
    return file->path ? &file->tensor : NULL;
}

static int run_backward(gradient_job *job, ra_stats *stats)
{
    run_job *run = &job->run;
    const attention_files *in = &run->inputs;
    const gradient_files *f = &job->files;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    if (ra_plan_describe_backward(run->plan, &info))
        return report_refusal();
    progress_start(&run->bar, "gradient", "Gflop/s",
                   info.pairs_visible > 0 ? 1e-9 * info.flops / info.pairs_visible : 0);
    ra_status status =
        ra_backward(run->plan, &in->query.tensor, &in->key.tensor, &in->value.tensor, &f->output.tensor, &f->lse.tensor,
                    &f->output_gradient.tensor, wanted(&f->lse_gradient), wanted(&f->gradients[RA_GRADIENT_QUERY]),
                    wanted(&f->gradients[RA_GRADIENT_KEY]), wanted(&f->gradients[RA_GRADIENT_VALUE]), stats);
    progress_end(&run->bar);
    return status ? report_failure(status) : EXIT_OK;
}

/* The whole tensors in memory, one run. */
static int run_in_one_piece(gradient_job *job, ra_stats *stats)
{
    run_job *run = &job->run;
    int code = run_job_load(run);
    if (!code && !job->files.output_path)
        code = gradient_files_forward(&job->files, &run->inputs, run->plan, &run->bar, &job->seconds_forward);
    if (!code)
        code = run_backward(job, stats);
    return code ? code : run_job_save(run);
}

static int run_over_ranks(gradient_job *job)
{
    int code = gradient_ring_create(&job->ring, &job->run, &job->files, job->scores.path);
    if (!code)
        code = gradient_ring_run(&job->ring, &job->run, &job->files);
    job->seconds_forward = gradient_ring_seconds_forward(&job->ring);
    return code;
}

/* ---- After the run ----------------------------------------------------------------------------------------------- */

static int recompute(void *user, sampled_result *results)
{
    gradient_job *job = user;
    run_job *run = &job->run;
    return sampled_gradients_compare(results, run_job_problem_plan(run), &run->inputs, &job->files, run_job_bar(run));
}

static int deliver(gradient_job *job, const ra_stats *stats, double started)
{
    run_job *run = &job->run;
    int code = null_outputs_check(&run->nulls, recompute, job, run_job_speaks(run));
    if (code)
        return code;
    run_record record = run_job_record(run);
    record.stats = run->spread ? NULL : stats;
    record.backward = true;
    record.seconds_forward = job->seconds_forward;
    record.dtype = job->files.output.tensor.dtype;
    record.seconds_total = progress_clock() - started;
    code = score_gradients_write(&job->scores);
    if (!code)
        code = run_job_deliver(run, &record);
    return code ? code : score_gradients_commit(&job->scores);
}

static int gradient(gradient_job *job)
{
    run_job *run = &job->run;
    double started = progress_clock();
    ra_stats stats = RA_STATS_INIT;
    int code = job_agree(prepare(job));
    if (!code)
        code = run_job_create(run, sample);
    if (!code)
        code = job_agree(job_rank() == 0 ? score_gradients_create(&job->scores) : EXIT_OK);
    if (!code)
        code = run->spread ? run_over_ranks(job) : run_in_one_piece(job, &stats);
    if (!code)
        code = job_agree(fingerprints_compare(&run->prints, run->reads, run->read_count, run->problem.scores));
    if (!code && job_rank() == 0)
        code = deliver(job, &stats, started);
    return code;
}

int cmd_gradient(int argc, char **argv)
{
    gradient_job job;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    job.run.spread = ring_args_given(&job.run.ring);
    code = run_job_begin(&job.run);
    if (code)
        return code;
    code = gradient(&job);
    gradient_ring_free(&job.ring);
    score_gradients_close(&job.scores);
    gradient_files_close(&job.files); /* scratch files too, before the process may be ended */
    return run_job_end(&job.run, code);
}
