/* SPDX-License-Identifier: Apache-2.0 */
/* A sample over ranks, in every way there is inside one process. */
#ifndef SUPPORT_RING_H
#define SUPPORT_RING_H

#include "ringattn/transport.h"
#include "support/sample.h"

typedef enum way {
    WAY_SIM,             /* virtual ranks, tensors in memory */
    WAY_SIM_STORED,      /* virtual ranks that read rows into buffers */
    WAY_THREADS,         /* threads with parts in memory */
    WAY_THREADS_STORED,  /* threads that read their rows */
    WAY_MESSAGES,        /* threads that copy chunks as processes would, parts in memory */
    WAY_MESSAGES_STORED, /* the same, reading their rows */
    WAYS
} way;

extern const char *const way_names[WAYS];

/* Puts something around the transport of a rank, in place; NULL: nothing. Not called for simulated ranks. */
typedef void (*ring_wrapper)(void *user, int rank, ra_transport *transport);

/* Changes what the odd rank plans with. */
typedef void (*ring_change)(ra_problem *problem, ra_options *run, ra_ring_options *options);

/* What a backward pass has beside the tensors of a sample; a tensor without data is not there. */
enum { RING_D_OUTPUT, RING_D_LSE, RING_D_Q, RING_D_K, RING_D_V, RING_GRADIENTS };

typedef struct ring_case {
    way way;
    ra_ring_options options;           /* ranks, strategy, order, pieces, timeout; the rest is filled in */
    ra_options run;                    /* threads, kernel, progress */
    bool sparing;                      /* in a byte less than the plan would have, where it can do with that */
    void (*adapt)(ra_ring_plan *plan); /* NULL, or what is done to the plan before it is run */
    ring_wrapper wrap;
    void *wrap_user;
    int odd_rank;         /* -1, or the rank of a real ring that goes its own way: */
    ring_change odd;      /* NULL: it plans what all plan */
    ra_progress odd_poll; /* NULL: it has the progress callback that all have */
    void *odd_poll_user;
    bool odd_absent;           /* it never comes */
    const ra_tensor *backward; /* NULL: a forward pass; else [RING_GRADIENTS], and the sample has output and lse */
    ra_comm **kept; /* NULL, or [ranks]: the communicators of a real ring, made where NULL, and left for the next run */
} ring_case;

ring_case ring_case_make(way way, int ranks, ra_strategy strategy, ra_order order);

/* A split of `length` rows at any places over `ranks` ranks; returns the number of pieces. */
int64_t ring_choose_pieces(choices *c, int64_t length, int ranks, ra_piece *pieces, int64_t most);

/* One line for messages. */
const char *ring_case_text(const ring_case *c);

/*
 * Plan, run on all ranks, gather. What is written was set to NaN before. stats: [ranks] or NULL;
 * statuses: [ranks] or NULL, what each rank returned. Returns the first that is not RA_OK, with its message.
 */
ra_status ring_case_run(const ring_case *c, const sample *s, ra_rank_stats *stats, ra_status *statuses);

/* Free the communicators that were kept. */
void ring_case_done(const ring_case *c);

/* The message of a rank in the last run; where rank 0 succeeded and another did not, rank 0 has the other's. */
const char *ring_message(int rank);

#endif
