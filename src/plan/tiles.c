/* SPDX-License-Identifier: Apache-2.0 */
/* Produces the blocks that a query tile needs, and the tile and mask of each group against a block. See tiles.h. */
#include "plan/tiles.h"

#include "base/checked.h"

#include <string.h>

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

ra_group_bounds ra_group_bounds_of(const ra_interval *rows, int count)
{
    ra_group_bounds b = {INT64_MAX, 0, 0, INT64_MAX, count, 0};
    for (int i = 0; i < count; i++) {
        if (rows[i].lo >= rows[i].hi) { /* sees nothing: there is no key that every row sees */
            b.max_lo = INT64_MAX;
            continue;
        }
        b.min_lo = ra_min(b.min_lo, rows[i].lo);
        b.max_hi = ra_max(b.max_hi, rows[i].hi);
        b.max_lo = ra_max(b.max_lo, rows[i].lo);
        b.min_hi = ra_min(b.min_hi, rows[i].hi);
    }
    return b;
}

void ra_tiles_begin(ra_tiles *t, const ra_pattern *pattern, int64_t head, int branch, int lanes,
                    const ra_tiles_memory *memory)
{
    t->pattern = pattern;
    t->lattice = ra_pattern_lattice(pattern, head, branch);
    t->lanes = lanes;
    t->group_count = 0;
    t->rows = memory->rows;
    t->groups = memory->groups;
    t->next = t->end = 0;
    t->sifted = ra_sieve_needed(pattern, branch);
    if (t->sifted)
        ra_sieve_begin(&t->sieve, memory->sieve, pattern, head, branch, lanes, memory->room);
}

void ra_tiles_add(ra_tiles *t, int64_t member, int rows)
{
    ra_interval *row = t->rows + (int64_t)t->group_count * t->lanes;
    for (int i = 0; i < rows; i++)
        row[i] = ra_branch_interval(t->pattern, &t->lattice, member + i);
    for (int i = 0; t->sifted && i < rows; i++)
        ra_sieve_add(&t->sieve, t->group_count, i, member + i);
    t->groups[t->group_count] = ra_group_bounds_of(row, rows);
    t->groups[t->group_count++].member = member;
}

