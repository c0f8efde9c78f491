/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of rows: stretches; see row_set.h. */
#include "plan/row_set.h"

#include "base/blocking.h"
#include "base/checked.h"

#include <stdlib.h>

void ra_row_set_free(ra_row_set *s)
{
    ra_pages_free(&s->pages);
    free(s->at);
    *s = (ra_row_set){0};
}

/* ---- Stretches --------------------------------------------------------------------------------------------------- */

static int64_t copy_first(const ra_stretch *s, int64_t i)
{
    return s->first + i * s->step;
}

static int64_t end_of(const ra_stretch *s)
{
    return copy_first(s, s->count - 1) + s->rows;
}

static bool append(ra_row_set *s, ra_stretch stretch)
{
    if (stretch.rows <= 0 || stretch.count <= 0)
        return true;
    if (s->count == s->room) {
        int64_t room = 2 * s->room + 4;
        ra_stretch *grown = realloc(s->at, (size_t)room * sizeof *grown);
        if (!grown)
            return false;
        s->at = grown;
        s->room = room;
    }
    if (stretch.count == 1)
        stretch.step = stretch.rows;
    s->loose = s->loose || (s->count && stretch.first < end_of(&s->at[s->count - 1]));
    s->at[s->count++] = stretch;
    return true;
}

/* What was added last becomes a stretch of one interval, so that it can grow. */
static bool part_last(ra_row_set *s)
{
    ra_stretch *last = &s->at[s->count - 1];
    if (last->count == 1)
        return true;
    ra_stretch copy = {copy_first(last, last->count - 1), last->rows, last->rows, 1};
    last->count--;
    return append(s, copy);
}

/* What was added last takes in what begins in it, or where it ends, and goes on to `hi`. */
static bool grow_last(ra_row_set *s, int64_t hi)
{
    if (!part_last(s))
        return false;
    ra_stretch *last = &s->at[s->count - 1];
    int64_t end = ra_max(end_of(last), hi);
    last->rows = last->step = end - last->first;
    return true;
}

bool ra_row_set_add(ra_row_set *s, int64_t lo, int64_t hi, int64_t step, int64_t count)
{
    if (lo < hi && count > 1 && hi - lo >= step) { /* the copies touch: one interval */
        hi += (count - 1) * step;
        count = 1;
    }
    /* What comes after a copy that was taken in may touch it, too. */
    for (; lo < hi && count > 0; lo += step, hi += step, count--) {
        if (s->count == 0 || end_of(&s->at[s->count - 1]) < lo)
            return append(s, (ra_stretch){lo, hi - lo, step, count});
        if (!grow_last(s, hi))
            return false;
    }
    return true;
}

/* Stripes are whole blocks, but perhaps the last. */
bool ra_row_set_add_share(ra_row_set *s, const ra_share *share)
{
    int64_t repeated = share->step ? ra_max(0, share->ranges - 1) : 0;
    if (repeated && !ra_row_set_add(s, share->first * RA_KEY_BLOCK, (share->first + 1) * RA_KEY_BLOCK,
                                    share->step * RA_KEY_BLOCK, repeated))
        return false;
    for (int64_t i = repeated; i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        if (!ra_row_set_add(s, range.first, range.end, 0, 1))
            return false;
    }
    return true;
}

/* Rows of a stretch below a position. */
static int64_t rows_below(const ra_stretch *s, int64_t position)
{
    if (position <= s->first)
        return 0;
    int64_t copies = (position - s->first) / s->step;
    if (copies >= s->count)
        return s->count * s->rows;
    return copies * s->rows + ra_min(s->rows, position - copy_first(s, copies));
}

static int64_t rows_between(const ra_stretch *s, int64_t lo, int64_t hi)
{
    if (s->count == 1)
        return ra_max(0, ra_min(hi, s->first + s->rows) - ra_max(lo, s->first));
    return lo < hi ? rows_below(s, hi) - rows_below(s, lo) : 0;
}

/* One copy of a stretch in a striped share. */
static int64_t copy_in_share(const ra_stretch *s, int64_t i, const ra_share *share)
{
    return ra_share_rows_between(share, copy_first(s, i), copy_first(s, i) + s->rows);
}

