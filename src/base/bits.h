/* SPDX-License-Identifier: Apache-2.0 */
/* Words of 64 bits. */
#ifndef RA_BASE_BITS_H
#define RA_BASE_BITS_H

#include <stdint.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* The bits from <= i < to of a word. */
static inline uint64_t ra_bits(int64_t from, int64_t to)
{
    if (from >= to || from >= 64)
        return 0;
    uint64_t upto = to >= 64 ? UINT64_MAX : (UINT64_C(1) << to) - 1;
    return upto & UINT64_MAX << from;
}

/* 64 booleans, each 0 or 1, as the bits of a word. */
static inline uint64_t ra_bits_of_booleans(const uint8_t *booleans)
{
    uint64_t bits = 0;
#if defined(__SSE2__)
    for (int i = 0; i < 64; i += 16) {
        __m128i sixteen = _mm_loadu_si128((const __m128i *)(booleans + i));
        bits |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_slli_epi16(sixteen, 7)) << i;
    }
#else
    for (int i = 0; i < 64; i++)
        bits |= (uint64_t)(booleans[i] & 1) << i;
#endif
    return bits;
}

#endif
