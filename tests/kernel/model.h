/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels compute in double precision, by the definition, and how far a kernel's result is from it: the state of a
 * query row, [max, sum, acc[columns]] in base 2 as in kernel.h, and the gradients of a pair of a query and a key.
 */
#ifndef KERNEL_MODEL_H
#define KERNEL_MODEL_H

#include "support/random.h"

#include <stdbool.h>
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

/* ---- Which keys of a block a row sees ---------------------------------------------------------------------------- */

/* How keys are hidden from rows. */
typedef enum hiding { NOTHING_HIDDEN, BY_RANGE, BY_BITS } hiding;

typedef struct row_mask {
    int32_t lo, hi; /* BY_RANGE: keys lo <= k < hi; NOTHING_HIDDEN: all that are there */
    uint64_t bits;  /* BY_BITS: one for each key */
} row_mask;

/* A row that sees some of the first `keys` keys, all of them or none. */
row_mask choose_mask(choices *c, hiding hiding, int keys);

/* ---- Gradients --------------------------------------------------------------------------------------------------- */

/* How far a gradient may be off, as a part of the sizes of everything that was added up. */
#define GRADIENT_TOLERANCE 4e-6

/* A sum, and the sum of the sizes of what was added: rounding grows with these. */
typedef struct model_sum {
    double value, size;
} model_sum;

static inline double model_dot(const float *a, const float *b, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

/* A row and a key that it sees, with what ra_gradient_call says of them. */
typedef struct model_pair {
    const float *query, *d_output, *key, *value;
    int head_dim, value_dim;
    double score_factor, scale; /* score_factor: of the score in base 2 */
    double lse, delta;          /* lse: in base 2; delta: times scale, but not with a stage */
    bool scored;                /* there is a stage: */
    bool cap_first;
    double cap;   /* in base 2; 0: no softcap */
    double added; /* to the score, in base 2 */
    double kept;  /* what dropout multiplies the weight by */
} model_pair;

/* The score in base 2, after the stage; *slope, if not NULL: its derivative by what it was before softcap. */
double model_score(const model_pair *pair, double *slope);

/* Its gradient: with a stage not times scale and slope. */
model_sum model_d_score(const model_pair *pair);

/* Add what the pair gives to a row of each gradient. */
void model_gradient(const model_pair *pair, model_sum *d_query, model_sum *d_key, model_sum *d_value);

#endif
