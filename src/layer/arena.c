/* Memory of one call: one block, handed out in parts. */
#include "layer/arena.h"

#include <ringattn/transport.h>
#include <stdlib.h>

enum { LINE = 64 };

void *ra_arena_take(ra_arena *arena, int64_t count, int64_t bytes)
{
    void *part = arena->block ? arena->block + arena->used : NULL;
    arena->used += (count * bytes + LINE - 1) / LINE * LINE;
    return part;
}

ra_status ra_arena_open(ra_arena *arena, int64_t bytes, const char *what)
{
    void *block = NULL;
    *arena = (ra_arena){NULL, 0};
    if (posix_memalign(&block, LINE, (size_t)(bytes > 0 ? bytes : LINE)))
        return ra_transport_fail(RA_ERROR_MEMORY, "%s: no memory for %.1f MiB", what, (double)bytes / (1 << 20));
    arena->block = block;
    return RA_OK;
}

void ra_arena_close(ra_arena *arena)
{
    free(arena->block);
    arena->block = NULL;
}
