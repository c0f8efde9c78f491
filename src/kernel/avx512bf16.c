/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AVX512_BF16: products of bfloat16 with sums in float32, two to a lane. For tensors of bfloat16 alone.
 *
 * The instruction adds the product of the upper halves first, then that of the lower ones, each with one rounding to
 * nearest even; subnormal operands and results are zeros. Its emulation, where a build does not have it, gives the same
 * bits.
 */
#include "kernel/avx512_vectors.h"

#define KERNEL_NAME ra_kernel_avx512bf16
#define KERNEL_ID RA_KERNEL_AVX512BF16
#define KERNEL_PRECISION RA_PRECISION_FAST
#define PAIR 2

#ifndef __AVX512BF16__
#include "base/half.h"

#include <math.h>

/* Numbers below the smallest normal one are zeros. */
static inline float normal_or_zero(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

static inline float upper_half(float word)
{
    return normal_or_zero(ra_bits_float(ra_float_bits(word) & 0xffff0000U));
}

static inline float lower_half(float word)
{
    return normal_or_zero(ra_bits_float(ra_float_bits(word) << 16));
}

static inline uint16_t rounded(float x)
{
    return ra_f32_to_bf16(normal_or_zero(x));
}
#endif

/* c += the products of the pairs in each lane. */
static inline __attribute__((always_inline)) void v_accumulate(vec *c, vec a, vec b)
{
#ifdef __AVX512BF16__
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(*c) : "v"(a), "v"(b));
#else
    float sum[WIDTH], x[WIDTH], y[WIDTH];
    v_store(sum, *c);
    v_store(x, a);
    v_store(y, b);
    for (int i = 0; i < WIDTH; i++) {
        float upper = normal_or_zero(fmaf(upper_half(x[i]), upper_half(y[i]), normal_or_zero(sum[i])));
        sum[i] = normal_or_zero(fmaf(lower_half(x[i]), lower_half(y[i]), upper));
    }
    *c = v_load(sum);
#endif
}

static inline __attribute__((always_inline)) void v_begin(vec *c, vec a, vec b)
{
    *c = _mm512_setzero_ps();
    v_accumulate(c, a, b);
}

/* Lane i: even[i] and odd[i] rounded to bfloat16, in its lower and its upper half. */
static inline vec v_pairs(vec even, vec odd)
{
#ifdef __AVX512BF16__
    const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_castsi512_ps(_mm512_permutexvar_epi16(turns, (__m512i)_mm512_cvtne2ps_pbh(odd, even)));
#else
    float lower[WIDTH], upper[WIDTH];
    v_store(lower, even);
    v_store(upper, odd);
    for (int i = 0; i < WIDTH; i++)
        lower[i] = ra_bits_float(rounded(lower[i]) | (uint32_t)rounded(upper[i]) << 16);
    return v_load(lower);
#endif
}

/* The lower or the upper halves as float32. */
static inline vec v_even(vec pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs), 16));
}

static inline vec v_odd(vec pairs)
{
    return _mm512_castsi512_ps(_mm512_andnot_si512(_mm512_set1_epi32(0xffff), _mm512_castps_si512(pairs)));
}

/* The lanes of two vectors in a row, rounded to bfloat16: lanes 2 i and 2 i + 1 become lane i. */
static inline vec v_neighbours(vec first, vec second)
{
#ifdef __AVX512BF16__
    return _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(second, first));
#else
    float from[2 * WIDTH], to[WIDTH];
    v_store(from, first);
    v_store(from + WIDTH, second);
    for (int i = 0; i < WIDTH; i++)
        to[i] = ra_bits_float(rounded(from[2 * i]) | (uint32_t)rounded(from[2 * i + 1]) << 16);
    return v_load(to);
#endif
}

/* Lane i: even[i] in its lower half, odd[i] in its upper one. */
static inline vec v_zip(const uint16_t *even, const uint16_t *odd)
{
    __m512i lower = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)even));
    __m512i upper = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)odd));
    return _mm512_castsi512_ps(_mm512_or_si512(lower, _mm512_slli_epi32(upper, 16)));
}

/* The lower halves of the lanes in `even`, the upper ones of those in `odd`; zeros in place of the others. */
static inline vec v_keep(vec pairs, mask even, mask odd)
{
    __m512i words = _mm512_castps_si512(pairs);
    __m512i lower = _mm512_maskz_mov_epi32(even, _mm512_and_si512(words, _mm512_set1_epi32(0xffff)));
    __m512i upper = _mm512_maskz_mov_epi32(odd, _mm512_andnot_si512(_mm512_set1_epi32(0xffff), words));
    return _mm512_castsi512_ps(_mm512_or_si512(lower, upper));
}

#include "kernel/template.h"
