/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of a run: what travels while a step is computed. */
#ifndef RA_RING_RANK_PHASE_H
#define RA_RING_RANK_PHASE_H

#include "ring/rank.h"

/* Make room for what travels in a phase, then start it. */
ra_status ra_rank_start_phase(ra_rank *e, int64_t phase);

/* Until all of it is here. */
ra_status ra_rank_wait_phase(ra_rank *e);

/* After a step: the sums that it made of the rank's own rows, where sums are gathered, to those at home. */
void ra_rank_add_own_sums(ra_rank *e, int64_t step);

/* Note, for virtual ranks, who sends what to a rank in the phases before `end`, without moving anything. */
void ra_rank_note_phases(ra_rank *e, int64_t end);

#endif
