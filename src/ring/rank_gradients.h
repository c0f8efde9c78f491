/* SPDX-License-Identifier: Apache-2.0 */
/* A pass of a backward run on one rank: the rows that stay, the tasks of a step, and the gradients at the end. */
#ifndef RA_RING_RANK_GRADIENTS_H
#define RA_RING_RANK_GRADIENTS_H

#include "ring/rank.h"

/* Read the rank's own rows on the side that stays. */
ra_status ra_gradients_load(ra_rank *e);

/* Add the gradients that come from the rows in the slot of a step. */
ra_status ra_gradients_step(ra_rank *e, int64_t step);

/* Call it after a step and the phase beside it: virtual ranks write the sums that the step added to. */
ra_status ra_gradients_keep(ra_rank *e, int64_t step);

/* Round the sums and write them. */
ra_status ra_gradients_write(ra_rank *e);

#endif
