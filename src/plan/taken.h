/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exclusive branches of a dilated pattern (mode=union) leave out the pairs that an earlier branch has. Which ones, for
 * counting. Two positions are a pair of a branch if both are in its lattice and in the same segment, so the answers
 * hold for a query and its keys as for a key and its queries.
 */
#ifndef RA_PLAN_TAKEN_H
#define RA_PLAN_TAKEN_H

#include "plan/pattern.h"

/* Whether a branch before `branch` has the pair of two positions. */
bool ra_is_taken(const ra_pattern *pattern, int64_t head, int branch, int64_t position, int64_t other);

/* Positions lo <= x < hi that are members of `branch`, as `position` is, and whose pair with it no earlier one has. */
int64_t ra_not_taken(const ra_pattern *pattern, int64_t head, int branch, int64_t position, int64_t lo, int64_t hi);

#endif
