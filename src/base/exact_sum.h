/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of floats without rounding: what is added, in whatever order and by whomever, gives the same sum to the bit. A
 * sum is an integer in units of the smallest float, 2^-149, held as digits of 32 bits. Each digit is in 64 bits, so
 * that 2^31 additions may pass before carries have to.
 */
#ifndef RA_BASE_EXACT_SUM_H
#define RA_BASE_EXACT_SUM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { RA_EXACT_DIGITS = 9, RA_EXACT_DIGIT_BITS = 32 };

/* All zeros: nothing was added. */
typedef struct ra_exact_sum {
    int64_t digit[RA_EXACT_DIGITS]; /* digit i counts 2^(32 i - 149) */
    int64_t special;                /* bits: +Inf, -Inf and NaN that were added */
} ra_exact_sum;

enum { RA_EXACT_PLUS_INFINITY = 1, RA_EXACT_MINUS_INFINITY = 2, RA_EXACT_NAN = 4 };

/* Additions after which ra_exact_carry must have been called. */
#define RA_EXACT_ADDITIONS (INT64_C(1) << 30)

static inline void ra_exact_add(ra_exact_sum *sum, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 23 & 255), normal = exponent > 0, at = exponent - normal;
    if (exponent == 255) {
        sum->special |= bits << 9 ? RA_EXACT_NAN : bits >> 31 ? RA_EXACT_MINUS_INFINITY : RA_EXACT_PLUS_INFINITY;
        return;
    }
    int64_t magnitude = (int64_t)(bits & 0x7fffff) | (int64_t)normal << 23, sign = -(int64_t)(bits >> 31);
    int64_t shifted = magnitude << at % RA_EXACT_DIGIT_BITS;
    int64_t *digit = sum->digit + at / RA_EXACT_DIGIT_BITS;
    digit[0] += ((shifted & UINT32_MAX) ^ sign) - sign;
    digit[1] += ((shifted >> RA_EXACT_DIGIT_BITS) ^ sign) - sign;
}

/* The same sum with digits of 32 bits, but for the last. */
void ra_exact_carry(ra_exact_sum *sums, int64_t count);

/* into += from, of sums whose carries have passed. Up to 2^31 of them may be added before they have to again. */
void ra_exact_merge(ra_exact_sum *into, const ra_exact_sum *from, int64_t count);

/* The sum, rounded. */
double ra_exact_value(const ra_exact_sum *sum);

#endif
