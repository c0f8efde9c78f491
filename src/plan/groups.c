/* SPDX-License-Identifier: Apache-2.0 */
/* Divides the queries of a share, or of a branch, into groups. What a group sees: tiles.c. See groups.h. */
#include "plan/groups.h"

#include "base/blocking.h"
#include "base/checked.h"

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/*
 * Groups of a piece of queries that lie together. If a piece is cut to fit, its last groups are narrow if that
 * leaves fewer lanes without a row.
 */
typedef struct piece {
    int64_t whole, narrow; /* groups */
} piece;

static piece piece_of(const ra_grouping *g, int64_t rows)
{
    piece p = {ra_ceil_div(rows, g->lanes), 0};
    if (g->cut && g->narrow < g->lanes)
        p.narrow = ra_min(p.whole, (p.whole * g->lanes - rows) / (g->lanes - g->narrow));
    p.whole -= p.narrow;
    return p;
}

static int64_t groups_of(const ra_grouping *g, int64_t rows)
{
    piece p = piece_of(g, rows);
    return p.whole + p.narrow;
}

int64_t ra_group_count_range(const ra_grouping *g, int64_t first, int64_t end)
{
    if (!g->cut)
        return groups_of(g, end - first);
    int64_t a = first + g->origin, b = end + g->origin;
    int64_t head = floor_div(a, g->cut), tail = floor_div(b - 1, g->cut);
    if (head == tail)
        return groups_of(g, end - first);
    return groups_of(g, (head + 1) * g->cut - a) + (tail - head - 1) * groups_of(g, g->cut) +
           groups_of(g, b - tail * g->cut);
}

/* Where the number-th group of such a range begins, and how many queries it has. */
static int64_t group_of_range(const ra_grouping *g, int64_t first, int64_t end, int64_t number, int *rows)
{
    int64_t piece_end = end;
    if (g->cut) {
        int64_t next = (floor_div(first + g->origin, g->cut) + 1) * g->cut - g->origin;
        int64_t head = groups_of(g, ra_min(next, end) - first), each = groups_of(g, g->cut);
        if (number >= head) {
            number -= head;
            first = next + number / each * g->cut;
            number %= each;
            next = first + g->cut;
        }
        piece_end = ra_min(next, end);
    }
    piece p = piece_of(g, piece_end - first);
    int64_t size = number < p.whole ? g->lanes : g->narrow;
    first += ra_min(number, p.whole) * g->lanes + ra_max(0, number - p.whole) * g->narrow;
    *rows = (int)ra_min(size, piece_end - first);
    return first;
}

int64_t ra_group_count(const ra_share *queries, const ra_grouping *g)
{
    if (queries->step) { /* all ranges are whole blocks but the last */
        int64_t last = queries->rows - (queries->ranges - 1) * RA_KEY_BLOCK;
        return (queries->ranges - 1) * ra_ceil_div(RA_KEY_BLOCK, g->lanes) + ra_ceil_div(last, g->lanes);
    }
    int64_t groups = 0;
    for (int64_t i = 0; i < queries->ranges; i++) {
        ra_range range = ra_share_range(queries, i);
        groups += ra_group_count_range(g, range.first, range.end);
    }
    return groups;
}

ra_group ra_group_at(const ra_share *queries, const ra_grouping *g, int64_t number)
{
    int64_t i = 0;
    if (queries->step) {
        int64_t each = ra_ceil_div(RA_KEY_BLOCK, g->lanes);
        i = ra_min(number / each, queries->ranges - 1);
        number -= i * each;
    }
    ra_range range = ra_share_range(queries, i);
    int64_t groups;
    while (number >= (groups = ra_group_count_range(g, range.first, range.end))) {
        number -= groups;
        range = ra_share_range(queries, ++i);
    }
    ra_group group;
    group.query = group_of_range(g, range.first, range.end, number, &group.rows);
    group.row = range.row + group.query - range.first;
    return group;
}

/* ---- Branches ---------------------------------------------------------------------------------------------------- */

ra_members_walk ra_members_begin(const ra_share *queries, const ra_grouping *grouping, ra_lattice lattice,
                                 int64_t first, int64_t count)
{
    return (ra_members_walk){queries, grouping, lattice, first, first + count, 0, 0, 0, 0};
}

/* The members of the queries that lie together from the next group on. */
static void next_queries(ra_members_walk *w)
{
    ra_group group = ra_group_at(w->queries, w->grouping, w->next++);
    int64_t end = group.query + group.rows;
    w->query = group.query;
    w->row = group.row;
    /* A plain lattice has the groups of the share themselves. */
    while (!ra_lattice_plain(&w->lattice) && w->next < w->end) {
        group = ra_group_at(w->queries, w->grouping, w->next);
        if (group.query != end)
            break;
        end += group.rows;
        w->next++;
    }
    ra_interval members = ra_branch_members(&w->lattice, w->query + w->grouping->offset, end + w->grouping->offset);
    w->member = members.lo;
    w->last_member = members.hi;
}

bool ra_members_next(ra_members_walk *w, ra_members *m)
{
    while (w->member >= w->last_member) {
        if (w->next >= w->end)
            return false;
        next_queries(w);
    }
    *m = (ra_members){w->member, (int)ra_min(w->grouping->lanes, w->last_member - w->member), w->query, w->row};
    w->member += m->rows;
    return true;
}
