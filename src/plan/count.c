/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles and pairs of a workload, from the pattern: what a run counts tile by tile must come out the same. Visible pairs
 * are counted row by row, if all terms are intervals by stretches of queries over which each bound is constant or moves
 * with the query. Tiles are counted by closed formulas where a group sees its keys from the first to the last in one
 * piece, from the kept blocks where a group is in one row of them, and else by going through them.
 */
#include "base/bits.h"
#include "base/checked.h"
#include "plan/batch.h"
#include "plan/row_bits.h"
#include "plan/taken.h"

#include <stdlib.h>
#include <string.h>

typedef struct tally {
    double tiles, visible, worked;
} tally;

typedef struct counter {
    const ra_plan *plan;
    const ra_workload *work;
    int64_t head;
    int64_t stacked; /* heads whose rows are in one group */
    int branch;
    ra_lattice lattice;
    ra_interval rows[RA_LANES_MOST]; /* of the group that is looked at */
    tally sum;

    /* Block-sparse: the row of blocks that was looked at last, as bits, and the keys in it; */
    uint64_t *bits;
    int64_t row_head, row;
    double row_keys;
    ra_interval row_reach; /* between which its tiles were counted last, */
    tally row_tiles;       /* and how many there are */
    ra_tiles_memory memory;
    ra_tiles tiles;
    ra_row_bits masked; /* what a row sees, where there is a mask */
} counter;

/* ---- Visible pairs of a row -------------------------------------------------------------------------------------- */

static int64_t block_rows(const counter *c, int64_t column)
{
    const ra_blocks *b = c->plan->pattern.blocks;
    return ra_min(b->size, c->plan->kv_len - column * b->size);
}

/* Whether every group is in one row of blocks, so that its tiles are where that keeps something. */
static bool groups_in_rows(const counter *c)
{
    const ra_grouping *g = &c->work->grouping;
    const ra_pattern *p = &c->plan->pattern;
    return p->blocks && !p->dilation && !p->mask && g->cut > 0 && p->blocks->size % g->cut == 0 &&
           (g->offset - g->origin) % g->cut == 0;
}

/*
 * Whether the number of kept blocks of a row is enough to count its tiles: its queries see all kept blocks, each is
 * whole key blocks, and the number follows from the terms without drawing random blocks.
 */
static bool numbers_suffice(const counter *c)
{
    const ra_pattern *p = &c->plan->pattern;
    return !p->bounded && groups_in_rows(c) && p->blocks->size % RA_KEY_BLOCK == 0 && ra_blocks_countable(p->blocks);
}

/* Tiles of a row that keeps `kept` blocks. `last`: with the last block of the sequence, which may be shorter. */
static void count_kept_tiles(counter *c, int64_t kept, bool last)
{
    const ra_blocks *b = c->plan->pattern.blocks;
    int64_t short_rows = last ? block_rows(c, b->count - 1) : 0;
    c->row_reach = (ra_interval){0, c->plan->kv_len};
    c->row_tiles.tiles =
        (double)(kept - last) * (double)(b->size / RA_KEY_BLOCK) + (double)ra_ceil_div(short_rows, RA_KEY_BLOCK);
    c->row_tiles.worked =
        (double)(kept - last) * (double)b->size + (double)(ra_ceil_div(short_rows, RA_KEY_UNIT) * RA_KEY_UNIT);
}

/* Make the bits of a row of blocks current, or the counts that follow from them. */
static void turn_to_row(counter *c, int64_t row)
{
    const ra_blocks *b = c->plan->pattern.blocks;
    if (c->row_head == c->head && c->row == row)
        return;
    int64_t words = ra_blocks_words(b->count), kept = 0;
    bool last, numbers = numbers_suffice(c);
    c->row_head = c->head;
    c->row = row;
    c->row_reach = (ra_interval){-1, -1};
    if (numbers) {
        kept = ra_blocks_kept(b, row);
        last = block_rows(c, b->count - 1) < b->size && ra_blocks_keeps(b, c->head, row, b->count - 1);
        count_kept_tiles(c, kept, last);
    } else {
        ra_blocks_row(b, c->head, row, 0, words, c->bits);
        for (int64_t i = 0; i < words; i++)
            kept += __builtin_popcountll(c->bits[i]);
        last = c->bits[words - 1] >> ((b->count - 1) % 64) & 1;
    }
    c->row_keys = (double)(kept - last) * (double)b->size + (last ? (double)block_rows(c, b->count - 1) : 0);
}

