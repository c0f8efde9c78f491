/*
 * Products of matrices by a CBLAS and RMS norms. Work is cut in the same places whatever the number of threads, and
 * each part is done by one thread: bits do not depend on threads.
 */
#ifndef LM_PRODUCTS_H
#define LM_PRODUCTS_H

#include <stdint.h>

/* The BLAS computes each product with one thread: loops here divide the work. Call it once. */
void lm_products_begin(void);

/* c [m, n] = a [m, k] b' + keep * c with b [n, k]. */
void lm_rows_by_rows(int threads, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float keep,
                     float *c);

/* c [m, n] = a [m, k] b with b [k, n]. */
void lm_rows_by_columns(int threads, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c);

/* g [m, n] += d' in with d [k, m] and in [k, n]: the gradient of a weight over k tokens. */
void lm_add_gradient(int threads, int64_t m, int64_t n, int64_t k, const float *d, const float *in, float *g);

/* out = x / rms(x) * weight, row by row. */
void lm_norm(int threads, int64_t rows, int64_t width, const float *x, const float *weight, float *out);

/*
 * d [rows, width] += the gradient by x, from d_out, that by out. d_weight [width] grows, or is NULL. `sums` has room
 * for lm_norm_blocks(rows) * width.
 */
void lm_norm_backward(int threads, int64_t rows, int64_t width, const float *x, const float *weight, const float *d_out,
                      float *d, float *d_weight, double *sums);
int64_t lm_norm_blocks(int64_t rows);

#endif
