/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of caches: where they are in pages, and the scales of those of 8 bits. See cache_rows.h. */
#include "exec/cache_rows.h"

#include "base/checked.h"
#include "base/tensor.h"
#include "plan/batch.h"

/* From element [0, 0] of a pool to its first one in memory, which negative strides put elsewhere. */
static int64_t lowest(const ra_tensor *pool)
{
    int64_t page = pool->batch_stride < 0 ? (pool->batch - 1) * pool->batch_stride : 0;
    return page + (pool->seq_stride < 0 ? (pool->seq - 1) * pool->seq_stride : 0);
}

const void *ra_cache_origin(const ra_tensor *pool, int64_t head)
{
    const char *first = ra_tensor_at(pool, 0, 0, head, 0);
    return first + lowest(pool) * (int64_t)ra_dtype_size(pool->dtype);
}

/* The page of a batch element's table; -1: none. */
static int64_t page_at(const ra_cache *cache, int64_t batch, int64_t index)
{
    const ra_tensor *table = cache->page_table;
    if (index >= table->dim)
        return -1;
    int32_t page = *(const int32_t *)ra_tensor_at(table, batch, 0, 0, index);
    return page < cache->k->batch ? page : -1;
}

/* The key that is the i-th row of a block. */
static int64_t key_of(const ra_key_block *b, int i)
{
    return b->index ? b->index[i] : b->row + i * b->step;
}

void ra_cache_places(const ra_cache *cache, const ra_tensor *pool, int64_t batch, const ra_key_block *b, int64_t *at)
{
    int64_t size = pool->seq, index = -1, page = -1, origin = lowest(pool);
    for (int i = 0; i < b->block.rows - b->block.skip; i++) {
        int64_t key = key_of(b, i);
        if (index < 0 || key < index * size || key >= (index + 1) * size) {
            index = key / size;
            page = page_at(cache, batch, index);
        }
        at[i] = page < 0 ? -1 : page * pool->batch_stride + (key - index * size) * pool->seq_stride - origin;
    }
}

ra_rows ra_cache_rows(const ra_tensor *pool, int64_t head, const int64_t *at)
{
    return (ra_rows){ra_cache_origin(pool, head), pool->dtype, 1, pool->dim_stride, at, NULL};
}

void ra_cache_scales(const ra_cache *cache, const ra_tensor *scale, int64_t batch, const ra_key_block *b, int64_t head,
                     float *scales)
{
    int rows = b->block.rows - b->block.skip;
    int64_t at[RA_KEY_BLOCK];
    if (cache->page_table)
        ra_cache_places(cache, scale, batch, b, at);
    const float *from = cache->page_table ? ra_cache_origin(scale, head) : ra_tensor_at(scale, batch, 0, head, 0);
    for (int i = 0; i < rows; i++) {
        int64_t place = cache->page_table ? at[i] : key_of(b, i) * scale->seq_stride;
        scales[i] = cache->page_table && place < 0 ? 0 : from[place];
    }
}

/* The pages of keys lo <= k < hi of a batch element. */
static ra_status check_pages(const ra_cache *cache, int64_t batch, int64_t lo, int64_t hi)
{
    int64_t size = cache->k->seq, pages = cache->k->batch;
    for (int64_t i = lo / size; i * size < hi; i++) {
        int32_t page = *(const int32_t *)ra_tensor_at(cache->page_table, batch, 0, 0, i);
        if (page < 0 || page >= pages)
            return ra_fail(RA_ERROR_ARGUMENT,
                           "page_table: entry [%lld, %lld] is %d: must be 0..%lld, a page of the %lld that there are",
                           (long long)batch, (long long)i, (int)page, (long long)(pages - 1), (long long)pages);
    }
    return RA_OK;
}

ra_status ra_cache_check_pages(const ra_cache *cache, const ra_plan *p)
{
    const ra_lengths *l = p->pattern.lengths;
    ra_status status = RA_OK;
    for (int64_t batch = 0; batch < p->batch && !status; batch++) {
        int64_t lo = l ? ra_lengths_value(l, batch, 0) : 0, hi = l ? ra_lengths_value(l, batch, 1) : p->kv_len;
        if (lo < ra_min(hi, p->kv_len))
            status = check_pages(cache, batch, lo, ra_min(hi, p->kv_len));
    }
    return status;
}
