/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Padded batches: which keys of each batch element are valid, by index, and perhaps the position of its first query.
 * A plan keeps the values that it was made for. A run may have others in the caller's array, as long as no element has
 * keys that the plan does not have.
 */
#ifndef RA_PLAN_LENGTHS_H
#define RA_PLAN_LENGTHS_H

#include "base/status.h"

#include <stdbool.h>

typedef struct ra_lengths {
    int64_t batch;
    int columns;       /* first valid key, end of the valid keys; 3: position of query 0, as the problem counts them */
    const int64_t *at; /* element b, column c: at[b * batch_stride + c * column_stride] */
    int64_t batch_stride, column_stride;
    int64_t *planned; /* [batch][columns]; owned */
    ra_tensor array;  /* the caller's; data is NULL where the values are a file's */
} ra_lengths;

static inline int64_t ra_lengths_value(const ra_lengths *l, int64_t batch, int column)
{
    return l->at[batch * l->batch_stride + column * l->column_stride];
}

/* What lengths are for. */
typedef struct ra_lengths_limits {
    int64_t batch, q_len, kv_len;
} ra_lengths_limits;

/* The same with the values that the caller's array has now. */
ra_lengths ra_lengths_now(const ra_lengths *lengths);

/* Whether these values differ from those of the plan. */
bool ra_lengths_changed(const ra_lengths *lengths);

/* RA_OK if the caller's values are legal and no element has keys that the plan does not have. */
ra_status ra_lengths_check_now(const ra_lengths *lengths, const ra_lengths_limits *limits);

/* RA_OK if the values are legal for a problem. */
ra_status ra_lengths_check(const ra_lengths *lengths, const ra_lengths_limits *limits);

void ra_lengths_free(ra_lengths *lengths);

int64_t ra_lengths_bytes(const ra_lengths *lengths);

#endif
