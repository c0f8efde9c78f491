/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel tables that can be tested here. */
#ifndef KERNEL_TABLES_H
#define KERNEL_TABLES_H

#include "kernel/kernel.h"

typedef struct tested_table {
    const char *name;
    const ra_kernel *kernel;
} tested_table;

/* The exact ones that this machine can run, the generic one first, and the emulated one last; `count` of them. */
const tested_table *tested_tables(int *count);

/* Those with products of bfloat16; the emulated one last. */
const tested_table *tested_fast_tables(int *count);

#endif
