/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a rank: into storage, and what was counted on the way. */
#ifndef RA_RING_RANK_RESULTS_H
#define RA_RING_RANK_RESULTS_H

#include "ring/rank.h"

/* Results go where they are in the caller's memory. */
void ra_rank_set_output(ra_rank *e);

/* Divide, and write the rows. */
ra_status ra_rank_write_results(ra_rank *e);

void ra_rank_fill_stats(ra_rank *e, double started);

/* What a rank did in a further pass on top of what it did in those before. Pairs are those of the first. */
void ra_rank_stats_add(ra_rank_stats *stats, const ra_rank_stats *further);

/* A run proves itself: what was counted on the way is what the plan counted from the pattern alone. What virtual ranks
 * have sent is known when all of them have run. */
ra_status ra_rank_prove(const ra_rank *e);
ra_status ra_ledger_prove(const ra_pass *pass, const int64_t *ledger, ra_rank_stats *stats);

#endif
