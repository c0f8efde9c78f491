/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strategy says what travels: which rows a rank works on at which step, and who gives which rows to whom. It is a
 * table of pure functions of a pass, a rank and a step; the engine moves the messages without knowing which strategy
 * they are of. A new strategy is one file, one line in strategy_table.c, and one test.
 *
 * A pass is a sequence of steps. Before step t all ranks pass phase t, in which the rows of step t travel, while step
 * t - 1 is computed. Sums of gradients travel in the same phase, when step t - 1 is done.
 */
#ifndef RA_RING_STRATEGY_H
#define RA_RING_STRATEGY_H

#include "ring/pass.h"

/*
 * Slots of a rank: room for the rows of chunks. If sums of gradients travel, there is one slot for the sums of the
 * rank's own rows, and one for sums that arrive and are added to them.
 */
enum { RA_SLOTS = 3, RA_SLOT_HOME = RA_SLOTS, RA_SLOT_ARRIVED, RA_SLOTS_MOST };

struct ra_reads;

/* What the receiver does with the rows of a message: those that are added are sums of its own rows, one message a
 * phase.
 */
typedef enum ra_delivery { RA_STORE, RA_ADD } ra_delivery;

/* How the sums of gradients of the travelling rows are added up over ranks. */
typedef enum ra_sums {
    RA_SUMS_STAY,    /* not at all: such gradients take a pass of their own, in which these rows stay */
    RA_SUMS_ALONG,   /* there is one sum of a row, and it goes along with the row */
    RA_SUMS_GATHERED /* each rank has sums of the rows that it reads, and their owners add them up at the end */
} ra_sums;

/* Rows that go from one rank to another in a phase. */
typedef struct ra_message {
    int from, to;
    int64_t phase;
    unsigned roles;      /* bits 1 << ra_role: the roles that it carries, one after the other */
    int64_t head, heads; /* the key/value heads whose rows it carries; of queries, the query heads that share them */
    ra_delivery delivery;
    int64_t held;   /* the step in whose slot the sender has the rows; -1: they are its own */
    int64_t stored; /* the step in whose slot the receiver has them; -1: they are its own */
    bool again;     /* own rows whose slot has been given up: the sender reads them once more */
    bool late;      /* it starts when the step beside its phase is done: sums that this step adds to */
} ra_message;

/* One rank of a plan. */
typedef struct ra_rank_plan {
    ra_rank_info info;
    ra_traffic traffic;
    bool
        sparing; /* it has no slot for rows that it reads again: they travel when the step beside their phase is done */
} ra_rank_plan;

/* The room of each slot. */
typedef struct ra_slot_rows {
    int64_t rows[RA_SLOTS_MOST];   /* of all planes; 0: no such slot */
    unsigned roles[RA_SLOTS_MOST]; /* bits RA_BIT(role) */
} ra_slot_rows;

typedef struct ra_strategy_kind {
    ra_strategy id;
    const char *name;
    int64_t (*steps)(const ra_pass *pass);
    /* Phases: one for each step, and those behind the last step, in which sums go back to their owners. */
    int64_t (*phases)(const ra_pass *pass);
    /* The rows of the moving side that a rank works on at a step. */
    ra_share (*share)(const ra_pass *pass, int rank, int64_t step);
    /*
     * The messages of a phase to and from a rank, one at a time: *cursor is 0 for the first, and false says that there
     * are no more. A message may turn out to have no rows; it is then not sent.
     */
    bool (*receive)(const ra_pass *pass, int rank, int64_t phase, int64_t *cursor, ra_message *message);
    bool (*send)(const ra_pass *pass, int rank, int64_t phase, int64_t *cursor, ra_message *message);
    /* Mark the rows of a message on a share that has all of them; words that are not cleared, and as many to work with.
     */
    void (*rows)(const struct ra_reads *reads, const ra_message *message, const ra_share *on, uint64_t *words,
                 uint64_t *scratch);
    /* The slots that a rank needs. */
    ra_slot_rows (*slot_rows)(const ra_pass *pass, int rank, const ra_rank_plan *planned);
    int (*slot)(int64_t step);
    /* The most contiguous runs of a rank's memory in the messages of one phase, for one head and role. */
    int64_t (*runs)(const ra_pass *pass, int rank, const ra_rank_plan *planned);
    /* The slot for own rows that are read again for a phase. */
    int (*slot_again)(const ra_rank_plan *planned, int64_t phase);
    int64_t own_step; /* the step that works on own rows in their slot; -1: none does, they are copied */
    ra_sums sums;
    bool reads_everything;      /* a rank gets all rows, also those that it does not read */
    bool has_spans;             /* the spans of a run in one piece are reproduced */
    bool hop_a_message;         /* each message is a hop; else all messages of a phase are one */
    ra_traffic_counter traffic; /* the count of the plan, which shares no code with the messages */
} ra_strategy_kind;

#endif
