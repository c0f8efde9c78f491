/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block-sparse patterns: which blocks of keys a block of queries keeps. Blocks are `size` positions, counted from
 * key 0. The union of these is kept: the diagonal and `local` blocks to each side of it, the first `global` rows and
 * columns, every `stride`-th diagonal, what a mask says, and random blocks beside all these.
 */
#ifndef RA_PLAN_BLOCKS_H
#define RA_PLAN_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ra_blocks {
    int64_t size, count; /* positions of a block; blocks of the sequence */
    int64_t heads;       /* of queries */
    int64_t local;       /* -1: not even the diagonal, because a mask replaces it */
    int64_t global;
    int64_t stride; /* 0: none */
    int64_t random; /* further blocks of a row of blocks */
    uint64_t seed;
    uint64_t *mask; /* NULL, or [heads or 1][count][ra_blocks_words(count)] bits; owned */
    bool mask_by_head;
    double wanted;         /* density: the fraction of blocks to keep; 0: none was given */
    int64_t filled, extra; /* with a density: random blocks fill rows to `filled`, `extra` of them to one more */
    double density;        /* the fraction that is kept, over all heads */
} ra_blocks;

void ra_blocks_free(ra_blocks *blocks);

/* Bytes that it holds, the mask included. */
int64_t ra_blocks_bytes(const ra_blocks *blocks);

/* The row of blocks that a query at a position is in; -1: it is before the first or behind the last, and keeps none. */
static inline int64_t ra_blocks_row_at(const ra_blocks *blocks, int64_t position)
{
    return position < 0 || position / blocks->size >= blocks->count ? -1 : position / blocks->size;
}

/* 64-bit words that hold `count` bits. */
static inline int64_t ra_blocks_words(int64_t count)
{
    return (count + 63) / 64;
}

/* Choose local, global and random terms that keep the fraction `wanted`. */
void ra_blocks_choose(ra_blocks *blocks);

/* Count the kept blocks of all heads. */
void ra_blocks_measure(ra_blocks *blocks);

/* Whether the number of blocks that a row keeps follows from the terms alone; and that number. */
bool ra_blocks_countable(const ra_blocks *blocks);
int64_t ra_blocks_kept(const ra_blocks *blocks, int64_t row);

/* Whether all heads keep the same blocks. */
bool ra_blocks_same(const ra_blocks *blocks);

/* The largest distance of a kept block from the diagonal; blocks->count if there is no bound. */
int64_t ra_blocks_reach(const ra_blocks *blocks);

/*
 * The blocks that a row of blocks keeps, as bits: those of columns first .. first + 64 words - 1, `first` a multiple of
 * 64, are written. No bit is set from blocks->count on, and none for a row from there on.
 */
void ra_blocks_row(const ra_blocks *blocks, int64_t head, int64_t row, int64_t first, int64_t words, uint64_t *bits);

/* Whether a block is kept, by the definition: for the oracle. */
bool ra_blocks_keeps(const ra_blocks *blocks, int64_t head, int64_t row, int64_t column);

/* The runs of set bits of columns that ra_blocks_row writes, window by window. */
enum { RA_BLOCKS_WINDOW = 512 };

typedef struct ra_blocks_walk {
    const ra_blocks *blocks;
    int64_t head, row;
    int64_t at, end; /* columns still to come */
    int64_t window;  /* the first column in `bits`; -1: none yet */
    uint64_t bits[RA_BLOCKS_WINDOW];
} ra_blocks_walk;

/* Over the columns first <= c < end. */
ra_blocks_walk ra_blocks_walk_begin(const ra_blocks *blocks, int64_t head, int64_t row, int64_t first, int64_t end);

/* The next run of kept blocks *first <= c < *end; a long one may come in pieces. False: no more. */
bool ra_blocks_walk_next(ra_blocks_walk *walk, int64_t *first, int64_t *end);

#endif
