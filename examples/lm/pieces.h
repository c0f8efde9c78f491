/* What goes over the tokens of a rank in pieces, so that its memory does not grow with them: the MLP and the loss. */
#ifndef LM_PIECES_H
#define LM_PIECES_H

#include "lm.h"

/* next = x + MLP(norm(x)) of a block. */
void lm_mlp(lm_model *model, int64_t layer, const float *x, float *next);

/* model->d is the gradient by `next` and becomes that by x; gradients of the parameters are added. */
void lm_mlp_backward(lm_model *model, int64_t layer, const float *x);

/* The mean loss of all ranks' tokens; with `train`, its gradient by x is put into model->d, which was zeros. */
double lm_loss(lm_model *model, const float *x, const unsigned char *next, bool train);

#endif
