/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of the probes for AVX2; the shared part is probe_loops.h, the caller probe.c. */
#include <immintrin.h>
#include <stdint.h>

#define PROBE_NAME probe_avx2
#define PROBE_ID RA_KERNEL_AVX2
#define WIDTH 8
#define VECTORS 3
typedef __m256 vec;
#define p_set _mm256_set1_ps
#define p_fma(c, a, b) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b))

/* In assembly: what compilers make of it depends on their mood, and a probe must not. */
static inline void p_panel(const float *column, const float *quad)
{
    int64_t steps = 64;
    __asm__ volatile("1:\n\t"
                     "vmovups 0(%0), %%ymm13\n\t"
                     "vmovups 32(%0), %%ymm14\n\t"
                     "vmovups 64(%0), %%ymm15\n\t"
                     "vbroadcastss 0(%1), %%ymm12\n\t"
                     "vfmadd231ps %%ymm13, %%ymm12, %%ymm0\n\t"
                     "vfmadd231ps %%ymm14, %%ymm12, %%ymm1\n\t"
                     "vfmadd231ps %%ymm15, %%ymm12, %%ymm2\n\t"
                     "vbroadcastss 4(%1), %%ymm12\n\t"
                     "vfmadd231ps %%ymm13, %%ymm12, %%ymm3\n\t"
                     "vfmadd231ps %%ymm14, %%ymm12, %%ymm4\n\t"
                     "vfmadd231ps %%ymm15, %%ymm12, %%ymm5\n\t"
                     "vbroadcastss 8(%1), %%ymm12\n\t"
                     "vfmadd231ps %%ymm13, %%ymm12, %%ymm6\n\t"
                     "vfmadd231ps %%ymm14, %%ymm12, %%ymm7\n\t"
                     "vfmadd231ps %%ymm15, %%ymm12, %%ymm8\n\t"
                     "vbroadcastss 12(%1), %%ymm12\n\t"
                     "vfmadd231ps %%ymm13, %%ymm12, %%ymm9\n\t"
                     "vfmadd231ps %%ymm14, %%ymm12, %%ymm10\n\t"
                     "vfmadd231ps %%ymm15, %%ymm12, %%ymm11\n\t"
                     "add $96, %0\n\t"
                     "add $16, %1\n\t"
                     "dec %2\n\t"
                     "jnz 1b"
                     : "+r"(column), "+r"(quad), "+r"(steps)
                     :
                     : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                       "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

#include "probe_loops.h"
