/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of the probes for AVX-512; the shared part is probe_loops.h, the caller probe.c. */
#include <immintrin.h>
#include <stdint.h>

#define PROBE_NAME probe_avx512
#define PROBE_ID RA_KERNEL_AVX512
#define WIDTH 16
#define VECTORS 4
typedef __m512 vec;
#define p_set _mm512_set1_ps
#define p_fma(c, a, b) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))

/* In assembly: what compilers make of it depends on their mood, and a probe must not. */
static inline void p_panel(const float *column, const float *quad)
{
    int64_t steps = 64;
    __asm__ volatile("1:\n\t"
                     "vmovups 0(%0), %%zmm17\n\t"
                     "vmovups 64(%0), %%zmm18\n\t"
                     "vmovups 128(%0), %%zmm19\n\t"
                     "vmovups 192(%0), %%zmm20\n\t"
                     "vbroadcastss 0(%1), %%zmm16\n\t"
                     "vfmadd231ps %%zmm17, %%zmm16, %%zmm0\n\t"
                     "vfmadd231ps %%zmm18, %%zmm16, %%zmm1\n\t"
                     "vfmadd231ps %%zmm19, %%zmm16, %%zmm2\n\t"
                     "vfmadd231ps %%zmm20, %%zmm16, %%zmm3\n\t"
                     "vbroadcastss 4(%1), %%zmm16\n\t"
                     "vfmadd231ps %%zmm17, %%zmm16, %%zmm4\n\t"
                     "vfmadd231ps %%zmm18, %%zmm16, %%zmm5\n\t"
                     "vfmadd231ps %%zmm19, %%zmm16, %%zmm6\n\t"
                     "vfmadd231ps %%zmm20, %%zmm16, %%zmm7\n\t"
                     "vbroadcastss 8(%1), %%zmm16\n\t"
                     "vfmadd231ps %%zmm17, %%zmm16, %%zmm8\n\t"
                     "vfmadd231ps %%zmm18, %%zmm16, %%zmm9\n\t"
                     "vfmadd231ps %%zmm19, %%zmm16, %%zmm10\n\t"
                     "vfmadd231ps %%zmm20, %%zmm16, %%zmm11\n\t"
                     "vbroadcastss 12(%1), %%zmm16\n\t"
                     "vfmadd231ps %%zmm17, %%zmm16, %%zmm12\n\t"
                     "vfmadd231ps %%zmm18, %%zmm16, %%zmm13\n\t"
                     "vfmadd231ps %%zmm19, %%zmm16, %%zmm14\n\t"
                     "vfmadd231ps %%zmm20, %%zmm16, %%zmm15\n\t"
                     "add $256, %0\n\t"
                     "add $16, %1\n\t"
                     "dec %2\n\t"
                     "jnz 1b"
                     : "+r"(column), "+r"(quad), "+r"(steps)
                     :
                     : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                       "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19",
                       "xmm20");
}

#include "probe_loops.h"
