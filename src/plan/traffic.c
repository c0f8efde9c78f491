/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels, rank by rank: the rows that a rank reads and does not hold are a set of rows, and who gives them
 * follows from that set, the one of the rank before it, and who holds what. A rank at a time is looked at, so that
 * nothing here grows with the square of the ranks but the sums.
 */
#include "plan/traffic.h"

#include "base/checked.h"
#include "plan/batch.h"

#include <stdlib.h>
#include <string.h>

typedef struct counter {
    const ra_traffic_question *of;
    ra_traffic *traffic;
    ra_row_set reads[2]; /* rows of others that a rank reads, and that the rank before it reads */
    int rank[2];         /* those two ranks; -1: none */
    bool whole[2];       /* `reads` has all rows, not only those of ranks that are counted */
    ra_interval counted; /* the rows of counted ranks lie in this interval */
    int64_t *met;        /* [ranks]: the last turn in which a rank was met as an owner of rows */
    int64_t turn;        /* the turn now: one for each search for owners */
    int *owners;         /* [ranks]: the ranks that were met in this turn */
    int owner_count;
    int64_t *rows; /* [ranks]: how many of the rows each of them owns */
} counter;

static bool counted(const counter *c, int rank)
{
    return rank >= c->of->first && rank < c->of->end;
}

/* Where a rank's figures go; those of ranks that are not asked for go nowhere. */
static ra_traffic *figures_of(const counter *c, int rank)
{
    return counted(c, rank) ? &c->traffic[rank - c->of->first] : NULL;
}

/* Who holds the rows that travel, and who holds those that stay. */
static const ra_partition *moving(const ra_traffic_question *q)
{
    return q->moving == RA_SIDE_KEYS ? q->keys : q->queries;
}

static const ra_partition *staying(const ra_traffic_question *q)
{
    return q->moving == RA_SIDE_KEYS ? q->queries : q->keys;
}

static ra_share own_of(const counter *c, int rank)
{
    return ra_partition_share(moving(c->of), rank);
}

/* Rows outside of which the rows first <= i < end that stay need none. */
static ra_interval hull_of_rows(const ra_traffic_question *q, int64_t first, int64_t end)
{
    return q->moving == RA_SIDE_KEYS ? ra_plan_hull(q->plan, first, end) : ra_plan_seers_hull(q->plan, first, end);
}

/* Whether a rank can read rows of a rank that is counted, by the ends of what it needs. */
static bool reads_counted(const counter *c, int rank)
{
    ra_share stay = ra_partition_share(staying(c->of), rank);
    if (stay.rows == 0)
        return false;
    int64_t first = ra_share_range(&stay, 0).first, end = ra_share_range(&stay, stay.ranges - 1).end;
    ra_interval seen = hull_of_rows(c->of, first, end);
    for (int owner = c->of->first; owner < c->of->end; owner++) {
        ra_share own = own_of(c, owner);
        if (ra_share_rows_between(&own, seen.lo, seen.hi))
            return true;
    }
    return false;
}

/* All ranks, or those that matter to the ones that are asked for. */
static bool matters(const counter *c, int rank, int before)
{
    return c->of->end - c->of->first == c->of->keys->ranks || counted(c, rank) || counted(c, before) ||
           reads_counted(c, rank) || (c->of->sums && reads_counted(c, before));
}

/* Have what a rank reads at hand, in reads[which]; all of it, or what it reads of ranks that are counted. */
static bool turn_to(counter *c, int which, int rank, bool whole)
{
    if (c->rank[!which] == rank) { /* a rank becomes the one before the next */
        const counter old = *c;
        for (int i = 0; i < 2; i++) {
            c->reads[i] = old.reads[!i];
            c->rank[i] = old.rank[!i];
            c->whole[i] = old.whole[!i];
        }
    }
    if (c->rank[which] == rank && (c->whole[which] || !whole))
        return true;
    ra_share stay = ra_partition_share(staying(c->of), rank), own = own_of(c, rank);
    const ra_interval all = {0, moving(c->of)->length};
    ra_row_set_free(&c->reads[which]);
    c->rank[which] = -1;
    if (!ra_reach_find(&c->reads[which], c->of->plan, c->of->moving, c->of->planes, &stay, &own,
                       whole ? all : c->counted))
        return false;
    c->rank[which] = rank;
    c->whole[which] = whole;
    return true;
}

