/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of a head and of a row, and their gradients. Sums are in double precision, in a fixed order. */
#include "layer/layer.h"

#include <math.h>

/* Sum of a[i] * b[i] in four sums, which the processor can add at the same time. */
static double dot(int64_t n, const float *a, const float *b)
{
    double sum[4] = {0, 0, 0, 0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int lane = 0; lane < 4; lane++)
            sum[lane] += (double)a[i + lane] * b[i + lane];
    for (; i < n; i++)
        sum[0] += (double)a[i] * b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

void ra_rms_norm(int64_t dim, double epsilon, const float *x, const float *weight, float *out)
{
    float inverse = (float)(1 / sqrt(dot(dim, x, x) / (double)dim + epsilon));
    for (int64_t i = 0; i < dim; i++)
        out[i] = x[i] * inverse * weight[i];
}

void ra_rms_norm_backward(int64_t dim, double epsilon, const float *x, const float *weight, float *d, double *d_weight)
{
    double inverse = 1 / sqrt(dot(dim, x, x) / (double)dim + epsilon);
    if (d_weight)
        for (int64_t i = 0; i < dim; i++)
            d_weight[i] += (double)d[i] * x[i] * inverse;
    for (int64_t i = 0; i < dim; i++)
        d[i] *= weight[i];
    double along = dot(dim, d, x) * inverse * inverse / (double)dim;
    for (int64_t i = 0; i < dim; i++)
        d[i] = (float)(inverse * (d[i] - along * x[i]));
}

/* The mean of a row and one over its deviation. */
static void moments(int64_t width, double epsilon, const float *x, double *mean, double *inverse)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < width; i++)
        sum += x[i];
    *mean = sum / (double)width;
    for (int64_t i = 0; i < width; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *inverse = 1 / sqrt(squares / (double)width + epsilon);
}

void ra_layer_norm(int64_t width, double epsilon, const float *x, const float *weight, const float *bias, float *out)
{
    double mean, inverse;
    moments(width, epsilon, x, &mean, &inverse);
    for (int64_t i = 0; i < width; i++)
        out[i] = (float)((x[i] - mean) * inverse * weight[i] + bias[i]);
}

void ra_layer_norm_backward(int64_t width, double epsilon, const float *x, const float *weight, float *d,
                            double *d_weight, double *d_bias)
{
    double mean, inverse, sum = 0, along = 0;
    moments(width, epsilon, x, &mean, &inverse);
    for (int64_t i = 0; i < width; i++) {
        double unit = (x[i] - mean) * inverse, g = (double)d[i] * weight[i];
        d_weight[i] += d[i] * unit;
        d_bias[i] += d[i];
        sum += g;
        along += g * unit;
    }
    sum /= (double)width, along /= (double)width;
    for (int64_t i = 0; i < width; i++) {
        double unit = (x[i] - mean) * inverse;
        d[i] = (float)(inverse * ((double)d[i] * weight[i] - sum - along * unit));
    }
}
