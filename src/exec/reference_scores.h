/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle of the gradients of score arrays: sums in double precision, rounded once into the caller's views. */
#ifndef RA_EXEC_REFERENCE_SCORES_H
#define RA_EXEC_REFERENCE_SCORES_H

#include "score/scores.h"

typedef struct ra_score_sums {
    const ra_scores *scores;     /* NULL: there are none */
    double *of[RA_SCORE_ARRAYS]; /* dense [batch, heads, seq, dim] of each array; NULL: not wanted */
} ra_score_sums;

/* Zeros for the gradients that the scores want. Free them with ra_score_sums_free, also after a failure. */
ra_status ra_score_sums_take(ra_score_sums *sums, const ra_scores *scores);
void ra_score_sums_free(ra_score_sums *sums);

/* d_score is the gradient of the score after all terms; product, the score before them. */
void ra_score_sums_add(const ra_score_sums *sums, const ra_score_pair *pair, double product, double d_score);
void ra_score_sums_add_sink(const ra_score_sums *sums, int64_t head, double d_sink);

/* Into the caller's views. */
void ra_score_sums_put(const ra_score_sums *sums);

#endif
