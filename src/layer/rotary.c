/* Rotary positions: pairs of elements of a head are turned by an angle that grows with the position. */
#include "layer/layer.h"

#include <math.h>

void ra_rotary_turn(const ra_layer *layer, int64_t position, float *turn)
{
    int64_t half = layer->o.head_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        double angle = (double)position * layer->frequencies[i];
        turn[i] = (float)cos(angle);
        turn[half + i] = (float)sin(angle);
    }
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
