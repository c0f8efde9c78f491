/* ringattn attend: attention over tensors in files. What can be refused is refused before the work begins. */
#include "commands.h"
#include "free_memory.h"
#include "job.h"
#include "null_outputs.h"
#include "output_file.h"
#include "report.h"
#include "ring_args.h"
#include "ring_run.h"
#include "stats_json.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIKE_QUERY = -1 };

static const double CHECKPOINT_SECONDS = 60;

typedef struct attend_job {
    attention_files inputs;
    const char *output_path, *lse_path, *stats_path;
    int output_dtype; /* an ra_dtype, or LIKE_QUERY */
    int64_t rows;     /* -1: not given */
    double tolerance;
    const char *checkpoint_path;
    double checkpoint_every; /* NAN: not given */
    ring_args ring;

    ra_problem problem;
    ra_plan *plan; /* in one piece, */
    ring_run over; /* or over ranks */
    bool spread;
    progress bar;
    fingerprints prints; /* of the inputs, before anything is read */
    tensor_file output, lse;
    null_outputs nulls;
    output_file stats; /* open only when statistics are asked for */
} attend_job;

static int parse(attend_job *job, int argc, char **argv)
{
    enum { OWN = 8 };
    arg_option options[ATTENTION_OPTIONS + OWN + RING_OPTIONS];
    const arg_option own[OWN] = {
        {.name = "output",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .required = true,
         .target = &job->output_path,
         .help = "result: FILE.npy or FILE.safetensors#NAME (default name: output), in the query's\n"
                 "layout and number of axes; null: it is computed and kept nowhere, but for a\n"
                 "checksum and some rows that are recomputed, as by ringattn check"},
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
         .help = "save the run here and in FILE.rows, with --transport mpi in FILE.RANK, from time to\n"
                 "time; the same command goes on from there after a kill, with the same bits in the\n"
                 "end (--transport sim or mpi)"},
        {.name = "checkpoint-every",
         .kind = ARG_REAL,
         .metavar = "SECONDS",
         .target = &job->checkpoint_every,
         .help = "time between two saves (default 60)"},
        {.name = "stats",
         .kind = ARG_TEXT,
         .metavar = "FILE",
         .target = &job->stats_path,
         .help = "statistics of the run as JSON; - means standard output"},
        {.name = "rows",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .target = &job->rows,
         .max = INT64_MAX,
         .help = "of an output that is null: rows to keep and recompute (default 64)"},
        {.name = "tolerance",
         .kind = ARG_REAL,
         .metavar = "X",
         .target = &job->tolerance,
         .help = "largest error of those rows (default 2e-6 for inputs of unit variance, and more\n"
                 "where scores or values are large)"},
    };
    *job = (attend_job){.output_dtype = LIKE_QUERY, .rows = -1, .tolerance = NAN, .checkpoint_every = NAN};
    attention_files_options(&job->inputs, options);
    memcpy(options + ATTENTION_OPTIONS, own, sizeof own);
    ring_args_options(&job->ring, options + ATTENTION_OPTIONS + OWN);
    const arg_command command = {
        .verb = "attend",
        .summary = "Exact softmax attention of the queries over the keys and values, from and to files.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .notes = "The output files appear when everything has succeeded, and not before. Tensors that half\n"
                 "of the free memory does not hold are read in parts, as with --memory of that half and\n"
                 "--strategy broadcast.",
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
    for (const char *at = job->problem.pattern; path && at && (at = strchr(at, '@')); at++) {
        char named[PATH_MAX], part[PATH_MAX];
        snprintf(named, sizeof named, "%.*s", (int)strcspn(at + 1, "+"), at + 1);
        const char *file = tensor_file_part(named, part, sizeof part);
        if (same_file(path, file))
            return report(EXIT_USAGE, "--%s %s: the same file as in --pattern", option, path);
        if (check_temporary(option, path, "pattern", file))
            return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* FILE.rows, FILE.RANK and the temporary names of a checkpoint are removed in the end. */
static int check_beside(const attend_job *job, const char *option, const char *path)
{
    size_t length = job->checkpoint_path ? strlen(job->checkpoint_path) : 0;
    if (!length || !path || strncmp(path, job->checkpoint_path, length) != 0 || path[length] != '.')
        return EXIT_OK;
    const char *end = path + length + 1, *after = end + strspn(end, "0123456789");
    bool of_rank = after > end && (!*after || strcmp(after, ".new") == 0);
    if (!of_rank && strcmp(end, "rows") != 0 && strcmp(end, "new") != 0)
        return EXIT_OK;
    return report(EXIT_USAGE, "--%s %s: a file of --checkpoint %s", option, path, job->checkpoint_path);
}

/* What is made up or kept nowhere is no file. */
static const char *input_file(const char *path)
{
    return gen_named(path) ? NULL : path;
}

static const char *output_file_of(const char *path)
{
    return tensor_file_is_null(path) ? NULL : path;
}

/* No file may be both read and written, or written twice: a .safetensors file is written with one tensor. */
static int check_paths(const attend_job *job)
{
    const attention_files *in = &job->inputs;
    struct {
        const char *option, *path;
    } files[] = {{"query", input_file(in->query_path)},  {"key", input_file(in->key_path)},
                 {"value", input_file(in->value_path)},  {"output", output_file_of(job->output_path)},
                 {"lse", output_file_of(job->lse_path)}, {"stats", job->stats_path},
                 {"checkpoint", job->checkpoint_path}};
    enum { INPUTS = 3, TENSORS = 5, FILES = sizeof files / sizeof *files };
    char parts[TENSORS][PATH_MAX];
    int code = EXIT_OK;
    for (int i = 0; i < TENSORS; i++)
        files[i].path = tensor_file_part(files[i].path, parts[i], sizeof parts[i]);
    for (int i = 0; i < FILES && !code; i++)
        code = check_beside(job, files[i].option, files[i].path);
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

static ra_dtype output_dtype(const attend_job *job)
{
    return job->output_dtype == LIKE_QUERY ? job->inputs.query.tensor.dtype : (ra_dtype)job->output_dtype;
}

/* Rows are recomputed of what is not written. */
static int check_rows_option(attend_job *job)
{
    bool none = !tensor_file_is_null(job->output_path) && !tensor_file_is_null(job->lse_path);
    if (none && job->rows >= 0)
        return report(EXIT_USAGE,
                      "--rows %lld: is for --output null, whose rows are gone after the run: leave it out, and look at "
                      "%s with ringattn check",
                      (long long)job->rows, job->output_path);
    if (none && !isnan(job->tolerance))
        return report(EXIT_USAGE, "--tolerance %g: is for --output null: leave it out, and give it to ringattn check",
                      job->tolerance);
    job->rows = job->rows < 0 ? SAMPLED_ROWS : job->rows;
    return EXIT_OK;
}

/* What a run in one piece has in memory: the tensors, whole. */
static double tensor_bytes(const attend_job *job)
{
    const ra_problem *p = &job->problem;
    const attention_files *in = &job->inputs;
    double queries = (double)p->batch * (double)p->q_len * (double)p->heads;
    double keys = (double)p->batch * (double)p->kv_len * (double)p->kv_heads;
    double query = (double)p->head_dim * (double)ra_dtype_size(in->query.tensor.dtype);
    double key = (double)p->head_dim * (double)ra_dtype_size(in->key.tensor.dtype);
    double value = (double)p->value_dim * (double)ra_dtype_size(in->value.tensor.dtype);
    double output = (double)p->value_dim * (double)ra_dtype_size(output_dtype(job));
    double lse = job->lse_path ? (double)sizeof(float) : 0;
    return queries * (query + output + lse) + keys * (key + value);
}

/*
 * Where nobody has said how, tensors that half of the free memory does not hold are read in parts. By broadcast: the
 * result must not depend on what else runs on the machine.
 */
static int check_size(attend_job *job)
{
    double bytes = tensor_bytes(job);
    int64_t budget = free_memory() / 2;
    if (ring_args_given(&job->ring) || bytes <= (double)budget)
        return EXIT_OK;
    if (job->checkpoint_path)
        return report(EXIT_USAGE,
                      "--checkpoint %s: the tensors take %.0f bytes, more than half of the free memory: add --memory "
                      "BYTES or --ring R, which must be the same when the run goes on",
                      job->checkpoint_path, bytes);
    fprintf(stderr,
            "ringattn attend: the tensors take %.0f bytes, more than half of the free memory: read in parts, as with "
            "--memory %lld --strategy broadcast\n",
            bytes, (long long)budget);
    job->ring.memory = budget > 0 ? budget : 1;
    job->ring.strategy = RA_STRATEGY_BROADCAST;
    job->spread = true;
    return EXIT_OK;
}

/* A run that is saved is one of virtual ranks, if only of one. */
static int check_checkpoint(attend_job *job)
{
    if (!job->checkpoint_path && !isnan(job->checkpoint_every))
        return report(EXIT_USAGE, "--checkpoint-every %g: there is no --checkpoint FILE to save to",
                      job->checkpoint_every);
    if (!isnan(job->checkpoint_every) && job->checkpoint_every < 0)
        return report(EXIT_USAGE, "--checkpoint-every %g: expected 0 or more seconds", job->checkpoint_every);
    if (isnan(job->checkpoint_every))
        job->checkpoint_every = CHECKPOINT_SECONDS;
    if (job->checkpoint_path && !job->spread)
        job->ring.ring = 1;
    job->spread |= job->checkpoint_path != NULL;
    return EXIT_OK;
}

/* In one piece or over ranks; everything that can be refused is refused here. */
static int make_plan(attend_job *job)
{
    const attention_files *in = &job->inputs;
    if (job->spread) {
        job->over.problem = &job->problem;
        job->over.output_dtype = output_dtype(job);
        job->over.args = &job->ring;
        int code = ring_args_check(&job->ring, job_size(), &job->over.ranks);
        if (!code)
            code = ring_run_plan(&job->over, &in->query, &in->key, &in->value, job->lse_path != NULL);
        if (!code && job->checkpoint_path)
            code = ring_run_save(&job->over, job->checkpoint_path, job->checkpoint_every, &job->prints);
        return code;
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
    const tensor_shape output = {query->dims, output_dtype(job), p->batch, p->q_len, p->heads, p->value_dim};
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
    tensor_file *const results[] = {[SAMPLED_OUTPUT] = &job->output, [SAMPLED_LSE] = &job->lse};
    if (!code)
        code = null_outputs_prepare(&job->nulls, &job->problem, job->rows, job->tolerance, results);
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
    if (!code)
        null_outputs_gather(&job->nulls);
    if (!code && job_rank() > 0) { /* before the first process gives the files their names */
        tensor_file_close(&job->lse);
        tensor_file_close(&job->output);
    }
    return code ? code : job_agree(code);
}

static const ra_plan *problem_plan(const attend_job *job)
{
    return job->spread ? ra_ring_plan_problem(job->over.plan) : job->plan;
}

static int write_stats(attend_job *job, const ra_stats *stats, double started)
{
    run_record record = {.problem = &job->problem,
                         .stats = job->spread ? NULL : stats,
                         .problem_plan = problem_plan(job),
                         .tiles = ring_args_run(&job->ring).tiles,
                         .dtype = job->output.tensor.dtype,
                         .layout = (ra_layout)job->inputs.layout,
                         .nulls = &job->nulls,
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

static int check_nulls(attend_job *job)
{
    bool speak = !job->stats_path || strcmp(job->stats_path, "-") != 0; /* the statistics have it too */
    return null_outputs_check(&job->nulls, problem_plan(job), &job->inputs, job->spread ? &job->over.bar : &job->bar,
                              speak);
}

/* Everything is written under temporary names first; then the names change, which is quick and hardly fails. */
static int deliver(attend_job *job, const ra_stats *stats, double started)
{
    int code = check_nulls(job);
    if (!code && job->stats_path)
        code = write_stats(job, stats, started);
    if (!code)
        code = tensor_file_commit(&job->output);
    if (!code)
        code = tensor_file_commit(&job->lse);
    if (!code && job->stats_path)
        code = output_file_commit(&job->stats);
    if (!code && job->over.checkpoint)
        ra_checkpoint_remove(job->over.checkpoint);
    return code;
}

static int attend(attend_job *job)
{
    double started = progress_clock();
    ra_stats stats = RA_STATS_INIT;
    int code = attention_files_open(&job->inputs, &job->problem);
    if (!code)
        code = fingerprints_take(&job->prints, &job->inputs);
    if (!code)
        code = check_rows_option(job);
    if (!code)
        code = check_size(job);
    if (!code)
        code = check_checkpoint(job);
    if (!code)
        code = check_paths(job);
    if (!code)
        code = make_plan(job);
    code = job_agree(code);
    if (!code)
        code = create_outputs(job);
    if (!code)
        code = job->spread ? run_over_ranks(job) : run_in_one_piece(job, &stats);
    if (!code)
        code = job_agree(fingerprints_compare(&job->prints, &job->inputs));
    if (!code && job_rank() == 0)
        code = deliver(job, &stats, started);
    return code;
}

/* Processes of an mpirun that know nothing of each other would all do the same work and write the same file. */
static int check_launcher(const attend_job *job)
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

int cmd_attend(int argc, char **argv)
{
    attend_job job;
    int code = parse(&job, argc, argv);
    if (code != ARGS_RUN)
        return code;
    job.spread = ring_args_given(&job.ring);
    code = check_launcher(&job);
    if (!code && !job.spread && !job.checkpoint_path && job.ring.timeout != RING_TIMEOUT)
        code = report(EXIT_USAGE, "--timeout %g: is for a run over ranks, and there is no --ring", job.ring.timeout);
    if (code)
        return code;
    if (job.ring.transport == RA_TRANSPORT_MPI)
        code = job_begin(job.ring.timeout > 0 ? job.ring.timeout : 1);
    if (code)
        return code;
    code = attend(&job);
    output_file_close(&job.stats);
    null_outputs_free(&job.nulls);
    tensor_file_close(&job.lse);
    tensor_file_close(&job.output);
    ring_run_free(&job.over);
    ra_plan_free(job.plan);
    attention_files_close(&job.inputs);
    return job_end(code);
}
