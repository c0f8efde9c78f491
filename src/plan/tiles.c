#include "plan/tiles.h"

#include "base/checked.h"

ra_group_bounds ra_group_bounds_of(const ra_interval *rows, int count)
{
    ra_group_bounds b = {INT64_MAX, 0, 0, INT64_MAX};
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

int ra_tiles_rows(const ra_tiles *t, int group)
{
    return (int)ra_min(t->lanes, t->row_count - (int64_t)group * t->lanes);
}

void ra_tiles_begin(ra_tiles *t, const ra_pattern *pattern, int64_t first_position, int row_count, int lanes,
                    int64_t key_first, int64_t key_end, ra_interval *rows, ra_group_bounds *groups)
{
    *t = (ra_tiles){lanes, row_count, (row_count + lanes - 1) / lanes, rows, groups, key_end, 0};
    for (int i = 0; i < row_count; i++)
        rows[i] = ra_pattern_interval(pattern, first_position + i);
    for (int g = 0; g < t->group_count; g++) {
        groups[g] = ra_group_bounds_of(rows + (int64_t)g * lanes, ra_tiles_rows(t, g));
        t->next = ra_min(t->next, groups[g].min_lo / RA_KEY_BLOCK * RA_KEY_BLOCK);
        t->end = ra_max(t->end, groups[g].max_hi);
    }
    t->next = ra_max(t->next, key_first);
    t->end = ra_min(t->end, key_end);
}

bool ra_tiles_part(const ra_tiles *t, int group, const ra_block *block, ra_tile *tile)
{
    const ra_group_bounds *b = &t->groups[group];
    int64_t lo = ra_max(b->min_lo, block->first), hi = ra_min(b->max_hi, block->first + block->rows);
    if (lo >= hi)
        return false;
    tile->begin = (int)((lo - block->first) / RA_KEY_UNIT * RA_KEY_UNIT);
    tile->end = (int)(ra_ceil_div(hi - block->first, RA_KEY_UNIT) * RA_KEY_UNIT);
    tile->masked = b->max_lo > block->first + tile->begin || b->min_hi < block->first + tile->end;
    return true;
}

bool ra_tiles_next(ra_tiles *t, ra_block *block)
{
    while (t->next < t->end) {
        ra_tile ignored;
        block->first = t->next;
        block->rows = (int)ra_min(RA_KEY_BLOCK, t->end - t->next);
        t->next += RA_KEY_BLOCK;
        for (int g = 0; g < t->group_count; g++)
            if (ra_tiles_part(t, g, block, &ignored))
                return true;
    }
    return false;
}

int64_t ra_tiles_mask(const ra_tiles *t, int group, const ra_block *block, int32_t *lo, int32_t *hi)
{
    int rows = ra_tiles_rows(t, group);
    const ra_interval *row = t->rows + (int64_t)group * t->lanes;
    int64_t visible = 0;
    for (int i = 0; i < t->lanes; i++) {
        if (i >= rows) { /* no such row: whatever it computes is thrown away */
            lo[i] = hi[i] = 0;
            continue;
        }
        lo[i] = (int32_t)ra_min(ra_max(row[i].lo - block->first, 0), RA_KEY_BLOCK);
        hi[i] = (int32_t)ra_max(ra_min(row[i].hi - block->first, block->rows), 0);
        visible += ra_max(hi[i] - lo[i], 0);
    }
    return visible;
}
