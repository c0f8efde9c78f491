/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How floats are rounded while a run computes, in every thread alike; what the caller had is put back. Rounding and
 * denormals are as the standard has them. With `flush`, results below the smallest normal number become zeros: weights
 * of steep scores make many of them, and some processors take 150 cycles for each.
 */
#ifndef RA_BASE_FLOAT_MODE_H
#define RA_BASE_FLOAT_MODE_H

#include <fenv.h>
#include <stdbool.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

static inline void ra_floats_enter(fenv_t *callers, bool flush)
{
    fegetenv(callers);
    fesetenv(FE_DFL_ENV);
#ifdef __SSE__
    if (flush)
        _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON);
#else
    (void)flush;
#endif
}

static inline void ra_floats_leave(const fenv_t *callers)
{
    fesetenv(callers);
}

#endif
