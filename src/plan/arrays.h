/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of a pattern that are in the caller's memory: a mask, lengths, packed sequences. */
#ifndef RA_PLAN_ARRAYS_H
#define RA_PLAN_ARRAYS_H

#include "plan/pattern.h"

/*
 * The tensors of a run: the first `inputs` are read, the others are written, NULL stands for none. RA_OK if no written
 * tensor shares memory with an array of the pattern.
 */
ra_status ra_pattern_check_apart(const ra_pattern *pattern, const ra_tensor *const tensors[], const char *const names[],
                                 int inputs, int count);

#endif
