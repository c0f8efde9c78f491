/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the suite of layers measures: one forward pass of a multi-head layer, in one process or on the ranks of an
 * mpirun. Its arrays, how it is run, and what the oracle says of sampled rows.
 */
#ifndef BENCH_LAYER_RUN_H
#define BENCH_LAYER_RUN_H

#include "results.h"

#include <ringattn/multihead.h>

/* The layer of the published table; LAYER_ROWS are compared with the oracle. */
enum { LAYER_EMBED = 768, LAYER_HEADS = 12, LAYER_DIM = 64, LAYER_ROWS = 6 };
#define LAYER_PATTERN "dilated:2048/1,4096/2+causal"

typedef struct layer_spec {
    const char *name;
    int number; /* by which ranks are told to take part */
    int64_t length;
    int ranks;   /* processes of an mpirun; 0: in one process, */
    int threads; /* of each rank */
    uint64_t seed;
} layer_spec;

typedef struct layer_run {
    layer_spec spec;
    ra_layer *layer;
    ra_comm *comm;
    ra_layer_info info;
    const float *weights; /* somebody else's, of layer_weights */
    ra_layer_parameters parameters;
    float *x, *y;
    ra_layer_stats stats; /* of the last run */
    double attention[SAMPLING_MOST], wait[SAMPLING_MOST];
    int timed;
    bool checked;
    double flops;   /* of all ranks */
    double error;   /* of sampled rows, in parts of the largest element of each */
    double bytes;   /* x, y and all that is held, of the largest rank; parameters aside */
    double planned; /* the same before the run */
} layer_run;

/* The four projections, one after the other, to be freed; NULL with a message. */
float *layer_weights(uint64_t seed);

/* Make the layer and the rows of x that are here. `weights` must stay. */
ra_status layer_prepare(layer_run *run, const layer_spec *spec, const float *weights);
void layer_give(layer_run *run);

/* All ranks come here. The first run is compared with the oracle. Seconds are those of the slowest rank. */
ra_status layer_pass(layer_run *run, double *seconds, double *share);

bool layer_right(const layer_run *run);

/* Problem, way, memory, error and flops of a row. */
void layer_describe(layer_run *run, result_row *row);

#endif
