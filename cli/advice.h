/* Which of several ways to run a problem to take, and why not the others: from figures alone. */
#ifndef CLI_ADVICE_H
#define CLI_ADVICE_H

#include "bench/model.h"

#include <stddef.h>

/* One way, with what it would take. */
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

/* What was asked, and all that is known about it. */
typedef struct advice {
    ra_problem problem;
    ra_options options;
    ra_ring_options ring; /* what all choices over ranks have in common: transport, memory, dtypes */
    advice_choice choices[ADVICE_CHOICES];
    int count, best;
    int left_out; /* choices that were not looked at */
    machine_model model;
    double calibrated; /* seconds that it took */
} advice;

/*
 * The fastest of those that fit into `memory`; of those that are as fast, as far as a prediction can tell, the first.
 * -1: none fits.
 */
int advice_best(const advice_choice *choices, int count, int64_t memory);

/* Of those over ranks, the one that holds least. */
int advice_smallest(const advice_choice *choices, int count);

enum { ADVICE_REASON = 160 };

/* Why `lost` is not to be taken where `best` can be: one sentence. */
void advice_reason(const advice_choice *lost, const advice_choice *best, int64_t memory, char reason[ADVICE_REASON]);

#endif
