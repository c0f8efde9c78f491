/* SPDX-License-Identifier: Apache-2.0 */
/* Reads CLOCK_MONOTONIC. */
#include "base/clock.h"

#include <time.h>

static struct timespec now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t;
}

double ra_seconds(void)
{
    struct timespec t = now();
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int64_t ra_nanoseconds(void)
{
    struct timespec t = now();
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
