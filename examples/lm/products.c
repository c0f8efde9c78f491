/* SPDX-License-Identifier: Apache-2.0 */
/* Only cblas_sgemm is needed of the CBLAS, so it is declared here: headers of BLAS libraries have different names. */
#include "products.h"

#include <math.h>
#include <string.h>

enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112, TALL = 128, WIDE = 128 };
static const double EPSILON = 1e-5;

void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                 int a_stride, const float *b, int b_stride, float beta, float *c, int c_stride);
__attribute__((weak)) void openblas_set_num_threads(int threads);
__attribute__((weak)) void bli_thread_set_num_threads(int64_t threads);
__attribute__((weak)) void MKL_Set_Num_Threads(int threads);

void lm_products_begin(void)
{
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    if (bli_thread_set_num_threads)
        bli_thread_set_num_threads(1);
    if (MKL_Set_Num_Threads)
        MKL_Set_Num_Threads(1);
}

void lm_rows_by_rows(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float keep, float *c)
{
    cblas_sgemm(ROW_MAJOR, AS_IS, TRANSPOSED, (int)m, (int)n, (int)k, 1, a, (int)k, b, (int)k, keep, c, (int)n);
}

void lm_rows_by_columns(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c)
{
    cblas_sgemm(ROW_MAJOR, AS_IS, AS_IS, (int)m, (int)n, (int)k, 1, a, (int)k, b, (int)n, 0, c, (int)n);
}

LM_VECTORS void lm_add_rounded(int64_t count, const float *values, double *sums)
{
    for (int64_t i = 0; i < count; i++)
        sums[i] += lm_rounded(values[i]);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t tiles_of(const lm_weight *w)
{
    return (w->outputs + TALL - 1) / TALL * ((w->inputs + WIDE - 1) / WIDE);
}

/* One thread adds all stretches to a tile. */
static void add_tile(const lm_weight *w, const int64_t *cuts, int64_t count, int64_t tile)
{
    float product[TALL * WIDE];
    int64_t across = (w->inputs + WIDE - 1) / WIDE, i = tile / across * TALL, j = tile % across * WIDE;
    int64_t m = least(w->outputs - i, TALL), n = least(w->inputs - j, WIDE);
    for (int64_t stretch = 0; stretch < count; stretch++) {
        int64_t first = cuts[stretch] - cuts[0], rows = cuts[stretch + 1] - cuts[stretch];
        cblas_sgemm(ROW_MAJOR, TRANSPOSED, AS_IS, (int)m, (int)n, (int)rows, 1, w->d + first * w->outputs + i,
                    (int)w->outputs, w->in + first * w->inputs + j, (int)w->inputs, 0, product, (int)n);
        for (int64_t row = 0; row < m; row++)
            lm_add_rounded(n, product + row * n, w->sums + (i + row) * w->inputs + j);
    }
}

void lm_add_gradients(int threads, const int64_t *cuts, int64_t count, const lm_weight *weights, int weight_count)
{
    int64_t tiles = 0;
    for (int i = 0; i < weight_count; i++)
        tiles += tiles_of(&weights[i]);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t tile = 0; tile < tiles; tile++) {
        int64_t left = tile;
        const lm_weight *w = weights;
        for (; left >= tiles_of(w); w++)
            left -= tiles_of(w);
        add_tile(w, cuts, count, left);
    }
}

/* The sum of a[i] b[i]: as many sums as the processor adds at the same time, of which each has few terms. */
static inline double dot(int64_t width, const float *a, const float *b)
{
    enum { LANES = 16 };
    float sums[LANES] = {0};
    double sum = 0;
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    for (; i < width; i++)
        sum += (double)a[i] * b[i];
    for (int lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

/* 1 / rms of a row; NaN if its squares are too large, so that this is seen in the loss. */
static inline double inverse_rms(int64_t width, const float *x)
{
    double squares = dot(width, x, x);
    return isfinite(squares) ? 1 / sqrt(squares / (double)width + EPSILON) : NAN;
}

LM_VECTORS void lm_norm(int64_t rows, int64_t width, const float *x, const float *weight, float *out)
{
    for (int64_t row = 0; row < rows; row++) {
        float inverse = (float)inverse_rms(width, x + row * width);
        for (int64_t i = 0; i < width; i++)
            out[row * width + i] = x[row * width + i] * inverse * weight[i];
    }
}

/* d_out becomes d_out * weight. */
static inline void norm_row_backward(int64_t width, const float *x, const float *weight, float *d_out, float *d,
                                     float *sums)
{
    double inverse = inverse_rms(width, x);
    float straight = (float)inverse;
    for (int64_t i = 0; i < width; i++) {
        sums[i] += d_out[i] * x[i] * straight;
        d_out[i] *= weight[i];
    }
    float back = (float)(dot(width, d_out, x) * inverse * inverse * inverse / (double)width);
    for (int64_t i = 0; i < width; i++)
        d[i] += d_out[i] * straight - x[i] * back;
}

LM_VECTORS void lm_norm_backward(int64_t rows, int64_t width, const float *x, const float *weight, float *d_out,
                                 float *d, float *sums)
{
    memset(sums, 0, (size_t)width * sizeof(float));
    for (int64_t row = 0; row < rows; row++)
        norm_row_backward(width, x + row * width, weight, d_out + row * width, d + row * width, sums);
}
