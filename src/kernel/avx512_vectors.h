/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of 16 floats by AVX-512F and DQ, for the tables that have them: all of what template.h asks for but the sums
 * of products. Where a build has no such instructions, an emulation of the intrinsics stands in for them; what that
 * lacks is written out.
 */
#ifndef RA_KERNEL_AVX512_VECTORS_H
#define RA_KERNEL_AVX512_VECTORS_H

#include "base/dropout.h"

#include <immintrin.h>
#include <stdint.h>

#define WIDTH 16
#define VECTORS 4
#define EXP2_KEYS 4
#define TILE_GROUPS 16
#define TILE_BYTES (768 << 10)
#define DECODE_QUERIES 8

typedef __m512 vec;
typedef __mmask16 mask;

#define v_load _mm512_loadu_ps
#define v_store _mm512_storeu_ps
#define v_set _mm512_set1_ps
#define v_add _mm512_add_ps
#define v_sub _mm512_sub_ps
#define v_mul _mm512_mul_ps
#define v_div _mm512_div_ps
#define v_fma _mm512_fmadd_ps
#define v_max _mm512_max_ps
#define v_min _mm512_min_ps

/* What is left of x without the integer below it. */
static inline vec v_fraction(vec x)
{
    return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

static inline mask v_not_below(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ);
}

/* x 2^n of the integer n below y where m says so, else 0. */
#define v_scale(m, x, y) _mm512_maskz_scalef_ps(m, x, y)

static inline mask v_in_range(int key, const int32_t *lo, const int32_t *hi)
{
    __m512i k = _mm512_set1_epi32(key);
    mask reached = _mm512_cmple_epi32_mask(_mm512_loadu_si512(lo), k);
    return _mm512_mask_cmpgt_epi32_mask(reached, _mm512_loadu_si512(hi), k);
}

static inline mask v_bits(uint32_t bits)
{
    return (mask)bits;
}

