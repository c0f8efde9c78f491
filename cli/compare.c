#include "compare.h"

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
