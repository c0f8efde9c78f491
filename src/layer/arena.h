/*
 * Memory of one call, taken as one block and handed out in parts. Without a block it only counts: plan and run hand out
 * the same parts, so the plan's count is the size of the run's block.
 */
#ifndef RA_LAYER_ARENA_H
#define RA_LAYER_ARENA_H

#include <ringattn/ringattn.h>

typedef struct ra_arena {
    char *block;  /* NULL: counting */
    int64_t used; /* bytes handed out */
} ra_arena;

/* The next `count` elements of `bytes` each, on a cache line of their own; NULL while counting. */
void *ra_arena_take(ra_arena *arena, int64_t count, int64_t bytes);

/* A block of `bytes`, for parts from the beginning. */
ra_status ra_arena_open(ra_arena *arena, int64_t bytes, const char *what);
void ra_arena_close(ra_arena *arena);

#endif
