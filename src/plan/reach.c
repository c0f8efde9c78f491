/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank reads of others' rows: see reach.h. */
#include "plan/reach.h"

#include "base/bits.h"
#include "base/checked.h"
#include "plan/batch.h"
#include "plan/row_bits.h"

#include <stdlib.h>

/* Queries whose keys are looked at together before they are looked at one by one. */
enum { STRETCH = 1024 };

/* ---- Intervals --------------------------------------------------------------------------------------------------- */

static ra_interval seen_by(const ra_plan *p, ra_range range)
{
    return ra_pattern_reach(&p->pattern, range.first + p->offset, range.end - range.first);
}

/* Stripes from the i-th on, of whole blocks, over which each end of what they see stays or moves along with them. */
static int64_t steady_stripes(const ra_plan *p, const ra_share *queries, int64_t i)
{
    ra_range range = ra_share_range(queries, i), last = ra_share_range(queries, queries->ranges - 1);
    int64_t steady = ra_pattern_steady_end(&p->pattern, range.first + p->offset, last.end + p->offset) - p->offset;
    int64_t more = ra_max(0, steady - range.end) / (queries->step * RA_KEY_BLOCK);
    return ra_min(1 + more, queries->ranges - 1 - i);
}

/* So many stripes that see steadily: what the first two see says what all do. */
static bool add_stripes(ra_row_set *set, const ra_plan *p, const ra_share *queries, int64_t i, int64_t count)
{
    int64_t period = queries->step * RA_KEY_BLOCK;
    ra_interval one = seen_by(p, ra_share_range(queries, i));
    ra_interval next = seen_by(p, ra_share_range(queries, i + 1));
    if (one.lo >= one.hi)
        return true;
    if (next.lo - one.lo == period && next.hi - one.hi == period)
        return ra_row_set_add(set, one.lo, one.hi, period, count);
    /* An end that stays joins all of them. */
    return ra_row_set_add(set, one.lo, one.hi + (next.hi > one.hi ? (count - 1) * period : 0), 0, 1);
}

static bool find_intervals(ra_row_set *set, const ra_plan *p, const ra_share *queries)
{
    bool fits = true;
    for (int64_t i = 0, count; i < queries->ranges && fits; i += count) {
        count = queries->step && i + 2 < queries->ranges ? steady_stripes(p, queries, i) : 1;
        if (count > 1) {
            fits = add_stripes(set, p, queries, i, count);
        } else {
            ra_interval seen = seen_by(p, ra_share_range(queries, i));
            fits = ra_row_set_add(set, seen.lo, seen.hi, 0, 1);
        }
    }
    return fits;
}

/* The queries that see keys of each range; both ends of them only move forward. */
static bool find_seer_intervals(ra_row_set *set, const ra_plan *p, const ra_share *keys)
{
    const ra_lattice all = ra_lattice_all();
    const ra_interval queries = {p->offset, p->offset + p->q_len};
    for (int64_t i = 0; i < keys->ranges; i++) {
        ra_range range = ra_share_range(keys, i);
        ra_interval seers = ra_branch_seers(&p->pattern, &all, (ra_interval){range.first, range.end}, queries);
        if (seers.lo < seers.hi && !ra_row_set_add(set, seers.lo - p->offset, seers.hi - p->offset, 0, 1))
            return false;
    }
    return true;
}

static bool find_foreign_intervals(ra_row_set *set, const ra_plan *p, ra_side side, const ra_share *from,
                                   const ra_share *own)
{
    ra_row_set all = {0}, mine = {0};
    bool fits = (side == RA_SIDE_KEYS ? find_intervals : find_seer_intervals)(&all, p, from) &&
                ra_row_set_add_share(&mine, own) && ra_row_set_combine(&all, &mine, RA_SET_ONLY, set);
    ra_row_set_free(&all);
    ra_row_set_free(&mine);
    return fits;
}

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

/* What is at hand while bits are set. */
typedef struct finder {
    ra_row_set *set;
    const ra_plan *plan;
    const ra_share *own;
    ra_interval within;
    int64_t offset; /* position of row 0: 0 for keys */
    int64_t plane, head;
    int64_t marked, most; /* bits of the plane, and how many there can be */
    ra_lattice lattice;
} finder;

/*
 * Where the rank's own range that a position is in ends; the position itself, if it is not the rank's. *next is where
 * its next own range begins.
 */
