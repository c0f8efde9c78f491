/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual ranks: all ranks of a ring in one process, in batches. */
#ifndef RA_RING_VIRTUAL_H
#define RA_RING_VIRTUAL_H

#include "kernel/kernel.h"
#include "ring/ring_plan.h"
#include "ring/tensors.h"

ra_status ra_virtual_run(const ra_ring_plan *ring, const ra_kernel *kernel, const ra_tensors *tensors,
                         ra_rank_stats *stats);

#endif
