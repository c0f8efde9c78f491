/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of float matrices by a CBLAS, each computed by the calling thread alone: parallel loops of the layer divide
 * the work, so that the bits do not depend on the number of threads. The functions of the CBLAS itself come from
 * blas_linked.c, or in the command from blas_late.c.
 */
#ifndef RA_LAYER_BLAS_H
#define RA_LAYER_BLAS_H

#include <ringattn/ringattn.h>
#include <stdint.h>

/* What is used of a BLAS. All but the product may be NULL: libraries set their threads by functions of their own. */
typedef struct ra_blas_library {
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int a_stride, const float *b, int b_stride, float beta, float *c, int c_stride);
    int (*openblas_threads)(void);
    void (*openblas_set_threads)(int threads);
    char *(*openblas_config)(void);
    int64_t (*blis_threads)(void);
    void (*blis_set_threads)(int64_t threads);
    char *(*blis_version)(void);
    int (*mkl_threads)(void);
    void (*mkl_set_threads)(int threads);
} ra_blas_library;

/* The BLAS of this program; on failure NULL, and *why says why. */
const ra_blas_library *ra_blas_library_find(const char **why);

/* RA_OK if there is one: nothing else here may be called before. */
ra_status ra_blas_check(void);

/* Between the two, the BLAS of this process uses one thread for each product. They may be nested and concurrent. */
void ra_blas_single_begin(void);
void ra_blas_single_end(void);

/* Each product returns its flops. c [m, n] = a [m, k] b' + keep * c with b [n, k]: rows of a by rows of b, all dense.
 */
double ra_blas_rows_by_rows(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float keep, float *c);

/* c [m, n] = a [m, k] b + keep * c with b [k, n]. All are dense. */
double ra_blas_rows_by_columns(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float keep, float *c);

/* c [m, n] = a' b with a [k, m] and b [k, n], the rows of all three as far apart as said. */
double ra_blas_columns_by_columns(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_stride, const float *b,
                                  int64_t b_stride, float *c, int64_t c_stride);

#endif
