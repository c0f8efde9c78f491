/* SPDX-License-Identifier: Apache-2.0 */
/* One rank from its beginning to its end. */
#ifndef RA_RING_RANK_RUN_H
#define RA_RING_RANK_RUN_H

#include "ring/rank.h"

/* Everything that is not the rank's own: the rest is zeros. */
ra_rank ra_rank_make(const ra_pass *pass, const ra_kernel *kernel, const ra_tensors *tensors, int rank,
                     ra_rank_stats *stats);

/* Tasks and all memory, before anything is read. */
ra_status ra_rank_prepare(ra_rank *e);

/* The rank's own queries, as its tasks read them. */
ra_status ra_rank_load_queries(ra_rank *e);

/* All of it but the agreement at the end. `point`: where the rank goes on; NULL: it begins. */
ra_status ra_rank_run(ra_rank *e, double started, const ra_point *point);

#endif
