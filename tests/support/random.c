/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that follow from a seed, and the seeds to try. See random.h. */
#include "support/random.h"

#include <stdlib.h>

enum { SLOW_FACTOR = 20, SANITIZED_PART = 4, SANITIZED_LEAST = 80 }; /* fewer would not come to every path */

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

seed_range seeds(int quick)
{
    const char *picked = getenv("RINGATTN_SEED");
    if (picked) {
        uint64_t seed = strtoull(picked, NULL, 10);
        return (seed_range){seed, seed + 1};
    }
    int count = is_set("RINGATTN_SLOW") ? quick * SLOW_FACTOR : quick;
    if (is_set("RINGATTN_SANITIZED") && count > SANITIZED_LEAST)
        count = count / SANITIZED_PART > SANITIZED_LEAST ? count / SANITIZED_PART : SANITIZED_LEAST;
    return (seed_range){1, 1 + (uint64_t)count};
}

int stride(int quick)
{
    return is_set("RINGATTN_SLOW") ? 1 : is_set("RINGATTN_SANITIZED") ? SANITIZED_PART * quick : quick;
}

/* splitmix64: any seed will do, neighbours included. */
uint64_t choose_bits(choices *c)
{
    uint64_t z = c->state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

int64_t choose(choices *c, int64_t low, int64_t high)
{
    return low + (int64_t)(choose_bits(c) % (uint64_t)(high - low + 1));
}

bool chance(choices *c, int times)
{
    return choose(c, 1, times) == 1;
}

/* The sum of twelve uniform numbers. */
float choose_normal(choices *c)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)(choose_bits(c) >> 11) * 0x1p-53;
    return (float)sum;
}
