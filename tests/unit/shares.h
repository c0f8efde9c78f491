/* SPDX-License-Identifier: Apache-2.0 */
/* Shares as tests see them: one value for each position of a sequence. */
#ifndef UNIT_SHARES_H
#define UNIT_SHARES_H

#include "plan/partition.h"
#include "support/random.h"

/* A split of `length` rows at any places over `ranks` ranks, empty pieces included; returns the number of pieces. */
int64_t choose_pieces(choices *c, int64_t length, int ranks, ra_piece *pieces, int64_t most);

/* A split by some order, or by pieces of its own. */
void choose_partition(choices *c, int64_t length, int ranks, ra_partition *partition);

/*
 * counts[position] += 1 for every marked position of a share: one bit for each, one word for each of its blocks.
 * Returns how many, or -1 when there are marks on positions that are not in the share.
 */
int64_t count_marks(const ra_share *share, const uint64_t *words, uint8_t *counts);

#endif
