/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe loops, over the operations that the including file defines: PROBE_NAME, PROBE_ID, WIDTH, VECTORS, vec,
 * p_set, p_fma(c, a, b) (c += a * b, a statement that the compiler can neither move nor drop), and p_panel(columns,
 * quads): 64 steps of a register-blocked product, each of VECTORS loads, 4 broadcasts and 4 * VECTORS multiply-adds.
 */
#include "probe.h"

/* What a register-blocked kernel keeps in the first-level cache: 64 columns of VECTORS vectors, 64 quads. */
static float columns[64 * VECTORS * WIDTH], quads[64 * 4];

#define ALL(M) M(0) M(1) M(2) M(3)

static double fma_loop(int64_t steps)
{
    vec b = p_set(1e-9f), a[4][VECTORS];
#define CLEAR(j)                                                                                                       \
    for (int i = 0; i < VECTORS; i++)                                                                                  \
        a[j][i] = b;
#define STEP(j)                                                                                                        \
    for (int i = 0; i < VECTORS; i++)                                                                                  \
        p_fma(a[j][i], b, b);
    ALL(CLEAR)
    for (int64_t s = 0; s < steps; s++) {
        ALL(STEP)
    }
#undef STEP
#undef CLEAR
    return 2.0 * 4 * VECTORS * WIDTH;
}

static double gemm_loop(int64_t steps)
{
    for (int64_t s = 0; s < steps; s += 64)
        p_panel(columns, quads);
    return 2.0 * 4 * VECTORS * WIDTH;
}

const probe_loops PROBE_NAME = {PROBE_ID, fma_loop, gemm_loop};
