/* SPDX-License-Identifier: Apache-2.0 */
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
    int64_t rows;    /* rows that are in the slot now */
    uint64_t *words; /* [planes][share.blocks] */
    int64_t *before; /* the same shape: marks before each word */
    ra_share share;
    ra_tensor *tensors[RA_ROLES]; /* [planes]; NULL: a role that does not travel */
} ra_slot;

/* The rank's own rows on the side that stays, all of them, and the sums of their gradients: for passes of gradients. */
typedef struct ra_stay {
    ra_share share;
    ra_tensor tensors[RA_ROLES];
    uint64_t *words; /* [share.blocks]: all rows are marked */
    int64_t *before; /* [share.blocks]: marks before each word */
} ra_stay;

typedef struct ra_held {
    ra_rank_memory memory;
    ra_accountant accountant;
    ra_spare *spare; /* memory of the run before, kept for the next one; NULL: nothing is kept */
    void *query, *slot_memory, *marks, *known, *segments, *states, *scratch, *output, *tables;
    int64_t planes; /* planes of the slots; 1 if rows are read in place */
    ra_slot slots[RA_SLOTS_MOST];
    int own_slot; /* -1: none */
    ra_stay stay;
    uint64_t *some, *other; /* scratch for marks */
    uint64_t *wanted;       /* marks of the rows that will be read from storage */
    ra_tensor *peers;       /* [RA_ROLES][peer_count]: other ranks' keys and values, if they are read in place */
    int64_t peer_count;
    ra_reads reads;
} ra_held;

typedef struct ra_work {
    ra_workload load;
    ra_run run;
    ra_keys *keys;  /* the keys of the step */
    ra_tensor q;    /* the queries, as the tasks read them */
    float *current; /* states of the span at work, after the first span; NULL: spans are not kept apart */
} ra_work;

/* Finished rows that are being written to storage. */
typedef struct ra_written {
    ra_tensor output, lse;
    int64_t at; /* the first of these rows in storage */
} ra_written;

typedef struct ra_flight {
    int64_t phase;         /* the phase that was started last; -1: none */
    int64_t segments;      /* segments that its messages use */
    int64_t came;          /* messages that were received in it so far */
    bool late;             /* some of its messages have not been started */
    bool to_add;           /* it brings sums that are to be added to those at home */
    int64_t wanted_phase;  /* the phase whose rows are to be read from storage; -1: none */
    uint8_t *sparing;      /* [ranks]: 1: a sparing rank; NULL: none is */
    ra_background *behind; /* reads ahead and writes behind for a virtual rank; NULL: it does so itself */
    ra_written written;    /* the rows that the background writes */
    double seconds_behind; /* time of the background */
    atomic_bool given_up;  /* the read in the background is to end early */
} ra_flight;

/* Counts of what travelled before a phase. */
typedef struct ra_passed {
    int64_t hops, bytes_sent, bytes_received;
} ra_passed;

typedef struct ra_tally {
    ra_counts counts;
    ra_rank_stats *stats;
    ra_passed passed[2];  /* for this phase and the next, indexed by the parity of the phase */
    int64_t counted;      /* phases before this one were counted before the run was continued */
    int64_t *ledger;      /* [ranks]: bytes that virtual ranks have sent, noted by their receivers; NULL: real ranks */
    double waited_before; /* seconds that earlier virtual ranks waited */
    double pairs_before;  /* pairs done in earlier steps and by earlier virtual ranks */
    double pairs_reported, pairs_total;
} ra_tally;

typedef struct ra_standing {
    int64_t first;          /* rows travel from this step on: the earliest step that some rank goes on with */
    int64_t step, position; /* the work before this point is done */
    int64_t span;           /* the span at work */
    int64_t stride; /* keys between two points where the run may be saved; 0: it may be saved after a step only */
    bool changed;   /* work was done since the last save */
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

/* Whether a rank is virtual: it has no connections. */
static inline bool ra_rank_virtual(const ra_rank *e)
{
    return e->link.transport == NULL;
}

#endif
