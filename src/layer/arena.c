/* Memory of one call: one block, handed out in parts. */
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

ra_status ra_arena_open(ra_arena *arena, int64_t bytes, const char *what)
{
    void *block = NULL;
    bool large = bytes >= LARGE_PAGE;
    *arena = (ra_arena){NULL, 0};
    if (posix_memalign(&block, large ? LARGE_PAGE : LINE, (size_t)(bytes > 0 ? bytes : LINE)))
        return ra_transport_fail(RA_ERROR_MEMORY, "%s: no memory for %.1f MiB", what, (double)bytes / (1 << 20));
    if (large) /* else the system hands out a page of 4 KiB at a time, which takes as long as some of the products */
        madvise(block, (size_t)(bytes / LARGE_PAGE * LARGE_PAGE), MADV_HUGEPAGE);
    arena->block = block;
    return RA_OK;
}

void ra_arena_close(ra_arena *arena)
{
    free(arena->block);
    arena->block = NULL;
}
