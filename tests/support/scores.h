/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up scores for problems: a text, and arrays in memory with strides of their own. */
#ifndef SUPPORT_SCORES_H
#define SUPPORT_SCORES_H

#include "ringattn/ringattn.h"
#include "support/random.h"

enum { SCORE_SLOPES, SCORE_TABLE, SCORE_BIAS, SCORE_SINKS, SCORE_VIEWS };

typedef struct made_scores {
    char text[160];
    ra_score_arrays arrays;
    ra_tensor views[SCORE_VIEWS];
    void *memory[SCORE_VIEWS]; /* owned */
    double size;               /* of what is added to scores, at most */
} made_scores;

/* Terms, as bits, in any order. */
enum {
    WITH_SOFTCAP = 1,
    WITH_ALIBI = 2,
    WITH_RELATIVE = 4,
    WITH_BIAS = 8,
    WITH_SINKS = 16,
    WITH_DROPOUT = 32,
    WITH_ANY = 63
};

/* Scores with these terms for a problem whose sizes are set. The problem gets its text and arrays. */
void make_scores(choices *c, unsigned terms, ra_problem *problem, made_scores *scores);

/* At least one term. */
unsigned choose_terms(choices *c);

void scores_free(made_scores *scores);

#endif
