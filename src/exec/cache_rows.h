/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of caches: where they are in pages, and the scales of those of 8 bits. Which blocks are needed: keys.c. */
#ifndef RA_EXEC_CACHE_ROWS_H
#define RA_EXEC_CACHE_ROWS_H

#include "exec/exec.h"

/* Element 0 of a head of the page and row that come first in memory: places count from there, so none is below 0. */
const void *ra_cache_origin(const ra_tensor *pool, int64_t head);

/*
 * at[i]: where the i-th row of a block is in k or v of a cache with pages, in elements from ra_cache_origin; -1 where
 * the table has no such page, which is so for rows alone that no query sees.
 */
void ra_cache_places(const ra_cache *cache, const ra_tensor *pool, int64_t batch, const ra_key_block *block,
                     int64_t *at);

/* The rows of a head that are at such places. */
ra_rows ra_cache_rows(const ra_tensor *pool, int64_t head, const int64_t *at);

/* scales[i] of the i-th row of a block, `scale` being k_scale or v_scale of the cache; 0 where there is no such page.
 */
void ra_cache_scales(const ra_cache *cache, const ra_tensor *scale, int64_t batch, const ra_key_block *block,
                     int64_t head, float *scales);

/* RA_OK when the table has a page for every key that is valid. */
ra_status ra_cache_check_pages(const ra_cache *cache, const ra_plan *plan);

#endif
