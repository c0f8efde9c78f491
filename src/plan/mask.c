/* Words and single bits of a mask. See mask.h; term_mask.c reads its text. */
#include "plan/mask.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

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

/* Eight booleans, the first in the lowest byte, to bits. */
static uint64_t eight_bits(uint64_t bytes)
{
    const uint64_t lowest = UINT64_C(0x0101010101010101);
    bytes |= bytes >> 4;
    bytes |= bytes >> 2;
    bytes |= bytes >> 1;
    return (bytes & lowest) * UINT64_C(0x0102040810204080) >> 56;
}

static uint64_t load_eight(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

uint64_t ra_mask_word(const ra_mask *m, int64_t batch, int64_t head, int64_t query, int64_t first)
{
    if (m->bits)
        return row_of(m, batch, head, query)[first / 64];
    const uint8_t *bytes = byte_of(m, batch, head, query, first);
    int64_t count = ra_min(64, m->kv_len - first), i = 0, stride = m->array.dim_stride;
    uint64_t word = 0;
    for (; stride == 1 && i + 8 <= count; i += 8)
        word |= eight_bits(load_eight(bytes + i)) << i;
    for (; i < count; i++)
        word |= (uint64_t)(bytes[i * stride] != 0) << i;
    return word;
}

bool ra_mask_has(const ra_mask *m, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    if (m->bits)
        return row_of(m, batch, head, query)[key / 64] >> (key % 64) & 1;
    return *byte_of(m, batch, head, query, key) != 0;
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
