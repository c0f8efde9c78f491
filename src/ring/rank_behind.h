/* What a thread in the background does for a virtual rank: reading ahead, and writing behind. */
#ifndef RA_RING_RANK_BEHIND_H
#define RA_RING_RANK_BEHIND_H

#include "ring/rank.h"

/* Start a job in the background, or do it now where there is none. It notes its time in flight.seconds_behind. */
ra_status ra_rank_start_behind(ra_rank *e, ra_status (*job)(void *rank));

/* Until it is done, if there is one. */
ra_status ra_rank_wait_behind(ra_rank *e);

/* What is read in the background is not wanted any more: it ends soon, and is still to be waited for. */
void ra_rank_give_up_behind(ra_rank *e);

/* Between two parts of a read, by whoever reads: show life, and see whether the read is still wanted. */
ra_status ra_rank_between_reads(ra_rank *e);

#endif
