/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker's scratch memory is for, and where. The plan is told only how many bytes it takes.
 *
 *     tiles      query | state | branch | key | staging | value | edge | scores | rows | groups | lo | hi |
 *                sieve | seen | stage
 *     decoding   query | state | key | value | staging | scores | rows | groups | lo | hi | stage
 */
#ifndef RA_EXEC_SCRATCH_H
#define RA_EXEC_SCRATCH_H

#include "plan/plan.h"

/* Where things are, in bytes from the start of the scratch memory. */
typedef struct ra_scratch {
    int64_t query, key, staging, value, edge, scores, state, branch, rows, groups, sieve, lo, hi, seen, stage;
    int64_t bytes;
} ra_scratch;

/* A workload without groups needs no scratch: all zeros. */
ra_scratch ra_scratch_lay_out(const ra_plan *plan, const ra_workload *work);

/*
 * Place an array of `size` bytes behind `bytes`, and add it to them. Returns where it begins. A few cache lines are
 * left between arrays: at distances of a power of two they would fall on the same cache sets.
 */
int64_t ra_scratch_place(int64_t *bytes, int64_t size);

/* Its bytes alone: what a plan is told. */
int64_t ra_scratch_bytes(const ra_plan *plan, const ra_workload *work);

#endif
