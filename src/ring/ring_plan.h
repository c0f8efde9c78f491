/* SPDX-License-Identifier: Apache-2.0 */
/* A problem over ranks: who holds what, and what each rank that was planned will do and hold. */
#ifndef RA_RING_RING_PLAN_H
#define RA_RING_RING_PLAN_H

#include "kernel/kernel.h"
#include "ring/strategy.h"

struct ra_ring_plan {
    ra_plan *plan; /* owned */
    const ra_strategy_kind *strategy;
    ra_ring_options options;    /* its pieces are not kept */
    bool own_split;             /* pieces of the caller's own */
    ra_options asked;           /* as the caller gave them */
    int threads;                /* of each rank */
    ra_partition queries, keys; /* owned */
    int64_t planes;             /* of marks: 1, or each key/value head has its own */
    int64_t q_row_bytes;        /* of one position: all batches and heads */
    ra_pass passes[RA_PASSES_MOST];
    int pass_count;
    bool in_place;       /* keys and values are read where they lie, not copied into slots */
    bool hold_own;       /* a rank has its own keys and values in a slot */
    int64_t scratch;     /* of all threads, for whichever virtual ranks are worked together; else 0 */
    int first, count;    /* the ranks that were planned, */
    ra_rank_plan *ranks; /* [pass_count][count]: these; owned */
};

/*
 * The kernel of a run whose output is of this dtype; a backward pass does not look at it. RA_ERROR_ARGUMENT if the plan
 * is for fast products, and some tensor is not RA_BF16.
 */
ra_status ra_ring_kernel(const ra_ring_plan *ring, ra_dtype output, const ra_kernel **kernel);

/* Broadcast and all-gather reproduce the spans of a run in one piece, one after the other. */
bool ra_ring_has_spans(const ra_ring_plan *ring);

/*
 * A virtual rank that reads its keys where they lie has those of all steps at once: its tasks go through all of them,
 * with their states in scratch, as in a run in one piece. Not where spans are to be reproduced.
 */
bool ra_ring_at_once(const ra_ring_plan *ring);

/* Virtual ranks that are worked together, because none waits for another's keys: maximum ranks per task list. */
int ra_ring_batch(const ra_ring_plan *ring);

/* A rank in a pass; NULL: it was not planned. */
const ra_rank_plan *ra_pass_planned(const ra_pass *pass, int rank);

/* What a rank does in a further pass on top of what it does in those before. Pairs are those of the first. */
void ra_rank_info_add(ra_rank_info *info, const ra_rank_info *further);

/*
 * Bytes of the plan, its pattern and its partitions. All ranks are counted as planned, whether or not they were: what a
 * rank will hold does not depend on whether it is planned alone.
 */
int64_t ra_ring_plan_bytes(const ra_ring_plan *ring);

#endif
