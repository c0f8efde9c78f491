/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions: pairs of elements of a head are turned by an angle that grows with the position. */
#include "layer/layer.h"

#include <math.h>
#include <ringattn/transport.h>
#include <stdlib.h>

static void compute(const ra_layer *layer, int64_t position, float *turn)
{
    int64_t half = layer->o.head_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        double angle = (double)position * layer->frequencies[i];
        turn[i] = (float)cos(angle);
        turn[half + i] = (float)sin(angle);
    }
}

ra_status ra_rotary_prepare(ra_layer *layer)
{
    int64_t dim = layer->o.head_dim;
    if (!layer->frequencies || layer->o.cache)
        return RA_OK;
    layer->turns = malloc((size_t)(layer->rows * dim + 1) * sizeof(float));
    if (!layer->turns)
        return ra_transport_fail(RA_ERROR_MEMORY, "no memory for the rotations of %lld rows", (long long)layer->rows);
    for (int64_t row = 0; row < layer->rows; row++)
        compute(layer, layer->o.first_position + layer->positions[row], layer->turns + row * dim);
    return RA_OK;
}

const float *ra_rotary_turn(const ra_layer *layer, int64_t row, int64_t shift, float *own)
{
    if (layer->turns)
        return layer->turns + row * layer->o.head_dim;
    if (!layer->frequencies)
        return NULL;
    compute(layer, layer->o.first_position + layer->positions[row] + shift, own);
    return own;
}

void ra_rotary_apply(const ra_layer *layer, const float *turn, int direction, int64_t heads, float *row)
{
    int64_t dim = layer->o.head_dim, half = dim / 2;
    int64_t step = layer->o.rotary_interleaved ? 2 : 1, apart = layer->o.rotary_interleaved ? 1 : half;
    for (int64_t h = 0; h < heads; h++) {
        float *head = row + h * dim;
        for (int64_t i = 0; i < half; i++) {
            float c = turn[i], s = (float)direction * turn[half + i];
            float a = head[i * step], b = head[i * step + apart];
            head[i * step] = a * c - b * s;
            head[i * step + apart] = a * s + b * c;
        }
    }
}
