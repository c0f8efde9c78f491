/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of a bias with a row for each query, over real ranks. A rank adds to the elements of its own pairs: of
 * the queries that stay with it, or of the keys. After its steps the whole gradient goes through the ranks in parts:
 * up to the last one, to which each rank adds the elements of its own pairs, and back, where each writes all.
 *
 * Ranks of one process may have the same array: a rank writes an element of another rank only after that rank has read
 * it.
 */
#ifndef RA_RING_RANK_BIAS_H
#define RA_RING_RANK_BIAS_H

#include "ring/rank_arrays.h"

/* Set the elements of the rank's own pairs to zero. */
void ra_bias_clear(ra_rank *e);

/* Bring all elements to all ranks. */
ra_status ra_bias_exchange(ra_rank *e);

#endif
