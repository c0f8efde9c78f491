/*
 * The state of a query row in double precision, by the definition, and how far a kernel's is from it. States are
 * [max, sum, acc[columns]] in base 2, as in kernel.h.
 */
#ifndef KERNEL_MODEL_H
#define KERNEL_MODEL_H

#include "support/random.h"

#include <stddef.h>
#include <stdint.h>

/* How far apart two states may be whose scores and values are of about unit size. */
#define STATE_TOLERANCE 4e-6

/* Fails the test when there is no memory. Exactly this size, so that an overrun is noticed. */
void *take(size_t bytes);

/* Normal numbers times `size`. */
void fill_normal(choices *c, float *values, int64_t count, float size);

/* A state that has seen nothing, or (usually) one that might have come from earlier keys. */
void choose_state(choices *c, int columns, float *state);

/* Let a row see one more key. */
void model_see(double *state, int columns, double score, const float *value);

/* into = merge(into, from). */
void model_merge(double *into, const double *from, int columns);

void widen_state(const float *state, int columns, double *wide);

/* The largest difference in log2(sum of weights) and in acc / sum; infinite when one has seen keys and one has not. */
double state_distance(const double *a, const double *b, int columns);

#endif
