/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How queries are put into groups that are worked side by side in the lanes of vectors. Groups of a share are queries
 * at consecutive positions. Groups of a branch are consecutive members of its lattice among the queries of some
 * groups of the share.
 */
#ifndef RA_PLAN_GROUPS_H
#define RA_PLAN_GROUPS_H

#include "plan/partition.h"
#include "plan/pattern.h"

typedef struct ra_grouping {
    int lanes;
    int narrow;     /* lanes of a group that has no more rows than that */
    int64_t offset; /* position of query 0 */
    int64_t cut;    /* > 0: no group has queries on both sides of a multiple of it, */
    int64_t origin; /* counted from query -origin on: the offset for positions, 0 for queries */
} ra_grouping;

/* The lanes that are worked for a group of `rows` rows. */
static inline int ra_lanes_worked(const ra_grouping *g, int rows)
{
    return rows <= g->narrow ? g->narrow : g->lanes;
}

/* A group: queries at consecutive positions, no more than there are lanes. */
typedef struct ra_group {
    int64_t query; /* the first one: its index in the sequence */
    int64_t row;   /* its row in the share */
    int rows;
} ra_group;

/* Groups of the queries first <= i < end, which are one range. */
int64_t ra_group_count_range(const ra_grouping *grouping, int64_t first, int64_t end);

/* Groups of a share of queries: none goes across two ranges. */
int64_t ra_group_count(const ra_share *queries, const ra_grouping *grouping);

/* The group with a number. */
ra_group ra_group_at(const ra_share *queries, const ra_grouping *grouping, int64_t number);

/* Members member .. member + rows - 1 of a lattice. The query at index `query` is row `row` of the share, and so on. */
typedef struct ra_members {
    int64_t member;
    int rows;
    int64_t query, row;
} ra_members;

/* Groups of a branch among the queries of groups first .. first + count - 1 of a share, never more than those. */
typedef struct ra_members_walk {
    const ra_share *queries;
    const ra_grouping *grouping;
    ra_lattice lattice;
    int64_t next, end;           /* groups of the share still to come */
    int64_t member, last_member; /* members among the current queries that are still to come */
    int64_t query, row;          /* the first of the current queries */
} ra_members_walk;

ra_members_walk ra_members_begin(const ra_share *queries, const ra_grouping *grouping, ra_lattice lattice,
                                 int64_t first, int64_t count);
bool ra_members_next(ra_members_walk *walk, ra_members *members);

/* The row of the share that the i-th member is. */
static inline int64_t ra_member_row(const ra_members *m, const ra_lattice *l, int64_t offset, int i)
{
    return m->row + ra_lattice_position(l, m->member + i) - offset - m->query;
}

#endif
