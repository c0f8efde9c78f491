/* SPDX-License-Identifier: Apache-2.0 */
/* ringattn attend: attention over tensors in files. What can be refused is refused before the work begins. */
#include "commands.h"
#include "job.h"
#include "report.h"
#include "run_job.h"
#include "sampled_rows.h"

#include <math.h>
#include <string.h>

enum { LIKE_QUERY = -1 };

static const double CHECKPOINT_SECONDS = 60;

typedef struct attend_job {
    run_job run;
    const char *output_path, *lse_path;
    int output_dtype; /* an ra_dtype, or LIKE_QUERY */
    const char *checkpoint_path;
    double checkpoint_every; /* NAN: not given */
    tensor_file output, lse;
} attend_job;

static int parse(attend_job *job, int argc, char **argv)
{
    enum { OWN = 5 };
    arg_option options[ATTENTION_OPTIONS + OWN + RUN_OPTIONS + RING_OPTIONS];
    const arg_option own[OWN] = {
        {.name = "output",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &job->output_path,
         .help = "result: FILE.npy or FILE.safetensors#NAME (default name: output), in the query's\n"
                 "layout and number of axes; null: no file, but a checksum, and some rows are\n"
                 "recomputed as by ringattn check"},
        {.name = "output-dtype",
         .kind = ARG_DTYPE,
         .metavar = "T",
         .target = &job->output_dtype,
         .help = "float32, float16 or bfloat16, which .npy cannot hold (default: the query's)"},
        {.name = "lse",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->lse_path,
         .help = "log-sum-exp of the scaled scores: float32 [batch, heads, q_len]; a file of its own\n"
                 "(default name: lse), or null"},
        {.name = "checkpoint",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->checkpoint_path,
         .help = "save the run from time to time, in FILE and FILE.rows, or with --transport mpi in\n"
                 "FILE and FILE.RANK; after a kill the same command goes on from there and ends with\n"
                 "the same bits (--transport sim or mpi)"},
        {.name = "checkpoint-every",
         .kind = ARG_REAL,
         .metavar = "SECONDS",
         .target = &job->checkpoint_every,
         .help = "time between two saves (default 60)"},
    };
    *job = (attend_job){.output_dtype = LIKE_QUERY, .checkpoint_every = NAN};
    attention_files_options(&job->run.inputs, options);
    memcpy(options + ATTENTION_OPTIONS, own, sizeof own);
    run_job_options(&job->run, options + ATTENTION_OPTIONS + OWN);
    ring_args_options(&job->run.ring, options + ATTENTION_OPTIONS + OWN + RUN_OPTIONS);
    const arg_command command = {
        .verb = "attend",
        .summary = "Exact softmax attention of the queries over the keys and values, from and to files.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .notes = "The output files appear when everything has succeeded, and not before. Tensors that\n"
                 "are larger than half of the free memory are streamed, as with --memory of that half and\n"
                 "--strategy broadcast.",
        .example = "ringattn attend --query q.npy --key k.npy --value v.npy --output o.npy --pattern causal",
    };
    return args_parse(&command, argc, argv);
}

static ra_dtype output_dtype(const attend_job *job)
{
    return job->output_dtype == LIKE_QUERY ? job->run.inputs.query.tensor.dtype : (ra_dtype)job->output_dtype;
}

static void name_results(attend_job *job)
{
    const attention_files *in = &job->run.inputs;
    const tensor_shape output = output_shape(in, output_dtype(job)), lse = lse_shape(in);
    run_job_writes(&job->run, "output", job->output_path, &job->output, (tensor_axes)in->layout, &output);
    run_job_writes(&job->run, "lse", job->lse_path, &job->lse, AXES_BHS, &lse);
}

/* A run that goes on later must not depend on the memory that is free now. */
static int check_size(attend_job *job)
{
    double bytes;
    char text[RA_BYTES_TEXT];
    if (!run_job_too_large(&job->run, &bytes))
        return EXIT_OK;
    if (job->checkpoint_path)
        return report(EXIT_USAGE,
                      "--checkpoint %s: the tensors take %s, more than half of the free memory: add --memory "
                      "BYTES or --ring R, which must be the same when the run goes on",
                      job->checkpoint_path, ra_bytes_text((int64_t)bytes, text));
    run_job_read_in_parts(&job->run, bytes);
    return EXIT_OK;
}

/* A saved run is a run over virtual ranks, even with a single one. */
static int check_checkpoint(attend_job *job)
{
    if (!job->checkpoint_path && !isnan(job->checkpoint_every))
        return report(EXIT_USAGE, "--checkpoint-every %g: there is no --checkpoint FILE to save to",
                      job->checkpoint_every);
    if (!isnan(job->checkpoint_every) && job->checkpoint_every < 0)
        return report(EXIT_USAGE, "--checkpoint-every %g: expected 0 or more seconds", job->checkpoint_every);
    if (isnan(job->checkpoint_every))
        job->checkpoint_every = CHECKPOINT_SECONDS;
    if (job->checkpoint_path && !ring_args_given(&job->run.ring))
        job->run.ring.ring = 1;
    return EXIT_OK;
}

