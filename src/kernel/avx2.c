/* SPDX-License-Identifier: Apache-2.0 */
/* AVX2 + FMA + F16C: 24 queries a group, 3 x 4 accumulators in the 16 registers. */
#include "base/dropout.h"

#include <immintrin.h>
#include <stdint.h>

#define KERNEL_NAME ra_kernel_avx2
#define KERNEL_ID RA_KERNEL_AVX2
#define WIDTH 8
#define VECTORS 3
#define EXP2_KEYS 2
#define TILE_GROUPS 32
#define TILE_BYTES (768 << 10)
#define DECODE_QUERIES 4

typedef __m256 vec;
typedef __m256 mask;

#define v_load _mm256_loadu_ps
#define v_store _mm256_storeu_ps
#define v_set _mm256_set1_ps
#define v_add _mm256_add_ps
#define v_sub _mm256_sub_ps
#define v_mul _mm256_mul_ps
#define v_div _mm256_div_ps
#define v_fma _mm256_fmadd_ps
#define v_max _mm256_max_ps
#define v_min _mm256_min_ps
#define v_quotient _mm256_div_ps

/* Written out because compilers fold the loads of b into several products, and then run out of load ports. */
static inline __attribute__((always_inline)) void v_begin(vec *c, vec a, vec b)
{
    __asm__("vmulps %2, %1, %0" : "=x"(*c) : "x"(a), "x"(b));
}

static inline __attribute__((always_inline)) void v_accumulate(vec *c, vec a, vec b)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*c) : "x"(a), "x"(b));
}

static inline vec v_exponent(vec t)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23));
}

static inline mask v_in_range(int key, const int32_t *lo, const int32_t *hi)
{
    __m256i k = _mm256_set1_epi32(key);
    __m256i below = _mm256_cmpgt_epi32(_mm256_loadu_si256((const __m256i *)lo), k);
    __m256i inside = _mm256_cmpgt_epi32(_mm256_loadu_si256((const __m256i *)hi), k);
    return _mm256_castsi256_ps(_mm256_andnot_si256(below, inside));
}

static inline mask v_bits(uint32_t bits)
{
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i set = _mm256_and_si256(_mm256_set1_epi32((int)bits), lane);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane));
}

static inline mask v_above(vec a, vec b)
{
    return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}

static inline vec v_select(mask m, vec yes, vec no)
{
    return _mm256_blendv_ps(no, yes, m);
}

static inline vec v_load_f16(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

static inline vec v_load_bf16(const uint16_t *from)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline vec v_load_i8(const int8_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from)));
}

/* r[i] lane j becomes r[j] lane i: pairs of lanes, then of pairs, then halves of vectors. */
static inline __attribute__((always_inline)) void v_transpose(vec r[WIDTH])
{
    vec t[WIDTH], u[WIDTH];
    for (int i = 0; i < WIDTH; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < WIDTH; i += 4)
        for (int j = 0; j < 2; j++) {
            __m256d a = _mm256_castps_pd(t[i + j]), b = _mm256_castps_pd(t[i + j + 2]);
            u[i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
            u[i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
        }
    /* u[j] has columns j and j + 4 of rows 0 .. 3, u[j + 4] those of rows 4 .. 7. */
    for (int j = 0; j < 4; j++) {
        r[j] = _mm256_permute2f128_ps(u[j], u[j + 4], 0x20);
        r[j + 4] = _mm256_permute2f128_ps(u[j], u[j + 4], 0x31);
    }
}

/* Lane i of the result is the sum of r[i]: of lanes 0 + 2 and 1 + 3 of each half, then of the halves. */
static inline __attribute__((always_inline)) vec v_sums(const vec r[WIDTH])
{
    vec s[WIDTH / 4];
    for (int i = 0; i < WIDTH / 4; i++) {
        const vec *q = r + 4 * i;
        vec ab = _mm256_add_ps(_mm256_unpacklo_ps(q[0], q[1]), _mm256_unpackhi_ps(q[0], q[1]));
        vec cd = _mm256_add_ps(_mm256_unpacklo_ps(q[2], q[3]), _mm256_unpackhi_ps(q[2], q[3]));
        s[i] = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    }
    return _mm256_add_ps(_mm256_permute2f128_ps(s[0], s[1], 0x20), _mm256_permute2f128_ps(s[0], s[1], 0x31));
}

/* ra_draw of base/dropout.h for WIDTH rows or columns and one of the other; the lanes whose draw is not below. */
static inline mask v_kept(const uint32_t *a, const uint32_t *b, uint32_t other_a, uint32_t other_b, uint32_t threshold)
{
    const __m256i least = _mm256_set1_epi32((int)threshold);
    __m256i x = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)a), _mm256_set1_epi32((int)other_a));
    x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 16)), _mm256_set1_epi32((int)RA_DRAW_FIRST));
    __m256i ends = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)b), _mm256_set1_epi32((int)other_b));
    x = _mm256_add_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 15)), ends);
    x = _mm256_mullo_epi32(x, _mm256_set1_epi32((int)RA_DRAW_SECOND));
    /* Not below: the larger of both is the draw. There is no comparison of unsigned numbers. */
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_max_epu32(x, least), x));
}

#include "kernel/template.h"
