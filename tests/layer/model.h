/* SPDX-License-Identifier: Apache-2.0 */
/* Layers with made-up parameters, beside the naive one in double precision, and the checks that tests share. */
#ifndef TEST_LAYER_MODEL_H
#define TEST_LAYER_MODEL_H

#include "oracle.h"

typedef struct model {
    oracle s;
    float *f[ORACLE_PARTS], *g[ORACLE_PARTS]; /* values, and gradients */
    float *y, *d_y;
    ra_layer_parameters p;
    ra_layer_gradients d;
    ra_tensor views[6]; /* of slopes, sinks and bias, then of their gradients */
    ra_score_arrays arrays;
} model;

float *numbers(int64_t count);

/* With the pattern of the options, and ORACLE_SCORES if it is scored. */
model *make_any(ra_layer_options o, int causal, int scored);

/* Full or causal. */
model *make_model(ra_layer_options o, int causal);
void free_model(model *m);

void ok(ra_status status);

/* Forward and backward, with every count checked against the plan. */
void run(model *m, ra_layer *layer);

/* The same in one process, by the model's options. */
void run_options(model *m);

void close_to(double got, double wanted, double size);
void check_output(const model *m);

/* Every gradient against a central difference of the naive layer. */
void check_gradients(const model *m);

/* With sum_rows: the sums of gradients of all parameters, to be freed. */
double *run_sums(const model *m, ra_layer *layer);

/* The same bits. */
void same(const model *a, const model *b);

/* Nothing is a multiple of anything; and a layer with every option. */
ra_layer_options odd_sizes(void);
ra_layer_options everything(int64_t rows);

#endif
