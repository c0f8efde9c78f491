/* One rank of a run, as the files of the engine see it. What the functions do is said where they are. */
#ifndef RA_RING_RANK_H
#define RA_RING_RANK_H

#include "base/background.h"
#include "base/memory.h"
#include "exec/exec.h"
#include "ring/checkpoint.h"
#include "ring/engine.h"
#include "ring/schedule.h"

#include <stdatomic.h>

/*
 * Room for keys and values: the marked positions of a share, head by head, one after the other. With several sets of
 * marks each has words, rows before them and tensors of its own; where keys are read by reference there is one.
 */
typedef struct ra_slot {
    char *k_memory, *v_memory;
    uint64_t *words; /* [sets][keys.blocks] */
    int64_t *before; /* the same */
    ra_share keys;
    ra_tensor *k, *v; /* [sets] */
} ra_slot;

/* Finished rows on their way into storage, from a row of it on. */
typedef struct ra_written {
    ra_tensor output, lse;
    int64_t at;
} ra_written;

/* Where ranks share memory: who is reading a rank's keys, and whether that may still begin. */
typedef struct ra_gate {
    _Atomic int readers, closed;
} ra_gate;

/* What travelled before a phase. */
typedef struct ra_passed {
    int64_t hops, bytes_sent, bytes_received;
} ra_passed;

typedef struct ra_rank {
    const ra_ring_plan *ring;
    const ra_kernel *kernel;
    const ra_tensors *tensors;
    int rank;
    bool simulated;
    ra_link link;
    ra_schedule schedule;
    ra_workload work;
    ra_rank_memory memory;
    ra_accountant accountant;

    ra_slot *slots;
    int64_t sets;     /* of marks on what is in them */
    ra_tensor *views; /* the slots' tensors */
    void *query, *slot_memory, *marks, *segments, *states, *scratch, *output;
    ra_spare *spare;        /* of the run before, and for the next; NULL: nothing is to be kept */
    uint64_t *some, *other; /* marks to work with */
    ra_background *behind;  /* reads ahead and writes behind for a virtual rank; NULL: nobody does */
    uint64_t *wanted;       /* what is to be read for a phase, */
    int64_t wanted_phase;   /* this one; -1: nothing */
    ra_written written;     /* what is to be written */
    double seconds_behind;  /* that the background took */
    int64_t segments_used;
    float *current;             /* states of a span after the first; NULL: spans do not matter */
    int64_t span;               /* that is being worked on */
    ra_tensor *peer_k, *peer_v; /* by reference: every rank's keys and values */
    ra_keys *keys;              /* [steps]: those that are worked on */
    ra_tensor q;                /* as the tasks read it */

    ra_run run;
    ra_counts counts;
    ra_passed passed[2];             /* before this phase and the next: by their parity */
    int64_t phase;                   /* the last that was started; -1: none */
    int64_t step, position;          /* what comes before is done */
    int64_t stride;                  /* of keys after which a run may be saved; 0: after a step */
    bool changed;                    /* something was done since it was saved */
    int64_t first;                   /* the step from which on rows travel: the least that a rank goes on with */
    int64_t counted;                 /* what travelled before this phase was counted before the run was continued */
    int64_t next_receive, next_send; /* messages that have not been started */
    ra_rank_stats *stats;            /* of this rank */
    ra_status status;                /* found by the poll */
    double waited_before;            /* by earlier simulated ranks */
    double pairs_before;             /* done in earlier steps, and in earlier simulated ranks */
    double pairs_reported, pairs_total;
} ra_rank;

/* ---- rank_memory.c: what a rank holds, and what it reads into it ---------------------------------------------------
 */

void ra_rank_slot_set(ra_rank *e, ra_slot *s, const ra_share *keys);
ra_status ra_rank_take_memory(ra_rank *e);
void ra_rank_divide_memory(ra_rank *e);
void ra_rank_give_memory(ra_rank *e, bool all);
void ra_rank_pass_on(ra_rank *e);
ra_status ra_rank_poll_link(ra_rank *e);
ra_status ra_rank_read_rows(ra_rank *e, ra_storage *storage, int64_t first, int64_t count, int64_t head,
                            const ra_tensor *into, int64_t row);
ra_status ra_rank_load_queries(ra_rank *e);
ra_status ra_rank_load_own(ra_rank *e);

/* ---- engine.c: one rank from its beginning to its end, or to where its tasks begin ---------------------------------
 */

ra_status ra_rank_prepare(ra_rank *e);

/* ---- together.c: virtual ranks whose tasks are taken as one list ------------------------------------------------ */

ra_status ra_ring_run_together(const ra_ring_plan *ring, const ra_rank *template, ra_rank_stats *stats);

/* ---- rank_transfer.c: the greeting, and what travels ---------------------------------------------------------------
 */

ra_gate *ra_rank_gate_of(const ra_rank *e, int rank);
void ra_rank_set_own(ra_rank *e);
ra_status ra_rank_greet(ra_rank *e);
ra_status ra_rank_simulated_source(void *user, int rank, int from, int tag, const ra_segment *segments, int64_t count);
ra_status ra_rank_start_phase(ra_rank *e, int64_t phase);
ra_status ra_rank_wait_phase(ra_rank *e);
ra_status ra_rank_wait_behind(ra_rank *e);

/* ---- rank_save.c: where a run can go on later ------------------------------------------------------------------- */

void ra_rank_begin(ra_rank *e, const ra_point *point);
ra_status ra_rank_go_on(ra_rank *e, const ra_point *point);
ra_status ra_rank_save(ra_rank *e, ra_status status);

/* ---- rank_tiles.c: the tiles of what is here, and their results ----------------------------------------------------
 */

int ra_rank_poll(void *user, double pairs);
void ra_rank_close_gate(ra_rank *e);
ra_status ra_rank_run_steps(ra_rank *e);
ra_status ra_rank_set_steps(ra_rank *e);
ra_status ra_rank_write_results(ra_rank *e);
ra_status ra_rank_prove(ra_rank *e);
void ra_rank_fill_stats(ra_rank *e, double started);

#endif
