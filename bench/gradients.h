/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the suite of backward passes measures: the gradients of one attention problem in one piece. Its tensors, how it
 * is run, and what the oracle says of sampled rows. subject.h has the same for forward passes.
 */
#ifndef BENCH_GRADIENTS_H
#define BENCH_GRADIENTS_H

#include "results.h"
#include "tensors.h"

typedef struct gradients_spec {
    const char *name;
    bench_shape shape;
    const char *pattern;
    int threads;
    ra_kernel_id kernel;
} gradients_spec;

typedef struct gradients {
    gradients_spec spec;
    const bench_tensors *inputs; /* somebody else's: q, k and v */
    ra_problem problem;
    ra_plan *plan;
    void *memory; /* of the tensors below */
    ra_tensor output, lse, d_output, d_q, d_k, d_v;
    ra_stats stats; /* of the last backward pass */
    double error;   /* of sampled rows, in parts of the largest element of theirs in the same gradient */
    int rows;       /* that were compared with the oracle */
} gradients;

/* Plan it, take its tensors, run both passes once and compare rows with the oracle. The inputs must stay. */
ra_status gradients_prepare(gradients *g, const gradients_spec *spec, const bench_tensors *inputs, uint64_t seed);
void gradients_give(gradients *g);

/* A sampling_work with the gradients as `user`. Short runs are repeated; the time is their median. */
ra_status gradients_sample(void *gradients, sample *s);

/* Whether what it computes is right: compared with the oracle, and in tolerance. */
bool gradients_right(const gradients *g);

/* Problem, way, memory, error and flops of a row. */
void gradients_describe(const gradients *g, result_row *row);

#endif