static void meet(void *user, int owner, int64_t rows)
{
    counter *c = user;
    if (c->met[owner] != c->turn) {
        c->met[owner] = c->turn;
        c->rows[owner] = 0;
        c->owners[c->owner_count++] = owner;
    }
    c->rows[owner] += rows;
}

/* Find the ranks, or parts, of a partition that some rows are of. */
static void find_owners(counter *c, const ra_row_set *rows, const ra_partition *partition)
{
    c->turn++;
    c->owner_count = 0;
    ra_row_set_owners(rows, partition, meet, c);
}

/* What a rank receives: from how many ranks, or in how many parts, and how many rows. */
static void take(counter *c, const ra_row_set *rows, const ra_partition *partition, ra_traffic *t)
{
    find_owners(c, rows, partition);
    t->rows_received += ra_row_set_rows(rows);
    t->hops += c->owner_count;
    for (int i = 0; i < c->owner_count; i++)
        t->rows_most = ra_max(t->rows_most, c->rows[c->owners[i]]);
}

/* Owners give a rank the rows that the rank before it does not read, each in one phase. */
static void give(counter *c, const ra_row_set *rows, int rank, int before)
{
    find_owners(c, rows, moving(c->of));
    for (int i = 0; i < c->owner_count; i++) {
        int owner = c->owners[i];
        ra_traffic *t = figures_of(c, owner);
        if (!t || owner == rank || owner == before)
            continue;
        t->rows_sent += c->rows[owner];
        t->rows_again = ra_max(t->rows_again, c->rows[owner]);
    }
}

static void give_home(void *user, int owner, int64_t rows)
{
    ra_traffic *t = figures_of(user, owner);
    if (t)
        t->sums_received += rows;
}

/* The sums of rows that a rank reads, and the next one does not, go back to their owners. */
static bool count_home(counter *c, const ra_row_set *reads, const ra_row_set *next, int rank)
{
    ra_row_set only = {0};
    ra_traffic *t = figures_of(c, rank);
    bool fits = ra_row_set_combine(reads, next, RA_SET_ONLY, &only);
    if (fits)
        ra_row_set_owners(&only, moving(c->of), give_home, c);
    if (fits && t)
        t->sums_sent += ra_row_set_rows(&only);
    ra_row_set_free(&only);
    return fits;
}

/*
 * What a rank reads of a chunk comes from the rank before it, as far as that one reads it too or owns it, and else from
 * the owner.
 */
static bool count_ring_rank(counter *c, int rank, int before)
{
    const ra_row_set *mine = &c->reads[0], *theirs = &c->reads[1];
    ra_traffic *t = figures_of(c, rank), *from = figures_of(c, before);
    ra_share chunk = own_of(c, before);
    ra_row_set both = {0}, only = {0};
    bool fits =
        ra_row_set_combine(mine, theirs, RA_SET_BOTH, &both) && ra_row_set_combine(mine, theirs, RA_SET_ONLY, &only);
    if (fits && t)
        take(c, mine, moving(c->of), t);
    if (fits && from)
        from->rows_sent += ra_row_set_rows(&both) + ra_row_set_rows_in(mine, &chunk);
    if (fits)
        give(c, &only, rank, before);
    ra_row_set_free(&both);
    ra_row_set_free(&only);
    return fits && (!c->of->sums || count_home(c, theirs, mine, before));
}

/* Where a row goes, its sum goes along. */
static void count_along(counter *c)
{
    for (int rank = c->of->first; rank < c->of->end && c->of->sums; rank++) {
        ra_traffic *t = figures_of(c, rank);
        t->sums_sent += t->rows_sent;
        t->sums_received += t->rows_received;
    }
}

static bool count_ring(counter *c)
{
    int ranks = c->of->keys->ranks;
    for (int rank = 0; rank < ranks && ranks > 1; rank++) {
        int before = rank ? rank - 1 : ranks - 1;
        if (!matters(c, rank, before))
            continue;
        bool whole = counted(c, rank) || counted(c, before);
        if (!turn_to(c, 1, before, whole) || !turn_to(c, 0, rank, whole) || !count_ring_rank(c, rank, before))
            return false;
    }
    count_along(c);
    return true;
}

