/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is counted, so that a run can be compared with its plan. */
#ifndef LM_MEMORY_H
#define LM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Zeros, aligned to 64 bytes; NULL: there is not that much. */
void *lm_take(int64_t count, size_t size);
void lm_give(void *memory);

/* Bytes that are taken now; of a block of `bytes`, what it counts for. */
int64_t lm_taken(void);
int64_t lm_block_bytes(int64_t count, size_t size);

#endif
