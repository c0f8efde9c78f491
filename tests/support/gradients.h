/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up problems of the backward pass on top of samples: tensors, runs, and the oracle's word on them. */
#ifndef SUPPORT_GRADIENTS_H
#define SUPPORT_GRADIENTS_H

#include "support/placed.h"
#include "support/sample.h"

/* The gradients by the inputs come first, and are numbered as ra_gradient is. */
enum { D_QUERY, D_KEY, D_VALUE, D_INPUTS, D_OUTPUT = D_INPUTS, D_LSE, D_TENSORS };

typedef struct gradients {
    sample s;
    placed d[D_TENSORS];
    bool with_lse;            /* d_lse is given to runs and to the oracle */
    bool fast;                /* products are of bfloat16: gradients_part allows for that */
    double *exact[D_INPUTS];  /* by gradients_solve, dense [batch, seq, heads, dim] */
    double largest[D_INPUTS]; /* of their elements without sign */
    double *sizes[D_INPUTS];  /* of their rows, by gradients_part; NULL: not known yet */
} gradients;

/* Dense float32 tensors, standard normal. */
void gradients_make(gradients *g, const ra_problem *problem, bool with_lse);

/* The same with a dtype as for place_any, and an order of axes, padding and direction of its own for every tensor;
 * d_lse is given or not. */
void gradients_make_any(gradients *g, const ra_problem *problem, int dtype, choices *c);

void gradients_free(gradients *g);

/* Forward and backward pass; every element of their results was NaN before. Fails the test on any status. */
void gradients_run(const gradients *g, ra_kernel_id kernel, int threads);

/* The same; the gradients that `wanted` leaves out are not asked for. `stats` of the backward pass may be NULL. */
void gradients_run_as(const gradients *g, const ra_options *options, const bool wanted[D_INPUTS], ra_stats *stats);

/*
 * The oracle's gradients, after a run. An output of 16 bits is rounded, and gradients are made from it as it is: the
 * oracle is told so through d_lse, which has the same part in them.
 */
void gradients_solve(gradients *g);

/* The largest distance (compare.h) from the oracle's gradient, as a part of its largest element or of 1. */
double gradients_error(const gradients *g, int which);

/* The same as a part of the tolerance of its row (compare.h), whatever the scale and the inputs are. */
double gradients_part(gradients *g, int which);

/* The error of any gradient as floats, laid out as the oracle's. */
double gradients_error_of(const gradients *g, int which, const float *values);

/* A copy of the gradients, which the caller frees; and whether a gradient is that to the bit. */
char *gradients_keep(const gradients *g);
bool gradients_same(const gradients *g, const char *kept, int which);

/* Whether the gradients' padding is as it was before the run. */
bool gradients_padding_kept(const gradients *g);

/* One line for messages. */
const char *gradients_text(const gradients *g);

#endif
