/*
 * HOW a backward pass happens: the gradients of some query rows and of the keys that are here, added to sums.
 *
 *     gradient.c        threads, the order in which tasks add to the rows of keys; a whole problem in one piece
 *     gradient_task.c   a query tile through its key blocks: five products a tile
 *     delta.c           what a query row's softmax takes off its gradients
 *
 * Query rows come as q, d_output, lse and delta. Keys come as k and v. Sums are float32 tensors d_q, d_k and d_v with the
 * same rows at the same places. A run adds to them; whoever holds them clears them first and rounds them at the end.
 *
 * Bits: a row of d_k and d_v is added to in the order of the queries, 64 of them (or a group) at a time, and a row of
 * d_q in the order of the key blocks. Who runs a task does not matter, nor how many tasks there are.
 */
#ifndef RA_EXEC_GRADIENT_H
#define RA_EXEC_GRADIENT_H

#include "exec/exec.h"

/*
 * Query rows that are here. Where they lie:
 *     words NULL   if `whole`, tensors hold the whole sequence; else the rows of the share, one after the other
 *     words        tensors hold, one after the other, the rows whose bits are set, as ra_keys has them: a word for each
 *                  block of the share. Rows that are not here see no key of this run. Where heads differ in what is
 *                  here, key/value head h has words and tensors of its own, with the query heads that share it
 */
typedef struct ra_query_rows {
    ra_share share;
    bool whole;
    const ra_tensor *q, *d_output;
    const ra_tensor *lse, *delta; /* float32, dim 1 */
    const ra_tensor *d_q;         /* float32, or of any dtype if `finish`; NULL: not wanted */
    const uint64_t *words;
    const int64_t *before;
    int64_t head_words; /* 0: heads do not differ */
} ra_query_rows;

/* Keys that are here, and the sums of their gradients: d_k and d_v lie as k and v do. NULL: not wanted. */
typedef struct ra_key_rows {
    ra_keys keys;
    const ra_tensor *d_k, *d_v;
} ra_key_rows;

typedef struct ra_gradient_run {
    const ra_plan *plan;
    const ra_workload *work; /* by ra_workload_lay_out_gradient */
    const ra_kernel *kernel;
    ra_query_rows queries;
    ra_key_rows keys;
    bool finish; /* these keys are all: rows of d_q are written, rounded to its dtype, not added to */
    ra_poll poll;
    void *poll_user;
    ra_counts *counts;
} ra_gradient_run;

/* Scratch of a worker. */
int64_t ra_gradient_scratch_bytes(const ra_plan *plan, const ra_workload *work);

/* Work through all tasks with work->threads threads, each with work->scratch_bytes of scratch. False: the poll asked to
 * stop. */
bool ra_gradient_tasks(ra_gradient_run *run, char *scratch);

/*
 * delta = sum over the value columns of d_output * output, less d_lse (NULL: 0), for all batches, heads and rows of the
 * tensors: what is taken off every gradient of the row's weights.
 */
void ra_gradient_delta(int threads, const ra_tensor *output, const ra_tensor *d_output, const ra_tensor *d_lse,
                       const ra_tensor *delta);

#endif
