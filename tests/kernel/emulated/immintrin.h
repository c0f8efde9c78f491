/*
 * Stands in front of the compiler's header, which is still there for what the processor has: AVX-512 in terms of AVX2.
 */
#ifndef EMULATED_IMMINTRIN_H
#define EMULATED_IMMINTRIN_H

#include_next <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
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

#endif
