/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of one head in three plain loops. The same on OpenBLAS is in naive_blas.c. See naive.h. */
#include "naive.h"

#include <math.h>

void naive_attention(const float *q, const float *k, const float *v, float *output, float *scores, int64_t length,
                     int64_t dim, float scale)
{
    for (int64_t i = 0; i < length; i++) {
        float max = -INFINITY, sum = 0;
        for (int64_t j = 0; j < length; j++) {
            float dot = 0;
            for (int64_t d = 0; d < dim; d++)
                dot += q[i * dim + d] * k[j * dim + d];
            scores[j] = dot * scale;
            max = fmaxf(max, scores[j]);
        }
        for (int64_t j = 0; j < length; j++) {
            scores[j] = expf(scores[j] - max);
            sum += scores[j];
        }
        for (int64_t d = 0; d < dim; d++) {
            float dot = 0;
            for (int64_t j = 0; j < length; j++)
                dot += scores[j] * v[j * dim + d];
            output[i * dim + d] = dot / sum;
        }
    }
}
