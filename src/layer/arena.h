/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one call, taken as one block and handed out in parts. Without a block it only counts: plan and run hand out
 * the same parts, so the plan's count is the size of the run's block.
 */
#ifndef RA_LAYER_ARENA_H
#define RA_LAYER_ARENA_H

#include <pthread.h>
#include <ringattn/ringattn.h>

typedef struct ra_arena {
    char *block;  /* NULL: counting */
    int64_t used; /* bytes handed out */
    int64_t room; /* bytes of the block */
} ra_arena;

/* A block that a call left for the next one. Calls that run at the same time have blocks of their own. */
typedef struct ra_arena_spare {
    pthread_mutex_t lock;
    char *block; /* NULL: none */
    int64_t room;
} ra_arena_spare;

/* The next `count` elements of `bytes` each, on a cache line of their own; NULL while counting. */
void *ra_arena_take(ra_arena *arena, int64_t count, int64_t bytes);

/* A block of `bytes`, for parts from the beginning: the spare one if it is large enough. `spare` may be NULL. */
ra_status ra_arena_open(ra_arena *arena, ra_arena_spare *spare, int64_t bytes, const char *what);

/* The block becomes the spare one if that has none, and is freed otherwise. */
void ra_arena_close(ra_arena *arena, ra_arena_spare *spare);

/* NULL if there is no memory. */
ra_arena_spare *ra_arena_spare_create(void);
void ra_arena_spare_free(ra_arena_spare *spare);

#endif