static int64_t end_of_own(const ra_share *own, int64_t position, int64_t *next)
{
    int64_t i = ra_share_find(own, position);
    *next = INT64_MAX;
    if (i == own->ranges)
        return position;
    ra_range range = ra_share_range(own, i);
    *next = range.first;
    return range.first <= position ? range.end : position;
}

/* Members lo .. hi - 1 that are not the rank's own. */
static bool set_members(finder *f, int64_t lo, int64_t hi)
{
    while (lo < hi) {
        int64_t next, row = ra_lattice_position(&f->lattice, lo) - f->offset, end = end_of_own(f->own, row, &next);
        int64_t together = ra_lattice_plain(&f->lattice) ? ra_min(hi, ra_add_clamped(next, f->offset)) - lo : 1;
        if (end > row)
            lo = ra_branch_members(&f->lattice, 0, end + f->offset).hi;
        else if (!ra_pages_mark(&f->set->pages, f->plane, row, row + together, &f->marked))
            return false;
        else
            lo += together;
    }
    return true;
}

/* Queries that are members first .. end - 1, one after the other: what each sees begins where the last one's ended. */
static bool set_seen(finder *f, int64_t first, int64_t end)
{
    int64_t done = 0;
    for (int64_t member = first; member < end; member++) {
        ra_interval seen = ra_branch_interval(&f->plan->pattern, &f->lattice, member);
        if (seen.lo >= seen.hi)
            continue;
        if (!set_members(f, ra_max(seen.lo, done), seen.hi))
            return false;
        done = ra_max(done, seen.hi);
    }
    return true;
}

/* The same where the queries are in one row of blocks: their keys are in the blocks that it keeps. */
static bool set_kept(finder *f, int64_t first, int64_t end)
{
    const ra_blocks *b = f->plan->pattern.blocks;
    int64_t row = ra_lattice_position(&f->lattice, first) / b->size, column, column_end;
    ra_interval seen = {INT64_MAX, 0};
    for (int64_t member = first; member < end; member++) {
        ra_interval one = ra_branch_interval(&f->plan->pattern, &f->lattice, member);
        if (one.lo < one.hi)
            seen = (ra_interval){ra_min(seen.lo, one.lo), ra_max(seen.hi, one.hi)};
    }
    if (seen.lo >= seen.hi)
        return true;
    int64_t from = f->within.lo / b->size, to = ra_min(b->count, ra_ceil_div(f->within.hi, b->size));
    ra_blocks_walk walk = ra_blocks_walk_begin(b, f->head, row, from, to);
    while (ra_blocks_walk_next(&walk, &column, &column_end)) {
        ra_interval kept =
            ra_branch_members(&f->lattice, column * b->size, ra_min(column_end * b->size, f->plan->kv_len));
        if (!set_members(f, ra_max(kept.lo, seen.lo), ra_min(kept.hi, seen.hi)))
            return false;
    }
    return true;
}

/* Queries at positions first <= i < end, all of one row of blocks if there are any. */
static bool set_stretch(finder *f, int64_t first, int64_t end)
{
    ra_interval members = ra_branch_members(&f->lattice, first, end);
    if (members.lo >= members.hi)
        return true;
    return f->plan->pattern.blocks ? set_kept(f, members.lo, members.hi) : set_seen(f, members.lo, members.hi);
}

/* Whether queries at positions first <= i < end see none but the rank's own keys. */
static bool sees_own_alone(const finder *f, int64_t first, int64_t end)
{
    ra_interval hull = ra_pattern_hull(&f->plan->pattern, first, end - first);
    int64_t next;
    return hull.lo >= hull.hi || end_of_own(f->own, hull.lo, &next) >= hull.hi;
}

/*
 * How many of `count` lots of `stretch` queries, from `first` on, see the rank's own keys alone. Both ends of what they
 * see only move forward: those that do are found by halving.
 */
static int64_t lots_within_own(const finder *f, int64_t first, int64_t stretch, int64_t count)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (sees_own_alone(f, first, first + middle * stretch))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Queries at positions first <= i < end, in lots that begin at multiples of `stretch`. */
static bool find_range(finder *f, int64_t first, int64_t end, int64_t stretch)
{
    for (int64_t at = first, next; at < end && f->marked < f->most; at = next) {
        int64_t whole = at % stretch ? 0 : (end - at) / stretch;
        next = at + lots_within_own(f, at, stretch, whole) * stretch;
        if (next > at)
            continue;
        next = ra_min(end, (at / stretch + 1) * stretch);
        if (!set_stretch(f, at, next))
            return false;
    }
    return true;
}

