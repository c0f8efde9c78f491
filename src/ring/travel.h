/*
 * WHO gives WHAT to whom: the keys of each step, the rows of them that a rank reads, and where these come from. Pure
 * arithmetic on the plan, with rows as marks: see ring/need.h.
 */
#ifndef RA_RING_TRAVEL_H
#define RA_RING_TRAVEL_H

#include "ring/need.h"
#include "ring/ring_plan.h"

/*
 * Rows of a share of one or two ranges are held range by range, so that one can be given up before the other; unless
 * they are read by reference, and must lie together.
 */
enum { RA_PARTS = 2 };

int64_t ra_step_count(const ra_ring_plan *ring);

/* The rank so many places before another. */
int ra_rank_before(const ra_ring_plan *ring, int rank, int64_t steps);

int ra_part_count(const ra_ring_plan *ring, const ra_share *share);
ra_share ra_part_of(const ra_ring_plan *ring, const ra_share *share, int part);

/* Where the words of a part begin among those of a set. */
int64_t ra_part_block(const ra_ring_plan *ring, const ra_share *share, int part);

/* The keys of a rank's step. */
ra_share ra_step_keys(const ra_ring_plan *ring, int rank, int64_t step);

/* Mark the rows of a step that a rank works on: words for each block of ra_step_keys, cleared first. */
void ra_step_needed(const ra_ring_plan *ring, int rank, int64_t step, uint64_t *words);

/* Mark the rows that go from one rank to another in a phase: words for each block of the receiver's step keys. */
void ra_phase_rows(const ra_ring_plan *ring, int from, int to, int64_t phase, uint64_t *words, uint64_t *scratch);

/* The same rows among those that the sender holds: words for each block of the share they are of, ra_held_keys. */
void ra_phase_held(const ra_ring_plan *ring, int from, int to, int64_t phase, uint64_t *words, uint64_t *scratch);

/* What a sender has the rows of a phase in: in a ring the chunk that travels, else its own share. */
ra_share ra_held_keys(const ra_ring_plan *ring, int from, int to, int64_t phase);

/* Words that the functions above need room for, at most, for each set of marks. */
int64_t ra_most_blocks(const ra_ring_plan *ring);

/* Words of all sets of marks on a share. */
int64_t ra_words_of(const ra_ring_plan *ring, const ra_share *keys);

/* Mark the rows of `keys` that a rank reads. False: there are none, and the words have not been touched. */
bool ra_needed_rows(const ra_ring_plan *ring, int rank, const ra_share *keys, uint64_t *words);

#endif
