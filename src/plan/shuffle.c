/* SPDX-License-Identifier: Apache-2.0 */
/* The Feistel network behind random blocks. See shuffle.h. */
#include "plan/shuffle.h"

/* The finalizer of a 64-bit hash: every bit of x changes half of the bits of the result. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

ra_shuffle ra_shuffle_make(int64_t count, uint64_t seed, uint64_t head, uint64_t row)
{
    int bits = count > 1 ? 64 - __builtin_clzll((uint64_t)count - 1) : 0, low = bits - bits / 2;
    uint64_t key = mix(mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) + head) + row);
    ra_shuffle s = {count, low, (UINT64_C(1) << low) - 1, (UINT64_C(1) << (bits / 2)) - 1, {0}, {0}};
    for (int round = 0; round < RA_SHUFFLE_ROUNDS; round++) {
        s.factor[round] = mix(key += UINT64_C(0x9e3779b97f4a7c15)) | 1;
        s.key[round] = mix(key += UINT64_C(0x9e3779b97f4a7c15));
    }
    return s;
}

int64_t ra_shuffle_place(const ra_shuffle *s, int64_t value)
{
    uint64_t x = (uint64_t)value;
    do
        for (int round = RA_SHUFFLE_ROUNDS - 1; round >= 0; round--)
            x = ra_shuffle_round(s, round, x);
    while (x >= (uint64_t)s->count);
    return (int64_t)x;
}
