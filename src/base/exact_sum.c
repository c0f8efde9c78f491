/* SPDX-License-Identifier: Apache-2.0 */
/* Carries, merging and rounding of exact sums: see exact_sum.h. */
#include "base/exact_sum.h"

#include <math.h>

static void carry(ra_exact_sum *sum)
{
    for (int i = 0; i + 1 < RA_EXACT_DIGITS; i++) {
        int64_t low = sum->digit[i] & UINT32_MAX;
        sum->digit[i + 1] += (sum->digit[i] - low) / (INT64_C(1) << RA_EXACT_DIGIT_BITS);
        sum->digit[i] = low;
    }
}

void ra_exact_carry(ra_exact_sum *sums, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        carry(&sums[i]);
}

void ra_exact_merge(ra_exact_sum *into, const ra_exact_sum *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        for (int digit = 0; digit < RA_EXACT_DIGITS; digit++)
            into[i].digit[digit] += from[i].digit[digit];
        into[i].special |= from[i].special;
    }
}

/* What Inf and NaN make of a sum. */
static double special_value(int64_t special)
{
    if (special == RA_EXACT_PLUS_INFINITY)
        return INFINITY;
    return special == RA_EXACT_MINUS_INFINITY ? -INFINITY : NAN;
}

/* From the last digit on, which has the sign. Digits after it that take it back do so without rounding. */
double ra_exact_value(const ra_exact_sum *sum)
{
    ra_exact_sum s = *sum;
    double value = 0;
    carry(&s);
    if (s.special)
        return special_value(s.special);
    for (int i = RA_EXACT_DIGITS - 1; i >= 0; i--)
        value += ldexp((double)s.digit[i], RA_EXACT_DIGIT_BITS * i - 149);
    return value;
}
