/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gradients of arrays of scores take over ranks, in memory and in messages. How they are added up is in
 * rank_arrays.h and rank_bias.h.
 */
#ifndef RA_RING_ARRAY_BYTES_H
#define RA_RING_ARRAY_BYTES_H

#include "ring/ring_plan.h"

/* Elements of a bias's gradient that travel at a time. */
enum { RA_BIAS_PART = 16384 };

/* Whether a plan has such gradients. */
bool ra_arrays_wanted(const ra_ring_plan *ring);

/* Whether one of them has an element for each pair. */
bool ra_arrays_by_pair(const ra_ring_plan *ring);

/* Bytes of the exact sums, which are one message; and of a process: sums, those that arrive, a part of a bias. */
int64_t ra_arrays_sum_bytes(const ra_ring_plan *ring);
int64_t ra_arrays_bytes(const ra_ring_plan *ring);

/* Bytes that a rank sends; it receives as many. */
int64_t ra_arrays_traffic(const ra_ring_plan *ring, int rank);

#endif