void ra_tiles_repeat(ra_tiles *t, int heads)
{
    ra_group_bounds *group = &t->groups[t->group_count - 1];
    ra_interval *row = t->rows + (int64_t)(t->group_count - 1) * t->lanes;
    for (int i = group->rows; i < group->rows * heads; i++)
        row[i] = row[i - group->rows];
    group->rows *= heads;
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

ra_interval ra_tiles_reach(const ra_tiles *t, int64_t lo, int64_t hi)
{
    ra_interval reach = {hi, lo};
    for (int g = 0; g < t->group_count; g++) {
        reach.lo = ra_min(reach.lo, t->groups[g].min_lo);
        reach.hi = ra_max(reach.hi, t->groups[g].max_hi);
    }
    return (ra_interval){ra_max(reach.lo, lo), ra_min(reach.hi, hi)};
}

void ra_tiles_seek(ra_tiles *t, int64_t lo, int64_t hi)
{
    t->next = lo;
    t->end = hi;
}

/*
 * The first key from `from` on that a row of a group sees; INT64_MAX: none. Rows of several packed sequences leave gaps
 * between their intervals.
 */
static int64_t next_of_rows(const ra_tiles *t, int group, int64_t from)
{
    const ra_interval *row = t->rows + (int64_t)group * t->lanes;
    for (int i = 0; i < t->groups[group].rows; i++)
        if (row[i].lo < row[i].hi && row[i].hi > from)
            return ra_max(row[i].lo, from);
    return INT64_MAX;
}

/* The first key from `from` on that some group may see. */
static int64_t next_seen(ra_tiles *t, int64_t from)
{
    int64_t next = INT64_MAX;
    if (t->sifted && from < t->end)
        from = ra_sieve_next(&t->sieve, from);
    for (int g = 0; g < t->group_count && next > from; g++)
        if (t->groups[g].max_hi > from)
            next = ra_min(next, t->pattern->ragged ? next_of_rows(t, g, from) : ra_max(t->groups[g].min_lo, from));
    return next;
}

bool ra_tiles_next(ra_tiles *t, ra_block *block)
{
    int64_t seen = next_seen(t, t->next);
    if (seen >= t->end)
        return false;
    block->first = seen / RA_KEY_BLOCK * RA_KEY_BLOCK;
    block->skip = (int)ra_max(0, t->next - block->first);
    block->rows = (int)ra_min(RA_KEY_BLOCK, t->end - block->first);
    t->next = block->first + RA_KEY_BLOCK;
    return true;
}

void ra_tiles_look(ra_tiles *t, const ra_block *block)
{
    if (t->sifted)
        ra_sieve_look(&t->sieve, block->first, block->skip, block->rows);
}

/* The keys of a block that a row sees. */
static uint64_t row_bits(const ra_tiles *t, int group, int lane, const ra_block *block)
{
    const ra_interval *row = &t->rows[(int64_t)group * t->lanes + lane];
    int64_t lo = ra_max(row->lo - block->first, block->skip), hi = ra_min(row->hi - block->first, block->rows);
    return ra_bits(lo, hi) & ra_sieve_row(&t->sieve, group, lane);
}

/* What a mask alone lets the rows of a group see of a block that is within all of their intervals; NULL: not so. */
static const uint64_t *mask_rows(const ra_tiles *t, int group, const ra_block *block)
{
    const ra_group_bounds *b = &t->groups[group];
    bool within = b->max_lo <= block->first + block->skip && b->min_hi >= block->first + block->rows;
    return within ? ra_sieve_mask_rows(&t->sieve, group) : NULL;
}

/* What the rows of a group see of a block: some of them, and all. */
static void seen_by_rows(const ra_tiles *t, int group, const ra_block *block, uint64_t *some, uint64_t *all)
{
    const ra_group_bounds *b = &t->groups[group];
    int64_t from = block->first;
    const uint64_t *masked = mask_rows(t, group, block);
    *some = 0;
    *all = UINT64_MAX;
    if (masked) {
        uint64_t here = ra_bits(block->skip, block->rows);
        for (int i = 0; i < b->rows; i++) {
            *some |= masked[i] & here;
            *all &= masked[i] & here;
        }
        return;
    }
    if (b->max_lo != INT64_MAX && ra_sieve_alike(&t->sieve, group, b->rows)) {
        /* Rows of one row of blocks differ in their intervals alone, and these overlap or touch. */
        uint64_t here = ra_bits(block->skip, block->rows) & ra_sieve_row(&t->sieve, group, 0);
        *some = here & ra_bits(ra_max(0, b->min_lo - from), b->max_hi - from);
        *all = here & ra_bits(ra_max(0, b->max_lo - from), b->min_hi - from);
        return;
    }
    for (int i = 0; i < b->rows; i++) {
        uint64_t seen = row_bits(t, group, i, block);
        *some |= seen;
        *all &= seen;
    }
}

/* Of a sifted tile: its keys are those that some row sees. */
static bool sift(const ra_tiles *t, int group, const ra_block *block, ra_tile *tile)
{
    uint64_t some, all;
    seen_by_rows(t, group, block, &some, &all);
    if (!some)
        return false;
    tile->begin = __builtin_ctzll(some) / RA_KEY_UNIT * RA_KEY_UNIT;
    tile->end = (RA_KEY_BLOCK - __builtin_clzll(some) + RA_KEY_UNIT - 1) / RA_KEY_UNIT * RA_KEY_UNIT;
    uint64_t here = ra_bits(tile->begin, tile->end);
    tile->masked = tile->bits = (all & here) != here;
    return true;
}

bool ra_tiles_part(const ra_tiles *t, int group, const ra_block *block, ra_tile *tile)
{
    const ra_group_bounds *b = &t->groups[group];
    int64_t lo = ra_max(b->min_lo, block->first + block->skip), hi = ra_min(b->max_hi, block->first + block->rows);
    if (lo >= hi || (t->pattern->ragged && next_of_rows(t, group, lo) >= hi))
        return false;
    /* What an exclusive branch leaves out is masked, and not looked for: its tiles can be counted without them. */
    if (t->sifted && ra_sieve_sifts(&t->sieve))
        return sift(t, group, block, tile);
    tile->begin = (int)((lo - block->first) / RA_KEY_UNIT * RA_KEY_UNIT);
    tile->end = (int)(ra_ceil_div(hi - block->first, RA_KEY_UNIT) * RA_KEY_UNIT);
    tile->bits = t->sifted;
    tile->masked = t->sifted || b->max_lo > block->first + tile->begin || b->min_hi < block->first + tile->end ||
                   tile->begin < block->skip || tile->end > block->rows;
    return true;
}

/* Rows of bits to columns of bits: swap ever smaller squares across the diagonal. */
static void transpose(uint64_t m[64])
{
    uint64_t half = UINT64_C(0x00000000ffffffff);
    for (int size = 32; size; size /= 2, half ^= half << size)
        for (int i = 0; i < 64; i = (i + size + 1) & ~size) {
            uint64_t swapped = (m[i] >> size ^ m[i + size]) & half;
            m[i] ^= swapped << size;
            m[i + size] ^= swapped;
        }
}

static int64_t mask_bits(const ra_tiles *t, int group, const ra_block *block, uint64_t seen[RA_KEY_BLOCK])
{
    int64_t visible = 0;
    int rows = t->groups[group].rows;
    const uint64_t *masked = mask_rows(t, group, block);
    uint64_t here = ra_bits(block->skip, block->rows);
    for (int i = 0; i < rows; i++) {
        seen[i] = masked ? masked[i] & here : row_bits(t, group, i, block);
        visible += __builtin_popcountll(seen[i]);
    }
    memset(seen + rows, 0, (size_t)(RA_KEY_BLOCK - rows) * sizeof *seen);
    transpose(seen);
    return visible;
}

int64_t ra_tiles_mask(const ra_tiles *t, int group, const ra_block *block, const ra_tile *tile, int32_t *lo,
                      int32_t *hi, uint64_t *seen)
{
    if (tile->bits)
        return mask_bits(t, group, block, seen);
    int rows = t->groups[group].rows;
    const ra_interval *row = t->rows + (int64_t)group * t->lanes;
    int64_t visible = 0;
    for (int i = 0; i < t->lanes; i++) {
        if (i >= rows) { /* no such row: whatever it computes is thrown away */
            lo[i] = hi[i] = 0;
            continue;
        }
        lo[i] = (int32_t)ra_min(ra_max(row[i].lo - block->first, block->skip), RA_KEY_BLOCK);
        hi[i] = (int32_t)ra_max(ra_min(row[i].hi - block->first, block->rows), 0);
        visible += ra_max(hi[i] - lo[i], 0);
    }
    return visible;
}
