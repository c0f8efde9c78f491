/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of the arrays of scores, from the gradients of the scores of each tile:
 *
 *     slopes   sum of -|query position - key position| * d_score          one for each head
 *     table    sum of d_score over the pairs of an entry                  entries of each head, or of all together
 *     bias     d_score, summed over the dimensions of size 1
 *     sinks    -sum over rows of exp(sink - lse) * delta                  one for each head
 *
 * Sums over queries are exact (base/exact_sum.h): their bits do not depend on tasks, threads, ranks or orders. Each
 * task has sums of its own for slopes and table, and adds them to those of the run at its end. A bias with queries has
 * one element for a pair; where heads or batches share it, chains follow each other (ra_array_sums_follow).
 */
#ifndef RA_EXEC_ARRAY_SUMS_H
#define RA_EXEC_ARRAY_SUMS_H

#include "base/exact_sum.h"
#include "exec/score_tile.h"

#include <stdatomic.h>

/* The places of the exact sums of a run, counted in sums; `count` is the number of all of them. */
typedef struct ra_array_layout {
    int64_t slopes, table, keys, sinks;
    int64_t count;
} ra_array_layout;

/* The sums of a run, or of a rank. */
typedef struct ra_array_sums {
    const ra_plan *plan;
    ra_exact_sum *slopes;  /* [heads]; NULL: not wanted, as below */
    ra_exact_sum *table;   /* [heads or 1][2 reach + 1] */
    ra_exact_sum *keys;    /* [batch or 1][heads or 1][kv_len]: of a bias with one row for all queries */
    ra_exact_sum *sinks;   /* [heads] */
    const ra_tensor *bias; /* of a bias with a row for each query: the gradient itself */
    atomic_flag merging;
} ra_array_sums;

/* Whether a gradient of an array is wanted at all. */
bool ra_array_sums_wanted(const ra_plan *plan);

/* Whether the gradient of a bias with a row for each query is wanted. */
bool ra_array_sums_by_pair(const ra_plan *plan);

ra_array_layout ra_array_sums_lay_out(const ra_plan *plan);

/* Begin with sums of zero, in memory for layout.count of them. */
void ra_array_sums_begin(ra_array_sums *sums, const ra_plan *plan, ra_exact_sum *memory);

/* Clear the gradient of a bias that has an element for each pair, before the first run or rank adds to it. */
void ra_array_sums_clear(const ra_plan *plan);

/* Whether chains add to the same elements of a bias, so that each must follow the one before through the keys. */
bool ra_array_sums_follow(const ra_array_sums *sums);

/* Add what the rows of both tensors contribute to the sinks; their first head is `first_head`. */
void ra_array_sums_rows(ra_array_sums *sums, int64_t first_head, const ra_tensor *lse, const ra_tensor *delta);

/* Write the gradients, rounded. */
void ra_array_sums_finish(ra_array_sums *sums);

/* ---- Of a task --------------------------------------------------------------------------------------------------- */

/* The range of entries of one head in a task's table that may be other than zero. */
typedef struct ra_array_touched {
    int64_t first, end;
} ra_array_touched;

typedef struct ra_array_task {
    const ra_plan *plan; /* of the task's batch */
    ra_array_sums *sums;
    int64_t batch, first_head, heads;
    ra_exact_sum *slopes;      /* [heads] */
    ra_exact_sum *table;       /* [heads or 1][2 reach + 1] */
    ra_array_touched *touched; /* [heads or 1] */
    int64_t additions;         /* the most additions to one sum since the last carry */
} ra_array_task;

/* Scratch of a worker whose tasks have `heads` heads. It is zeroed once; a task leaves it zeroed. */
int64_t ra_array_task_bytes(const ra_plan *plan, int64_t heads);

void ra_array_task_begin(ra_array_task *task, const ra_plan *plan, ra_array_sums *sums, int64_t batch,
                         int64_t first_head, int64_t heads, char *memory);

/*
 * The gradients of the scores of a tile, after all terms: d_scores[key][lane], of keys and lanes of `place`. cap_slope:
 * the derivative of softcap, laid out the same; NULL: there is none. Call it when it is the task's turn to add to the
 * keys.
 */
void ra_array_task_add(ra_array_task *task, const ra_score_place *place, int lanes, const float *d_scores,
                       const float *cap_slope);

/* Add the sums of the task to those of the run. */
void ra_array_task_end(ra_array_task *task);

#endif
