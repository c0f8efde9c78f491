/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in front of the compiler's header, which is still there for what the processor has: AVX-512 in terms of AVX2.
 */
#ifndef EMULATED_IMMINTRIN_H
#define EMULATED_IMMINTRIN_H

#include_next <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <math.h>
#include <simde/x86/avx512.h>

/* What SIMDe leaves out. */
static inline simde__m512 emulated_cvtph_ps(__m256i halves)
{
    float wide[16];
    _mm256_storeu_ps(wide, _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
    _mm256_storeu_ps(wide + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
    return simde_mm512_loadu_ps(wide);
}
#define _mm512_cvtph_ps emulated_cvtph_ps

static inline simde__m512i emulated_cvtepu16_epi32(__m256i halves)
{
    __m256i wide[2] = {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(halves)),
                       _mm256_cvtepu16_epi32(_mm256_extracti128_si256(halves, 1))};
    return simde_mm512_loadu_si512(wide);
}
#define _mm512_cvtepu16_epi32 emulated_cvtepu16_epi32

/* Of the ways to round, only the one that is used: down, what is left over as well. */
static inline float emulated_fraction_of(float x)
{
    double exact = (double)x - (double)floorf(x);
    float fraction = (float)exact;
    return (double)fraction > exact ? nextafterf(fraction, 0) : fraction;
}

static inline simde__m512 emulated_fraction(simde__m512 x)
{
    float lanes[16];
    simde_mm512_storeu_ps(lanes, x);
    for (int i = 0; i < 16; i++)
        lanes[i] = isinf(lanes[i]) ? 0 : emulated_fraction_of(lanes[i]);
    return simde_mm512_loadu_ps(lanes);
}
#undef _mm512_reduce_ps
#define _mm512_reduce_ps(x, rounding)                                                                                  \
    ((void)sizeof(char[(rounding) == (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC) ? 1 : -1]), emulated_fraction(x))

#endif
