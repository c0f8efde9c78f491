/* SPDX-License-Identifier: Apache-2.0 */
/* What goes over the tokens in pieces: the MLP and the loss. */
#ifndef LM_PIECES_H
#define LM_PIECES_H

#include "lm.h"

/* The stretches of a piece, LM_PIECE tokens at most; and one of them, with its place in the piece. */
typedef struct lm_run {
    int64_t first, count;
} lm_run;

typedef struct lm_stretch {
    int64_t first, count; /* tokens */
    int64_t place;        /* of its first token in the piece */
} lm_stretch;

lm_run lm_first_piece(const lm_model *model);
lm_run lm_next_piece(const lm_model *model, lm_run piece); /* count 0: that was the last */
lm_stretch lm_stretch_at(const lm_model *model, lm_run piece, int64_t index);

/* The model's memory of a piece, from a stretch's place on. */
lm_piece lm_piece_at(const lm_model *model, lm_stretch stretch);

/* gradient [embed] += the stretches' norm_sums, rounded. */
void lm_add_norms(const lm_model *model, double *gradient);

/* x += before, what attention is added to; next = x + MLP(norm(x)) of a block. */
void lm_mlp(lm_model *model, int64_t layer, const float *before, float *x, float *next);

/* model->d is the gradient by `next` and becomes that by x; gradients of the parameters are added. */
void lm_mlp_backward(lm_model *model, int64_t layer, const float *x);

/* The mean loss of all ranks' tokens; with `train`, model->d becomes its gradient by x. */
double lm_loss(lm_model *model, const float *x, const unsigned char *next, bool train);

#endif
