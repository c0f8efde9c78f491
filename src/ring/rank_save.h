/* SPDX-License-Identifier: Apache-2.0 */
/* Where a run can go on later: a rank saves where it stands, and goes on from there. */
#ifndef RA_RING_RANK_SAVE_H
#define RA_RING_RANK_SAVE_H

#include "ring/rank.h"

/* Begins, or goes on from a point: counts are what they were. NULL: there is none. */
void ra_rank_begin(ra_rank *e, const ra_point *point);

/* Where the ranks have told each other how far they are. */
ra_status ra_rank_go_on(ra_rank *e, const ra_point *point);

/* So many keys took so long: a run that is asked to stop should not have to wait that long for its next stop. */
void ra_rank_pace(ra_rank *e, int64_t keys, double seconds);

/* Save if it is time to. `status` is what the step ended with. */
ra_status ra_rank_save(ra_rank *e, ra_status status);

#endif
