/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some rows of an output and its log-sum-exp, recomputed by the oracle: what `check` looks at in files, and what
 * `attend` keeps of an output that it does not write. Functions return an exit code and report.
 */
#ifndef CLI_SAMPLED_ROWS_H
#define CLI_SAMPLED_ROWS_H

#include "attention_files.h"
#include "progress.h"
#include "sampled_result.h"

enum { SAMPLED_OUTPUT, SAMPLED_LSE, SAMPLED_RESULTS };

/* Two results that are not looked at yet: take those that are. */
void sampled_rows_init(sampled_result results[SAMPLED_RESULTS]);

/* Choose rows of one of the two. `given` is the tolerance, or NAN. */
int sampled_rows_take(sampled_result results[SAMPLED_RESULTS], int which, tensor_file *file, int64_t count,
                      double given);

/* Recompute the rows and find the largest errors. `bar` is the progress that the plan calls. */
int sampled_rows_compare(sampled_result results[SAMPLED_RESULTS], const ra_plan *plan, const attention_files *inputs,
                         progress *bar);

#endif
