/* SPDX-License-Identifier: Apache-2.0 */
/* 64 bits to 64 unrelated-looking ones. */
#ifndef RA_BASE_MIX_H
#define RA_BASE_MIX_H

#include <stdint.h>

/* Steele, Lea and Flood's SplitMix64 finaliser: one to one, and near numbers become far ones. */
static inline uint64_t ra_mix64(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

#endif
