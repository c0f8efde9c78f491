/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of any dtype and strides, in memory of their own whose padding is NaN. */
#ifndef SUPPORT_PLACED_H
#define SUPPORT_PLACED_H

#include "ringattn/ringattn.h"
#include "support/random.h"

typedef struct placed {
    ra_tensor view;
    void *memory; /* owned: exactly what the view reaches */
    size_t bytes;
} placed;

/* Dense float32 [batch, seq, heads, dim], every element NaN. */
placed place_dense(const int64_t shape[4]);

/*
 * The same with an order of axes, padding and direction that the choices give, and a dtype, or any. The first
 * `constant` axes may have strides of 0, as those of a tensor that is only read may.
 */
enum { ANY_DTYPE = -1 };
placed place_any(choices *c, const int64_t shape[4], int dtype, int constant);

/* Normal numbers in the order of the indices, whatever the strides are. */
void fill_tensor(const ra_tensor *t, uint64_t seed);

/* Whether everything outside the view's elements is as it was placed. */
bool placed_padding_kept(const placed *p);

#endif
