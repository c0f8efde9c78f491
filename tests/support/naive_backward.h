/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backward pass as a textbook has it, in float32 throughout, pair by pair and with one sum for everything: how far
 * plain float32 ends from the oracle. Weights come from a float32 log-sum-exp, as those of ra_backward do. It can also
 * make the usual mistakes.
 */
#ifndef SUPPORT_NAIVE_BACKWARD_H
#define SUPPORT_NAIVE_BACKWARD_H

#include "support/gradients.h"

typedef enum mistake {
    NO_MISTAKE,
    WITHOUT_DELTA,    /* d_s = p d_p */
    SCALE_TWICE,      /* in d_q and d_k */
    WITHOUT_SCALE,    /* there */
    LAST_HEAD_ALONE,  /* query heads that share a key/value head are not summed */
    LOCAL_POSITIONS,  /* queries sit at the beginning of the keys instead of at their end */
    ROWS_TWICE,       /* the last quarter of the queries is added twice */
    SHARED_GRADIENTS, /* d_k and d_v are one buffer */
    WITHOUT_D_LSE,
    MISTAKES
} mistake;

const char *mistake_name(mistake m);

/* All three gradients of a problem of dense float32 tensors, [D_INPUTS], which the caller frees. */
void naive_backward(const gradients *g, mistake m, float *d[D_INPUTS]);

/* Their errors without a mistake, as gradients_error has them; the problem has been solved. */
void naive_errors(const gradients *g, double errors[D_INPUTS]);

#endif
