/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A short run of a calibration: a forward or a backward pass over made-up tensors, in one piece or over virtual ranks.
 * Which runs there are, and what is made of their times: calibration.c.
 */
#ifndef BENCH_TRIAL_H
#define BENCH_TRIAL_H

#include "model.h"
#include "tensors.h"
#include "trial_scores.h"

typedef struct trial_form {
    const char *pattern;
    int64_t q_len, kv_len;
    int ranks; /* virtual; 0: in one piece */
    ra_strategy strategy;
    ra_order order;
    bool stored; /* out of storages and back, as from and to files that are in the system's cache */
} trial_form;

/* What the runs of a calibration share. Shorter ones take the first rows. */
typedef struct trial_tensors {
    bool backward;
    bench_tensors inputs;    /* and the output */
    bench_tensors gradients; /* by q, k, v and output; of a backward pass */
    ra_tensor lse;           /* of a backward pass; its data is owned */
    trial_scores scores;
} trial_tensors;

/* The order in which a backward pass takes them. A forward pass has the first of them, and no log-sum-exp. */
typedef enum trial_tensor {
    TRIAL_Q,
    TRIAL_K,
    TRIAL_V,
    TRIAL_OUTPUT,
    TRIAL_LSE,
    TRIAL_D_OUTPUT,
    TRIAL_D_Q,
    TRIAL_D_K,
    TRIAL_D_V,
    TRIAL_TENSORS
} trial_tensor;

/* A run ready to be timed. */
typedef struct trial {
    bool backward, stored;
    ra_plan *plan;
    ra_ring_plan *ring;
    ra_comm *comm;
    ra_tensor tensors[TRIAL_TENSORS];
    model_work work;
} trial;

/* Made-up tensors, and the terms of `scores` (NULL: none); give them back after a failure too. */
ra_status trial_tensors_take(trial_tensors *t, const bench_shape *shape, const char *scores, bool backward);
void trial_tensors_give(trial_tensors *t);

/* The tensors must stay. Free it after a failure too. */
ra_status trial_prepare(trial *t, const trial_form *form, trial_tensors *tensors, const ra_options *options);
void trial_free(trial *t);

ra_status trial_run(const trial *t);

#endif
