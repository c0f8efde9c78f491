/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices by a CBLAS and RMS norms. All but lm_add_gradient are computed by the calling thread, for one
 * stretch of tokens: a thread takes a stretch through several steps while it is in the cache. Stretches are the same
 * whatever the number of threads, and so are the bits.
 */
#ifndef LM_PRODUCTS_H
#define LM_PRODUCTS_H

#include <ringattn/multihead.h>
#include <stdint.h>

/*
 * A loop over numbers that GCC compiles for wider vectors, too: the program takes the widest that the processor has.
 * The bits are the same, because no sum is taken in another order.
 */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define LM_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LM_VECTORS
#endif

/* The BLAS computes each product with one thread: loops over stretches divide the work. Call it once. */
void lm_products_begin(void);

/* c [m, n] = a [m, k] b' + keep * c with b [n, k]. */
void lm_rows_by_rows(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float keep, float *c);

/* c [m, n] = a [m, k] b with b [k, n]. */
void lm_rows_by_columns(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c);

/* The gradient of a weight: sums [outputs, inputs] += d' in with d [tokens, outputs] and in [tokens, inputs]. */
typedef struct lm_weight {
    int64_t outputs, inputs;
    const float *d, *in;
    double *sums;
} lm_weight;

/*
 * The gradients of some weights over `count` stretches, of which each begins at cuts[i] and ends at cuts[i + 1]; the
 * first is row 0 of d and in. The product of a stretch is rounded to multiples of RA_LAYER_SUM_UNIT, so the sums do not
 * depend on the order of the stretches, nor on the rank that has them.
 */
void lm_add_gradients(int threads, const int64_t *cuts, int64_t count, const lm_weight *weights, int weight_count);

/* Rounded like that: next to `LARGE`, a double has no digits below the unit. */
static inline double lm_rounded(double value)
{
    static const double LARGE = RA_LAYER_SUM_UNIT * 0x1.8p52;
    return value + LARGE - LARGE;
}

/* sums [count] += the values, rounded like that. */
void lm_add_rounded(int64_t count, const float *values, double *sums);

/* out = x / rms(x) * weight, row by row. */
void lm_norm(int64_t rows, int64_t width, const float *x, const float *weight, float *out);

/*
 * d [rows, width] += the gradient by x, from d_out, that by out, which is overwritten; sums [width] becomes that of the
 * weight.
 */
void lm_norm_backward(int64_t rows, int64_t width, const float *x, const float *weight, float *d_out, float *d,
                      float *sums);

#endif
