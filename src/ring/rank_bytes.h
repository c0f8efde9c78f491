/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a rank: its blocks of memory, each taken once for the whole run. */
#ifndef RA_RING_RANK_BYTES_H
#define RA_RING_RANK_BYTES_H

#include "ring/ring_plan.h"

typedef struct ra_rank_memory {
    int64_t query, slots, marks, known, segments, states, scratch, output, tables; /* bytes */
    int64_t slot_rows[RA_SLOTS_MOST];   /* rows of one plane's heads; 0: no such slot */
    unsigned slot_roles[RA_SLOTS_MOST]; /* roles that a slot has memory for */
    int64_t storage;                    /* buffers of its storages */
    int64_t arrays;                     /* sums for the gradients of arrays of scores */
    int64_t plan;                       /* the plan itself, and the greetings of all ranks */
    int64_t output_rows;                /* rows that are finished and written at a time */
    int64_t output_lse;                 /* offset of the log-sum-exp in `output` */
    int64_t output_half;                /* offset of the second half in `output`; 0: there is one half */
    int64_t total;
} ra_rank_memory;

/* The tasks of a rank. */
void ra_ring_workload(const ra_ring_plan *ring, int rank, ra_workload *work);

/* The bytes of a rank in a pass. */
ra_rank_memory ra_pass_memory(const ra_pass *pass, int rank, const ra_rank_plan *planned);

/* Entries of a rank's tables: views of slots, tensors of ranks whose memory is read, keys that are worked one after the
 * other. */
typedef struct ra_table_sizes {
    int64_t views, peers, keys;
} ra_table_sizes;
ra_table_sizes ra_pass_tables(const ra_pass *pass);

/* Bytes of the buffers of the storages of a run. */
int64_t ra_ring_storage_bytes(const ra_ring_plan *ring);

#endif
