/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan for fewer keys, out of one for more: for a run over part of a cache that grows. It is made for each run, on
 * the stack, and takes no memory that the longer plan would not.
 */
#ifndef RA_PLAN_SHORTEN_H
#define RA_PLAN_SHORTEN_H

#include "plan/plan.h"

/* Terms of the pattern that do not depend on the length are the longer plan's. Clear it with ra_shorter_plan_clear. */
typedef struct ra_shorter_plan {
    ra_plan plan;
    ra_blocks blocks;   /* of its pattern, if it has a block-sparse term */
    ra_lengths lengths; /* the same: as the caller's array has them now */
    ra_ragged *ragged;  /* the same; owned */
} ra_shorter_plan;

/* Whether a run over `keys` keys needs a plan of its own: there are fewer than planned, or lengths have changed. */
bool ra_plan_differs(const ra_plan *plan, int64_t keys);

void ra_shorter_plan_clear(ra_shorter_plan *shorter);

/*
 * The problem with `keys` keys, 0 <= keys <= plan->kv_len: figures and pattern, no tasks. Queries are at the end of the
 * keys, or where the problem has placed them. Terms whose text fixes the length are refused by name, and so are lengths
 * of batch elements that have grown.
 */
ra_status ra_plan_shorten(const ra_plan *plan, int64_t keys, ra_shorter_plan *shorter);

/* Its tasks, counts and flops, for at least one query and one key. Its peak_bytes stay those of the longer plan. */
ra_status ra_plan_lay_out_shorter(const ra_plan *plan, ra_shorter_plan *shorter);

#endif
