/* A rank's run: for each step start the next transfer, run the tiles of the rows that are here, wait. */
#ifndef RA_RING_ENGINE_H
#define RA_RING_ENGINE_H

#include "io/storage.h"
#include "kernel/kernel.h"
#include "ring/link.h"
#include "ring/ring_plan.h"

/* The tensors of a run. `parts`: they hold a rank's own rows; else the whole sequence. */
typedef struct ra_tensors {
    ra_storage *q, *k, *v, *output, *lse; /* lse may be NULL */
    bool parts;
    bool wants_lse;            /* also on a rank without rows */
    ra_checkpoint *checkpoint; /* NULL: the run is not saved */
} ra_tensors;

/* Run one rank, or all ranks of a simulated communicator. stats: [ranks], or NULL. */
ra_status ra_ring_execute(const ra_ring_plan *ring, const ra_kernel *kernel, ra_comm *comm, const ra_tensors *tensors,
                          ra_rank_stats *stats);

#endif
