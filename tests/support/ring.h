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

/* Puts something around the transport of a rank, in place; NULL: nothing. */
typedef void (*ring_wrapper)(void *user, int rank, ra_transport *transport);

typedef struct ring_case {
    way way;
    ra_ring_options options; /* ranks, strategy, order, pieces, timeout; the rest is filled in */
    ra_options run;          /* threads, kernel, progress */
    ring_wrapper wrap;
    void *wrap_user;
    int failing_rank; /* -1, or a rank whose scale is another one */
} ring_case;

ring_case ring_case_make(way way, int ranks, ra_strategy strategy, ra_order order);

/* One line for messages. */
const char *ring_case_text(const ring_case *c);

/*
 * Plan, run on all ranks, gather. The sample's output and lse were set to NaN before. stats: [ranks] or NULL;
 * statuses: [ranks] or NULL, what each rank returned. Returns the first that is not RA_OK, with its message.
 */
ra_status ring_case_run(const ring_case *c, const sample *s, ra_rank_stats *stats, ra_status *statuses);

/* The message of a rank in the last run. */
const char *ring_message(int rank);

#endif