/* ---- Masks ------------------------------------------------------------------------------------------------------- */

/* The queries of a share in a branch, one after the other: the keys that they see are united first, and marked once. */
static void unite_masked(const finder *f, int branch, const ra_share *queries, uint64_t *keys)
{
    ra_row_bits bits;
    ra_row_bits_begin(&bits, &f->plan->pattern, f->head, branch);
    for (int64_t i = 0; i < queries->ranges; i++) {
        ra_range range = ra_share_range(queries, i);
        for (int64_t query = range.first; query < range.end; query++)
            if (ra_row_bits_turn(&bits, query + f->plan->offset))
                for (int64_t word = bits.seen.lo / 64; word * 64 < bits.seen.hi; word++)
                    keys[word] |= ra_row_bits_word(&bits, word * 64);
    }
}

/* Rows, as bits of the whole sequence, that are not the rank's own. */
static bool set_bits(finder *f, const uint64_t *rows, int64_t length)
{
    f->lattice = ra_lattice_all();
    for (int64_t word = 0; word * 64 < length; word++)
        for (uint64_t left = rows[word]; left;) {
            int first = __builtin_ctzll(left);
            uint64_t gap = ~left & UINT64_MAX << first;
            int end = gap ? __builtin_ctzll(gap) : 64;
            if (!set_members(f, word * 64 + first + f->offset, word * 64 + end + f->offset))
                return false;
            left &= ~ra_bits(first, end);
        }
    return true;
}

static bool find_masked(finder *f, const ra_share *queries)
{
    uint64_t *keys = calloc((size_t)ra_blocks_words(f->plan->kv_len) + 1, sizeof *keys);
    if (!keys)
        return false;
    for (int branch = 0; branch < ra_pattern_branches(&f->plan->pattern, f->head); branch++)
        unite_masked(f, branch, queries, keys);
    bool fits = set_bits(f, keys, f->plan->kv_len);
    free(keys);
    return fits;
}

/* ---- Kept blocks alone ------------------------------------------------------------------------------------------- */

/* Whether all of `count` bits are set. */
static bool all_set(const uint64_t *bits, int64_t count)
{
    for (int64_t i = 0; i < count / 64; i++)
        if (bits[i] != UINT64_MAX)
            return false;
    return count % 64 == 0 || bits[count / 64] == ra_bits(0, count % 64);
}

/* Unite the columns that the rows of blocks of some queries keep, until there are no others. */
static void unite_columns(const finder *f, const ra_share *queries, uint64_t *row_bits, uint64_t *columns)
{
    const ra_blocks *b = f->plan->pattern.blocks;
    int64_t words = ra_blocks_words(b->count), last = -1;
    for (int64_t i = 0; i < queries->ranges; i++) {
        ra_range range = ra_share_range(queries, i);
        int64_t first = ra_max(0, range.first + f->plan->offset), end = range.end + f->plan->offset;
        for (int64_t row = ra_max(last + 1, first / b->size); row * b->size < end; row++) {
            ra_blocks_row(b, f->head, row, 0, words, row_bits);
            for (int64_t word = 0; word < words; word++)
                columns[word] |= row_bits[word];
            last = row;
            if (all_set(columns, b->count))
                return;
        }
    }
}

/* Where blocks are all that says what is seen: the blocks that are kept are united first, and marked once. */
static bool find_columns(finder *f, const ra_share *queries)
{
    const ra_blocks *b = f->plan->pattern.blocks;
    int64_t words = ra_blocks_words(b->count);
    uint64_t *columns = calloc((size_t)(2 * words), sizeof *columns);
    bool fits = columns != NULL;
    if (fits)
        unite_columns(f, queries, columns + words, columns);
    for (int64_t column = f->within.lo / b->size; fits && column < b->count && column * b->size < f->within.hi;
         column++)
        if (columns[column / 64] >> (column % 64) & 1)
            fits = set_members(f, column * b->size, ra_min((column + 1) * b->size, f->plan->kv_len));
    free(columns);
    return fits;
}

