/* SPDX-License-Identifier: Apache-2.0 */
/* Each block is preceded by 64 bytes that say how long it is. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 64 };

static int64_t taken;

int64_t lm_block_bytes(int64_t count, size_t size)
{
    return HEAD + (count * (int64_t)size + HEAD - 1) / HEAD * HEAD;
}

void *lm_take(int64_t count, size_t size)
{
    int64_t bytes = lm_block_bytes(count, size);
    char *block = count < 0 || count > INT64_MAX / 64 / (int64_t)size ? NULL : aligned_alloc(HEAD, (size_t)bytes);
    if (!block)
        return NULL;
    memset(block, 0, (size_t)bytes);
    memcpy(block, &bytes, sizeof bytes);
    taken += bytes;
    return block + HEAD;
}

void lm_give(void *memory)
{
    int64_t bytes;
    if (!memory)
        return;
    memcpy(&bytes, (char *)memory - HEAD, sizeof bytes);
    taken -= bytes;
    free((char *)memory - HEAD);
}

int64_t lm_taken(void)
{
    return taken;
}
