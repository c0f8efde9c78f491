/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run from and to files, in one piece or over ranks: what `attend` and `gradient` share, one function a step of a
 * run. Functions return an exit code and report.
 */
#ifndef CLI_RUN_JOB_H
#define CLI_RUN_JOB_H

#include "attention_files.h"
#include "fingerprint.h"
#include "null_outputs.h"
#include "output_file.h"
#include "ring_run.h"
#include "stats_json.h"

enum { RUN_READS = 7, RUN_RESULTS = 3 };

enum { RUN_STATS, RUN_ROWS, RUN_TOLERANCE, RUN_OPTIONS }; /* places in the table of options */

typedef struct run_job {
    attention_files inputs;
    ring_args ring;
    const char *stats_path;
    int64_t rows; /* of a result that is null; -1: not given */
    double tolerance;

    ra_problem problem;
    ra_plan *plan; /* in one piece, */
    ring_run over; /* or over ranks */
    bool spread;
    progress bar;
    run_file reads[RUN_READS]; /* query, key, value and what a verb adds; path NULL: not read, in memory if at all */
    int read_count;
    run_file results[RUN_RESULTS]; /* path NULL: not wanted */
    int result_count;
    fingerprints prints; /* of the inputs, before anything is read */
    null_outputs nulls;
    output_file stats; /* open only when statistics are asked for */
} run_job;

/* --stats, --rows and --tolerance. */
void run_job_options(run_job *job, arg_option options[RUN_OPTIONS]);

/* Find the other processes of an mpirun, or refuse to be one of them. EXIT_OK: run_job_end must follow. */
int run_job_begin(run_job *job);

/* Open query, key and value, which become the first three reads. */
int run_job_open(run_job *job);
void run_job_reads(run_job *job, const char *option, const char *path, tensor_file *file);
void run_job_writes(run_job *job, const char *option, const char *path, tensor_file *file, tensor_axes axes,
                    const tensor_shape *shape);

/* --rows and --tolerance are for results that are null. */
int run_job_check_rows(run_job *job);

/* Where nobody has said how: whether half of the free memory does not hold all tensors, and how many bytes they have.
 */
bool run_job_too_large(const run_job *job, double *bytes);

/*
 * Such tensors are read in parts, which is said. By broadcast: the result must not depend on what else runs on the
 * machine.
 */
void run_job_read_in_parts(run_job *job, double bytes);

/* Plan a run in one piece. */
int run_job_plan(run_job *job);

/* Or say how a forward pass is spread over ranks: `over` is set up for ring_run_plan. */
int run_job_spread(run_job *job, ring_run *over, const char *label, ra_dtype output_dtype, bool lse);

/* The progress that the plan calls. */
progress *run_job_bar(run_job *job);

/* Make the files of the results, and of the statistics. `take` chooses rows of a result that is null. */
typedef int (*run_sampler)(run_job *job, int which);
int run_job_create(run_job *job, run_sampler take);

/* The tensors in memory: room for all, the inputs read, the results written to their files. */
int run_job_load(run_job *job);
int run_job_save(run_job *job);

/* After ranks have run: what each process has written becomes what all have written. */
int run_job_gather(run_job *job);

/* The plan of the problem, whatever way it runs. */
const ra_plan *run_job_problem_plan(const run_job *job);

/* What the statistics say of any run; the rest is the verb's. */
run_record run_job_record(const run_job *job);

/* Write statistics if they are wanted, and give all files their names. Everything is written under temporary ones. */
int run_job_deliver(run_job *job, const run_record *record);

/* Whether standard output is free for what is known of results that are null: the statistics have it too. */
bool run_job_speaks(const run_job *job);

/* Frees everything but the tensors that a verb has added. */
int run_job_end(run_job *job, int code);

#endif
