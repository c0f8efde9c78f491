/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses among several ways to run a problem, and gives the reason against the others: from figures alone. */
#ifndef CLI_ADVICE_H
#define CLI_ADVICE_H

#include "bench/model.h"

#include <stddef.h>

/* One way to run the problem, with its predicted time and planned memory. */
typedef struct advice_choice {
    bool local; /* in one piece: there are no ranks */
    ra_strategy strategy;
    ra_order order;
    int ranks;
    int64_t chunk; /* rows of keys that a rank holds */
    int64_t bytes; /* that the largest process holds */
    model_work work;
    model_prediction time;
} advice_choice;

enum { ADVICE_CHOICES = 9 };

/* The question, and all that is known about it. */
typedef struct advice {
    ra_problem problem;
    ra_options options;
    ra_ring_options ring; /* options that all choices over ranks share: transport, memory, dtypes */
    advice_choice choices[ADVICE_CHOICES];
    int count, best;
    int left_out; /* choices that were not planned, because planning takes long */
    machine_model model;
    double calibrated; /* seconds of the calibration */
} advice;

/*
 * The fastest choice that fits into `memory`. If several are as fast within the error of a prediction, the first of
 * them. -1: none fits.
 */
int advice_best(const advice_choice *choices, int count, int64_t memory);

/* The choice over ranks that holds least. */
int advice_smallest(const advice_choice *choices, int count);

enum { ADVICE_REASON = 160 };

/* The reason against `lost` where `best` can be taken: one sentence. */
void advice_reason(const advice_choice *lost, const advice_choice *best, int64_t memory, char reason[ADVICE_REASON]);

#endif
