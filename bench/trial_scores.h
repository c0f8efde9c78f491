/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scores of a problem for the short runs of a calibration: the same terms over made-up arrays of zeros. Arrays of a
 * problem are in files. A bias is read from a file here, too: it has no name and lies in memory, as a file does that is
 * in the system's cache.
 */
#ifndef BENCH_TRIAL_SCORES_H
#define BENCH_TRIAL_SCORES_H

#include <ringattn/ringattn.h>
#include <stdbool.h>
#include <stdio.h>

enum { TRIAL_BIASES = 4, TRIAL_ZEROS = 257, TRIAL_TERMS_TEXT = 192, TRIAL_SCORES_TEXT = 256 };

/* Of a shape [1, 1, queries, keys]. */
typedef struct trial_bias {
    FILE *file;
    int64_t queries, keys;
} trial_bias;

typedef struct trial_scores {
    char text[TRIAL_TERMS_TEXT]; /* all terms but a bias; "" if there is none */
    bool biased, bias_by_query;  /* there is a bias; it has a row for each query */
    float zeros[TRIAL_ZEROS];    /* what the views show */
    ra_tensor table, sinks;
    ra_score_arrays arrays;
    trial_bias biases[TRIAL_BIASES];
    int count; /* of biases */
} trial_scores;

/* The terms of `text`, which a plan has accepted; NULL: none. Give them back after a failure too. Must not be moved. */
ra_status trial_scores_take(trial_scores *s, const char *text, int64_t heads);
void trial_scores_give(trial_scores *s);

/* Puts them into the problem of a run; `text` must stay until it is planned. */
ra_status trial_scores_place(trial_scores *s, ra_problem *problem, char text[TRIAL_SCORES_TEXT]);

#endif