static bool find_head(finder *f, const ra_share *queries)
{
    const ra_pattern *pattern = &f->plan->pattern;
    if (pattern->mask)
        return find_masked(f, queries);
    if (pattern->blocks && !pattern->dilation && !pattern->bounded) {
        f->lattice = ra_pattern_lattice(pattern, f->head, 0);
        return find_columns(f, queries);
    }
    int64_t stretch = f->plan->pattern.blocks ? f->plan->pattern.blocks->size : STRETCH, offset = f->plan->offset;
    for (int branch = 0; branch < ra_pattern_branches(&f->plan->pattern, f->head); branch++) {
        f->lattice = ra_pattern_lattice(&f->plan->pattern, f->head, branch);
        int64_t begin = ra_branch_first(&f->plan->pattern, &f->lattice);
        for (int64_t i = 0; i < queries->ranges; i++) {
            ra_range range = ra_share_range(queries, i);
            if (!find_range(f, ra_max(begin, range.first + offset), range.end + offset, stretch))
                return false;
        }
    }
    return true;
}

/* ---- Queries that see keys --------------------------------------------------------------------------------------- */

/* Whether a share has a member lo <= i < hi of the lattice. */
static bool has_member(const ra_lattice *lattice, const ra_share *share, int64_t lo, int64_t hi)
{
    int64_t first = ra_lattice_position(lattice, lo), end = ra_lattice_position(lattice, hi - 1) + 1;
    for (int64_t i = ra_share_find(share, first); i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        if (range.first >= end)
            return false;
        ra_interval members = ra_branch_members(lattice, ra_max(first, range.first), ra_min(end, range.end));
        if (members.lo < members.hi)
            return true;
    }
    return false;
}

/* Whether a query that is a member sees a key of a share in one of the columns of blocks. */
static bool sees_in_columns(const finder *f, int64_t member, const ra_share *keys, const uint64_t *columns)
{
    const ra_blocks *b = f->plan->pattern.blocks;
    ra_interval seen = ra_branch_interval(&f->plan->pattern, &f->lattice, member);
    if (seen.lo >= seen.hi)
        return false;
    int64_t first = ra_lattice_position(&f->lattice, seen.lo) / b->size;
    int64_t last = ra_lattice_position(&f->lattice, seen.hi - 1) / b->size;
    for (int64_t column = first; column <= last; column++) {
        if (!(columns[column / 64] >> (column % 64) & 1))
            continue;
        ra_interval in = ra_branch_members(&f->lattice, column * b->size, (column + 1) * b->size);
        in = (ra_interval){ra_max(in.lo, seen.lo), ra_min(in.hi, seen.hi)};
        if (in.lo < in.hi && has_member(&f->lattice, keys, in.lo, in.hi))
            return true;
    }
    return false;
}

/* The columns of blocks that have keys of a share. */
static void held_columns(const ra_blocks *b, const ra_share *keys, uint64_t *columns)
{
    for (int64_t i = 0; i < keys->ranges; i++) {
        ra_range range = ra_share_range(keys, i);
        for (int64_t column = range.first / b->size; column * b->size < range.end; column++)
            columns[column / 64] |= UINT64_C(1) << (column % 64);
    }
}

/* The queries of a row of blocks that see keys of a share in the columns that the row keeps. */
static bool set_seers_of_row(finder *f, int64_t row, const ra_share *keys, const uint64_t *columns)
{
    const ra_blocks *b = f->plan->pattern.blocks;
    int64_t end = ra_min((row + 1) * b->size, f->plan->offset + f->plan->q_len);
    ra_interval queries = ra_branch_members(&f->lattice, ra_max(row * b->size, f->plan->offset), end);
    if (!f->plan->pattern.bounded && !f->plan->pattern.dilation)
        return set_members(f, queries.lo, queries.hi);
    for (int64_t member = queries.lo; member < queries.hi; member++)
        if (sees_in_columns(f, member, keys, columns) && !set_members(f, member, member + 1))
            return false;
    return true;
}