static bool kept(const counter *c, int64_t column)
{
    return c->bits[column / 64] >> (column % 64) & 1;
}

/* Keys lo <= k < hi in kept blocks of the row of blocks. */
static double kept_between(const counter *c, int64_t lo, int64_t hi)
{
    int64_t size = c->plan->pattern.blocks->size, first = lo / size, last = (hi - 1) / size, inner = 0;
    if (lo >= hi)
        return 0;
    if (first == last)
        return kept(c, first) ? (double)(hi - lo) : 0;
    for (int64_t word = (first + 1) / 64; word * 64 < last; word++)
        inner += __builtin_popcountll(c->bits[word] & ra_bits(ra_max(0, first + 1 - word * 64), last - word * 64));
    return (double)inner * (double)size + (kept(c, first) ? (double)((first + 1) * size - lo) : 0) +
           (kept(c, last) ? (double)(hi - last * size) : 0);
}

/* Members of the branch that are in kept blocks and, in an exclusive branch, not taken: one after the other. */
static double sifted_members(counter *c, int64_t position, ra_interval seen)
{
    double visible = 0;
    bool exclusive = ra_pattern_exclusive(&c->plan->pattern, c->branch);
    for (int64_t member = seen.lo; member < seen.hi; member++) {
        int64_t key = ra_lattice_position(&c->lattice, member);
        bool taken = exclusive && ra_is_taken(&c->plan->pattern, c->head, c->branch, position, key);
        visible += !taken && kept(c, key / c->plan->pattern.blocks->size);
    }
    return visible;
}

/* Count the keys that a mask lets a query see, 64 at a time. */
static double masked_keys(counter *c, int64_t position)
{
    int64_t visible = 0;
    if (c->masked.pattern != &c->plan->pattern || c->masked.head != c->head || c->masked.branch != c->branch)
        ra_row_bits_begin(&c->masked, &c->plan->pattern, c->head, c->branch);
    if (!ra_row_bits_turn(&c->masked, position))
        return 0;
    for (int64_t first = c->masked.seen.lo / 64 * 64; first < c->masked.seen.hi; first += 64)
        visible += __builtin_popcountll(ra_row_bits_word(&c->masked, first));
    return (double)visible;
}

static double visible_of(counter *c, int64_t member, ra_interval seen)
{
    const ra_pattern *p = &c->plan->pattern;
    if (seen.lo >= seen.hi)
        return 0;
    int64_t position = ra_lattice_position(&c->lattice, member);
    if (p->mask)
        return masked_keys(c, position);
    if (p->blocks)
        turn_to_row(c, position / p->blocks->size);
    if (p->blocks && p->dilation)
        return sifted_members(c, position, seen);
    if (p->blocks)
        return p->bounded ? kept_between(c, seen.lo, seen.hi) : c->row_keys;
    if (!ra_pattern_exclusive(p, c->branch))
        return (double)(seen.hi - seen.lo);
    int64_t lo = ra_lattice_position(&c->lattice, seen.lo), hi = ra_lattice_position(&c->lattice, seen.hi - 1) + 1;
    return (double)ra_not_taken(p, c->head, c->branch, position, lo, hi);
}

/* ---- Groups and tiles -------------------------------------------------------------------------------------------- */

/* Whether tiles are counted by going through them. */
static bool goes_through(const counter *c)
{
    const ra_pattern *p = &c->plan->pattern;
    return p->mask || (p->blocks && !ra_pattern_exclusive(p, c->branch) && !groups_in_rows(c));
}

