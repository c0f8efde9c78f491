#include "plan/tiles.h"

#include "base/checked.h"

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

int64_t ra_group_count(const ra_share *queries, int lanes)
{
    if (queries->step) { /* all ranges are whole blocks but the last */
        int64_t last = queries->rows - (queries->ranges - 1) * RA_KEY_BLOCK;
        return (queries->ranges - 1) * ra_ceil_div(RA_KEY_BLOCK, lanes) + ra_ceil_div(last, lanes);
    }
    int64_t groups = 0;
    for (int64_t i = 0; i < queries->ranges; i++) {
        ra_range range = ra_share_range(queries, i);
        groups += ra_ceil_div(range.end - range.first, lanes);
    }
    return groups;
}

ra_group ra_group_at(const ra_share *queries, int lanes, int64_t number)
{
    int64_t i = 0;
    if (queries->step) {
        int64_t each = ra_ceil_div(RA_KEY_BLOCK, lanes);
        i = ra_min(number / each, queries->ranges - 1);
        number -= i * each;
    }
    ra_range range = ra_share_range(queries, i);
    int64_t groups;
    while (number >= (groups = ra_ceil_div(range.end - range.first, lanes))) {
        number -= groups;
        range = ra_share_range(queries, ++i);
    }
    int64_t skip = number * lanes;
    return (ra_group){range.first + skip, range.row + skip, (int)ra_min(lanes, range.end - range.first - skip)};
}

ra_group_bounds ra_group_bounds_of(const ra_interval *rows, int count)
{
    ra_group_bounds b = {INT64_MAX, 0, 0, INT64_MAX, count};
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

void ra_tiles_add(ra_tiles *t, const ra_pattern *pattern, int64_t position, int rows)
{
    ra_interval *row = t->rows + (int64_t)t->group_count * t->lanes;
    for (int i = 0; i < rows; i++)
        row[i] = ra_pattern_interval(pattern, position + i);
    t->groups[t->group_count++] = ra_group_bounds_of(row, rows);
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

/* The first key from `from` on that some group may see. */
static int64_t next_seen(const ra_tiles *t, int64_t from)
{
    int64_t next = INT64_MAX;
    for (int g = 0; g < t->group_count; g++)
        if (t->groups[g].max_hi > from)
            next = ra_min(next, ra_max(t->groups[g].min_lo, from));
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

bool ra_tiles_part(const ra_tiles *t, int group, const ra_block *block, ra_tile *tile)
{
    const ra_group_bounds *b = &t->groups[group];
    int64_t lo = ra_max(b->min_lo, block->first + block->skip), hi = ra_min(b->max_hi, block->first + block->rows);
    if (lo >= hi)
        return false;
    tile->begin = (int)((lo - block->first) / RA_KEY_UNIT * RA_KEY_UNIT);
    tile->end = (int)(ra_ceil_div(hi - block->first, RA_KEY_UNIT) * RA_KEY_UNIT);
    tile->masked = b->max_lo > block->first + tile->begin || b->min_hi < block->first + tile->end ||
                   tile->begin < block->skip || tile->end > block->rows;
    return true;
}

int64_t ra_tiles_mask(const ra_tiles *t, int group, const ra_block *block, int32_t *lo, int32_t *hi)
{
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
