/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's connection to the others during a run: progress, deadlines, and small messages from all ranks to all ranks.
 * Silence has a deadline; slowness has none, because every rank shows life while it computes.
 */
#ifndef RA_RING_LINK_H
#define RA_RING_LINK_H

#include "base/clock.h"
#include "transport/comm.h"

typedef struct ra_link {
    ra_transport *transport; /* NULL: a virtual rank, which has no connections */
    bool *broken;            /* of the communicator */
    double timeout;          /* seconds */
    double looked;           /* when progress was last made */
    double back; /* when this rank last went on after it could not look, because its process was stopped for instance */
    double waited;           /* seconds spent waiting */
    void *stuck;             /* memory of small messages that are not finished; it must not be freed */
    bool told;               /* the failure came from another rank, or has been announced */
    bool stopped;            /* the failure is that a rank was asked to stop */
    const char *what;        /* the activity now, for error messages */
    int64_t hop;             /* its number, for error messages; -1: none */
    int (*stop)(void *user); /* NULL, or asked during long waits and reads: non-zero ends them */
    void *stop_user;
    double asked; /* when */
} ra_link;

enum {
    RA_TAG_GREETING = 0,
    RA_TAG_AGREEMENT = 1,
    RA_TAG_PHASE = 2,
    RA_TAG_PHASES = 16384,
    RA_TAG_ARRAYS = RA_TAG_PHASE + RA_TAG_PHASES
};

/* Phases come in order, so tags may be used again. */
static inline int ra_phase_tag(int64_t phase)
{
    return RA_TAG_PHASE + (int)(phase % RA_TAG_PHASES);
}

/* Make progress on messages, if it is time to. Called between tiles. */
ra_status ra_link_poll(ra_link *link);

/*
 * Called now and then during a wait or a read that may be long: RA_ERROR_CANCELLED if the run is to stop. What was done
 * before the wait can then be saved.
 */
ra_status ra_link_ask(ra_link *link);

/* Wait until all messages that were started are finished. */
ra_status ra_link_wait(ra_link *link);

/* Exchange `bytes` bytes of every rank: those of rank r arrive in all[r]. */
ra_status ra_link_exchange(ra_link *link, int tag, const void *mine, void *all, int64_t bytes);

/*
 * After a failure of this rank with `status`: tell the others, and give up what is not finished. False: memory of
 * unfinished messages may still be touched and must not be freed.
 */
bool ra_link_fail(ra_link *link, ra_status status);

#endif
