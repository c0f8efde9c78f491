/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a case, and what the oracle says of their output. */
#ifndef BENCH_TENSORS_H
#define BENCH_TENSORS_H

#include <ringattn/ringattn.h>

/* [batch, seq, heads, dim] each, in one block of large pages, as the command has its tensors. */
typedef struct bench_tensors {
    void *memory;
    ra_tensor q, k, v, output;
    int64_t key_value_bytes; /* k and v lie together at `memory` */
} bench_tensors;

typedef struct bench_shape {
    int64_t batch, q_len, kv_len, heads, kv_heads, dim;
    ra_dtype dtype;
} bench_shape;

/* The shape of most cases: queries and keys alike, float32. */
bench_shape bench_shape_square(int64_t length, int64_t heads, int64_t dim);

/* Memory in large pages, to be freed; NULL with a message that names the case. */
void *bench_large_pages(int64_t bytes, const char *name);

/* RA_ERROR_MEMORY is reported with the name of the case. */
ra_status bench_tensors_take(bench_tensors *t, const bench_shape *shape, const char *name);

/* Made-up queries, keys and values of seed, seed + 1 and seed + 2: the same for every process and every run. */
void bench_tensors_fill(bench_tensors *t, uint64_t seed);
void bench_tensors_give(bench_tensors *t);

/* Tensors that all cases of a shape share. Their output is what the last of them left there. */
enum { BENCH_MOST_SHAPES = 24 };
typedef struct bench_pool {
    uint64_t seed;
    int count;
    bench_shape shapes[BENCH_MOST_SHAPES];
    bench_tensors tensors[BENCH_MOST_SHAPES];
} bench_pool;

/* Those of that shape, made and filled if there are none yet; NULL with a message that names the case. */
bench_tensors *bench_pool_get(bench_pool *pool, const bench_shape *shape, const char *name);
void bench_pool_give(bench_pool *pool);

/* The largest difference to the oracle of one of the rows that are checked; *error only grows. */
ra_status bench_check_row(const ra_plan *plan, const bench_tensors *t, int index, double *error);

/* The queries that are checked: index 0 .. BENCH_CHECKED_ROWS - 1, spread over the sequence. */
enum { BENCH_CHECKED_ROWS = 6 };
int64_t bench_checked_query(const bench_tensors *t, int index);

/* What an output of this dtype may differ by. */
double bench_tolerance(ra_dtype dtype);

#endif
