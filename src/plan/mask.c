/* SPDX-License-Identifier: Apache-2.0 */
/* Words and single bits of a mask. See mask.h; term_mask.c reads its text. */
#include "plan/mask.h"

#include "base/bits.h"
#include "base/checked.h"

#include <stdlib.h>

/* Row of bits. */
static const uint64_t *row_of(const ra_mask *m, int64_t batch, int64_t head, int64_t query)
{
    int64_t slice = (m->batch > 1 ? batch : 0) * m->heads + (m->heads > 1 ? head : 0);
    return m->bits + (slice * m->q_len + query) * m->words;
}

/* The boolean of a key. */
static const uint8_t *byte_of(const ra_mask *m, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    const ra_tensor *t = &m->array;
    return (const uint8_t *)t->data + (m->batch > 1 ? batch : 0) * t->batch_stride + query * t->seq_stride +
           (m->heads > 1 ? head : 0) * t->head_stride + key * t->dim_stride;
}

uint64_t ra_mask_word(const ra_mask *m, int64_t batch, int64_t head, int64_t query, int64_t first)
{
    if (m->bits)
        return row_of(m, batch, head, query)[first / 64];
    const uint8_t *bytes = byte_of(m, batch, head, query, first);
    int64_t count = ra_min(64, m->kv_len - first), stride = m->array.dim_stride;
    uint64_t word = 0;
    if (stride == 1 && count == 64)
        return ra_bits_of_booleans(bytes);
    for (int64_t i = 0; i < count; i++)
        word |= (uint64_t)(bytes[i * stride] & 1) << i;
    return word;
}

void ra_mask_fetch(const ra_mask *m, int64_t batch, int64_t head, int64_t query, int64_t first, int64_t words)
{
    int64_t end = ra_min(first + 64 * words, m->kv_len);
    for (int64_t key = first; key < end && m->array.dim_stride == 1; key += 64)
        __builtin_prefetch(byte_of(m, batch, head, query, key));
}

bool ra_mask_has(const ra_mask *m, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    if (m->bits)
        return row_of(m, batch, head, query)[key / 64] >> (key % 64) & 1;
    return *byte_of(m, batch, head, query, key) & 1;
}

void ra_mask_free(ra_mask *m)
{
    if (m)
        free(m->bits);
    free(m);
}

int64_t ra_mask_bytes(const ra_mask *m)
{
    int64_t words = m->bits ? m->batch * m->heads * m->q_len * m->words : 0;
    return (int64_t)sizeof *m + words * (int64_t)sizeof *m->bits;
}
