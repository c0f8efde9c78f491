/* SPDX-License-Identifier: Apache-2.0 */
/* Squares of the float32 rounding errors of one pair's part in a gradient, in units of 2^-24. docs/MATH.md, "Tolerances
 * of gradients", derives them. */
#ifndef RA_ORACLE_ROUNDING_H
#define RA_ORACLE_ROUNDING_H

#include <math.h>

/* The square of 2^-100. Weights below 2^-126 may be 0 in float32: that is an error of less than 2^-24 2^-100. */
#define RA_LEAST_SQUARE 0x1p-200

/* What is known of the error of such a weight, from that of one that is not 0, squared: it is no more than the weight.
 */
static inline double ra_least_square(double square)
{
    return RA_LEAST_SQUARE * fmin(square, 0x1p80);
}

/* The relative error of a weight, squared. score_size: the products that the score is summed up from, without signs. */
static inline double ra_weight_square(double score_size, double lse)
{
    double error = 1 + score_size + fabs(lse);
    return error * error;
}

/*
 * The error of d_weight = d_output . v - delta, times the weight that it is multiplied with and less that weight,
 * squared. d_size: what d_weight is summed up from, without signs.
 */
static inline double ra_score_square(double weight_square, double d_weight, double d_size)
{
    return d_weight * d_weight * weight_square + d_size * d_size;
}

/*
 * The same times the derivative of the score, `slope`, squared. A slope other than 1 is that of a tanh: 1 less a
 * square, with an error that does not become smaller with it.
 */
static inline double ra_slope_square(double score_square, double d_weight, double slope)
{
    const double slope_error = 16;
    double error = slope == 1 ? 0 : slope_error * d_weight;
    return slope * slope * score_square + error * error;
}

#endif
