/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a rank: the tiles of the rows that are here. */
#ifndef RA_RING_RANK_TILES_H
#define RA_RING_RANK_TILES_H

#include "ring/rank.h"

/* Called between tiles: signs of life, progress. Non-zero: stop. */
int ra_rank_poll(void *rank, double pairs);

/* All steps, from the first that is not done. */
ra_status ra_rank_run_steps(ra_rank *e);

/* Have the keys of all steps at hand, for a virtual rank whose tasks go through all of them. */
ra_status ra_rank_set_steps(ra_rank *e);

#endif
