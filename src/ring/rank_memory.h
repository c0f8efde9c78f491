/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a rank. All of it is taken before anything is read. */
#ifndef RA_RING_RANK_MEMORY_H
#define RA_RING_RANK_MEMORY_H

#include "ring/rank.h"

/* Take all of it, and put everything in its place. */
ra_status ra_rank_take_memory(ra_rank *e);

/* Give it back, or keep it for the next run. `all`: false where somebody may still touch what travels. */
void ra_rank_give_memory(ra_rank *e, bool all);

/* What it holds, but its tables, is the next virtual rank's from now on. */
void ra_rank_pass_on(ra_rank *e);

#endif