/*
 * Stripes that are as far apart as the copies of a stretch: each copy meets them at the same places, but perhaps the
 * first, before which there may be no stripe, and the last, where the sequence ends.
 */
static int64_t rows_in_stripes(const ra_stretch *s, const ra_share *share)
{
    int64_t rows = 0, alike = s->step == share->step * RA_KEY_BLOCK ? ra_max(0, s->count - 4) : 0;
    for (int64_t i = 0; i < s->count; i += i == 2 && alike ? alike : 1)
        rows += copy_in_share(s, i, share) * (i == 2 && alike ? alike : 1);
    return rows;
}

static int64_t rows_in_share(const ra_stretch *s, const ra_share *share)
{
    if (share->step && s->count > 1)
        return rows_in_stripes(s, share);
    if (s->count == 1)
        return copy_in_share(s, 0, share);
    int64_t rows = 0;
    for (int64_t i = ra_share_find(share, s->first); i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        rows += rows_between(s, range.first, range.end);
    }
    return rows;
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

/* What is being made of two sets. */
typedef struct maker {
    ra_set_operation operation;
    ra_row_set *to;
} maker;

/* Copies of `a`, all of which meet `others` intervals of b at the same places: cuts[0 .. 2 others), in order. */
static bool cut_copies(const maker *m, ra_stretch a, const int64_t *cuts, int others)
{
    int64_t at = a.first, end = a.first + a.rows;
    for (int i = 0; i < others; i++) {
        int64_t lo = ra_max(a.first, cuts[2 * i]), hi = ra_min(end, cuts[2 * i + 1]);
        if (lo >= hi)
            continue;
        ra_stretch piece = m->operation == RA_SET_BOTH ? (ra_stretch){lo, hi - lo, a.step, a.count}
                                                       : (ra_stretch){at, lo - at, a.step, a.count};
        if (!append(m->to, piece))
            return false;
        at = hi;
    }
    return m->operation == RA_SET_BOTH || append(m->to, (ra_stretch){at, end - at, a.step, a.count});
}

/* The copies first .. end - 1 of a, with copies c and c + 1 behind theirs of b, which has the same step. */
static bool cut_some(const maker *m, const ra_stretch *a, const ra_stretch *b, int64_t first, int64_t end, int64_t c)
{
    int64_t cuts[4];
    int others = 0;
    if (first >= end)
        return true;
    for (int64_t i = first + c; i <= first + c + 1; i++)
        if (i >= 0 && i < b->count) {
            cuts[2 * others] = copy_first(b, i);
            cuts[2 * others++ + 1] = copy_first(b, i) + b->rows;
        }
    return cut_copies(m, (ra_stretch){copy_first(a, first), a->rows, a->step, end - first}, cuts, others);
}

/* Both repeat at the same distance: copies of a that meet as many copies of b are cut together. */
static bool cut_alike(const maker *m, const ra_stretch *a, const ra_stretch *b)
{
    int64_t away = a->first - b->first; /* copy i of a begins in the step of copy i + c of b */
    int64_t c = away >= 0 ? away / a->step : -ra_ceil_div(-away, a->step);
    const int64_t bounds[] = {0, -c - 1, -c, b->count - c - 1, b->count - c, a->count};
    int64_t at = 0;
    for (size_t i = 1; i < sizeof bounds / sizeof *bounds; i++) {
        int64_t end = ra_max(at, ra_min(bounds[i], a->count));
        if (!cut_some(m, a, b, at, end, c))
            return false;
        at = end;
    }
    return true;
}

/* The copy of a stretch in whose step a position is, or the first. */
static int64_t copy_at(const ra_stretch *s, int64_t position)
{
    return ra_max(0, position - s->first) / s->step;
}

/* An interval that meets three copies of b at most: it has one whole step of them, or none. */
static bool cut_by_few(const maker *m, const ra_stretch *a, const ra_stretch *b)
{
    enum { FEW = 3 };
    int64_t cuts[2 * FEW];
    int others = 0;
    for (int64_t i = copy_at(b, a->first); i < b->count && copy_first(b, i) < a->first + a->rows && others < FEW; i++) {
        cuts[2 * others] = copy_first(b, i);
        cuts[2 * others++ + 1] = copy_first(b, i) + b->rows;
    }
    return cut_copies(m, *a, cuts, others);
}

/* An interval against copies of b: where it has several whole steps of them, these are copies of its own. */
static bool cut_interval(const maker *m, const ra_stretch *a, const ra_stretch *b)
{
    int64_t lo = a->first, hi = a->first + a->rows;
    int64_t met = copy_at(b, lo), end = ra_min(b->count, copy_at(b, hi));
    int64_t whole = met + (lo > copy_first(b, met)); /* the first step that it has as a whole; `end`: behind the last */
    if (end - whole <= 1)
        return cut_by_few(m, a, b);
    int64_t head = copy_first(b, whole), tail = copy_first(b, end);
    const ra_stretch before = {lo, head - lo, head - lo, 1}, inside = {head, b->step, b->step, end - whole};
    const ra_stretch after = {tail, hi - tail, hi - tail, 1};
    return (before.rows <= 0 || cut_by_few(m, &before, b)) && cut_alike(m, &inside, b) &&
           (after.rows <= 0 || cut_by_few(m, &after, b));
}

/* Copies of a stretch that begin below a position. */
static int64_t copies_below(const ra_stretch *s, int64_t position)
{
    return position <= s->first ? 0 : ra_min(s->count, (position - 1 - s->first) / s->step + 1);
}

/* Copies against an interval: before it, across its beginning, inside, across its end, behind it. */
static bool cut_by_interval(const maker *m, const ra_stretch *a, const ra_stretch *b)
{
    const int64_t cuts[2] = {b->first, b->first + b->rows};
    const int64_t bounds[] = {copies_below(a, cuts[0] - a->rows + 1), copies_below(a, cuts[0]),
                              copies_below(a, cuts[1] - a->rows + 1), copies_below(a, cuts[1]), a->count};
    enum { GROUPS = sizeof bounds / sizeof *bounds };
    int64_t at = 0;
    for (int i = 0; i < GROUPS; i++) {
        int64_t end = ra_max(at, bounds[i]);
        const ra_stretch some = {copy_first(a, at), a->rows, a->step, end - at};
        bool met = i > 0 && i < GROUPS - 1;
        if (end > at && !cut_copies(m, some, cuts, met))
            return false;
        at = end;
    }
    return true;
}

/* a with one stretch of b. */
static bool cut(const maker *m, const ra_stretch *a, const ra_stretch *b)
{
    if (b->count == 1)
        return cut_by_interval(m, a, b);
    if (a->count == 1)
        return cut_interval(m, a, b);
    if (a->step == b->step)
        return cut_alike(m, a, b);
    for (int64_t i = 0; i < a->count; i++) {
        const ra_stretch copy = {copy_first(a, i), a->rows, a->rows, 1};
        if (!cut_interval(m, &copy, b))
            return false;
    }
    return true;
}

/* The first stretch of a set that ends after a position, where they are in order; else the first. */
static int64_t find(const ra_row_set *s, int64_t position)
{
    int64_t low = 0, high = s->loose ? 0 : s->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (end_of(&s->at[middle]) > position)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Whether no stretch of b from the j-th on meets a. */
static bool past(const ra_stretch *a, const ra_row_set *b, int64_t j)
{
    return j == b->count || (!b->loose && b->at[j].first >= end_of(a));
}

static bool both(const ra_row_set *a, const ra_row_set *b, ra_row_set *to)
{
    const maker m = {RA_SET_BOTH, to};
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t j = find(b, a->at[i].first); !past(&a->at[i], b, j); j++)
            if (!cut(&m, &a->at[i], &b->at[j]))
                return false;
    return true;
}

/* Of one stretch what is left when all of b is taken away, one stretch after the other. */
static bool without(const ra_stretch *a, const ra_row_set *b, ra_row_set *to)
{
    ra_row_set left = {0}, next = {0};
    bool fits = append(&left, *a);
    for (int64_t j = find(b, a->first); fits && !past(a, b, j); j++) {
        const maker m = {RA_SET_ONLY, &next};
        for (int64_t i = 0; i < left.count && fits; i++)
            fits = cut(&m, &left.at[i], &b->at[j]);
        ra_row_set done = left;
        left = next;
        next = done;
        next.count = 0;
    }
    for (int64_t i = 0; i < left.count && fits; i++)
        fits = append(to, left.at[i]);
    ra_row_set_free(&left);
    ra_row_set_free(&next);
    return fits;
}

bool ra_row_set_combine(const ra_row_set *a, const ra_row_set *b, ra_set_operation operation, ra_row_set *to)
{
    if (a->pages.planes)
        return ra_pages_combine(&a->pages, &b->pages, operation, &to->pages);
    if (operation == RA_SET_BOTH)
        return both(a, b, to);
    for (int64_t i = 0; i < a->count; i++)
        if (!without(&a->at[i], b, to))
            return false;
    return true;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

int64_t ra_row_set_rows(const ra_row_set *s)
{
    if (s->pages.planes)
        return ra_pages_rows(&s->pages, 0, INT64_MAX);
    int64_t rows = 0;
    for (int64_t i = 0; i < s->count; i++)
        rows += s->at[i].rows * s->at[i].count;
    return rows;
}

int64_t ra_row_set_rows_in(const ra_row_set *s, const ra_share *share)
{
    if (s->pages.planes)
        return ra_row_set_rows_between(s, share, 0, INT64_MAX);
    int64_t rows = 0;
    for (int64_t i = 0; i < s->count; i++)
        rows += rows_in_share(&s->at[i], share);
    return rows;
}

int64_t ra_row_set_rows_between(const ra_row_set *s, const ra_share *share, int64_t lo, int64_t hi)
{
    int64_t rows = 0;
    for (int64_t i = ra_share_find(share, lo); i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        int64_t first = ra_max(range.first, lo), end = ra_min(range.end, hi);
        if (first >= end)
            break;
        if (s->pages.planes)
            rows += ra_pages_rows(&s->pages, first, end);
        for (int64_t j = 0; j < s->count; j++)
            rows += rows_between(&s->at[j], first, end);
    }
    return rows;
}

/* ---- Owners ------------------------------------------------------------------------------------------------------ */

/* Stripes: copies that are as far apart as the stripes have the same owners, and so does one that goes all round. */
static void visit_stripes(const ra_stretch *s, const ra_partition *p, ra_owner_visitor visit, void *user)
{
    int64_t first = s->first / RA_KEY_BLOCK, blocks = (s->first + s->rows - 1) / RA_KEY_BLOCK - first + 1;
    for (int64_t i = 0; i < ra_min(blocks, p->stripes); i++) {
        int owner = (int)((first + i) % p->stripes);
        ra_share share = ra_partition_share(p, owner);
        int64_t rows = rows_in_share(s, &share);
        if (rows)
            visit(user, owner, rows);
    }
}

static void visit_parts(const ra_stretch *s, const ra_partition *p, ra_owner_visitor visit, void *user)
{
    for (int64_t i = ra_partition_find(p, s->first); i < p->part_count && p->parts[i].first < end_of(s); i++) {
        int64_t rows = rows_between(s, p->parts[i].first, p->parts[i].end);
        if (rows)
            visit(user, p->parts[i].rank, rows);
    }
}

void ra_row_set_owners(const ra_row_set *s, const ra_partition *p, ra_owner_visitor visit, void *user)
{
    if (s->pages.planes)
        ra_pages_owners(&s->pages, p, visit, user);
    for (int64_t i = 0; i < s->count; i++) {
        const ra_stretch *at = &s->at[i];
        if (!p->stripes)
            visit_parts(at, p, visit, user);
        else if (at->count == 1 || at->step == p->stripes * RA_KEY_BLOCK)
            visit_stripes(at, p, visit, user);
        else
            for (int64_t copy = 0; copy < at->count; copy++)
                visit_stripes(&(ra_stretch){copy_first(at, copy), at->rows, at->rows, 1}, p, visit, user);
    }
}
