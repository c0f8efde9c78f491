/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a long piece of work is, on standard error: a bar where that is a terminal, else a line every few seconds;
 * and the way to stop the work.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <ringattn/ringattn.h>
#include <stdbool.h>

typedef struct progress {
    const char *label;
    const char *unit; /* of the rate: "Gflop/s" */
    double unit_size; /* units in one step of `done` */
    bool shown;       /* at all */
    bool bar;         /* standard error is a terminal */
    double started, drawn;
    double skipped;        /* what was done before this run began; below 0: not known yet */
    ra_ring_moment moment; /* chunks is 0 where there are none */
    bool stops_later;      /* somebody else looks for a signal */
} progress;

/* Seconds on a clock that only goes forward. */
double progress_clock(void);

void progress_start(progress *bar, const char *label, const char *unit, double unit_size);

/* An ra_progress callback, with the bar as `user`: draws now and then; non-zero once a signal has asked to stop. */
int progress_step(void *bar, double done, double total);

/* What an ra_ring_options watches with, and the bar as `user`. */
void progress_watch(void *bar, const ra_ring_moment *moment);

/* Takes the bar off the screen. */
void progress_end(progress *bar);

#endif
