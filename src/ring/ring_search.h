/* SPDX-License-Identifier: Apache-2.0 */
/* The search for the size of a ring that fits into so much memory. */
#ifndef RA_RING_RING_SEARCH_H
#define RA_RING_RING_SEARCH_H

#include "ring/ring_plan.h"

/* The smallest ring that fits, up to 4096 ranks; *ranks is unchanged if none does. The plan is of no more use. */
ra_status ra_ring_find_smallest(ra_ring_plan *plan, int64_t memory, int *ranks);

/* The least that a process can hold, and the ring that it takes. The plan is of no more use. */
ra_status ra_ring_find_least(ra_ring_plan *plan, int64_t *least, int *ranks);

#endif
