/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as one would first write it: the yardstick of the portable kernel. */
#ifndef BENCH_NAIVE_H
#define BENCH_NAIVE_H

#include <stdint.h>

/* One head, [length][dim] each; `scores` holds `length` floats. */
void naive_attention(const float *q, const float *k, const float *v, float *output, float *scores, int64_t length,
                     int64_t dim, float scale);

#endif
