/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512F and DQ: 64 queries a group, 4 x 4 accumulators of the 32 registers. */
#include "kernel/avx512_vectors.h"

#define KERNEL_NAME ra_kernel_avx512
#define KERNEL_ID RA_KERNEL_AVX512

static inline void v_begin(vec *c, vec a, vec b)
{
    *c = _mm512_mul_ps(a, b);
}

/* Written out, so that the sums stay in their registers; an emulation of the intrinsics has no such instruction. */
static inline __attribute__((always_inline)) void v_accumulate(vec *c, vec a, vec b)
{
#ifdef __AVX512F__
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(*c) : "v"(a), "v"(b));
#else
    *c = _mm512_fmadd_ps(a, b, *c);
#endif
}

#include "kernel/template.h"
