/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How every suite measures: its cases take turns, in an order that is drawn anew for each round, so that a machine that
 * is slow for a while is slow to all of them; each sample stands between readings of the probes. It ends when the
 * samples of every case agree, the rounds are used up, or the time is.
 */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include "bench.h"
#include "sampling.h"

typedef struct harness_case {
    const char *name;
    ra_kernel_id kernel; /* and threads of the probes around it */
    int threads;
    int most; /* samples; 0: as many as there are rounds */
    sampling_work run;
    void *user;
    samples taken;
} harness_case;

/* Cases whose run is NULL are left out. 0; when a case fails 1, with a message. */
int harness_measure(const bench_options *options, harness_case *cases, int count);

/* What the matrix-product probe gives undisturbed, by the cases with the same kernel and threads as this one. */
probe_reading harness_undisturbed(const harness_case *cases, int count, const harness_case *of);

/* Whether the options ask for a case of that name. */
bool harness_wanted(const bench_options *options, const char *name);

/* Says which case failed, and what the library says of it; 1. */
int harness_failed(const char *name, ra_status status);

/* Says that there is no case of the name that was asked for; 2. */
int harness_nothing(const bench_options *options);

#endif
