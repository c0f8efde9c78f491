/*
 * Products of float matrices by a CBLAS, each computed by the calling thread alone: parallel loops of the layer divide
 * the work, so that the bits do not depend on the number of threads.
 */
#ifndef RA_LAYER_BLAS_H
#define RA_LAYER_BLAS_H

#include <stdint.h>

/* Between the two, the BLAS of this process computes each product with one thread. They may be nested and concurrent.
 */
void ra_blas_single_begin(void);
void ra_blas_single_end(void);

/* c [m, n] = a [m, k] b' + keep * c with b [n, k]: rows of a times rows of b. All are dense. Each of the products
 * returns its flops. */
double ra_blas_rows_by_rows(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float keep, float *c);

/* c [m, n] = a [m, k] b + keep * c with b [k, n]. All are dense. */
double ra_blas_rows_by_columns(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float keep, float *c);

/* c [m, n] = a' b with a [k, m] and b [k, n], the rows of all three as far apart as said. */
double ra_blas_columns_by_columns(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_stride, const float *b,
                                  int64_t b_stride, float *c, int64_t c_stride);

#endif
