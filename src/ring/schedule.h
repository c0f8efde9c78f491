/*
 * WHEN and WHERE: which keys a rank works on at which step, which rows of them come from whom, and what it passes on.
 * Pure arithmetic on the plan.
 *
 * A run is a sequence of steps; before step t all ranks pass phase t, in which the rows of step t travel, while step
 * t - 1 is computed. Ring: at step t rank q works on the rows of rank (q - t) mod R. Broadcast: on the t-th part of the
 * sequence. All-gather: there is one step, with everything.
 *
 * In a ring a row comes from the rank before, if that one reads it too, else from its owner. So a rank passes a chunk
 * on only while it works on it; own rows that are wanted later are read from their storage once more. Where memory is
 * spared, these travel when step t - 1 is done, in the place of what it worked on. Ranks need not agree on that: what
 * is late waits only for messages that are not, and these never wait for what is late on their own rank.
 */
#ifndef RA_RING_SCHEDULE_H
#define RA_RING_SCHEDULE_H

#include "ring/travel.h"

/* Rows that travel in a phase. */
typedef struct ra_message {
    int64_t phase;
    int peer;
    int64_t held;     /* sends: the step whose rows they are of the sender's; -1: its own */
    int64_t segments; /* pieces of memory that it consists of on this rank's side */
    int64_t part_rows[RA_PARTS];
    bool again;         /* own rows whose slots have been given up: read once more, */
    int slot[RA_PARTS]; /* into these */
    bool late;          /* begins when everything else of its phase has come, and the step beside it is done */
} ra_message;

typedef struct ra_step {
    int64_t rows;       /* that are worked on; 0: nothing to do */
    int slot[RA_PARTS]; /* -1: none */
} ra_step;

typedef struct ra_schedule {
    int64_t steps;
    ra_step *step;
    int64_t receive_count, send_count;
    ra_message *receives, *sends; /* in the order of their phases */
    int own_slot[RA_PARTS];       /* -1: none */
    int slots;
    int64_t *slot_rows;    /* [slots] */
    int64_t slot_blocks;   /* marks for each of them, and each set */
    int64_t most_segments; /* of the messages of one phase */
} ra_schedule;

ra_status ra_schedule_make(const ra_ring_plan *ring, int rank, ra_schedule *schedule);
void ra_schedule_free(ra_schedule *schedule);

#endif
