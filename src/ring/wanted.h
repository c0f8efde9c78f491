/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a phase that are read from storage instead of being sent. */
#ifndef RA_RING_WANTED_H
#define RA_RING_WANTED_H

#include "ring/rank.h"

/* Note the rows that are marked in held.some, on the keys of the phase that is being started. */
void ra_wanted_add(ra_rank *e, const ra_share *share);

/* Read the noted rows: in the background, or at once. */
ra_status ra_wanted_start(ra_rank *e);

/* Wait until they are read; RA_ERROR_CANCELLED if the run is asked to stop before that. */
ra_status ra_wanted_wait(ra_rank *e);

#endif
