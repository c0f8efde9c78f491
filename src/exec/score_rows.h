/* SPDX-License-Identifier: Apache-2.0 */
/* Fills score stages for decoding tasks: the rows of some key/value heads against a key block. See score_tile.h. */
#ifndef RA_EXEC_SCORE_ROWS_H
#define RA_EXEC_SCORE_ROWS_H

#include "exec/exec.h"
#include "exec/score_tile.h"

/* The rows of key/value heads head .. head + heads - 1 of a task, as ra_decode_call has them. */
typedef struct ra_score_rows {
    const ra_run *run;
    int64_t batch, head, heads, head_rows;
    int64_t first, queries;     /* of the workload: the first one's number, and how many there are */
    float *add[RA_SCORE_KINDS]; /* [rows][RA_KEY_BLOCK] each */
    uint32_t *row_draws, *key_draws;
    ra_score_stage stage;
} ra_score_rows;

/*
 * Some rows of a task: `heads` key/value heads, and `queries` queries of each query head from number `first` on.
 * `memory` has ra_score_rows_bytes.
 */
void ra_score_rows_begin(ra_score_rows *rows, const ra_run *run, int64_t batch, int64_t head, int64_t heads,
                         int64_t first, int64_t queries, char *memory);

/*
 * The stage of `heads` heads of the task, from its `head`-th on, against a block of which query q sees keys
 * begin[q] <= k < end[q]; valid until the next call.
 */
const ra_score_stage *ra_score_rows_block(ra_score_rows *rows, int64_t head, int64_t heads, const ra_block *block,
                                          const int *begin, const int *end);

#endif
