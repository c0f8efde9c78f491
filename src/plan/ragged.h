/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed sequences with query and key lengths of their own: documents:Q/K,Q/K,... Queries of a sequence are aligned to
 * the end of its keys:
 *
 *     documents:2/4,3/1      keys      0 1 2 3 | 4
 *                            queries       0 1 |
 *                                          2 3   4      query 4 is at key 4; 2 and 3 are before the first key of theirs
 */
#ifndef RA_PLAN_RAGGED_H
#define RA_PLAN_RAGGED_H

#include "base/status.h"

#include <stdbool.h>

typedef struct ra_ragged {
    int64_t count;
    int64_t *key_ends;   /* [count]: the index behind the last key of each; owned, with */
    int64_t *query_ends; /* [count]: the index behind its last query */
    ra_tensor array;     /* the caller's; data is NULL where the lengths are of a text or a file */
} ra_ragged;

/* Where a query is: the keys first_key <= k < end_key of its sequence, and its position, counted from key 0. */
typedef struct ra_packed_query {
    int64_t first_key, end_key, position;
    int64_t end; /* the index behind the last query of the sequence */
} ra_packed_query;

/* Query and key lengths, one pair after the other; the sums must be q_len and kv_len. */
ra_status ra_ragged_make(const int64_t *lengths, int64_t count, int64_t q_len, int64_t kv_len, ra_ragged **ragged);
/* Whether the caller's array has other lengths now. */
bool ra_ragged_changed(const ra_ragged *ragged);

/* The lengths that the caller's array has now; they must add up to q_len and kv_len. No sequence may have more keys
 * than in the plan. */
ra_status ra_ragged_now(const ra_ragged *planned, int64_t q_len, int64_t kv_len, ra_ragged **now);

void ra_ragged_free(ra_ragged *ragged);

int64_t ra_ragged_bytes(const ra_ragged *ragged);

/* Whether every sequence has as many queries as keys: then each query is at the key with its index. */
bool ra_ragged_even(const ra_ragged *ragged);

/* Queries of the sequence that has most. */
int64_t ra_ragged_most_queries(const ra_ragged *ragged);

/* The query at an index. Indices before the first query belong to the first sequence; behind the last, to none. */
ra_packed_query ra_ragged_at(const ra_ragged *ragged, int64_t query);

#endif
