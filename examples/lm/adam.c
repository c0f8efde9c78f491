/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW, as every rank does it from the same gradients. */
#include "lm.h"

#include <math.h>

static const double KEEP_MEAN = 0.9, KEEP_SQUARE = 0.95, SMALL = 1e-8, DECAY = 0.1, CLIP = 1, LAST = 0.1;

double lm_rate(const lm_config *c, int64_t step)
{
    if (step < c->warmup)
        return c->rate * (double)(step + 1) / (double)c->warmup;
    double part = c->steps > c->warmup ? (double)(step - c->warmup) / (double)(c->steps - c->warmup) : 1;
    return c->rate * (LAST + (1 - LAST) * 0.5 * (1 + cos(3.14159265358979323846 * part)));
}

/* Squares are summed block by block: the sum does not depend on the number of threads. */
static double norm(const double *values, int64_t count)
{
    enum { BLOCK = 4096 };
    double total = 0;
    for (int64_t first = 0; first < count; first += BLOCK) {
        double sum = 0;
        for (int64_t i = first; i < count && i < first + BLOCK; i++)
            sum += values[i] * values[i];
        total += sum;
    }
    return sqrt(total);
}

double lm_adam_step(const lm_config *c, const lm_adam *adam, int64_t step, int threads, const double *gradients,
                    float *parameters)
{
    double length = norm(gradients, lm_parameter_count(c)), rate = lm_rate(c, step);
    double clip = length > CLIP ? CLIP / length : 1;
    float small = (float)SMALL;
    float mean = (float)(1 / (1 - pow(KEEP_MEAN, (double)(step + 1))));
    float square = (float)(1 / (1 - pow(KEEP_SQUARE, (double)(step + 1))));
    lm_tensor t;
    for (int64_t index = 0; lm_tensor_at(c, index, &t); index++) {
        float decay = t.deviation > 0 ? (float)(1 - rate * DECAY) : 1;
#pragma omp parallel for num_threads(threads)
        for (int64_t i = t.first; i < t.first + t.count; i++) {
            float g = (float)(gradients[i] * clip);
            adam->mean[i] += (float)(1 - KEEP_MEAN) * (g - adam->mean[i]);
            adam->square[i] += (float)(1 - KEEP_SQUARE) * (g * g - adam->square[i]);
            parameters[i] = parameters[i] * decay -
                            (float)rate * (adam->mean[i] * mean) / (sqrtf(adam->square[i] * square) + small);
        }
    }
    return length;
}
