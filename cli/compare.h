/* How far a stored result is from the oracle's. */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include <ringattn/ringattn.h>

/* The largest error that is put down to float32 arithmetic, for inputs of unit variance. */
#define OUTPUT_TOLERANCE 2e-6
#define LSE_TOLERANCE 2e-5

/*
 * |got - expected| beyond what storing it in `dtype` costs by itself, half a unit in the last place. Equal values, -inf
 * and NaN included, are at no distance; a NaN or infinity on one side only is at infinite distance.
 */
double distance(double got, double expected, ra_dtype dtype);

#endif
