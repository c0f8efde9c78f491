/*
 * Made-up tensors. The value at an index is a hash of seed and index, so any part of a stream can be made on its own,
 * in any order and on any machine, with the same bits: only operations that IEEE 754 defines exactly are used.
 *
 * Values come in blocks that start at multiples of BLOCK. The loops over a block have a fixed length and no branches,
 * which lets the compiler turn them into vector code.
 */
#include "ringattn/ringattn.h"

#include "base/checked.h"
#include "base/half.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 128, HALF = BLOCK / 2 };

/* Steele, Lea and Flood's SplitMix64 finaliser: turns near seeds into unrelated keys. */
static uint64_t mix64(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

/*
 * The random words of one block: a mix of the low half of the index with three multiplications (Wellons' triple32),
 * under two keys that depend on the seed and the high half. Without the second key, two streams would be shifts of each
 * other.
 */
static void block_words(uint64_t seed, uint64_t block, uint32_t words[BLOCK])
{
    uint64_t first = block * BLOCK;
    uint64_t key = mix64(mix64(seed + 0x9e3779b97f4a7c15U) ^ mix64((first >> 32) + 0xd1b54a32d192ed03U));
    uint32_t low = (uint32_t)first, key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t x = (low + i) ^ key0;
        x = (x ^ x >> 17) * 0xed5ad4bbU;
        x = ((x ^ x >> 11) + key1) * 0xac4c1b51U;
        x = (x ^ x >> 15) * 0x31848babU;
        words[i] = x ^ x >> 14;
    }
}

/* The middles of 2^24 equal steps of (-sqrt 3, sqrt 3): symmetric, and of unit variance. */
static void block_uniform(const uint32_t words[BLOCK], float values[BLOCK])
{
    const float step = 1.7320508f * 0x1p-23f;
    for (int i = 0; i < BLOCK; i++)
        values[i] = ((float)((int32_t)words[i] >> 8) + 0.5f) * step;
}

/*
 * -2 ln((n + 1/2) / 2^23) for the top 23 bits n of a word. x = m 2^e with m around 1, ln m = 2 atanh((m-1)/(m+1)) by
 * its series: |s| < 0.172, so what is left out is below 2e-9 of the result.
 */
static float minus_two_log(uint32_t word)
{
    uint32_t bits = ra_float_bits(((float)(int32_t)(word >> 9) + 0.5f) * 0x1p-23f);
    uint32_t offset = bits - 0x3f3504f3U; /* from sqrt(1/2) */
    int32_t exponent = (int32_t)offset >> 23;
    float m = ra_bits_float((offset & 0x7fffffU) + 0x3f3504f3U);
    float s = (m - 1) / (m + 1), s2 = s * s;
    float series = 1 + s2 * (1.0f / 3 + s2 * (1.0f / 5 + s2 * (1.0f / 7 + s2 * (1.0f / 9))));
    return -2 * (2 * s * series + 0.69314718f * (float)exponent);
}

/* The point at `word` / 2^32 of a turn on the unit circle: the nearest quarter, and a series within pi/4 of it. */
static void unit_circle(uint32_t word, float *cosine, float *sine)
{
    uint32_t quarter = (word + 0x20000000U) >> 30;
    float a = (float)(int32_t)(word - (quarter << 30)) * (1.5707964f * 0x1p-30f), a2 = a * a;
    float s = a * (1 + a2 * (-1.0f / 6 + a2 * (1.0f / 120 + a2 * (-1.0f / 5040))));
    float c = 1 + a2 * (-1.0f / 2 + a2 * (1.0f / 24 + a2 * (-1.0f / 720 + a2 * (1.0f / 40320))));
    float x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;
    *cosine = (quarter + 1) & 2 ? -x : x;
    *sine = quarter & 2 ? -y : y;
}

/* Box and Muller: lane i of the first half with lane i of the second. */
static void block_normal(const uint32_t words[BLOCK], float values[BLOCK])
{
    float radius[HALF];
    for (int i = 0; i < HALF; i++)
        radius[i] = minus_two_log(words[i]);
    for (int i = 0; i < HALF; i++) /* apart, because a library call that may set errno stays scalar */
        radius[i] = sqrtf(radius[i]);
    for (int i = 0; i < HALF; i++) {
        float cosine, sine;
        unit_circle(words[HALF + i], &cosine, &sine);
        values[i] = radius[i] * cosine;
        values[HALF + i] = radius[i] * sine;
    }
}

void ra_generate(ra_distribution distribution, uint64_t seed, int64_t first, int64_t count, float *values)
{
    uint32_t words[BLOCK];
    float block[BLOCK];
    while (count > 0) {
        int64_t skip = first % BLOCK, taken = ra_min(BLOCK - skip, count);
        block_words(seed, (uint64_t)(first / BLOCK), words);
        if (distribution == RA_NORMAL)
            block_normal(words, block);
        else
            block_uniform(words, block);
        memcpy(values, block + skip, (size_t)taken * sizeof *values);
        values += taken;
        first += taken;
        count -= taken;
    }
}
