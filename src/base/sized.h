/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs of the public headers that grow. They begin with their size. Of a caller's version of a struct the fields
 * that it has are copied; fields that came later keep their defaults.
 */
#ifndef RA_BASE_SIZED_H
#define RA_BASE_SIZED_H

#include "base/status.h"

typedef struct ra_sized {
    const char *name;   /* "ra_problem" */
    const char *set_up; /* how a caller sets it up, for messages: "RA_PROBLEM_INIT" */
    size_t first;       /* bytes of the smallest version that there can be: anything less was never set up */
    size_t size;        /* bytes of this library's version */
} ra_sized;

extern const ra_sized ra_sized_problem, ra_sized_score_arrays, ra_sized_options, ra_sized_plan_info, ra_sized_stats,
    ra_sized_array_info, ra_sized_ring_options, ra_sized_rank_info, ra_sized_rank_stats, ra_sized_checkpoint_options,
    ra_sized_system_info, ra_sized_cache;

/* The caller's struct of `size` bytes gets the defaults that its version has; what is newer than `kind` gets zeros. */
ra_status ra_sized_init(void *theirs, size_t size, const void *defaults, const ra_sized *kind);

/* `ours` holds the defaults. A struct of a newer version is refused. */
ra_status ra_copy_in(void *ours, const void *theirs, const ra_sized *kind);

/* Whether the caller's struct has been set up at all: to be known before any work is done for it. */
ra_status ra_check_sized(const void *theirs, const ra_sized *kind);

/* Everything but the size, as far as the caller's version has room for it. */
ra_status ra_copy_out(void *theirs, const void *ours, const ra_sized *kind);

#endif
