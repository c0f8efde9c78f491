/* Only cblas_sgemm is needed of the CBLAS, so it is declared here: headers of BLAS libraries have different names. */
#include "products.h"

#include <math.h>
#include <string.h>

enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112, BLOCK = 128, WIDE = 256 };
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

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void lm_rows_by_rows(int threads, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float keep, float *c)
{
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t i = 0; i < m; i += BLOCK)
        cblas_sgemm(ROW_MAJOR, AS_IS, TRANSPOSED, (int)least(m - i, BLOCK), (int)n, (int)k, 1, a + i * k, (int)k, b,
                    (int)k, keep, c + i * n, (int)n);
}

void lm_rows_by_columns(int threads, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c)
{
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t i = 0; i < m; i += BLOCK)
        cblas_sgemm(ROW_MAJOR, AS_IS, AS_IS, (int)least(m - i, BLOCK), (int)n, (int)k, 1, a + i * k, (int)k, b, (int)n,
                    0, c + i * n, (int)n);
}

void lm_add_gradient(int threads, int64_t m, int64_t n, int64_t k, const float *d, const float *in, float *g)
{
    int64_t across = (n + WIDE - 1) / WIDE, tiles = (m + BLOCK - 1) / BLOCK * across;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t tile = 0; tile < tiles; tile++) {
        int64_t i = tile / across * BLOCK, j = tile % across * WIDE;
        cblas_sgemm(ROW_MAJOR, TRANSPOSED, AS_IS, (int)least(m - i, BLOCK), (int)least(n - j, WIDE), (int)k, 1, d + i,
                    (int)m, in + j, (int)n, 1, g + i * n + j, (int)n);
    }
}

/* 1 / rms of a row. */
static double inverse_rms(int64_t width, const float *x)
{
    double sum = 0;
    for (int64_t i = 0; i < width; i++)
        sum += (double)x[i] * x[i];
    return 1 / sqrt(sum / (double)width + EPSILON);
}

void lm_norm(int threads, int64_t rows, int64_t width, const float *x, const float *weight, float *out)
{
#pragma omp parallel for num_threads(threads)
    for (int64_t row = 0; row < rows; row++) {
        float inverse = (float)inverse_rms(width, x + row * width);
        for (int64_t i = 0; i < width; i++)
            out[row * width + i] = x[row * width + i] * inverse * weight[i];
    }
}

int64_t lm_norm_blocks(int64_t rows)
{
    return (rows + BLOCK - 1) / BLOCK;
}

static void norm_row_backward(int64_t width, const float *x, const float *weight, const float *d_out, float *d,
                              double *sums)
{
    double inverse = inverse_rms(width, x), along = 0;
    for (int64_t i = 0; i < width; i++)
        along += (double)d_out[i] * weight[i] * x[i];
    float back = (float)(along * inverse * inverse * inverse / (double)width), straight = (float)inverse;
    for (int64_t i = 0; i < width; i++) {
        d[i] += d_out[i] * weight[i] * straight - x[i] * back;
        sums[i] += (double)(d_out[i] * x[i] * straight);
    }
}

void lm_norm_backward(int threads, int64_t rows, int64_t width, const float *x, const float *weight, const float *d_out,
                      float *d, float *d_weight, double *sums)
{
    int64_t blocks = lm_norm_blocks(rows);
#pragma omp parallel for num_threads(threads)
    for (int64_t block = 0; block < blocks; block++) {
        double *mine = sums + block * width;
        memset(mine, 0, (size_t)width * sizeof(double));
        for (int64_t row = block * BLOCK; row < least((block + 1) * BLOCK, rows); row++)
            norm_row_backward(width, x + row * width, weight, d_out + row * width, d + row * width, mine);
    }
    for (int64_t i = 0; i < width; i++) {
        double sum = d_weight[i];
        for (int64_t block = 0; block < blocks; block++)
            sum += sums[block * width + i];
        d_weight[i] = (float)sum;
    }
}
