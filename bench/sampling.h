/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of one case, and their statistics. */
#ifndef BENCH_SAMPLING_H
#define BENCH_SAMPLING_H

#include "probe.h"

#include <stdbool.h>

enum { SAMPLING_MOST = 1000 };

typedef struct sample {
    double seconds;
    double value; /* the rate that was measured */
    double share; /* of the processor time that its threads could have had */
    double yard;  /* what the rate is compared with; 0: the peak around it */
    probe_reading before, after;
} sample;

typedef struct samples {
    int count;
    sample at[SAMPLING_MOST];
} samples;

/*
 * Something to be timed: sets the seconds that it took, and whatever else of the sample is not what sampling_take makes
 * of it: the value 1 / seconds, the share by the processor time of this process, the yard 0.
 */
typedef ra_status (*sampling_work)(void *user, sample *s);

/* One more sample of it, between two readings of the probes. */
ra_status sampling_take(samples *s, ra_kernel_id kernel, int threads, sampling_work work, void *user);

/* Ratio to the yard, or to the peak (the higher of its two readings), of quiet samples if there are any, else of all.
 */
typedef struct sampling_result {
    double value, ratio;       /* medians */
    double seconds, low, high; /* the median and the quartiles */
    double product;            /* median of what the matrix-product probe reached of the peak around the samples */
    double peak;               /* median of the peak */
    int quiet, count;
} sampling_result;

/* The middle value, and the value at a fraction of the way up, between two of them in proportion; both sort `values`,
 * and are 0 for none. */
double sampling_median(double *values, int count);
double sampling_quantile(double *values, int count, double fraction);

/* How far the middle half of all samples' seconds is apart, to their median; infinite for fewer than three. */
double sampling_spread(const samples *s);

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
 * Two things measured in the same rounds: medians of the seconds of both and of the rounds' ratios of seconds, over the
 * rounds in which both were quiet if there are any, else over all.
 */
typedef struct sampling_relation {
    double seconds, base, ratio;
    int quiet, count;
} sampling_relation;

sampling_relation sampling_against(const samples *s, const samples *base, probe_reading best);

#endif
