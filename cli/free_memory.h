/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process can still take: what the system has, a control group leaves and its own limits allow. */
#ifndef CLI_FREE_MEMORY_H
#define CLI_FREE_MEMORY_H

#include <stdint.h>

/* Bytes, without taking memory from other processes. */
int64_t free_memory(void);

#endif
