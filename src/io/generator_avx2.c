/* SPDX-License-Identifier: Apache-2.0 */
/* AVX2: eight values at a time, and a multiplication of 32-bit words in one instruction. */
#define GENERATOR_NAME ra_generator_avx2
#define GENERATOR_NEEDS RA_CPU_AVX2
#include "io/generator_loops.h"