/* A tile has the kept keys of a block of keys from the first to the last, in whole units. */
static void close_tile(tally *t, int64_t first, int64_t last)
{
    if (first < 0)
        return;
    t->tiles += 1;
    t->worked += (double)((last / RA_KEY_UNIT - first / RA_KEY_UNIT + 1) * RA_KEY_UNIT);
}

/* The tiles of a group in the row of blocks at hand, between lo and hi; what is worked counts for one lane. */
static void count_row_tiles(counter *c, int64_t lo, int64_t hi)
{
    int64_t size = c->plan->pattern.blocks->size, first = -1, last = -1;
    tally t = {0, 0, 0};
    for (int64_t column = lo / size; column * size < hi; column++) {
        uint64_t set = c->bits[column / 64] >> (column % 64);
        if (!set) {
            column = column / 64 * 64 + 63;
            continue;
        }
        column += __builtin_ctzll(set);
        int64_t from = ra_max(lo, column * size), to = ra_min(hi, (column + 1) * size);
        while (from < to) {
            int64_t block = from / RA_KEY_BLOCK, end = ra_min(to, (block + 1) * RA_KEY_BLOCK);
            if (first < 0 || first / RA_KEY_BLOCK != block) {
                close_tile(&t, first, last);
                first = from;
            }
            last = end - 1;
            from = end;
        }
    }
    close_tile(&t, first, last);
    c->row_reach = (ra_interval){lo, hi};
    c->row_tiles = t;
}

static void count_group_in_row(counter *c, const ra_group_bounds *b)
{
    if (c->row_reach.lo != b->min_lo || c->row_reach.hi != b->max_hi)
        count_row_tiles(c, b->min_lo, b->max_hi);
    c->sum.tiles += c->row_tiles.tiles;
    c->sum.worked += c->row_tiles.worked * ra_lanes_worked(&c->work->grouping, b->rows);
}

/* What the rows of a group see; rows between two that see the same interval see it too. */
static ra_group_bounds look_at_rows(counter *c, const ra_members *m)
{
    const ra_pattern *p = &c->plan->pattern;
    ra_interval first = ra_branch_interval(p, &c->lattice, m->member);
    ra_interval last = ra_branch_interval(p, &c->lattice, m->member + m->rows - 1);
    bool alike = !p->blocks && !p->mask && !p->ragged && !ra_pattern_exclusive(p, c->branch) && first.lo < first.hi &&
                 first.lo == last.lo && first.hi == last.hi;
    if (alike) {
        c->sum.visible += (double)m->rows * (double)(first.hi - first.lo);
        return (ra_group_bounds){first.lo, first.hi, first.lo, first.hi, m->rows, m->member};
    }
    for (int i = 0; i < m->rows; i++) {
        c->rows[i] = ra_branch_interval(p, &c->lattice, m->member + i);
        c->sum.visible += visible_of(c, m->member + i, c->rows[i]);
    }
    return ra_group_bounds_of(c->rows, m->rows);
}

/*
 * Rows of several packed sequences leave gaps between their intervals. Of the key blocks from the first key to the last
 * that is seen, those in which no row sees a key are no tiles.
 */
static void count_with_gaps(counter *c, const ra_group_bounds *b, int lanes)
{
    int64_t counted = -1; /* the last block that was */
    for (int i = 0; i < b->rows; i++) {
        if (c->rows[i].lo >= c->rows[i].hi)
            continue;
        int64_t first = ra_max(counted + 1, c->rows[i].lo / RA_KEY_BLOCK), last = (c->rows[i].hi - 1) / RA_KEY_BLOCK;
        if (first > last)
            continue;
        int64_t lo = ra_max(b->min_lo, first * RA_KEY_BLOCK), hi = ra_min(b->max_hi, (last + 1) * RA_KEY_BLOCK);
        c->sum.tiles += (double)(last - first + 1);
        c->sum.worked += (double)(ra_ceil_div(hi, RA_KEY_UNIT) - lo / RA_KEY_UNIT) * RA_KEY_UNIT * lanes;
        counted = last;
    }
}

