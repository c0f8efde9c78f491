/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HOW a backward pass happens: the gradients of some query rows and of the keys that are here, added to sums.
 *
 *     gradient_wave.c    threads, and the order in which tasks add to the rows of keys
 *     gradient_task.c    a query tile through its key blocks: five products a tile
 *     gradient_rows.c    what is done row by row before and after: delta, and the rounding of sums
 *     array_sums.c       the gradients of the arrays of scores
 *     gradient_whole.c   a whole problem in one piece
 *
 * Query rows come as q, d_output, lse and delta. Keys come as k and v. Sums are float32 tensors d_q, d_k and d_v with
 * the same rows at the same places. A run adds to them; whoever holds them clears them first and rounds them at the
 * end.
 *
 * Bits: a row of d_k and d_v is added to in the order of the queries, 64 of them (or a group) at a time, and a row of
 * d_q in the order of the key blocks. Who runs a task does not matter, nor how many tasks there are.
 */
#ifndef RA_EXEC_GRADIENT_H
#define RA_EXEC_GRADIENT_H

#include "exec/array_sums.h"
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
    bool finish; /* each row of d_q is of one task: it is written, rounded to its dtype, not added to */
    /*
     * 0, or the chains that are worked on at a time, with sums d_k and d_v [1, kv_len, slots, dim]: those of chain c,
     * which is batch * kv_heads + key/value head, are in head c % slots. `open` is called before the first task of a
     * chain and `close` after the last, by whichever thread. NULL: neither.
     */
    int64_t slots;
    bool d_q_slots; /* d_q is [1, q_len, slots * query heads of a chain, head_dim] in the same manner */
    void (*open)(void *user, int64_t chain);
    void (*close)(void *user, int64_t chain);
    void *chain_user;
    ra_array_sums *array_sums; /* NULL: no gradient of an array of scores is wanted */
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
void ra_gradient_delta(const ra_kernel *kernel, int threads, const ra_tensor *output, const ra_tensor *d_output,
                       const ra_tensor *d_lse, const ra_tensor *delta);

/* Rows of float32 sums, rounded to a tensor of the same shape: rows of heads head .. head + heads - 1 of one batch. */
void ra_gradient_round(const ra_tensor *sums, int64_t from_batch, int64_t from_head, const ra_tensor *to, int64_t batch,
                       int64_t head, int64_t heads);

/* ---- A whole problem in one piece (gradient_whole.c) ---------------------------------------------------------------
 */

/* The tensors of ra_backward; d_lse, d_q, d_k and d_v may be NULL. */
typedef struct ra_gradient_tensors {
    const ra_tensor *q, *k, *v, *output, *lse, *d_output, *d_lse, *d_q, *d_k, *d_v;
} ra_gradient_tensors;

/* What it will do, and the bytes that it will hold, with gradients of RA_F32. */
ra_status ra_gradient_plan(const ra_plan *plan, ra_gradient_work *work);

/* Fill everything of `stats` but its size. */
ra_status ra_gradient_execute(const ra_plan *plan, const ra_kernel *kernel, const ra_gradient_tensors *tensors,
                              ra_stats *stats);

#endif
