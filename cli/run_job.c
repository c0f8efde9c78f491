/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a run that do not depend on what is computed. See run_job.h. */
#include "run_job.h"

#include "free_memory.h"
#include "job.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void run_job_options(run_job *job, arg_option options[RUN_OPTIONS])
{
    const arg_option table[RUN_OPTIONS] = {
        [RUN_STATS] = {.name = "stats",
                       .kind = ARG_TEXT,
                       .metavar = "FILE",
                       .target = &job->stats_path,
                       .help = "statistics of the run as JSON; - means standard output"},
        [RUN_ROWS] = {.name = "rows",
                      .kind = ARG_INTEGER,
                      .metavar = "N",
                      .target = &job->rows,
                      .max = INT64_MAX,
                      .help = "for an output that is null: rows to keep and recompute (default 64)"},
        [RUN_TOLERANCE] = {.name = "tolerance",
                           .kind = ARG_REAL,
                           .metavar = "X",
                           .target = &job->tolerance,
                           .help = "largest error of those rows (default 2e-6 for inputs of unit variance, and more\n"
                                   "where scores or values are large)"},
    };
    job->rows = -1;
    job->tolerance = NAN;
    memcpy(options, table, sizeof table);
}

/* Processes of an mpirun that know nothing of each other would all do the same work and write the same file. */
static int check_launcher(const run_job *job)
{
    static const char *const VARIABLES[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; job->ring.transport != RA_TRANSPORT_MPI && i < sizeof VARIABLES / sizeof *VARIABLES; i++) {
        const char *size = getenv(VARIABLES[i]);
        if (size && strtol(size, NULL, 10) > 1)
            return report(EXIT_USAGE,
                          "mpirun has started %s processes: add --transport mpi, so that they share the work", size);
    }
    return EXIT_OK;
}

int run_job_begin(run_job *job)
{
    int code = check_launcher(job);
    if (!code && !job->spread && job->ring.timeout != RING_TIMEOUT)
        code = report(EXIT_USAGE, "--timeout %g: is for a run over ranks, and there is no --ring", job->ring.timeout);
    if (!code && job->ring.transport == RA_TRANSPORT_MPI)
        code = job_begin(job->ring.timeout > 0 ? job->ring.timeout : 1);
    return code;
}

void run_job_reads(run_job *job, const char *option, const char *path, tensor_file *file)
{
    job->reads[job->read_count++] = (run_file){.option = option, .path = path, .file = file};
}

void run_job_writes(run_job *job, const char *option, const char *path, tensor_file *file, tensor_axes axes,
                    const tensor_shape *shape)
{
    job->results[job->result_count++] =
        (run_file){.option = option, .path = path, .file = file, .axes = axes, .shape = *shape};
}

int run_job_open(run_job *job)
{
    attention_files *in = &job->inputs;
    run_job_reads(job, "query", in->query_path, &in->query);
    run_job_reads(job, "key", in->key_path, &in->key);
    run_job_reads(job, "value", in->value_path, &in->value);
    return attention_files_open(in, &job->problem);
}

/* The first result that is wanted; where none is, the first that there could be. */
static const run_file *first_result(const run_job *job)
{
    for (int i = 0; i < job->result_count; i++)
        if (job->results[i].path)
            return &job->results[i];
    return job->results;
}

int run_job_check_rows(run_job *job)
{
    const run_file *first = first_result(job);
    bool none = true;
    for (int i = 0; i < job->result_count; i++)
        none &= !tensor_file_is_null(job->results[i].path);
    if (none && job->rows >= 0)
        return report(EXIT_USAGE,
                      "--rows %lld: is for --%s null, whose rows are gone after the run: leave it out%s%s%s",
                      (long long)job->rows, first->option, first->path ? ", and look at " : "",
                      first->path ? first->path : "", first->path ? " with ringattn check" : "");
    if (none && !isnan(job->tolerance))
        return report(EXIT_USAGE, "--tolerance %g: is for --%s null: leave it out, and give it to ringattn check",
                      job->tolerance, first->option);
    job->rows = job->rows < 0 ? SAMPLED_ROWS : job->rows;
    return EXIT_OK;
}

bool run_job_too_large(const run_job *job, double *bytes)
{
    *bytes = run_files_bytes(job->reads, job->read_count, job->results, job->result_count);
    return !ring_args_given(&job->ring) && *bytes > (double)(free_memory() / 2);
}

void run_job_read_in_parts(run_job *job, double bytes)
{
    int64_t budget = free_memory() / 2;
    char text[RA_BYTES_TEXT];
    job->ring.memory = budget > 0 ? budget : 1;
    job->ring.strategy = RA_STRATEGY_BROADCAST;
    job->spread = true;
    fprintf(stderr,
            "ringattn %s: the tensors take %s, more than half of the free memory: read in parts, as with "
            "--memory %lld --strategy broadcast\n",
            report_current_verb(), ra_bytes_text((int64_t)bytes, text), (long long)job->ring.memory);
}

