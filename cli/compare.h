/* SPDX-License-Identifier: Apache-2.0 */
/* The error of a stored result against the oracle, and its tolerance. */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include <ringattn/ringattn.h>

/* The tolerances: the largest errors of float32 arithmetic, for inputs of unit variance and the default scale. */
#define OUTPUT_TOLERANCE 2e-6
#define LSE_TOLERANCE 2e-5

/*
 * |got - expected| beyond what storing it in `dtype` costs by itself, half a unit in the last place. Equal values, -inf
 * and NaN included, are at no distance; a NaN or infinity on one side only is at infinite distance.
 */
double distance(double got, double expected, ra_dtype dtype);

/*
 * The tolerances above for scores and values of any size: they grow with what ra_reference_rows_sized says of a row
 * (`size`) and of an element (`spread`). docs/MATH.md derives them. Never infinite.
 */
double output_tolerance(int64_t head_dim, double size, double spread, double expected);
double lse_tolerance(int64_t head_dim, double size);

/*
 * The tolerance for a row of a gradient that is a sum of `terms` terms: keys for the gradient of queries; for the
 * others, queries of all heads that share a key/value head. `size` is what ra_reference_gradient_rows says of the row.
 * Never infinite.
 */
double gradient_tolerance(int64_t terms, double size);

/*
 * What products of bfloat16 add to the tolerances of an output's element, by what ra_reference_rows_rounded says of it
 * (`rounding`), and of a row of a gradient. Runs of tensors that are all bfloat16 may have such products.
 */
double fast_output_tolerance(double rounding);
double fast_gradient_tolerance(double size);

#endif
