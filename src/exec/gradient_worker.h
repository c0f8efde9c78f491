/* SPDX-License-Identifier: Apache-2.0 */
/* The state that the threads of a backward pass share. For gradient_wave.c and gradient_task.c alone. */
#ifndef RA_EXEC_GRADIENT_WORKER_H
#define RA_EXEC_GRADIENT_WORKER_H

#include "exec/gradient.h"

#include <stdatomic.h>

/* A post: how far a thread has come, for the thread with the next task of the chain. It has a cache line of its own. */
typedef struct ra_post {
    _Atomic int64_t task;     /* the task at work, or the last one; -1: none */
    _Atomic int64_t position; /* its task, and those before it in the chain, are done with the keys before it */
    char rest[48];
} ra_post;
_Static_assert(sizeof(ra_post) == 64, "a cache line");

/* What all threads share. */
typedef struct ra_gradient_shared {
    atomic_flag claiming; /* held while a task is claimed */
    int64_t next_task;
    ra_post *posts;
    int threads;
    _Atomic int cancelled;
    _Atomic int working;
    _Atomic int64_t pairs_done;
    _Atomic int64_t closed; /* chains whose sums were rounded, in their order */
} ra_gradient_shared;

/* A task, and the one before it in its chain. */
typedef struct ra_claim {
    int64_t task;
    int64_t chain;            /* batch * kv_heads + key/value head */
    int64_t in_chain, length; /* its number in the chain, and the chain's tasks */
    const ra_post *before;    /* the post of the thread of the task before; NULL: that task is done, or there is none */
} ra_claim;

/* Where things are in a worker's scratch memory, in bytes. */
typedef struct ra_gradient_scratch {
    int64_t units, unit_bytes;
    int64_t blocks, block_bytes;
    int64_t key, value, panels; /* within a block */
    int64_t sums, sum_bytes;
    int64_t d_key, d_value; /* within the sums of a block */
    int64_t staging, weights, d_scores, rows, groups, sieve, lo, hi, seen;
    int64_t stage, cap_slope, array_sums, array_sum_bytes; /* with scores; of no bytes without */
    int64_t bytes;
} ra_gradient_scratch;

ra_gradient_scratch ra_gradient_lay_out_scratch(const ra_plan *plan, const ra_workload *work);

typedef struct ra_gradient_worker {
    const ra_gradient_run *run;
    ra_gradient_shared *shared;
    const ra_gradient_scratch *layout;
    char *scratch;
    ra_post *post;
    ra_counts counts;
    bool calling;               /* the only thread that polls */
    int64_t chain, chain_first; /* the chain of the last task, and that chain's first task */
} ra_gradient_worker;

/* Work on a task; false when cancelled. */
bool ra_gradient_task(ra_gradient_worker *worker, const ra_claim *claim);

/*
 * Wait until the task before is done with all keys at positions below `position`, or with INT64_MAX altogether. False
 * when cancelled.
 */
bool ra_gradient_wait(ra_gradient_worker *worker, const ra_claim *claim, int64_t position);

/* Announce that this task, and those before it in the chain, are done with the keys before a position. */
static inline void ra_gradient_passed(ra_gradient_worker *worker, int64_t position)
{
    atomic_store_explicit(&worker->post->position, position, memory_order_release);
}

/* After each block of keys: count, let the calling thread poll; true when the run has been cancelled. */
bool ra_gradient_done(ra_gradient_worker *worker, double pairs);

#endif