static inline mask v_above(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

static inline vec v_select(mask m, vec yes, vec no)
{
    return _mm512_mask_blend_ps(m, no, yes);
}

static inline vec v_load_f16(const uint16_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

static inline vec v_load_bf16(const uint16_t *from)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* The emulation does not widen integers. */
static inline vec v_load_i8(const int8_t *from)
{
#ifdef __AVX512F__
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
#else
    float wide[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        wide[i] = from[i];
    return v_load(wide);
#endif
}

/*
 * a / b to within rounding, for b in the middle of the range: an estimate of 14 bits, and what it leaves over. The
 * emulation has no such estimate.
 */
static inline vec v_quotient(vec a, vec b)
{
#ifdef __AVX512F__
    vec per_b = _mm512_rcp14_ps(b), y = _mm512_mul_ps(a, per_b);
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(b, y, a), per_b, y);
#else
    return _mm512_div_ps(a, b);
#endif
}

/*
 * r[i] lane j becomes r[j] lane i: pairs of lanes, then of pairs, then quarters of vectors. The emulation has no
 * shuffles of quarters.
 */
static inline __attribute__((always_inline)) void v_transpose(vec r[WIDTH])
{
#ifdef __AVX512F__
    vec t[WIDTH], u[WIDTH];
    for (int i = 0; i < WIDTH; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < WIDTH; i += 4)
        for (int j = 0; j < 2; j++) {
            __m512d a = _mm512_castps_pd(t[i + j]), b = _mm512_castps_pd(t[i + j + 2]);
            u[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            u[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    /* u[4 q + j] has columns j, j + 4, j + 8, j + 12 of rows 4 q .. 4 q + 3. */
    for (int j = 0; j < 4; j++) {
        vec low = _mm512_shuffle_f32x4(u[j], u[j + 4], 0x88), high = _mm512_shuffle_f32x4(u[j + 8], u[j + 12], 0x88);
        vec low2 = _mm512_shuffle_f32x4(u[j], u[j + 4], 0xdd), high2 = _mm512_shuffle_f32x4(u[j + 8], u[j + 12], 0xdd);
        r[j] = _mm512_shuffle_f32x4(low, high, 0x88);
        r[j + 8] = _mm512_shuffle_f32x4(low, high, 0xdd);
        r[j + 4] = _mm512_shuffle_f32x4(low2, high2, 0x88);
        r[j + 12] = _mm512_shuffle_f32x4(low2, high2, 0xdd);
    }
#else
    float in[WIDTH][WIDTH], out[WIDTH][WIDTH];
    for (int i = 0; i < WIDTH; i++)
        v_store(in[i], r[i]);
    for (int i = 0; i < WIDTH * WIDTH; i++)
        out[i % WIDTH][i / WIDTH] = in[i / WIDTH][i % WIDTH];
    for (int i = 0; i < WIDTH; i++)
        r[i] = v_load(out[i]);
#endif
}

/*
 * Lane i of the result is the sum of r[i]: of lanes 0 + 2 and 1 + 3 of each quarter, then of the quarters in the same
 * way. Half of what is added comes from each of two vectors, so that 15 additions do for 16 sums.
 */
static inline __attribute__((always_inline)) vec v_sums(const vec r[WIDTH])
{
#ifdef __AVX512F__
    vec s[WIDTH / 4];
    for (int i = 0; i < WIDTH / 4; i++) {
        const vec *q = r + 4 * i;
        vec ab = _mm512_add_ps(_mm512_unpacklo_ps(q[0], q[1]), _mm512_unpackhi_ps(q[0], q[1]));
        vec cd = _mm512_add_ps(_mm512_unpacklo_ps(q[2], q[3]), _mm512_unpackhi_ps(q[2], q[3]));
        s[i] = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    }
    vec low = _mm512_add_ps(_mm512_shuffle_f32x4(s[0], s[1], 0x44), _mm512_shuffle_f32x4(s[0], s[1], 0xee));
    vec high = _mm512_add_ps(_mm512_shuffle_f32x4(s[2], s[3], 0x44), _mm512_shuffle_f32x4(s[2], s[3], 0xee));
    return _mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd));
#else
    float sum[WIDTH], x[WIDTH], q[4];
    for (int i = 0; i < WIDTH; i++) {
        v_store(x, r[i]);
        for (int j = 0; j < 4; j++)
            q[j] = (x[4 * j] + x[4 * j + 2]) + (x[4 * j + 1] + x[4 * j + 3]);
        sum[i] = (q[0] + q[2]) + (q[1] + q[3]);
    }
    return v_load(sum);
#endif
}

/*
 * ra_draw of base/dropout.h for WIDTH rows or columns and one of the other; the lanes whose draw is not below. The
 * emulation multiplies signed numbers, which may not overflow.
 */
static inline mask v_kept(const uint32_t *a, const uint32_t *b, uint32_t other_a, uint32_t other_b, uint32_t threshold)
{
#ifdef __AVX512F__
    __m512i x = _mm512_add_epi32(_mm512_loadu_si512(a), _mm512_set1_epi32((int)other_a));
    x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 16)), _mm512_set1_epi32((int)RA_DRAW_FIRST));
    __m512i ends = _mm512_xor_si512(_mm512_loadu_si512(b), _mm512_set1_epi32((int)other_b));
    x = _mm512_add_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 15)), ends);
    x = _mm512_mullo_epi32(x, _mm512_set1_epi32((int)RA_DRAW_SECOND));
    return _mm512_cmpge_epu32_mask(x, _mm512_set1_epi32((int)threshold));
#else
    unsigned kept = 0;
    for (int i = 0; i < WIDTH; i++)
        kept |= (unsigned)(ra_draw((ra_draw_key){a[i], b[i]}, (ra_draw_key){other_a, other_b}) >= threshold) << i;
    return (mask)kept;
#endif
}

#endif
