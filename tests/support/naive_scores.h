/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scores from the words of their definition, pair by pair, and made-up arrays for them: nothing here is the library's,
 * the generator of dropout included. Texts name no files.
 */
#ifndef SUPPORT_NAIVE_SCORES_H
#define SUPPORT_NAIVE_SCORES_H

#include "ringattn/ringattn.h"
#include "support/random.h"

enum { NAIVE_SLOPES, NAIVE_TABLE, NAIVE_BIAS, NAIVE_SINKS, NAIVE_ARRAYS };

typedef struct naive_scores {
    char text[256];
    ra_tensor views[NAIVE_ARRAYS], gradients[NAIVE_ARRAYS]; /* float32, of memory that is owned; no data: not there */
    double *values[NAIVE_ARRAYS];                           /* the same elements, [batch][seq][heads][dim]; owned */
    int64_t counts[NAIVE_ARRAYS];
    ra_score_arrays arrays; /* the views; without gradients unless naive_scores_want sets them */
} naive_scores;

/*
 * Arrays for the terms of `text`, for a problem in which nothing is left at RA_SAME. Some sizes that may be 1 are.
 * Slopes are made up too. It must stay where it is.
 */
void naive_scores_make(naive_scores *n, const char *text, const ra_problem *problem, choices *c);
void naive_scores_free(naive_scores *n);

/* Views for the gradients of all arrays, with elements that must be overwritten. */
void naive_scores_want(naive_scores *n);

/* A text of up to four terms: softcap, alibi, relative, bias, sinks, dropout. */
void choose_scores(choices *c, char *text, size_t size);

/* A query and a key: positions of the problem and indices. */
typedef struct naive_pair {
    int64_t batch, head, position, key_position, query, key;
} naive_pair;

/* The score after all terms. */
double naive_score(const naive_scores *n, const naive_pair *pair, double score);

/* 0, or what dropout multiplies the weight by. */
double naive_kept(const naive_scores *n, const naive_pair *pair);

/* exp of the row's sink; 0 without one. */
double naive_sink_weight(const naive_scores *n, int64_t head);

#endif
