/* A problem over ranks: who holds what, and what each rank will do and hold. */
#ifndef RA_RING_RING_PLAN_H
#define RA_RING_RING_PLAN_H

#include "plan/traffic.h"

/* The keys that a rank reads, as intervals, where these are not many. */
enum { RA_REACH_MOST = 2 };
typedef struct ra_few {
    int count;
    ra_interval at[RA_REACH_MOST];
} ra_few;

struct ra_ring_plan {
    ra_plan *plan;                    /* owned */
    ra_ring_options options;          /* its pieces are not kept */
    bool own_split;                   /* pieces of the caller's own */
    ra_options asked;                 /* as the caller gave them */
    int threads;                      /* of each rank */
    ra_partition queries, keys;       /* owned */
    int64_t sets;                     /* of marks: 1, or each key/value head has its own */
    uint64_t *needs;                  /* NULL, or what each rank needs of all keys: [ranks][sets][key blocks]; owned */
    ra_few *reach;                    /* NULL, or where that is enough, the same as intervals: [ranks]; owned */
    int64_t q_row_bytes;              /* of one position: all batches and heads */
    int64_t k_row_bytes, v_row_bytes; /* the same for the heads of one set */
    bool by_reference;                /* keys and values are read where they lie, not copied into slots */
    bool hold_own;                    /* a rank has its own keys and values in a slot */
    bool sparing;                     /* a ring: what would be a third chunk in a rank's memory travels late */
    int64_t scratch;                  /* of all threads, for whichever virtual ranks are worked together; else 0 */
    ra_rank_info *ranks;              /* [options.ranks], owned */
};

/* What a rank takes, each at once and for the whole run. */
typedef struct ra_rank_memory {
    int64_t query, slots, marks, segments, states, scratch, output; /* bytes */
    int64_t storage;                                                /* what its storages hold themselves */
    int64_t output_rows;                                            /* rows that are finished and written at a time */
    int64_t output_lse;                                             /* where the log-sum-exp is in `output` */
    int64_t output_half;                                            /* where the other half is; 0: there is none */
    int64_t total;
} ra_rank_memory;

struct ra_schedule;

/*
 * A virtual rank that reads its keys where they lie has those of all steps at once: its tasks go through all of them,
 * with their states in scratch, as in a run in one piece. Not where spans are to be reproduced.
 */
bool ra_ring_at_once(const ra_ring_plan *ring);

/* Such ranks are worked several together, because none waits for another's keys: so many at most; 1 where not at once.
 */
int ra_ring_together(const ra_ring_plan *ring);

/* The tasks of a rank. */
void ra_ring_workload(const ra_ring_plan *ring, int rank, ra_workload *work);

ra_rank_memory ra_ring_memory(const ra_ring_plan *ring, int rank, const struct ra_schedule *schedule,
                              const ra_workload *work);

/* Everything but the partitions and the options, which are there. */
ra_status ra_ring_plan_fill(ra_ring_plan *ring);

/* What the largest process would hold where memory is spared, without the rest of the plan; not looked at further once
 * it is more than enough. */
ra_status ra_ring_plan_holds(ra_ring_plan *ring, int64_t enough, int64_t *bytes);

/* Less than a rank will hold in a ring of so many: its queries, states and one chunk, and scratch for one thread. */
int64_t ra_ring_plan_least(const ra_ring_plan *ring, int ranks);

/* What was found out for a number of ranks: before it changes, and at the end. */
void ra_ring_plan_forget(ra_ring_plan *ring);

#endif
