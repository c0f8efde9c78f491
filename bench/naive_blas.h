/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as it was written before anybody tiled it: two matrix products by OpenBLAS, and between them the scores of
 * all heads in memory. The library is looked for when it is wanted: nothing else of this program needs it.
 */
#ifndef BENCH_NAIVE_BLAS_H
#define BENCH_NAIVE_BLAS_H

#include "tensors.h"

#include <stdbool.h>

typedef struct naive_blas {
    void *library;
    void (*product)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                    int a_stride, const float *b, int b_stride, float beta, float *c, int c_stride);
    void (*set_threads)(int threads);
    float *scores; /* [heads][length][length], of one batch */
    int64_t bytes;
} naive_blas;

/* False, with the reason in `why`, where there is no OpenBLAS. */
bool naive_blas_open(naive_blas *blas, char why[256]);

/* Room for the scores of that shape; false: there is not so much memory. */
bool naive_blas_reserve(naive_blas *blas, const bench_shape *shape);

/* float32, as many queries as keys, as many heads; causal or full. */
void naive_blas_attention(const naive_blas *blas, const bench_tensors *t, bool causal, int threads);

void naive_blas_close(naive_blas *blas);

#endif
