/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which weights dropout keeps: a draw of 32 bits for each pair of a query and a key, from a counter-based generator.
 * It is keyed by seed, batch, head and both positions, and by nothing else: whoever works on a pair, in whatever tile,
 * on whatever rank, draws the same.
 *
 * A row and a column (a key) have a key of two words each, from 64 mixed bits. A pair's draw mixes the four words in
 * 32-bit arithmetic, which vectors have. Kernels write this out for their lanes; the oracle calls it as it is here.
 */
#ifndef RA_BASE_DROPOUT_H
#define RA_BASE_DROPOUT_H

#include "base/mix.h"

#include <stdbool.h>

typedef struct ra_draw_key {
    uint32_t a, b;
} ra_draw_key;

#define RA_DRAW_FIRST 0x85ebca6bU
#define RA_DRAW_SECOND 0x9e3779b1U

static inline ra_draw_key ra_draw_key_of(uint64_t x)
{
    return (ra_draw_key){(uint32_t)x, (uint32_t)(x >> 32)};
}

static inline ra_draw_key ra_draw_row(uint64_t seed, int64_t batch, int64_t head, int64_t position)
{
    uint64_t x = ra_mix64(seed + 0x9e3779b97f4a7c15U);
    x = ra_mix64(x + (uint64_t)batch);
    x = ra_mix64(x + (uint64_t)head);
    return ra_draw_key_of(ra_mix64(x + (uint64_t)position));
}

static inline ra_draw_key ra_draw_column(uint64_t seed, int64_t position)
{
    return ra_draw_key_of(ra_mix64(ra_mix64(seed + 0xd1b54a32d192ed03U) + (uint64_t)position));
}

static inline uint32_t ra_draw(ra_draw_key row, ra_draw_key column)
{
    uint32_t x = row.a + column.a;
    x = (x ^ x >> 16) * RA_DRAW_FIRST;
    x = (x ^ x >> 15) + (row.b ^ column.b);
    return x * RA_DRAW_SECOND;
}

/* A weight is dropped if its draw is below this. */
static inline uint32_t ra_draw_threshold(double probability)
{
    return (uint32_t)(probability * 4294967296.0);
}

#endif
