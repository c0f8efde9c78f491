#include "plan/reach.h"

#include "base/bits.h"
#include "base/checked.h"

#include <stdlib.h>

enum { PAGE_WORDS = 512, PAGE_ROWS = 64 * PAGE_WORDS };

/* Queries whose keys are looked at together before they are looked at one by one. */
enum { STRETCH = 1024 };

void ra_reach_free(ra_reach *r)
{
    for (int64_t i = 0; r->pages && i < r->page_count; i++)
        free(r->pages[i]);
    free(r->pages);
    free(r->at);
    *r = (ra_reach){0};
}

/* ---- Intervals --------------------------------------------------------------------------------------------------- */

static bool append(ra_reach *r, int64_t lo, int64_t hi)
{
    if (lo >= hi)
        return true;
    if (r->count && r->at[r->count - 1].hi >= lo) {
        r->at[r->count - 1].hi = ra_max(r->at[r->count - 1].hi, hi);
        return true;
    }
    if (r->count == r->room) {
        int64_t room = 2 * r->room + 4;
        ra_interval *grown = realloc(r->at, (size_t)room * sizeof *grown);
        if (!grown)
            return false;
        r->at = grown;
        r->room = room;
    }
    r->at[r->count++] = (ra_interval){lo, hi};
    return true;
}

static bool find_intervals(ra_reach *r, const ra_plan *p, const ra_share *queries)
{
    for (int64_t i = 0; i < queries->ranges; i++) {
        ra_range range = ra_share_range(queries, i);
        ra_interval seen = ra_pattern_reach(&p->pattern, range.first + p->offset, range.end - range.first);
        if (!append(r, seen.lo, seen.hi))
            return false;
    }
    return true;
}

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

/* What is at hand while bits are set. */
typedef struct finder {
    ra_reach *reach;
    const ra_plan *plan;
    const ra_share *own;
    int64_t head;
    ra_lattice lattice;
} finder;

/* Positions lo <= i < hi, word by word. */
static bool set(finder *f, int64_t lo, int64_t hi)
{
    for (int64_t at = lo / 64 * 64; at < hi; at += 64) {
        uint64_t **page = &f->reach->pages[at / PAGE_ROWS];
        if (!*page && !(*page = calloc(PAGE_WORDS, sizeof **page)))
            return false;
        (*page)[at % PAGE_ROWS / 64] |= ra_bits(ra_max(0, lo - at), hi - at);
    }
    return true;
}

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
        int64_t next, position = ra_lattice_position(&f->lattice, lo), end = end_of_own(f->own, position, &next);
        int64_t together = ra_lattice_plain(&f->lattice) ? ra_min(hi, next) - lo : 1;
        if (end > position)
            lo = ra_branch_members(&f->lattice, 0, end).hi;
        else if (!set(f, position, position + together))
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
    ra_blocks_walk walk = ra_blocks_walk_begin(b, f->head, row, 0, b->count);
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
    ra_interval hull = ra_pattern_hull(&f->plan->pattern, first, end - first);
    int64_t next;
    if (hull.lo >= hull.hi || end_of_own(f->own, hull.lo, &next) >= hull.hi)
        return true;
    ra_interval members = ra_branch_members(&f->lattice, first, end);
    if (members.lo >= members.hi)
        return true;
    return f->plan->pattern.blocks ? set_kept(f, members.lo, members.hi) : set_seen(f, members.lo, members.hi);
}

static bool find_bits(finder *f, const ra_share *queries)
{
    int64_t stretch = f->plan->pattern.blocks ? f->plan->pattern.blocks->size : STRETCH;
    for (int branch = 0; branch < ra_pattern_branches(&f->plan->pattern, f->head); branch++) {
        f->lattice = ra_pattern_lattice(&f->plan->pattern, f->head, branch);
        for (int64_t i = 0; i < queries->ranges; i++) {
            ra_range range = ra_share_range(queries, i);
            int64_t at = ra_max(0, range.first + f->plan->offset), end = range.end + f->plan->offset;
            for (int64_t next; at < end; at = next) {
                next = ra_min(end, (at / stretch + 1) * stretch);
                if (!set_stretch(f, at, next))
                    return false;
            }
        }
    }
    return true;
}

bool ra_reach_find(ra_reach *r, const ra_plan *p, const ra_share *queries, const ra_share *own, int64_t first,
                   int64_t count)
{
    *r = (ra_reach){0};
    if (ra_pattern_is_interval(&p->pattern))
        return find_intervals(r, p, queries);
    r->page_count = ra_ceil_div(p->kv_len, PAGE_ROWS);
    r->pages = calloc((size_t)r->page_count, sizeof *r->pages);
    finder f = {.reach = r, .plan = p, .own = own};
    bool fits = r->pages != NULL;
    for (f.head = first; f.head < first + count && fits; f.head++)
        if (f.head == first || !ra_pattern_same(&p->pattern, first, f.head))
            fits = find_bits(&f, queries);
    return fits;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

/* Bits that are set in one, or in two if there are, from lo to hi. */
static int64_t bits_between(const ra_reach *a, const ra_reach *b, int64_t lo, int64_t hi)
{
    int64_t rows = 0;
    for (int64_t page = lo / PAGE_ROWS; page * PAGE_ROWS < hi; page++) {
        const uint64_t *x = a->pages[page], *y = b ? b->pages[page] : x;
        if (!x || !y)
            continue;
        int64_t first = page * PAGE_ROWS, word = ra_max(0, lo - first) / 64;
        for (; word < PAGE_WORDS && first + 64 * word < hi; word++) {
            int64_t at = first + 64 * word;
            rows += __builtin_popcountll(x[word] & y[word] & ra_bits(ra_max(0, lo - at), hi - at));
        }
    }
    return rows;
}

static int64_t bits_of_share(const ra_reach *a, const ra_reach *b, const ra_share *share, int64_t lo, int64_t hi)
{
    int64_t rows = 0;
    for (int64_t i = ra_share_find(share, lo); i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        if (range.first >= hi)
            break;
        rows += bits_between(a, b, ra_max(range.first, lo), ra_min(range.end, hi));
    }
    return rows;
}

int64_t ra_reach_rows(const ra_reach *r, const ra_share *share, int64_t lo, int64_t hi)
{
    if (r->page_count)
        return bits_of_share(r, NULL, share, lo, hi);
    int64_t rows = 0;
    for (int64_t i = 0; i < r->count; i++)
        rows += ra_share_rows_between(share, ra_max(r->at[i].lo, lo), ra_min(r->at[i].hi, hi));
    return rows;
}

int64_t ra_reach_rows_in_both(const ra_reach *a, const ra_reach *b, const ra_share *share)
{
    if (a->page_count)
        return bits_of_share(a, b, share, 0, INT64_MAX);
    int64_t rows = 0;
    for (int64_t i = 0, j = 0; i < a->count && j < b->count;) {
        rows += ra_share_rows_between(share, ra_max(a->at[i].lo, b->at[j].lo), ra_min(a->at[i].hi, b->at[j].hi));
        if (a->at[i].hi < b->at[j].hi)
            i++;
        else
            j++;
    }
    return rows;
}
