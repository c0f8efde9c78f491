/* SPDX-License-Identifier: Apache-2.0 */
/* What the oracles over storages share: rows as doubles, products of rows, checks. */
#ifndef RA_ORACLE_ROWS_H
#define RA_ORACLE_ROWS_H

#include "io/storage.h"
#include "plan/batch.h"
#include "score/scores.h"

/* Rows of a storage that are read at a time hold about this many values, 256 KiB, and are no more than that. */
enum { RA_ORACLE_VALUES = 1 << 15, RA_ORACLE_ROWS = 256 };

/* Zeroed memory for count * inner objects; NULL: there is none. */
void *ra_oracle_array(int64_t count, int64_t inner, size_t size);

/* RA_OK when the storage (called `name` in messages) has this shape, and the plan's batch. */
ra_status ra_oracle_check(const ra_storage *storage, const char *name, const ra_plan *plan, int64_t seq, int64_t heads,
                          int64_t dim);

/*
 * `count` rows of `heads` heads from `first` on, as doubles [count][heads][dim]. `elements` has room for them as the
 * storage has them.
 */
ra_status ra_oracle_read(ra_storage *storage, ra_row first, int64_t count, int64_t heads, void *elements,
                         double *values);

/* Tells the plan's progress; RA_ERROR_CANCELLED when it asks to stop. */
ra_status ra_oracle_tell(const ra_plan *plan, double done, double total);

/* A query and a key, by their indices. */
ra_score_pair ra_oracle_pair(const ra_plan *plan, int64_t batch, int64_t head, int64_t query, int64_t key);

/*
 * What the score of a pair is summed up from, without signs: of the scaled product of their rows, and of all terms. 0
 * where terms have put the score so far below `top`, the largest one or the log-sum-exp of the row, that its weight is
 * 0 in float32 however it is rounded: a bias that stands for a mask.
 */
double ra_oracle_score_size(const ra_plan *plan, const ra_score_pair *pair, const double *query, const double *key,
                            double score, double top);

double ra_oracle_dot(const double *a, const double *b, int64_t count);

/* What a product of rows is summed up from, without signs: its rounding grows with this, however much of it cancels. */
double ra_oracle_dot_size(const double *a, const double *b, int64_t count);

#endif
