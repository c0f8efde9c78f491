/* SPDX-License-Identifier: Apache-2.0 */
/* Logs of trainings, a JSON line a step as `lm train --log` writes them, and the report that they make. */
#ifndef REPORT_TRAINING_H
#define REPORT_TRAINING_H

#include "document.h"

#include <stdbool.h>

/* A step; of ranks, what all of them did together, and the most that one of them held. */
typedef struct training_step {
    double step, tokens, loss, tokens_per_second;
    double compute, wait, communication; /* seconds */
    double planned_bytes, peak_bytes;
    int ranks;
} training_step;

typedef struct training {
    const char *name; /* of its file, without control characters */
    training_step *steps;
    int count;
} training;

typedef struct trainings {
    training *at;
    int count;
    arena memory;
} trainings;

/* Whether a file is a log of a training: one of its first lines is a step. False if it cannot be read, too. */
bool training_is_log(const char *path);

/*
 * Adds a log. Lines without `loss` say other things and are passed over; one with it that is no step is complained of
 * and left out. Returns how many steps it had, -1 with errno set when it cannot be read.
 */
int trainings_read(trainings *t, const char *path, rows_complaint complain, void *user);
void trainings_free(trainings *t);

/* All that the logs say; there is at least one step in each. */
void document_make_training(document *d, const trainings *t);

#endif
