/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of the layer's parameters: where they go, and how blocks of tokens are summed. */
#ifndef RA_LAYER_GRADIENTS_H
#define RA_LAYER_GRADIENTS_H

#include "layer/layer.h"

/* Where the gradient of a parameter goes: one of the two, or neither. */
typedef struct ra_layer_outlet {
    float *values; /* written */
    double *sums;  /* added to; with sum_rows */
} ra_layer_outlet;

typedef struct ra_layer_outlets {
    ra_layer_outlet w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o;
    ra_layer_outlet norm_q, norm_k, norm_o_weight, norm_o_bias;
} ra_layer_outlets;

ra_layer_outlets ra_layer_outlets_of(const ra_layer *layer, const ra_layer_gradients *gradients);

/* The gradient of a weight, over all tokens: [outputs, inputs] = d' in. */
typedef struct ra_layer_weight {
    int64_t outputs, inputs;
    const float *d, *in;
    ra_layer_outlet to;
} ra_layer_weight;

/* Returns the flops. `tiles` as in ra_layer_backward_parts. */
double ra_layer_weight_gradients(const ra_layer *layer, const ra_layer_weight *all, int count, float *tiles);

/* The blocks' sums of columns from..from + width. */
void ra_layer_add_blocks(const ra_layer *layer, const ra_layer_backward_parts *parts, int64_t from, int64_t width,
                         ra_layer_outlet to);

#endif
