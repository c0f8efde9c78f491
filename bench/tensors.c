/* SPDX-License-Identifier: Apache-2.0 */
/* Takes, fills and checks the tensors of a case; a pool shares them between cases of one shape. See tensors.h. */
#include "tensors.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LARGE_PAGE = 2 << 20, MOST_DIM = 1024 };

bench_shape bench_shape_square(int64_t length, int64_t heads, int64_t dim)
{
    return (bench_shape){1, length, length, heads, heads, dim, RA_F32};
}

void *bench_large_pages(int64_t bytes, const char *name)
{
    size_t rounded = (size_t)(bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    void *memory = aligned_alloc(LARGE_PAGE, rounded);
    if (memory)
        madvise(memory, rounded, MADV_HUGEPAGE);
    else
        fprintf(stderr, "ringattn bench: out of memory for %s\n", name);
    return memory;
}

ra_status bench_tensors_take(bench_tensors *t, const bench_shape *s, const char *name)
{
    int64_t size = (int64_t)ra_dtype_size(s->dtype);
    int64_t query_bytes = s->batch * s->q_len * s->heads * s->dim * size;
    int64_t key_bytes = s->batch * s->kv_len * s->kv_heads * s->dim * size;
    char *at = t->memory = bench_large_pages(2 * query_bytes + 2 * key_bytes, name);
    if (!at)
        return RA_ERROR_MEMORY;
    t->key_value_bytes = 2 * key_bytes;
    t->k = ra_tensor_dense(at, s->dtype, RA_BSHD, s->batch, s->kv_len, s->kv_heads, s->dim);
    t->v = ra_tensor_dense(at + key_bytes, s->dtype, RA_BSHD, s->batch, s->kv_len, s->kv_heads, s->dim);
    t->q = ra_tensor_dense(at + 2 * key_bytes, s->dtype, RA_BSHD, s->batch, s->q_len, s->heads, s->dim);
    t->output =
        ra_tensor_dense(at + 2 * key_bytes + query_bytes, s->dtype, RA_BSHD, s->batch, s->q_len, s->heads, s->dim);
    return RA_OK;
}

/* The tensors are dense [batch, seq, heads, dim]: element i of each is value i of its stream. */
static void fill(const ra_tensor *t, uint64_t seed)
{
    ra_generate_as(RA_NORMAL, seed, 0, t->batch * t->seq * t->heads * t->dim, t->dtype, t->data);
}

void bench_tensors_fill(bench_tensors *t, uint64_t seed)
{
    fill(&t->q, seed);
    fill(&t->k, seed + 1);
    fill(&t->v, seed + 2);
}

void bench_tensors_give(bench_tensors *t)
{
    free(t->memory);
    t->memory = NULL;
}

static bool same_shape(const bench_shape *a, const bench_shape *b)
{
    return a->batch == b->batch && a->q_len == b->q_len && a->kv_len == b->kv_len && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->dim == b->dim && a->dtype == b->dtype;
}

bench_tensors *bench_pool_get(bench_pool *pool, const bench_shape *shape, const char *name)
{
    for (int i = 0; i < pool->count; i++)
        if (same_shape(&pool->shapes[i], shape))
            return &pool->tensors[i];
    assert(pool->count < BENCH_MOST_SHAPES);
    bench_tensors *t = &pool->tensors[pool->count];
    if (bench_tensors_take(t, shape, name))
        return NULL;
    bench_tensors_fill(t, pool->seed);
    pool->shapes[pool->count++] = *shape;
    return t;
}

void bench_pool_give(bench_pool *pool)
{
    for (int i = 0; i < pool->count; i++)
        bench_tensors_give(&pool->tensors[i]);
    pool->count = 0;
}

int64_t bench_checked_query(const bench_tensors *t, int index)
{
    return t->q.seq * index / BENCH_CHECKED_ROWS;
}

ra_status bench_check_row(const ra_plan *plan, const bench_tensors *t, int index, double *error)
{
    double row[MOST_DIM];
    int64_t batch = index % t->q.batch, query = bench_checked_query(t, index), head = index % t->q.heads;
    ra_status status = ra_reference_row(plan, &t->q, &t->k, &t->v, batch, head, query, row, NULL);
    for (int64_t d = 0; d < t->output.dim && !status; d++) {
        double difference = fabs(row[d] - ra_tensor_get(&t->output, batch, query, head, d));
        if (!(difference <= *error) && !isnan(*error)) /* NaN is an error too, and stays */
            *error = difference;
    }
    return status;
}

double bench_tolerance(ra_dtype dtype)
{
    return dtype == RA_F32 ? 2e-6 : dtype == RA_F16 ? 1e-3 : 8e-3;
}
