/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one call: one block, handed out in parts. See arena.h. */
#include "layer/arena.h"

#include <ringattn/transport.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LINE = 64, LARGE_PAGE = 2 << 20 };

void *ra_arena_take(ra_arena *arena, int64_t count, int64_t bytes)
{
    void *part = arena->block ? arena->block + arena->used : NULL;
    arena->used += (count * bytes + LINE - 1) / LINE * LINE;
    return part;
}

/* The spare block, if it is large enough. A smaller one is freed: a larger one will take its place. */
static char *take_spare(ra_arena_spare *spare, int64_t bytes, int64_t *room)
{
    if (!spare)
        return NULL;
    pthread_mutex_lock(&spare->lock);
    char *block = spare->block;
    *room = spare->room;
    spare->block = NULL;
    pthread_mutex_unlock(&spare->lock);
    if (*room >= bytes)
        return block;
    free(block);
    return NULL;
}

ra_status ra_arena_open(ra_arena *arena, ra_arena_spare *spare, int64_t bytes, const char *what)
{
    void *block = NULL;
    bool large = bytes >= LARGE_PAGE;
    *arena = (ra_arena){NULL, 0, 0};
    arena->block = take_spare(spare, bytes, &arena->room);
    if (arena->block)
        return RA_OK;
    if (posix_memalign(&block, large ? LARGE_PAGE : LINE, (size_t)(bytes > 0 ? bytes : LINE)))
        return ra_transport_fail(RA_ERROR_MEMORY, "%s: no memory for %.1f MiB", what, (double)bytes / (1 << 20));
    if (large) /* pages of 4 KiB, one after the other, take as long as some of the products */
        madvise(block, (size_t)(bytes / LARGE_PAGE * LARGE_PAGE), MADV_HUGEPAGE);
    arena->block = block, arena->room = bytes;
    return RA_OK;
}

void ra_arena_close(ra_arena *arena, ra_arena_spare *spare)
{
    if (spare) {
        pthread_mutex_lock(&spare->lock);
        if (!spare->block) {
            spare->block = arena->block, spare->room = arena->room;
            arena->block = NULL;
        }
        pthread_mutex_unlock(&spare->lock);
    }
    free(arena->block);
    arena->block = NULL;
}

ra_arena_spare *ra_arena_spare_create(void)
{
    ra_arena_spare *spare = calloc(1, sizeof *spare);
    if (spare && pthread_mutex_init(&spare->lock, NULL)) {
        free(spare);
        return NULL;
    }
    return spare;
}

void ra_arena_spare_free(ra_arena_spare *spare)
{
    if (!spare)
        return;
    pthread_mutex_destroy(&spare->lock);
    free(spare->block);
    free(spare);
}
