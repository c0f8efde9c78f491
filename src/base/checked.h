/* SPDX-License-Identifier: Apache-2.0 */
/* int64 arithmetic that reports overflow (returns false) instead of wrapping. */
#ifndef RA_BASE_CHECKED_H
#define RA_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool ra_mul_ok(int64_t a, int64_t b, int64_t *result)
{
    return !__builtin_mul_overflow(a, b, result);
}

static inline bool ra_add_ok(int64_t a, int64_t b, int64_t *result)
{
    return !__builtin_add_overflow(a, b, result);
}

/* a + b, held at the ends of the int64 range. */
static inline int64_t ra_add_clamped(int64_t a, int64_t b)
{
    int64_t sum;
    return ra_add_ok(a, b, &sum) ? sum : b > 0 ? INT64_MAX : INT64_MIN;
}

static inline int64_t ra_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ra_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ceil(a / b) for a >= 0, b > 0, without overflow. */
static inline int64_t ra_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* The greatest common divisor of two numbers > 0. */
static inline int64_t ra_gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
