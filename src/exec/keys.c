#include "exec/exec.h"

#include "base/checked.h"

ra_key_walk ra_key_walk_begin(const ra_keys *keys, ra_tiles *tiles, ra_interval within)
{
    ra_key_walk walk = {.keys = keys, .tiles = tiles, .within = ra_tiles_reach(tiles, within.lo, within.hi)};
    walk.next_range = ra_share_find(&keys->share, walk.within.lo);
    ra_tiles_seek(tiles, 0, 0);
    return walk;
}

/* The next range of the share that can hold a needed key; false when there is none. */
static bool next_range(ra_key_walk *w)
{
    if (w->next_range >= w->keys->share.ranges)
        return false;
    w->range = ra_share_range(&w->keys->share, w->next_range++);
    if (w->range.first >= w->within.hi)
        return false;
    ra_tiles_seek(w->tiles, ra_max(w->range.first, w->within.lo), ra_min(w->range.end, w->within.hi));
    return true;
}

/* Bits from <= i < to of a word, for to > 0. */
static uint64_t bits(int from, int to)
{
    return UINT64_MAX >> (RA_KEY_BLOCK - to) & UINT64_MAX << from;
}

/*
 * The next run of rows of the block that is being looked at: a block comes in several pieces where some of its
 * positions are nobody's here, or where they belong to several ranks. What a query sees of it may then be in more than
 * one of them only where a caller's own split cuts through a block.
 */
static void next_run(ra_key_walk *w, ra_key_block *b)
{
    const ra_keys *keys = w->keys;
    int64_t first = w->block.first;
    int skip = __builtin_ctzll(w->left);
    uint64_t gap = ~w->left & UINT64_MAX << skip;
    int rows = gap ? __builtin_ctzll(gap) : RA_KEY_BLOCK;
    *b = (ra_key_block){.k = keys->k, .v = keys->v, .row = first + skip};
    if (keys->owners) {
        ra_owned owned = ra_partition_owner(keys->owners, first + skip);
        b->k += owned.rank;
        b->v += owned.rank;
        b->row = owned.row + first + skip - owned.first;
        rows = (int)ra_min(rows, owned.end - first);
    }
    if (keys->words)
        b->row = keys->before[w->word] + __builtin_popcountll(keys->words[w->word] & ((UINT64_C(1) << skip) - 1));
    b->block = (ra_block){first, skip, rows};
    w->left &= ~bits(skip, rows);
}

bool ra_key_walk_next(ra_key_walk *w, ra_key_block *b)
{
    while (!w->left) {
        while (!ra_tiles_next(w->tiles, &w->block))
            if (!next_range(w))
                return false;
        w->left = bits(w->block.skip, w->block.rows);
        if (!w->keys->words)
            continue;
        w->word = w->range.block + w->block.first / RA_KEY_BLOCK - w->range.first / RA_KEY_BLOCK;
        w->left &= w->keys->words[w->word];
    }
    next_run(w, b);
    return true;
}
