/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of the generator, compiled once for each instruction set: the including file defines GENERATOR_NAME and
 * GENERATOR_NEEDS. Only operations that IEEE 754 defines exactly are used, so that every table has the same bits.
 *
 * The loops over a block have a fixed length and no branches, which lets the compiler turn them into vector code.
 */
#include "base/cpu.h"
#include "base/half.h"
#include "io/generator.h"

#include <math.h>

enum { BLOCK = RA_GENERATOR_BLOCK, HALF = BLOCK / 2 };

/*
 * The random word of an index: a mix of its low half with three multiplications (Wellons' triple32), under two keys
 * that depend on the seed and the high half. Without the second key, two streams would be shifts of each other.
 */
static inline uint32_t word(uint32_t key0, uint32_t key1, uint32_t low)
{
    uint32_t x = low ^ key0;
    x = (x ^ x >> 17) * 0xed5ad4bbU;
    x = ((x ^ x >> 11) + key1) * 0xac4c1b51U;
    x = (x ^ x >> 15) * 0x31848babU;
    return x ^ x >> 14;
}

/* The middles of 2^24 equal steps of (-sqrt 3, sqrt 3): symmetric, and of unit variance. */
static void uniform(uint32_t key0, uint32_t key1, uint32_t low, int64_t blocks, float *values)
{
    const float step = 1.7320508f * 0x1p-23f;
    for (; blocks > 0; blocks--, low += BLOCK, values += BLOCK)
        for (uint32_t i = 0; i < BLOCK; i++)
            values[i] = ((float)((int32_t)word(key0, key1, low + i) >> 8) + 0.5f) * step;
}

/*
 * -2 ln((n + 1/2) / 2^23) for the top 23 bits n of a word. x = m 2^e with m around 1, ln m = 2 atanh((m-1)/(m+1)) by
 * its series: |s| < 0.172, so what is left out is below 2e-9 of the result.
 */
static inline float minus_two_log(uint32_t bits_of_n)
{
    uint32_t bits = ra_float_bits(((float)(int32_t)(bits_of_n >> 9) + 0.5f) * 0x1p-23f);
    uint32_t offset = bits - 0x3f3504f3U; /* from sqrt(1/2) */
    int32_t exponent = (int32_t)offset >> 23;
    float m = ra_bits_float((offset & 0x7fffffU) + 0x3f3504f3U);
    float s = (m - 1) / (m + 1), s2 = s * s;
    float series = 1 + s2 * (1.0f / 3 + s2 * (1.0f / 5 + s2 * (1.0f / 7 + s2 * (1.0f / 9))));
    return -2 * (2 * s * series + 0.69314718f * (float)exponent);
}

/* The point at `turn` / 2^32 of a turn on the unit circle: the nearest quarter, and a series within pi/4 of it. */
static inline void unit_circle(uint32_t turn, float *cosine, float *sine)
{
    uint32_t quarter = (turn + 0x20000000U) >> 30;
    float a = (float)(int32_t)(turn - (quarter << 30)) * (1.5707964f * 0x1p-30f), a2 = a * a;
    float s = a * (1 + a2 * (-1.0f / 6 + a2 * (1.0f / 120 + a2 * (-1.0f / 5040))));
    float c = 1 + a2 * (-1.0f / 2 + a2 * (1.0f / 24 + a2 * (-1.0f / 720 + a2 * (1.0f / 40320))));
    float x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;
    *cosine = (quarter + 1) & 2 ? -x : x;
    *sine = quarter & 2 ? -y : y;
}

/* Box and Muller: value i of the first half of a block with value i of the second. */
static void normal(uint32_t key0, uint32_t key1, uint32_t low, int64_t blocks, float *values)
{
    for (; blocks > 0; blocks--, low += BLOCK, values += BLOCK)
        for (uint32_t i = 0; i < HALF; i++) {
            float radius = sqrtf(minus_two_log(word(key0, key1, low + i))), cosine, sine;
            unit_circle(word(key0, key1, low + HALF + i), &cosine, &sine);
            values[i] = radius * cosine;
            values[HALF + i] = radius * sine;
        }
}

const ra_generator GENERATOR_NAME = {GENERATOR_NEEDS, uniform, normal};
