/* The phases of a run: what travels while a step is computed. */
#ifndef RA_RING_RANK_PHASE_H
#define RA_RING_RANK_PHASE_H

#include "ring/rank.h"

/* Make room for what travels in a phase, then start it. */
ra_status ra_rank_start_phase(ra_rank *e, int64_t phase);

/* Until all of it is here. */
ra_status ra_rank_wait_phase(ra_rank *e);

/* Note, for virtual ranks, who sends what to a rank in the phases before `end`, without moving anything. */
void ra_rank_note_phases(ra_rank *e, int64_t end);

#endif
