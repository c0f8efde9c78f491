/* A bar with rate and time left, on standard error and only when that is a terminal; and the way to stop the work. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>

typedef struct progress {
    const char *label;
    const char *unit; /* of the rate: "Gflop/s" */
    double unit_size; /* units in one step of `done` */
    bool shown;       /* standard error is a terminal */
    double started, drawn;
} progress;

/* Seconds on a clock that only goes forward. */
double progress_clock(void);

void progress_start(progress *bar, const char *label, const char *unit, double unit_size);

/* An ra_progress callback, with the bar as `user`: draws now and then; non-zero once a signal has asked to stop. */
int progress_step(void *bar, double done, double total);

/* Takes the bar off the screen. */
void progress_end(progress *bar);

#endif
