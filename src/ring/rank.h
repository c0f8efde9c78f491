/*
 * One rank of a run, as the files of the engine see it, in parts that live and die together:
 *
 *     ra_held      its memory, and where things are in it        rank_memory.c, slot.c
 *     ra_work      its tasks, and the states of its rows         rank_tiles.c
 *     ra_flight    what travels in the phase under way           rank_phase.c, supply_*.c
 *     ra_tally     what it counts, to prove the run              rank_results.c
 *     ra_standing  where it stands, which is what can be saved   rank_save.c
 */
#ifndef RA_RING_RANK_H
#define RA_RING_RANK_H

#include "base/background.h"
#include "base/memory.h"
#include "exec/exec.h"
#include "ring/checkpoint.h"
#include "ring/link.h"
#include "ring/message.h"
#include "ring/rank_bytes.h"
#include "ring/tensors.h"

#include <stdatomic.h>

/*
 * Room for rows that travel: the marked positions of a share, head by head, one after the other. With several
 * planes each has words, rows before them and tensors of its own.
 */
typedef struct ra_slot {
    char *memory[RA_ROLES];
    int64_t room;    /* rows, of all planes */
    int64_t rows;    /* that are in it */
    uint64_t *words; /* [planes][share.blocks] */
    int64_t *before; /* the same: marks before each word */
    ra_share share;
    ra_tensor *tensors[RA_ROLES]; /* [planes]; NULL: a role that does not travel */
} ra_slot;

/* The rank's own rows on the side that stays, all of them, and the sums of their gradients: for passes of gradients. */
typedef struct ra_stay {
    ra_share share;
    ra_tensor tensors[RA_ROLES];
    uint64_t *words; /* [share.blocks]: all marks, */
    int64_t *before; /* and those before each word */
} ra_stay;

typedef struct ra_held {
    ra_rank_memory memory;
    ra_accountant accountant;
    ra_spare *spare; /* of the run before, and for the next; NULL: nothing is to be kept */
    void *query, *slot_memory, *marks, *known, *segments, *states, *scratch, *output, *tables;
    int64_t planes; /* of what is in the slots: where rows are read in place there is one */
    ra_slot slots[RA_SLOTS_MOST];
    int own_slot; /* -1: none */
    ra_stay stay;
    uint64_t *some, *other; /* marks to work with */
    uint64_t *wanted;       /* marks of rows that are to be read from storage */
    ra_tensor *peers;       /* [RA_ROLES][peer_count]: other ranks' keys and values, where they are read in place */
    int64_t peer_count;
    ra_reads reads;
} ra_held;

typedef struct ra_work {
    ra_workload load;
    ra_run run;
    ra_keys *keys;  /* those that are worked on */
    ra_tensor q;    /* as the tasks read it */
    float *current; /* states of a span after the first; NULL: spans do not matter */
} ra_work;

/* Finished rows on their way into storage, from a row of it on. */
typedef struct ra_written {
    ra_tensor output, lse;
    int64_t at;
} ra_written;

typedef struct ra_flight {
    int64_t phase;         /* the last that was started; -1: none */
    int64_t segments;      /* used by its messages */
    int64_t came;          /* messages that it received so far */
    bool late;             /* some of its messages have not been started */
    bool to_add;           /* it brings sums that are to be added to those at home */
    int64_t wanted_phase;  /* the phase whose rows are to be read from storage; -1: none */
    uint8_t *sparing;      /* [ranks]: who gives rows away late; NULL: nobody does */
    ra_background *behind; /* reads ahead and writes behind for a virtual rank; NULL: nobody does */
    ra_written written;    /* what is to be written */
    double seconds_behind; /* that the background took */
    atomic_bool given_up;  /* what the background reads is not wanted any more */
} ra_flight;

/* What travelled before a phase. */
typedef struct ra_passed {
    int64_t hops, bytes_sent, bytes_received;
} ra_passed;

typedef struct ra_tally {
    ra_counts counts;
    ra_rank_stats *stats;
    ra_passed passed[2]; /* before this phase and the next: by their parity */
    int64_t counted;     /* what travelled before this phase was counted before the run was continued */
    int64_t *ledger; /* [ranks]: bytes that virtual ranks have sent, noted by those that get them; NULL: real ranks */
    double waited_before; /* by earlier virtual ranks */
    double pairs_before;  /* done in earlier steps, and in earlier virtual ranks */
    double pairs_reported, pairs_total;
} ra_tally;

typedef struct ra_standing {
    int64_t first;          /* the step from which on rows travel: the least that a rank goes on with */
    int64_t step, position; /* what comes before is done */
    int64_t span;           /* that is being worked on */
    int64_t stride;         /* of keys after which a run may be saved; 0: after a step */
    bool changed;           /* something was done since it was saved */
} ra_standing;

struct ra_supply;
struct ra_arrays;

typedef struct ra_rank {
    const ra_ring_plan *ring;
    const ra_pass *pass;
    const ra_rank_plan *planned;
    const ra_kernel *kernel;
    const ra_tensors *tensors;
    const struct ra_supply *supply;
    int rank;
    int64_t steps, phases;
    ra_link link; /* its transport is NULL for a virtual rank */
    ra_held held;
    ra_work work;
    ra_flight flight;
    ra_tally tally;
    ra_standing at;
    struct ra_arrays *arrays; /* NULL: the pass has no gradients of arrays of scores */
    ra_status status;         /* found by the poll */
} ra_rank;

/* Nobody is at the other end of its line. */
static inline bool ra_rank_virtual(const ra_rank *e)
{
    return e->link.transport == NULL;
}

#endif
