/* What a thread in the background does for a virtual rank: reading ahead, and writing behind. */
#ifndef RA_RING_RANK_BEHIND_H
#define RA_RING_RANK_BEHIND_H

#include "ring/rank.h"

/* Start a job in the background, or do it now where there is none. It notes its time in flight.seconds_behind. */
ra_status ra_rank_start_behind(ra_rank *e, ra_status (*job)(void *rank));

/* Until it is done, if there is one. */
ra_status ra_rank_wait_behind(ra_rank *e);

#endif
