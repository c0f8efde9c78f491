/* The tensors of a case, and what the oracle says of their output. */
#ifndef BENCH_TENSORS_H
#define BENCH_TENSORS_H

#include <ringattn/ringattn.h>

/* [1, seq, heads, dim] each, in one block of large pages, as the command has its tensors. */
typedef struct bench_tensors {
    void *memory;
    ra_tensor q, k, v, output;
    int64_t key_value_bytes; /* k and v lie together at `memory` */
} bench_tensors;

typedef struct bench_shape {
    int64_t q_len, kv_len, heads, kv_heads, dim;
    ra_dtype dtype;
} bench_shape;

/* RA_ERROR_MEMORY is reported with the name of the case. */
ra_status bench_tensors_take(bench_tensors *t, const bench_shape *shape, const char *name);

/* Made-up queries, keys and values of seed, seed + 1 and seed + 2: the same for every process and every run. */
void bench_tensors_fill(bench_tensors *t, uint64_t seed);
void bench_tensors_give(bench_tensors *t);

/* The largest difference to the oracle of one row of the output; *error only grows. */
ra_status bench_check_row(const ra_plan *plan, const bench_tensors *t, int64_t query, int64_t head, double *error);

/* The queries that are checked: index 0 .. BENCH_CHECKED_ROWS - 1, spread over the sequence. */
enum { BENCH_CHECKED_ROWS = 6 };
int64_t bench_checked_query(const bench_tensors *t, int index);
int64_t bench_checked_head(const bench_tensors *t, int index);

/* What an output of this dtype may differ by. */
double bench_tolerance(ra_dtype dtype);

#endif