static void count_group(counter *c, const ra_members *m)
{
    int lanes = ra_lanes_worked(&c->work->grouping, (int)(m->rows * c->stacked));
    ra_group_bounds b = look_at_rows(c, m);
    if (goes_through(c) || b.min_lo >= b.max_hi)
        return;
    if (groups_in_rows(c)) {
        count_group_in_row(c, &b);
        return;
    }
    if (c->plan->pattern.ragged) {
        count_with_gaps(c, &b, lanes);
        return;
    }
    c->sum.tiles += (double)(ra_ceil_div(b.max_hi, RA_KEY_BLOCK) - b.min_lo / RA_KEY_BLOCK);
    c->sum.worked += (double)(ra_ceil_div(b.max_hi, RA_KEY_UNIT) - b.min_lo / RA_KEY_UNIT) * RA_KEY_UNIT * lanes;
}

/* The tiles of a query tile, one after the other. */
static void go_through(counter *c, int64_t first_group, int64_t groups)
{
    const ra_plan *p = c->plan;
    ra_tiles *t = &c->tiles;
    ra_block block;
    ra_tile tile;
    ra_tiles_begin(t, &p->pattern, c->head, c->branch, c->work->grouping.lanes, &c->memory);
    ra_members_walk walk = ra_members_begin(&c->work->queries, &c->work->grouping, c->lattice, first_group, groups);
    for (ra_members m; ra_members_next(&walk, &m);)
        ra_tiles_add(t, m.member, m.rows);
    ra_interval keys = ra_branch_members(&c->lattice, 0, p->kv_len);
    ra_tiles_seek(t, keys.lo, keys.hi);
    while (ra_tiles_next(t, &block)) {
        ra_tiles_look(t, &block);
        for (int g = 0; g < t->group_count; g++)
            if (ra_tiles_part(t, g, &block, &tile)) {
                c->sum.tiles += 1;
                c->sum.worked +=
                    (double)(tile.end - tile.begin) * ra_lanes_worked(&c->work->grouping, t->groups[g].rows);
            }
    }
}

/* ---- Queries that see steadily ----------------------------------------------------------------------------------- */

static int64_t place_of(const counter *c, int64_t query)
{
    return query + c->plan->offset;
}

/* Queries first <= i < end, which are whole groups but the last. */
static tally count_queries(counter *c, int64_t first, int64_t end)
{
    const tally before = c->sum;
    const ra_share here = ra_share_of_range(first, end);
    const ra_grouping *grouping = &c->work->grouping;
    memset(&c->sum, 0, sizeof c->sum);
    for (int64_t i = 0; i < ra_group_count(&here, grouping); i++) {
        ra_group group = ra_group_at(&here, grouping, i);
        count_group(c, &(ra_members){.member = place_of(c, group.query), .rows = group.rows});
    }
    tally counted = c->sum;
    c->sum = before;
    return counted;
}

static void add_times(tally *sum, const tally *t, double times)
{
    sum->tiles += times * t->tiles;
    sum->visible += times * t->visible;
    sum->worked += times * t->worked;
}

/*
 * Count `count` stretches of queries that are `period` apart, a multiple of RA_KEY_BLOCK. Over all of them each bound
 * is constant or moves with the query, so the counts of the stretches grow by the same number from one to the next.
 */
static void count_stretches(counter *c, int64_t first, int64_t end, int64_t period, int64_t count)
{
    double more = (double)(count - 1);
    tally one = count_queries(c, first, end);
    add_times(&c->sum, &one, (double)count);
    if (count < 2)
        return;
    tally next = count_queries(c, first + period, end + period);
    add_times(&next, &one, -1);
    add_times(&c->sum, &next, more * (more + 1) / 2);
}

static int64_t steady_end(const counter *c, int64_t first, int64_t end)
{
    return ra_pattern_steady_end(&c->plan->pattern, place_of(c, first), place_of(c, end)) - c->plan->offset;
}

