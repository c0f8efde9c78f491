/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread in the background does for a virtual rank: reading ahead, and writing behind. */
#ifndef RA_RING_RANK_BEHIND_H
#define RA_RING_RANK_BEHIND_H

#include "ring/rank.h"

/* Start a job in the background, or run it now if there is no background. Its time is added to flight.seconds_behind.
 */
ra_status ra_rank_start_behind(ra_rank *e, ra_status (*job)(void *rank));

/* Wait for the job in the background, if there is one. */
ra_status ra_rank_wait_behind(ra_rank *e);

/* Give up the read in the background: it ends soon. The caller must still wait for it. */
void ra_rank_give_up_behind(ra_rank *e);

/* Called by the reading thread between two parts of a read: show life, and see whether the read was given up. */
ra_status ra_rank_between_reads(ra_rank *e);

#endif