static int check_paths(const attend_job *job)
{
    const run_job *run = &job->run;
    const run_paths others = {.pattern = run->problem.pattern,
                              .scores = run->problem.scores,
                              .stats = run->stats_path,
                              .checkpoint = job->checkpoint_path};
    return run_files_check(run->reads, run->read_count, run->results, run->result_count, &others);
}

/* Plan the run, in one piece or over ranks. All refusals happen here. */
static int make_plan(attend_job *job)
{
    run_job *run = &job->run;
    if (!run->spread)
        return run_job_plan(run);
    int code = run_job_spread(run, &run->over, "attend", output_dtype(job), job->lse_path != NULL);
    if (!code)
        code = ring_run_plan(&run->over);
    if (!code && job->checkpoint_path)
        code = ring_run_save(&run->over, job->checkpoint_path, job->checkpoint_every, &run->prints);
    return code;
}

static int sample(run_job *run, int which)
{
    double given = which == SAMPLED_OUTPUT ? run->tolerance : NAN;
    return sampled_rows_take(run->nulls.results, which, run->results[which].file, run->rows, given);
}

static int prepare(attend_job *job)
{
    run_job *run = &job->run;
    int code = run_job_open(run);
    if (code)
        return code;
    name_results(job);
    run->nulls.count = SAMPLED_RESULTS;
    sampled_rows_init(run->nulls.results);
    code = fingerprints_take(&run->prints, run->reads, run->read_count, run->problem.scores);
    if (!code)
        code = run_job_check_rows(run);
    if (!code)
        code = check_size(job);
    if (!code)
        code = check_checkpoint(job);
    if (!code)
        code = check_paths(job);
    return code ? code : make_plan(job);
}

static int compute(attend_job *job, ra_stats *stats)
{
    run_job *run = &job->run;
    const attention_files *in = &run->inputs;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    if (ra_plan_describe(run->plan, &info))
        return report_refusal();
    double pair_gflop = info.pairs_visible > 0 ? 1e-9 * info.flops / info.pairs_visible : 0;
    progress_start(&run->bar, "attend", "Gflop/s", pair_gflop);
    ra_status status = ra_forward(run->plan, &in->query.tensor, &in->key.tensor, &in->value.tensor, &job->output.tensor,
                                  job->lse_path ? &job->lse.tensor : NULL, stats);
    progress_end(&run->bar);
    return status ? report_failure(status) : EXIT_OK;
}

/* The whole tensors in memory, one run. */
static int run_in_one_piece(attend_job *job, ra_stats *stats)
{
    int code = run_job_load(&job->run);
    if (!code)
        code = compute(job, stats);
    return code ? code : run_job_save(&job->run);
}

static int run_over_ranks(attend_job *job)
{
    attention_files *in = &job->run.inputs;
    tensor_file *const files[RING_FORWARD_FILES] = {&in->query, &in->key, &in->value, &job->output, &job->lse};
    int code = ring_run_execute(&job->run.over, files);
    return code ? code : run_job_gather(&job->run);
}

static int recompute(void *user, sampled_result *results)
{
    run_job *run = user;
    return sampled_rows_compare(results, run_job_problem_plan(run), &run->inputs, run_job_bar(run));
}

static int deliver(attend_job *job, const ra_stats *stats, double started)
{
    run_job *run = &job->run;
    int code = null_outputs_check(&run->nulls, recompute, run, run_job_speaks(run));
    if (code)
        return code;
    run_record record = run_job_record(run);
    record.stats = run->spread ? NULL : stats;
    record.dtype = job->output.tensor.dtype;
    record.seconds_total = progress_clock() - started;
    code = run_job_deliver(run, &record);
    if (!code && run->over.checkpoint)
        ra_checkpoint_remove(run->over.checkpoint);
    return code;
}

static int attend(attend_job *job)
{
    run_job *run = &job->run;
    double started = progress_clock();
    ra_stats stats = RA_STATS_INIT;
    int code = job_agree(prepare(job));
    if (!code)
        code = run_job_create(run, sample);
    if (!code)
        code = run->spread ? run_over_ranks(job) : run_in_one_piece(job, &stats);
    if (!code)
        code = job_agree(fingerprints_compare(&run->prints, run->reads, run->read_count, run->problem.scores));
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
    job.run.spread = ring_args_given(&job.run.ring) || job.checkpoint_path;
    code = run_job_begin(&job.run);
    return code ? code : run_job_end(&job.run, attend(&job));
}
