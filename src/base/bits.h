/* Words of 64 bits. */
#ifndef RA_BASE_BITS_H
#define RA_BASE_BITS_H

#include <stdint.h>

/* The bits from <= i < to of a word. */
static inline uint64_t ra_bits(int64_t from, int64_t to)
{
    if (from >= to || from >= 64)
        return 0;
    uint64_t upto = to >= 64 ? UINT64_MAX : (UINT64_C(1) << to) - 1;
    return upto & UINT64_MAX << from;
}

#endif
