/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of the generator: one table for each instruction set, all with the same bits. */
#ifndef RA_IO_GENERATOR_H
#define RA_IO_GENERATOR_H

#include <stdint.h>

enum { RA_GENERATOR_BLOCK = 128 };

/* `blocks` whole blocks, whose first value has the low half `low` of an index; the keys are of seed and high half. */
typedef void (*ra_make_blocks)(uint32_t key0, uint32_t key1, uint32_t low, int64_t blocks, float *values);

typedef struct ra_generator {
    unsigned needs; /* ra_cpu_feature bits */
    ra_make_blocks uniform, normal;
} ra_generator;

extern const ra_generator ra_generator_baseline, ra_generator_avx2; /* the latter on x86-64 only */

#endif
