/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank stands: what a checkpoint saves beside the states of its rows. */
#ifndef RA_RING_POINT_H
#define RA_RING_POINT_H

#include "exec/exec.h"

/* Everything before these positions of its step is done. */
typedef struct ra_point {
    int64_t rank, step, position;
    int64_t span;        /* the span that the states are of, if spans are kept apart */
    int64_t state_bytes; /* that were saved with it */
    bool begun;          /* false: nothing of the rank is done, and there are no states */
    ra_counts counts;
    ra_rank_stats stats; /* with the hops and bytes of phases before the step's */
    double pairs_before, pairs_reported;
} ra_point;

#endif