/* Where the last group ends that begins before `end`, of a range whose groups begin at `first`. */
static int64_t end_of_groups(const counter *c, int64_t first, int64_t end)
{
    const ra_grouping *g = &c->work->grouping;
    if (g->cut)
        return ra_ceil_div(end + g->origin, g->cut) * g->cut - g->origin;
    return first + ra_ceil_div(end - first, g->lanes) * g->lanes;
}

/* The first query whose groups repeat: the one behind the groups that the first cut makes shorter. */
static int64_t first_whole(const counter *c, int64_t first, int64_t end)
{
    const ra_grouping *g = &c->work->grouping;
    bool cut = g->cut && (first + g->origin) % g->cut != 0;
    return cut ? ra_min(end, end_of_groups(c, first, first + 1)) : first;
}

/* Count a range. Groups have the same place in a key block again after `period` queries. */
static void count_range(counter *c, int64_t first, int64_t end)
{
    int64_t each = c->work->grouping.cut ? c->work->grouping.cut : c->work->grouping.lanes;
    int64_t period = RA_KEY_BLOCK / ra_gcd(each, RA_KEY_BLOCK) * each, whole_from = first_whole(c, first, end);
    if (whole_from > first)
        count_stretches(c, first, whole_from, period, 1);
    first = whole_from;
    while (first < end) {
        int64_t steady = end - first < 2 * period ? end : steady_end(c, first, end), whole = (steady - first) / period;
        if (whole > 1) {
            count_stretches(c, first, first + period, period, whole);
            first += whole * period;
        } else { /* on to the group with which another stretch begins */
            int64_t next = ra_min(end, end_of_groups(c, first, steady));
            count_stretches(c, first, next, period, 1);
            first = next;
        }
    }
}

/* Stripes: whole blocks, but the last. */
static void count_stripes(counter *c, const ra_share *queries)
{
    int64_t period = queries->step * RA_KEY_BLOCK;
    for (int64_t i = 0, whole; i < queries->ranges; i += whole) {
        ra_range range = ra_share_range(queries, i), last = ra_share_range(queries, queries->ranges - 1);
        int64_t steady = steady_end(c, range.first, last.end);
        /* One block, and those behind it that end before it does. */
        whole = 1 + ra_max(0, steady - range.end) / period;
        if (last.end - last.first < RA_KEY_BLOCK)
            whole = ra_max(1, ra_min(whole, queries->ranges - 1 - i));
        count_stretches(c, range.first, range.end, period, whole);
    }
}

/* Count groups from their positions alone, without going through all of them. */
static void count_steady(counter *c)
{
    const ra_share *queries = &c->work->queries;
    if (queries->step) {
        count_stripes(c, queries);
        return;
    }
    for (int64_t i = 0; i < queries->ranges; i++) {
        ra_range range = ra_share_range(queries, i);
        count_range(c, range.first, range.end);
    }
}

/* ---- Branches ---------------------------------------------------------------------------------------------------- */

/* The groups of a branch in some groups of the share. */
static void count_groups(counter *c, int64_t first, int64_t groups)
{
    const ra_workload *w = c->work;
    ra_members_walk walk = ra_members_begin(&w->queries, &w->grouping, c->lattice, first, groups);
    for (ra_members m; ra_members_next(&walk, &m);)
        count_group(c, &m);
    if (goes_through(c))
        go_through(c, first, groups);
}

/* The least common multiple; 0 if one of them is 0 or the multiple is too large. */
static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t multiple;
    return a && b && ra_mul_ok(a / ra_gcd(a, b), b, &multiple) ? multiple : 0;
}

/*
 * Positions after which what a branch sees repeats: the segments of all branches and the chunks, if the other terms
 * move along with the query. Its members come back to the same place in a block of keys, too. 0: it does not repeat, or
 * not within the sequence.
 */
