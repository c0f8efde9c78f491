/* SPDX-License-Identifier: Apache-2.0 */
/* What this processor and operating system can do. */
#ifndef RA_BASE_CPU_H
#define RA_BASE_CPU_H

#include "base/status.h"

typedef enum ra_cpu_feature {
    RA_CPU_AVX2 = 1,
    RA_CPU_FMA = 2,
    RA_CPU_F16C = 4,
    RA_CPU_AVX512F = 8,
    RA_CPU_AVX512DQ = 16,
    RA_CPU_AVX512_VNNI = 32,
    RA_CPU_AVX512_BF16 = 64,
    RA_CPU_AVX512_FP16 = 128,
    RA_CPU_AVX_VNNI = 256,
    RA_CPU_AMX = 512, /* tiles, and their products of bfloat16 */
    RA_CPU_AVX512BW = 1024
} ra_cpu_feature;

/* Bits of ra_cpu_feature, set only when the operating system saves the registers too. */
unsigned ra_cpu_features(void);

/* Cores this process may use, at least 1. */
int ra_cpu_cores(void);

/* Threads that the OpenMP runtime will start at most. */
int ra_cpu_thread_limit(void);

/* Fills everything of `info` but the kernel. */
void ra_cpu_describe(ra_system_info *info);

#endif