int run_job_spread(run_job *job, ring_run *over, const char *label, ra_dtype output_dtype, bool lse)
{
    const attention_files *in = &job->inputs;
    int ranks = 0, code = ring_args_check(&job->ring, job_size(), &ranks);
    over->label = label;
    over->problem = &job->problem;
    over->args = &job->ring;
    over->options = ring_args_library(&job->ring, ranks);
    over->options.q_dtype = in->query.tensor.dtype;
    over->options.k_dtype = in->key.tensor.dtype;
    over->options.v_dtype = in->value.tensor.dtype;
    over->options.o_dtype = output_dtype;
    over->options.lse = lse;
    return code;
}

progress *run_job_bar(run_job *job)
{
    return job->spread ? &job->over.bar : &job->bar;
}

int run_job_plan(run_job *job)
{
    ra_options options = ring_args_run(&job->ring);
    options.progress = progress_step;
    options.progress_user = &job->bar;
    return ra_plan_create(&job->problem, &options, &job->plan) ? report_refusal() : EXIT_OK;
}

typedef int (*file_maker)(tensor_file *file, const char *path, tensor_axes axes, const tensor_shape *shape);

static int make_results(run_job *job, file_maker maker)
{
    int code = EXIT_OK;
    for (int i = 0; i < job->result_count && !code; i++)
        code = maker(job->results[i].file, job->results[i].path, job->results[i].axes, &job->results[i].shape);
    return code;
}

static int sample_nulls(run_job *job, run_sampler take)
{
    int code = EXIT_OK;
    for (int i = 0; i < job->result_count && !code; i++) {
        if (!job->results[i].file->null.kept_nowhere)
            continue;
        code = take(job, i);
        if (!code)
            null_outputs_keep(&job->nulls, i);
    }
    return code;
}

/* The first process of a job makes the files; the others write their rows into them. */
int run_job_create(run_job *job, run_sampler take)
{
    int code = EXIT_OK;
    if (job_rank() == 0) {
        code = make_results(job, tensor_file_create);
        if (!code && job->stats_path)
            code = output_file_open(&job->stats, job->stats_path);
    }
    code = job_agree(code);
    if (!code && job_rank() > 0)
        code = make_results(job, tensor_file_join);
    if (!code)
        code = sample_nulls(job, take);
    return job_agree(code);
}

int run_job_load(run_job *job)
{
    tensor_file *files[RUN_READS + RUN_RESULTS];
    int count = 0, code;
    for (int i = 0; i < job->read_count; i++)
        files[count++] = job->reads[i].file;
    for (int i = 0; i < job->result_count; i++)
        files[count++] = job->results[i].file;
    code = tensor_files_allocate(files, count);
    for (int i = 0; i < job->read_count && !code; i++)
        if (job->reads[i].path)
            code = tensor_file_load(job->reads[i].file);
    return code;
}

int run_job_save(run_job *job)
{
    int code = EXIT_OK;
    for (int i = 0; i < job->result_count && !code; i++)
        code = tensor_file_save(job->results[i].file);
    return code;
}

int run_job_gather(run_job *job)
{
    null_outputs_gather(&job->nulls);
    for (int i = 0; i < job->result_count && job_rank() > 0; i++)
        tensor_file_close(job->results[i].file); /* before the first process gives the files their names */
    return job_agree(EXIT_OK);
}

const ra_plan *run_job_problem_plan(const run_job *job)
{
    return job->spread ? ra_ring_plan_problem(job->over.plan) : job->plan;
}

run_record run_job_record(const run_job *job)
{
    run_record record = {.problem = &job->problem,
                         .problem_plan = run_job_problem_plan(job),
                         .tiles = ring_args_run(&job->ring).tiles,
                         .layout = (ra_layout)job->inputs.layout,
                         .nulls = &job->nulls};
    if (job->spread) {
        record.ring = &job->over.options;
        record.plan = job->over.plan;
        record.ranks = job->over.stats;
        record.seconds_compute = job->over.seconds;
    }
    return record;
}

/* Renaming comes last: it is quick and hardly fails. */
int run_job_deliver(run_job *job, const run_record *record)
{
    int code = EXIT_OK;
    if (job->stats_path && stats_json_write(record, job->stats.stream))
        code = report(EXIT_WORK, "%s: cannot write the statistics", job->stats.path);
    if (!code && job->stats_path)
        code = output_file_finish(&job->stats);
    for (int i = 0; i < job->result_count && !code; i++)
        code = tensor_file_commit(job->results[i].file);
    if (!code && job->stats_path)
        code = output_file_commit(&job->stats);
    return code;
}

bool run_job_speaks(const run_job *job)
{
    return !job->stats_path || strcmp(job->stats_path, "-") != 0;
}

int run_job_end(run_job *job, int code)
{
    output_file_close(&job->stats);
    null_outputs_free(&job->nulls);
    for (int i = 0; i < job->result_count; i++)
        tensor_file_close(job->results[i].file);
    ring_run_free(&job->over);
    ra_plan_free(job->plan);
    attention_files_close(&job->inputs);
    return job_end(code);
}
