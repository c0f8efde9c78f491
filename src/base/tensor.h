/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor views: addresses and checks. */
#ifndef RA_BASE_TENSOR_H
#define RA_BASE_TENSOR_H

#include "base/status.h"

/* The address of an element; the view must have been checked. */
const void *ra_tensor_at(const ra_tensor *tensor, int64_t batch, int64_t seq, int64_t head, int64_t dim);

/*
 * RA_OK when `tensor` (called `name` in messages) has exactly this shape, a floating dtype and data, and every element
 * lies within the address space.
 */
ra_status ra_tensor_check(const ra_tensor *tensor, const char *name, int64_t batch, int64_t seq, int64_t heads,
                          int64_t dim);

/* The same for any dtype. */
ra_status ra_tensor_check_shape(const ra_tensor *tensor, const char *name, int64_t batch, int64_t seq, int64_t heads,
                                int64_t dim);

/* The same for a tensor that an oracle reads, which may be RA_F64, too. */
ra_status ra_tensor_check_reference(const ra_tensor *tensor, const char *name, int64_t batch, int64_t seq,
                                    int64_t heads, int64_t dim);

/*
 * RA_OK when `rows` [count] (called `name` in messages) lie within a tensor of this shape, and both they and
 * `elements`, where what is in them goes, are there.
 */
ra_status ra_rows_check(const ra_row *rows, const char *name, int64_t count, const void *elements, int64_t batch,
                        int64_t seq, int64_t heads);

#endif
