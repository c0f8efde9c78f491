/* A problem over ranks: who holds what, and what each rank that was planned will do and hold. */
#ifndef RA_RING_RING_PLAN_H
#define RA_RING_RING_PLAN_H

#include "ring/strategy.h"

struct ra_ring_plan {
    ra_plan *plan; /* owned */
    const ra_strategy_kind *strategy;
    ra_ring_options options;     /* its pieces are not kept */
    bool own_split;              /* pieces of the caller's own */
    ra_options asked;            /* as the caller gave them */
    int threads;                 /* of each rank */
    ra_partition queries, keys;  /* owned */
    int64_t planes;              /* of marks: 1, or each key/value head has its own */
    int64_t q_row_bytes;         /* of one position: all batches and heads */
    int64_t row_bytes[RA_ROLES]; /* the same for the heads of one plane */
    bool in_place;               /* keys and values are read where they lie, not copied into slots */
    bool hold_own;               /* a rank has its own keys and values in a slot */
    int64_t chunk_rows;          /* of the largest chunk */
    int64_t query_ranges;        /* of the rank that has most */
    int64_t slot_blocks;         /* words of one plane for any share that rows are marked on */
    int64_t scratch;             /* of all threads, for whichever virtual ranks are worked together; else 0 */
    int first, count;            /* the ranks that were planned, */
    ra_rank_plan *ranks;         /* these; owned */
};

/* The rank so many places before another. */
int ra_rank_before(const ra_ring_plan *ring, int rank, int64_t steps);

/* Broadcast and all-gather reproduce the spans of a run in one piece, one after the other. */
bool ra_ring_has_spans(const ra_ring_plan *ring);

/*
 * A virtual rank that reads its keys where they lie has those of all steps at once: its tasks go through all of them,
 * with their states in scratch, as in a run in one piece. Not where spans are to be reproduced.
 */
bool ra_ring_at_once(const ra_ring_plan *ring);

/* Virtual ranks that are worked together, because none waits for another's keys: maximum ranks per task list. */
int ra_ring_batch(const ra_ring_plan *ring);

/* The rank of a run, which must have been planned; NULL: it was not. */
const ra_rank_plan *ra_ring_planned(const ra_ring_plan *ring, int rank);

/*
 * Bytes of the plan, its pattern and its partitions. All ranks are counted as planned, whether or not they were: what a
 * rank will hold does not depend on whether it is planned alone.
 */
int64_t ra_ring_plan_bytes(const ra_ring_plan *ring);

#endif
