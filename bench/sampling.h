/* Samples of one thing measured, and what may be said of them. */
#ifndef BENCH_SAMPLING_H
#define BENCH_SAMPLING_H

#include "probe.h"

#include <stdbool.h>

enum { SAMPLING_MOST = 1000 };

typedef struct sample {
    double value; /* the rate that was measured */
    double share; /* of the processor time that its threads could have had */
    probe_reading before, after;
} sample;

typedef struct samples {
    int count;
    sample at[SAMPLING_MOST];
} samples;

/* Something to be timed: the seconds that it took. */
typedef ra_status (*sampling_work)(void *user, double *seconds);

/* One more sample of it, between two readings of the probes; its value is how often it could be done in a second. */
ra_status sampling_take(samples *s, ra_kernel_id kernel, int threads, sampling_work work, void *user);

/* Ratio to the peak (the higher of its two readings), of quiet samples if there are any, else of all. */
typedef struct sampling_result {
    double value, ratio; /* medians */
    double product;      /* median of what the matrix-product probe reached of the peak around the same samples */
    int quiet, count;
} sampling_result;

/* The middle value, and the value below which a fraction of them lies; both sort `values`, and are 0 for none. */
double sampling_median(double *values, int count);
double sampling_quantile(double *values, int count, double fraction);

/* Copies the readings of the matrix-product probe, two for each sample; returns how many. */
int sampling_readings(const samples *s, double *readings);

/* What that probe gives when nothing disturbs it: nine tenths of a run's readings are lower. Sorts them. */
probe_reading sampling_undisturbed(double *readings, int count);

/*
 * A sample is quiet when its threads had 0.95 of their processor time, and when the matrix-product probe before and
 * after it reached 0.95 of `best`, an undisturbed reading: a busy neighbour on the same core slows that probe, and
 * kernels with it, far more than the multiply-add loop.
 */
sampling_result sampling_of(const samples *s, probe_reading best);

/*
 * Two things measured in the same rounds: medians of both and of the rounds' ratios, over the rounds in which both were
 * quiet if there are any, else over all.
 */
typedef struct sampling_relation {
    double value, base, ratio;
    int quiet, count;
} sampling_relation;

sampling_relation sampling_against(const samples *s, const samples *base, probe_reading best);

#endif
