/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shuffled order of 0 .. count - 1 that is computed, not stored: a Feistel network over the next power of two, walked
 * until it falls inside. Any place can be asked for on its own, in both directions.
 */
#ifndef RA_PLAN_SHUFFLE_H
#define RA_PLAN_SHUFFLE_H

#include <stdint.h>

enum { RA_SHUFFLE_ROUNDS = 4 };

typedef struct ra_shuffle {
    int64_t count;
    int low_bits;
    uint64_t low_mask, high_mask;
    uint64_t factor[RA_SHUFFLE_ROUNDS], key[RA_SHUFFLE_ROUNDS];
} ra_shuffle;

ra_shuffle ra_shuffle_make(int64_t count, uint64_t seed, uint64_t head, uint64_t row);

/*
 * Rounds change the low half from the high one and the other way round in turn; both halves keep their widths. Halves
 * of short rows are a few bits: what they are changed with must depend on the row by more than a sum.
 */
static inline uint64_t ra_shuffle_round(const ra_shuffle *s, int round, uint64_t x)
{
    uint64_t low = x & s->low_mask, high = x >> s->low_bits;
    if (round % 2 == 0)
        low ^= (high * s->factor[round] + s->key[round]) >> 32 & s->low_mask;
    else
        high ^= (low * s->factor[round] + s->key[round]) >> 32 & s->high_mask;
    return high << s->low_bits | low;
}

/* What is at place i. */
static inline int64_t ra_shuffle_at(const ra_shuffle *s, int64_t i)
{
    uint64_t x = (uint64_t)i;
    do {
        x = ra_shuffle_round(s, 0, x);
        x = ra_shuffle_round(s, 1, x);
        x = ra_shuffle_round(s, 2, x);
        x = ra_shuffle_round(s, 3, x);
    } while (x >= (uint64_t)s->count);
    return (int64_t)x;
}

/* At which place something is. */
int64_t ra_shuffle_place(const ra_shuffle *shuffle, int64_t value);

#endif