static void give_directly(void *user, int owner, int64_t rows)
{
    ra_traffic *t = figures_of(user, owner);
    if (t)
        t->rows_sent += rows;
}

/* Every owner gives its rows of each part of the sequence to everyone who reads them. */
static bool count_broadcast(counter *c)
{
    const ra_partition *rows = moving(c->of);
    ra_partition parts;
    bool fits = !ra_partition_make(&parts, "row", rows->length, rows->ranks, RA_ORDER_CONTIGUOUS, NULL, 0);
    for (int rank = 0; rank < rows->ranks && fits; rank++) {
        ra_traffic *t = figures_of(c, rank);
        if (!matters(c, rank, rank))
            continue;
        fits = turn_to(c, 0, rank, t != NULL);
        if (fits && t)
            take(c, &c->reads[0], &parts, t);
        if (fits)
            ra_row_set_owners(&c->reads[0], rows, give_directly, c);
    }
    ra_partition_clear(&parts);
    return fits;
}

/* Between which the rows of the ranks that are counted are. */
static ra_interval hull_of(const ra_traffic_question *question)
{
    ra_interval hull = {INT64_MAX, 0};
    for (int rank = question->first; rank < question->end; rank++) {
        ra_share own = ra_partition_share(moving(question), rank);
        if (own.rows == 0)
            continue;
        hull.lo = ra_min(hull.lo, ra_share_range(&own, 0).first);
        hull.hi = ra_max(hull.hi, ra_share_range(&own, own.ranges - 1).end);
    }
    return hull.lo < hull.hi ? hull : (ra_interval){0, 0};
}

/* Count with the memory that it takes. */
static ra_status count(const ra_traffic_question *question, bool (*way)(counter *), ra_traffic *traffic)
{
    counter c = {.of = question, .traffic = traffic, .rank = {-1, -1}, .counted = hull_of(question)};
    memset(traffic, 0, (size_t)(question->end - question->first) * sizeof *traffic);
    size_t ranks = (size_t)question->keys->ranks;
    c.met = calloc(ranks, sizeof *c.met);
    c.owners = calloc(ranks, sizeof *c.owners);
    c.rows = calloc(ranks, sizeof *c.rows);
    bool fits = c.met && c.owners && c.rows && way(&c);
    ra_row_set_free(&c.reads[0]);
    ra_row_set_free(&c.reads[1]);
    free(c.met);
    free(c.owners);
    free(c.rows);
    return fits ? RA_OK
                : ra_fail(RA_ERROR_MEMORY, "out of memory: counting the traffic of %d ranks", question->keys->ranks);
}

ra_status ra_traffic_ring(const ra_traffic_question *question, ra_traffic *traffic)
{
    return count(question, count_ring, traffic);
}

ra_status ra_traffic_broadcast(const ra_traffic_question *question, ra_traffic *traffic)
{
    return count(question, count_broadcast, traffic);
}

/* The sums of the rows that a rank needs go to their owners: the way back of what broadcast would give it. */
static ra_status count_gathered(const ra_traffic_question *question, ra_traffic *traffic)
{
    ra_status status = RA_OK;
    memset(traffic, 0, (size_t)(question->end - question->first) * sizeof *traffic);
    if (question->sums)
        status = count(question, count_broadcast, traffic);
    for (int i = 0; i < question->end - question->first; i++)
        traffic[i] = (ra_traffic){.sums_sent = traffic[i].rows_received, .sums_received = traffic[i].rows_sent};
    return status;
}

/* Everybody's rows to everybody. */
ra_status ra_traffic_allgather(const ra_traffic_question *question, ra_traffic *traffic)
{
    const ra_partition *rows = moving(question);
    int64_t owners = 0;
    ra_status status = count_gathered(question, traffic);
    for (int rank = 0; rank < rows->ranks; rank++)
        owners += ra_partition_share(rows, rank).rows > 0;
    for (int rank = question->first; rank < question->end; rank++) {
        int64_t own = ra_partition_share(rows, rank).rows;
        ra_traffic *t = &traffic[rank - question->first];
        t->hops = owners - (own > 0);
        t->rows_sent = question->planes * own * (rows->ranks - 1);
        t->rows_received = t->rows_most = question->planes * (rows->length - own);
    }
    return status;
}
