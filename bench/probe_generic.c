/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of the probes for any processor; the shared part is probe_loops.h, the caller probe.c. */
#include <string.h>

#define PROBE_NAME probe_generic
#define PROBE_ID RA_KERNEL_GENERIC
#define WIDTH 4
#define VECTORS 2
typedef float vec __attribute__((vector_size(16)));
#define p_set(x) ((vec){x, x, x, x})
/* An empty statement that seems to change the sum keeps every product. */
#define p_fma(c, a, b)                                                                                                 \
    do {                                                                                                               \
        (c) += (a) * (b);                                                                                              \
        __asm__ volatile("" : "+x"(c));                                                                                \
    } while (0)

static inline void p_panel(const float *column, const float *quad)
{
    vec sums[4][VECTORS] = {{{0}}};
    for (int k = 0; k < 64; k++, column += VECTORS * WIDTH, quad += 4)
        for (int j = 0; j < 4; j++)
            for (int i = 0; i < VECTORS; i++) {
                vec x;
                memcpy(&x, column + i * WIDTH, sizeof x);
                sums[j][i] += p_set(quad[j]) * x;
            }
    __asm__ volatile("" ::"m"(sums));
}

#include "probe_loops.h"
