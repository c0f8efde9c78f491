/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error of a stored value against the oracle's, and the tolerance for it. The derivation is in docs/MATH.md. See
 * compare.h.
 */
#include "compare.h"

#include <float.h>
#include <math.h>

/* Half of the step between neighbours of `value` in `dtype`. */
static double half_step(double value, ra_dtype dtype)
{
    const int fraction_bits = dtype == RA_F16 ? 10 : dtype == RA_BF16 ? 7 : 23;
    const int least_exponent = dtype == RA_F16 ? -14 : -126; /* of normal numbers: below, steps stay the same */
    int exponent;
    frexp(value, &exponent); /* value = fraction * 2^exponent, fraction in [1/2, 1) */
    exponent = value == 0 || exponent - 1 < least_exponent ? least_exponent : exponent - 1;
    return ldexp(1, exponent - fraction_bits - 1);
}

double distance(double got, double expected, ra_dtype dtype)
{
    if (got == expected || (isnan(got) && isnan(expected)))
        return 0;
    if (!isfinite(got) || !isfinite(expected))
        return INFINITY;
    return fmax(0, fabs(got - expected) - half_step(expected, dtype));
}

/* ---- Tolerances -------------------------------------------------------------------------------------------------- */

static const double ROUNDING = 0x1p-24; /* of one float32 operation, relative */

/*
 * `factor` roundings of a score, beyond what the tolerances for unit variance have room for: there a score is summed up
 * from products of about 2/pi sqrt(head_dim) in all.
 */
static double score_rounding(double factor, int64_t head_dim, double size)
{
    const double usual = 4 + 0.75 * sqrt((double)head_dim);
    double rounding = factor * ROUNDING * fmax(0, size - usual);
    return isfinite(rounding) ? rounding : 0; /* such a row is NaN, and nothing but NaN is equal to it */
}

double output_tolerance(int64_t head_dim, double size, double spread, double expected)
{
    const double sums = 16, scores = 6;
    double values = hypot(spread, expected);
    double tolerance =
        fmax(OUTPUT_TOLERANCE, sums * ROUNDING * values) + score_rounding(scores, head_dim, size) * spread;
    return isfinite(tolerance) ? tolerance : OUTPUT_TOLERANCE;
}

/* Each weight has a rounding of its own, so the error of a sum is that of a random walk; 4 is 7 of its deviations. */
static double fast_tolerance(double size)
{
    const double roundings = 4, bfloat16 = 0x1p-9;
    double tolerance = roundings * bfloat16 * size;
    return isfinite(tolerance) ? tolerance : 0;
}

double fast_output_tolerance(double rounding)
{
    return fast_tolerance(rounding);
}

double fast_gradient_tolerance(double size)
{
    return fast_tolerance(size);
}

double lse_tolerance(int64_t head_dim, double size)
{
    const double scores = 9;
    return LSE_TOLERANCE + score_rounding(scores, head_dim, size);
}

double gradient_tolerance(int64_t terms, double size)
{
    const double each = 8, sums = 0.5;
    double tolerance = (each + sums * sqrt((double)terms)) * ROUNDING * size;
    return (isfinite(tolerance) ? tolerance : 0) + (double)FLT_MIN; /* products may be subnormal */
}
