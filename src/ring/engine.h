/* SPDX-License-Identifier: Apache-2.0 */
/* A run over ranks: for each step start the next transfer, run the tiles of the rows that are here, wait. */
#ifndef RA_RING_ENGINE_H
#define RA_RING_ENGINE_H

#include "kernel/kernel.h"
#include "ring/ring_plan.h"
#include "ring/tensors.h"
#include "transport/comm.h"

/* Run one rank, or all ranks of a simulated communicator. stats: [ranks], or NULL. */
ra_status ra_ring_execute(const ra_ring_plan *ring, const ra_kernel *kernel, ra_comm *comm, const ra_tensors *tensors,
                          ra_rank_stats *stats);

#endif
