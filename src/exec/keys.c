/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over the keys that are here, a block at a time, and says where the rows of each block lie. Which blocks are
 * needed is asked of plan/tiles.c.
 */
#include "exec/cache_rows.h"
#include "exec/exec.h"

#include "base/bits.h"
#include "base/checked.h"

void ra_key_walk_begin(ra_key_walk *w, const ra_keys *keys, int64_t batch, int64_t head, ra_tiles *tiles,
                       ra_interval within)
{
    const ra_lattice *lattice = &tiles->lattice;
    ra_interval members = ra_branch_members(lattice, within.lo, within.hi);
    bool by_head = keys->words && keys->head_words;
    members = ra_tiles_reach(tiles, members.lo, members.hi);
    w->keys = keys;
    w->batch = batch;
    w->tiles = tiles;
    w->k = keys->k + (by_head ? head : 0);
    w->v = keys->v + (by_head ? head : 0);
    w->head = by_head ? 0 : head;
    w->words = by_head ? keys->words + head * keys->head_words : keys->words;
    w->before = by_head ? keys->before + head * keys->head_words : keys->before;
    w->within = (ra_interval){0, 0};
    if (members.lo < members.hi)
        w->within =
            (ra_interval){ra_lattice_position(lattice, members.lo), ra_lattice_position(lattice, members.hi - 1) + 1};
    w->next_range = ra_share_find(&keys->share, w->within.lo);
    w->left = 0;
    ra_tiles_seek(tiles, 0, 0);
}

/* The next range of the share that can hold a needed key; false when there is none. */
static bool next_range(ra_key_walk *w)
{
    if (w->next_range >= w->keys->share.ranges)
        return false;
    w->range = ra_share_range(&w->keys->share, w->next_range++);
    if (w->range.first >= w->within.hi)
        return false;
    ra_interval members =
        ra_branch_members(&w->tiles->lattice, ra_max(w->range.first, w->within.lo), ra_min(w->range.end, w->within.hi));
    ra_tiles_seek(w->tiles, members.lo, members.hi);
    return true;
}

/* The index of a position's word among the marks of the share. */
static int64_t word_of(const ra_key_walk *w, int64_t position)
{
    return w->range.block + position / RA_KEY_BLOCK - w->range.first / RA_KEY_BLOCK;
}

/* The packed row of a marked position. */
static int64_t packed_row(const ra_key_walk *w, int64_t position)
{
    int64_t word = word_of(w, position);
    return w->before[word] + __builtin_popcountll(w->words[word] & ((UINT64_C(1) << (position % RA_KEY_BLOCK)) - 1));
}

/*
 * The next run of rows of the current block. A block comes in several pieces if some of its positions are not here, or
 * if they belong to several ranks. A query sees keys of more than one piece only if a caller's own split cuts through a
 * block.
 */
static void next_run(ra_key_walk *w, ra_key_block *b)
{
    const ra_keys *keys = w->keys;
    int64_t first = w->block.first;
    int skip = __builtin_ctzll(w->left);
    uint64_t gap = ~w->left & UINT64_MAX << skip;
    int rows = gap ? __builtin_ctzll(gap) : RA_KEY_BLOCK;
    *b = (ra_key_block){.k = w->k, .v = w->v, .head = w->head, .row = first + skip, .step = 1};
    if (keys->owners) {
        ra_owned owned = ra_partition_owner(keys->owners, first + skip);
        b->k += owned.rank;
        b->v += owned.rank;
        b->row = owned.row + first + skip - owned.first;
        rows = (int)ra_min(rows, owned.end - first);
    }
    if (keys->words)
        b->row = packed_row(w, first + skip);
    b->block = (ra_block){first, skip, rows};
    w->left &= ~ra_bits(skip, rows);
}

/* The row of a position; -1: it is not here. If rows are not packed, the row is the position plus `shift`. */
static int64_t row_of(const ra_key_walk *w, int64_t position, int64_t shift)
{
    if (!w->keys->words)
        return position + shift;
    return w->words[word_of(w, position)] >> (position % RA_KEY_BLOCK) & 1 ? packed_row(w, position) : -1;
}

/*
 * The same for gathered members: all members of the block that are left, of one owner. Members that are not here are
 * among them, so that the visible keys of a block are one tile for a query, whatever else is here.
 */
static void next_gathered(ra_key_walk *w, ra_key_block *b)
{
    const ra_keys *keys = w->keys;
    const ra_lattice *lattice = &w->tiles->lattice;
    int64_t first = w->block.first;
    int skip = __builtin_ctzll(w->left), rows = RA_KEY_BLOCK - __builtin_clzll(w->left);
    *b = (ra_key_block){.k = w->k, .v = w->v, .head = w->head};
    int64_t shift = 0; /* from positions to rows */
    if (keys->owners) {
        ra_owned owned = ra_partition_owner(keys->owners, ra_lattice_position(lattice, first + skip));
        b->k += owned.rank;
        b->v += owned.rank;
        shift = owned.row - owned.first;
        rows = (int)ra_min(rows, ra_branch_members(lattice, 0, owned.end).hi - first);
    }
    bool even = true;
    for (int k = skip; k < rows; k++) {
        int64_t *index = &w->index[k - skip];
        *index = row_of(w, ra_lattice_position(lattice, first + k), shift);
        even &= *index >= 0 && (k < skip + 2 || index[0] - index[-1] == w->index[1] - w->index[0]);
    }
    b->index = even ? NULL : w->index;
    b->row = w->index[0];
    b->step = even && rows > skip + 1 ? w->index[1] - w->index[0] : 1;
    b->block = (ra_block){first, skip, rows};
    w->left &= ~ra_bits(skip, rows);
}

/* Where the rows are that a block has of a sequence in pages. */
static void find_in_pages(ra_key_walk *w, ra_key_block *b)
{
    const ra_cache *cache = w->keys->cache;
    b->key_at = w->key_at + b->block.skip;
    b->value_at = w->value_at + b->block.skip;
    ra_cache_places(cache, cache->k, w->batch, b, w->key_at + b->block.skip);
    ra_cache_places(cache, cache->v, w->batch, b, w->value_at + b->block.skip);
}

bool ra_key_walk_next(ra_key_walk *w, ra_key_block *b)
{
    bool gathered = w->tiles->sifted || !ra_lattice_plain(&w->tiles->lattice);
    while (!w->left) {
        while (!ra_tiles_next(w->tiles, &w->block))
            if (!next_range(w))
                return false;
        w->left = ra_bits(w->block.skip, w->block.rows);
        if (w->keys->words && !gathered)
            w->left &= w->words[word_of(w, w->block.first)];
    }
    if (gathered)
        next_gathered(w, b);
    else
        next_run(w, b);
    if (w->keys->cache && w->keys->cache->page_table)
        find_in_pages(w, b);
    return true;
}

ra_rows ra_block_rows(const ra_tensor *t, int64_t batch, const ra_key_block *b)
{
    ra_rows rows = ra_rows_at(t, batch, b->index ? 0 : b->row, b->head);
    rows.row_stride *= b->index ? 1 : b->step;
    rows.index = b->index;
    return rows;
}

ra_rows ra_block_keys(int64_t batch, const ra_key_block *b)
{
    return b->key_at ? ra_cache_rows(b->k, b->head, b->key_at) : ra_block_rows(b->k, batch, b);
}

ra_rows ra_block_values(int64_t batch, const ra_key_block *b)
{
    return b->value_at ? ra_cache_rows(b->v, b->head, b->value_at) : ra_block_rows(b->v, batch, b);
}