static int64_t period_of(const counter *c)
{
    const ra_pattern *p = &c->plan->pattern;
    const ra_lattice *l = &c->lattice;
    int64_t period = p->dilation && !p->blocks && !p->mask && !p->lengths ? 1 : 0;
    for (int i = 0; period && i < p->count; i++)
        if (p->terms[i].kind->period)
            period = common_multiple(period, p->terms[i].kind->period(&p->terms[i]));
    for (int i = 0; period && i < p->dilation->count; i++)
        period = common_multiple(period, p->dilation->segment[i]);
    if (period == 0 || period > c->plan->kv_len)
        return 0;
    int64_t members = ra_lattice_plain(l) ? period : period / l->segment * l->members;
    int64_t blocks = RA_KEY_BLOCK / ra_gcd(members, RA_KEY_BLOCK); /* periods until then */
    return period <= c->plan->kv_len / blocks ? period * blocks : 0;
}

/*
 * The number of units of `groups` groups, from group `first` on, that have consecutive queries in whole groups and all
 * of their segments inside the sequence. Their counts repeat with the period.
 */
static int64_t repeated_units(const counter *c, int64_t first, int64_t groups, int64_t period)
{
    const ra_workload *w = c->work;
    int64_t lanes = w->grouping.lanes, unit = groups * lanes;
    ra_group group = ra_group_at(&w->queries, &w->grouping, first);
    ra_range range = ra_share_range(&w->queries, ra_share_find(&w->queries, group.query));
    int64_t position = place_of(c, group.query), shift = c->plan->pattern.dilation->origin % period;
    int64_t first_whole = shift ? period - shift : 0; /* where the first period begins that has all of its keys */
    int64_t inside = (c->plan->kv_len + shift) / period * period - shift - position;
    int64_t units = position < first_whole ? 0 : ra_max(0, ra_min(range.end - group.query, inside)) / unit;
    if (units == 0)
        return 0;
    ra_group last = ra_group_at(&w->queries, &w->grouping, first + units * groups - 1);
    return last.query == group.query + units * unit - lanes && last.rows == lanes ? units : 0;
}

/* Units of `groups` groups from group `first` on; returns how many were counted. */
static int64_t count_units(counter *c, int64_t first, int64_t groups, int64_t period)
{
    int64_t unit = groups * c->work->grouping.lanes, cycle = period ? period / ra_gcd(period, unit) : 0;
    int64_t times = period ? repeated_units(c, first, groups, period) / cycle : 0;
    if (times < 2) {
        count_groups(c, first, groups);
        return 1;
    }
    const tally before = c->sum;
    memset(&c->sum, 0, sizeof c->sum);
    for (int64_t i = 0; i < cycle; i++)
        count_groups(c, first + i * groups, groups);
    tally one = c->sum;
    c->sum = before;
    add_times(&c->sum, &one, (double)times);
    return times * cycle;
}

/* Where query tiles begin matters to groups that are not the share's own: those are counted tile by tile. */
static void count_branch(counter *c)
{
    const ra_workload *w = c->work;
    int64_t period = period_of(c);
    bool by_tile = !ra_lattice_plain(&c->lattice) || goes_through(c);
    if (!by_tile && !period) {
        count_groups(c, 0, w->groups);
        return;
    }
    const ra_branch_tiles tiles = by_tile ? ra_tiles_of_branch(w, &c->lattice) : (ra_branch_tiles){1, w->groups};
    for (int64_t i = 0, counted; i < tiles.tiles; i += counted) {
        int64_t first = ra_first_of_branch_tile(w, &tiles, i);
        int64_t groups = ra_first_of_branch_tile(w, &tiles, i + 1) - first;
        counted = count_units(c, first, groups, i == 0 && by_tile ? 0 : period);
    }
}

static ra_status take_memory(counter *c)
{
    const ra_pattern *p = &c->plan->pattern;
    int lanes = c->work->grouping.lanes;
    int64_t groups = c->work->tile_units;
    c->row_head = -1;
    if (!p->blocks && !p->mask)
        return RA_OK;
    int64_t words = p->blocks ? ra_blocks_words(p->blocks->count) : 1;
    c->bits = malloc((size_t)words * sizeof *c->bits);
    c->memory.rows = malloc((size_t)(groups * lanes) * sizeof *c->memory.rows);
    c->memory.groups = malloc((size_t)groups * sizeof *c->memory.groups);
    c->memory.sieve = malloc((size_t)ra_sieve_bytes(p, lanes, groups));
    c->memory.room = groups;
    if (!c->bits || !c->memory.rows || !c->memory.groups || !c->memory.sieve)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: counting the tiles of %lld queries and %lld keys",
                       (long long)c->work->queries.rows, (long long)p->kv_len);
    return RA_OK;
}

