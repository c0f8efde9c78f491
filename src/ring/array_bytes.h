/*
 * What the gradients of arrays of scores take over ranks, in memory and in messages. How they are added up is in
 * rank_arrays.h.
 */
#ifndef RA_RING_ARRAY_BYTES_H
#define RA_RING_ARRAY_BYTES_H

#include "ring/ring_plan.h"

/* Whether a plan has such gradients. */
bool ra_arrays_wanted(const ra_ring_plan *ring);

/* Bytes of a process, and of the one message that has all sums. */
int64_t ra_arrays_bytes(const ra_ring_plan *ring);
int64_t ra_arrays_message(const ra_ring_plan *ring);

/* Messages that a rank sends; it receives as many. */
int64_t ra_arrays_messages(const ra_ring_plan *ring, int rank);

#endif
