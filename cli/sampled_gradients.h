/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some rows of gradients, recomputed by the oracle: what `check` looks at in files, and what `gradient` keeps of
 * gradients that it does not write. Functions return an exit code and report.
 */
#ifndef CLI_SAMPLED_GRADIENTS_H
#define CLI_SAMPLED_GRADIENTS_H

#include "gradient_files.h"
#include "progress.h"
#include "sampled_result.h"

/* Three results that are not looked at yet: take those that are. */
void sampled_gradients_init(sampled_result results[GRADIENTS]);

/* Choose rows of one of the three. `given` is the tolerance, or NAN. */
int sampled_gradients_take(sampled_result results[GRADIENTS], int which, tensor_file *file, int64_t count,
                           double given);

/*
 * Recompute the rows and find the largest errors. Output and log-sum-exp must be there, in files or in memory. `bar` is
 * the progress that the plan calls.
 */
int sampled_gradients_compare(sampled_result results[GRADIENTS], const ra_plan *plan, const attention_files *inputs,
                              const gradient_files *files, progress *bar);

#endif