static void free_memory(counter *c)
{
    free(c->bits);
    free(c->memory.rows);
    free(c->memory.groups);
    free(c->memory.sieve);
}

/* Heads that see the same keys have the same counts; such heads are seldom far apart. */
enum { REMEMBERED = 64 };

static void count_heads_alone(counter *c, tally *total)
{
    tally known[REMEMBERED];
    const ra_pattern *p = &c->plan->pattern;
    for (int64_t head = 0; head < c->plan->heads; head++) {
        int64_t like = ra_max(0, head - REMEMBERED + 1);
        while (like < head && !ra_pattern_same(p, like, head))
            like++;
        if (like == head) {
            memset(&c->sum, 0, sizeof c->sum);
            c->head = head;
            for (c->branch = 0; c->branch < ra_pattern_branches(p, head); c->branch++) {
                c->lattice = ra_pattern_lattice(p, head, c->branch);
                (ra_pattern_is_interval(p) ? count_steady : count_branch)(c);
            }
            known[head % REMEMBERED] = c->sum;
        } else
            known[head % REMEMBERED] = known[like % REMEMBERED];
        const tally *sum = &known[head % REMEMBERED];
        total->tiles += sum->tiles;
        total->visible += sum->visible;
        total->worked += sum->worked;
    }
}

/* Count `stacks` stacks of `heads` heads, which all see the same keys. */
static void count_stacks(counter *c, int64_t stacks, int64_t heads, tally *total)
{
    memset(&c->sum, 0, sizeof c->sum);
    c->stacked = heads;
    count_steady(c);
    c->sum.visible *= (double)heads;
    add_times(total, &c->sum, (double)stacks);
}

static void count_heads(counter *c, tally *total)
{
    const ra_plan *p = c->plan;
    int64_t stack = c->work->stack, rest = p->group_heads % stack;
    c->stacked = 1;
    if (stack == 1) {
        count_heads_alone(c, total);
        return;
    }
    c->head = c->branch = 0;
    c->lattice = ra_pattern_lattice(&p->pattern, 0, 0);
    count_stacks(c, p->kv_heads * (p->group_heads / stack), stack, total);
    if (rest)
        count_stacks(c, p->kv_heads, rest, total);
}

/* Count one batch element. If it sees the same keys as the one before, the counts are reused. */
static void count_element(counter *c, const ra_workload *w, const ra_plan *p, int64_t batch, tally *total)
{
    ra_plan plan;
    ra_workload work;
    c->plan = ra_plan_of_batch(p, batch, &plan);
    c->work = ra_workload_of_batch(w, c->plan, &work);
    c->row_head = -1;
    c->masked.pattern = NULL;
    *total = (tally){0, 0, 0};
    count_heads(c, total);
}

ra_status ra_workload_count(ra_workload *w, const ra_plan *p)
{
    counter c = {.plan = p, .work = w};
    int64_t elements = ra_plan_elements(p);
    double times = ra_plan_by_batch(p) ? 1 : (double)p->batch;
    tally all = {0, 0, 0}, one = {0, 0, 0};
    ra_status status = w->queries.rows > 0 ? take_memory(&c) : RA_OK;
    for (int64_t batch = 0; batch < elements && w->queries.rows > 0 && !status; batch++) {
        if (batch == 0 || !ra_plan_same_element(p, batch, batch - 1))
            count_element(&c, w, p, batch, &one);
        add_times(&all, &one, times);
    }
    free_memory(&c);
    w->tiles = all.tiles;
    w->pairs_visible = all.visible;
    w->pairs_worked = all.worked;
    return status;
}