/* Row of blocks by row of blocks. */
static bool find_seers_in_rows(finder *f, const ra_share *keys)
{
    const ra_blocks *b = f->plan->pattern.blocks;
    int64_t words = ra_blocks_words(b->count), first = ra_max(0, f->plan->offset) / b->size;
    uint64_t *held = calloc((size_t)(2 * words), sizeof *held);
    bool fits = held != NULL;
    if (fits)
        held_columns(b, keys, held);
    for (int64_t row = first; fits && row * b->size < f->plan->offset + f->plan->q_len && f->marked < f->most; row++) {
        bool any = false;
        ra_blocks_row(b, f->head, row, 0, words, held + words);
        for (int64_t i = 0; i < words; i++)
            any = (held[words + i] &= held[i]) || any;
        fits = !any || set_seers_of_row(f, row, keys, held + words);
    }
    free(held);
    return fits;
}

/* The members `queries` that see some of the members `keys`. */
static bool set_seers(finder *f, ra_interval keys, ra_interval queries)
{
    const ra_pattern *p = &f->plan->pattern;
    ra_seers_walk walk = ra_seers_begin(p, &f->lattice, keys, queries);
    for (ra_interval seers; ra_seers_next(&walk, &seers);)
        if (!set_members(f, seers.lo, seers.hi))
            return false;
    return true;
}

static bool find_masked_seers(finder *f, const ra_share *keys)
{
    const ra_plan *p = f->plan;
    uint64_t *queries = calloc((size_t)ra_blocks_words(p->q_len) + 1, sizeof *queries);
    if (!queries)
        return false;
    for (int branch = 0; branch < ra_pattern_branches(&p->pattern, f->head); branch++) {
        ra_row_bits bits;
        ra_row_bits_begin(&bits, &p->pattern, f->head, branch);
        for (int64_t query = 0; query < p->q_len; query++)
            if (ra_row_bits_turn(&bits, query + p->offset) && ra_row_bits_sees(&bits, keys))
                queries[query / 64] |= UINT64_C(1) << (query % 64);
    }
    bool fits = set_bits(f, queries, p->q_len);
    free(queries);
    return fits;
}

static bool find_seers_of_head(finder *f, const ra_share *keys)
{
    const ra_plan *p = f->plan;
    bool fits = true;
    if (p->pattern.mask)
        return find_masked_seers(f, keys);
    for (int branch = 0; branch < ra_pattern_branches(&p->pattern, f->head) && fits; branch++) {
        f->lattice = ra_pattern_lattice(&p->pattern, f->head, branch);
        ra_interval queries = ra_branch_members(&f->lattice, p->offset, p->offset + p->q_len);
        if (p->pattern.blocks)
            fits = find_seers_in_rows(f, keys);
        for (int64_t i = 0; i < keys->ranges && fits && !p->pattern.blocks; i++) {
            ra_range range = ra_share_range(keys, i);
            fits = set_seers(f, ra_branch_members(&f->lattice, range.first, range.end), queries);
        }
    }
    return fits;
}

/* The heads of a plane, in one batch element. */
static bool find_plane(finder *f, ra_side side, int64_t heads, const ra_share *from)
{
    int64_t first = f->plane * heads;
    bool fits = true;
    f->offset = side == RA_SIDE_KEYS ? 0 : f->plan->offset;
    for (f->head = first; f->head < first + heads && fits; f->head++)
        if (f->head == first || !ra_pattern_same(&f->plan->pattern, first, f->head))
            fits = (side == RA_SIDE_KEYS ? find_head : find_seers_of_head)(f, from);
    return fits;
}

bool ra_reach_find(ra_row_set *set, const ra_plan *p, ra_side side, int64_t planes, const ra_share *from,
                   const ra_share *own, ra_interval within)
{
    int64_t heads = p->heads / planes, length = side == RA_SIDE_KEYS ? p->kv_len : p->q_len;
    *set = (ra_row_set){0};
    if (ra_pattern_is_interval(&p->pattern) && !p->pattern.ragged && !ra_plan_by_batch(p))
        return find_foreign_intervals(set, p, side, from, own);
    bool fits = ra_pages_make(&set->pages, planes, length);
    for (int64_t plane = 0; plane < planes && fits; plane++) {
        finder f = {.set = set, .own = own, .within = within, .plane = plane, .most = length - own->rows};
        for (int64_t batch = 0; batch < ra_plan_elements(p) && fits; batch++) {
            ra_plan copy;
            f.plan = ra_plan_of_batch(p, batch, &copy);
            if (batch == 0 || !ra_plan_same_element(p, batch, batch - 1))
                fits = find_plane(&f, side, heads, from);
        }
    }
    return fits;
}
