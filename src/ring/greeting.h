/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks tell each other before the first hop: whether they are about to do the same thing. */
#ifndef RA_RING_GREETING_H
#define RA_RING_GREETING_H

#include "io/storage.h"
#include "ring/ring_plan.h"

/* Lines that describe the run; one line on the checkpoint that it goes on from; lines on its inputs. */
enum {
    RA_GREETING_FACTS = 22,
    RA_GREETING_INPUTS = 3,  /* query, key, value */
    RA_GREETING_OUTPUTS = 4, /* of a backward pass: output, lse, and the gradients of both */
    RA_GREETING_LINES = RA_GREETING_FACTS + 1 + RA_GREETING_INPUTS,
    RA_GREETING_TEXT = 128
};

/* Lines "name: value", empty if a rank does not know; and, if ranks share memory, the addresses of keys and values. */
typedef struct ra_greeting {
    char line[RA_GREETING_LINES][RA_GREETING_TEXT];
    ra_tensor k, v;
    int64_t step;    /* the step that the rank goes on with */
    int64_t sparing; /* 1: a sparing rank */
    uint64_t set;    /* the number of its checkpoint */
} ra_greeting;

/* The facts. A rank that has no output may not know the kernel: NULL. */
void ra_greeting_fill(ra_greeting *greeting, const ra_ring_plan *ring, const ra_kernel *kernel, bool lse);

/* Describe the inputs of a run, for ranks that each have a storage of the whole tensors. */
ra_status ra_greeting_inputs(ra_greeting *greeting, const ra_storage *q, const ra_storage *k, const ra_storage *v);

/*
 * The same for the output and lse that a backward pass starts from, and their gradients (NULL: there is none), in the
 * line on what a run goes on from: a backward pass does not go on from anything.
 */
ra_status ra_greeting_outputs(ra_greeting *greeting, ra_storage *const storages[RA_GREETING_OUTPUTS]);

/* RA_ERROR_ARGUMENT naming the first rank whose greeting differs from this rank's, and what differs. */
ra_status ra_greeting_compare(const ra_greeting *all, int ranks, int mine);

#endif
