/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of arrays of scores over ranks: exact sums (exec/array_sums.h), which every rank adds to in its first pass.
 * Real ranks add them up one after the other: each gets the sums of the ranks before it, adds its own and gives them to
 * the next; the last one has the total, which goes back the same way. Virtual ranks add to the same sums. A bias with
 * a row for each query is in rank_bias.h.
 */
#ifndef RA_RING_RANK_ARRAYS_H
#define RA_RING_RANK_ARRAYS_H

#include "exec/array_sums.h"
#include "ring/array_bytes.h"
#include "ring/rank.h"

/* The exact sums of a process. */
typedef struct ra_arrays {
    ra_array_sums sums;
    void *memory; /* owned; NULL: there are neither sums nor parts */
    int64_t bytes;
    ra_exact_sum *mine, *arriving; /* inside `memory`; arriving: of real ranks only */
    float *part;                   /* inside `memory`: a part of a bias, [RA_BIAS_PART] */
    ra_segment segment;            /* of the message under way */
    bool stuck;                    /* that message could not be cancelled: the memory must stay */
} ra_arrays;

/* Sums of zeros, to be freed with ra_arrays_free; *arrays is NULL where none are wanted. */
ra_status ra_arrays_make(const ra_ring_plan *ring, ra_arrays **arrays);
void ra_arrays_free(ra_arrays *arrays);

/* Call it before the steps of a rank: adds what its own query rows contribute, which are in memory. */
void ra_arrays_rows(ra_rank *e);

/* Call it after the steps of a rank: adds up the sums of all ranks; real ranks write the gradients. */
ra_status ra_arrays_exchange(ra_rank *e);

/* A message to or from a neighbour, finished and counted. */
ra_status ra_arrays_send(ra_rank *e, int to, void *from, int64_t bytes);
ra_status ra_arrays_receive(ra_rank *e, int from, void *to, int64_t bytes);

#endif
