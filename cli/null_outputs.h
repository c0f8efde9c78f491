/*
 * Outputs that are kept nowhere (--output null, --lse null): of each a checksum and sampled rows, which the oracle
 * recomputes. Functions return an exit code and report; they do nothing where every output is a file.
 */
#ifndef CLI_NULL_OUTPUTS_H
#define CLI_NULL_OUTPUTS_H

#include "sampled_rows.h"

typedef struct null_outputs {
    bool any;
    tensor_file *files[SAMPLED_RESULTS];
    sampled_rows sample;
} null_outputs;

/*
 * Before the run: the rows to keep. `files` are the output and the log-sum-exp, made already; `tolerance` is the
 * output's, NAN: it follows scores and values.
 */
int null_outputs_prepare(null_outputs *nulls, const ra_problem *problem, int64_t rows, double tolerance,
                         tensor_file *const files[SAMPLED_RESULTS]);

/* After the run, in all processes of the job: what each has written becomes what all have written. */
void null_outputs_gather(null_outputs *nulls);

/* Recompute the rows; one out of tolerance is EXIT_WORK. `speak`: write checksums and errors to standard output. */
int null_outputs_check(null_outputs *nulls, const ra_plan *plan, const attention_files *inputs, progress *bar,
                       bool speak);

void null_outputs_free(null_outputs *nulls);

#endif
