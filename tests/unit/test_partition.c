/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds which rows: against a list with one entry for each row. */
#include "base/blocking.h"
#include "plan/groups.h"
#include "shares.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LENGTH = 10007, MOST_RANKS = 64, MOST_PIECES = 40, ORDERS = 3 };

static const int64_t lengths[] = {1, 2, 31, 63, 64, 65, 127, 128, 257, 1000, 4096, MOST_LENGTH};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* A partition, and the same row by row. */
typedef struct split {
    char text[128]; /* for messages */
    int64_t length;
    int ranks;
    ra_partition partition;
    int owner[MOST_LENGTH];
    int64_t row[MOST_LENGTH]; /* in its rank's share */
    int64_t cut;              /* where a rank's rows are two ranges although they lie together; -1: nowhere */
} split;

#define SPLIT_REQUIRE(s, condition)                                                                                    \
    REQUIRE(condition, "%s, %lld rows, %d ranks: not %s", (s)->text, (long long)(s)->length, (s)->ranks, #condition)

static int64_t blocks_between(int64_t first, int64_t end)
{
    return (end + RA_KEY_BLOCK - 1) / RA_KEY_BLOCK - first / RA_KEY_BLOCK;
}

/* The list says who has each row; which of its rank's rows it is follows. */
static void number_rows(split *s)
{
    int64_t rows[MOST_RANKS] = {0};
    for (int64_t at = 0; at < s->length; at++) {
        SPLIT_REQUIRE(s, s->owner[at] >= 0 && s->owner[at] < s->ranks);
        s->row[at] = rows[s->owner[at]]++;
    }
}

/* ---- Against the list -------------------------------------------------------------------------------------------- */

/* The share's ranges are the longest runs of the rank's rows, in order, with the right figures. */
static void require_ranges(const split *s, int rank, const ra_share *share)
{
    int64_t range = 0, rows = 0, blocks = 0;
    for (int64_t at = 0, end; at < s->length; at = end) {
        for (end = at + 1; end < s->length && s->owner[end] == s->owner[at] && end != s->cut; end++) {
        }
        if (s->owner[at] != rank)
            continue;
        SPLIT_REQUIRE(s, range < share->ranges);
        ra_range r = ra_share_range(share, range++);
        SPLIT_REQUIRE(s, r.first == at && r.end == end && r.row == rows && r.block == blocks);
        rows += end - at;
        blocks += blocks_between(at, end);
    }
    SPLIT_REQUIRE(s, share->ranges == range && share->rows == rows && share->blocks == blocks);
}

/* What is asked about a position of a share. */
static void require_position(const split *s, int rank, const ra_share *share, int64_t at)
{
    int64_t below = 0, range = 0;
    for (; range < share->ranges && ra_share_range(share, range).end <= at; range++)
        below += ra_share_range(share, range).end - ra_share_range(share, range).first;
    SPLIT_REQUIRE(s, ra_share_find(share, at) == range);
    if (range < share->ranges && ra_share_range(share, range).first < at)
        below += at - ra_share_range(share, range).first;
    SPLIT_REQUIRE(s, ra_share_rows_below(share, at) == below);
    SPLIT_REQUIRE(s, at < 0 || at >= s->length || s->owner[at] != rank || s->row[at] == below);
}

static void require_positions(const split *s, int rank, const ra_share *share)
{
    int64_t step = 1 + s->length * s->ranks / 2000;
    for (int64_t at = -1; at <= s->length + 1; at += step)
        require_position(s, rank, share, at);
    for (int64_t i = 0; i < share->ranges; i += 1 + share->ranges / 8) {
        ra_range range = ra_share_range(share, i);
        require_position(s, rank, share, range.first - 1);
        require_position(s, rank, share, range.first);
        require_position(s, rank, share, range.end - 1);
        require_position(s, rank, share, range.end);
    }
    require_position(s, rank, share, INT64_MAX);
}

static void require_owners(const split *s)
{
    for (int64_t at = 0; at < s->length; at++) {
        ra_owned part = ra_partition_owner(&s->partition, at);
        SPLIT_REQUIRE(s, part.rank == s->owner[at] && part.first <= at && at < part.end && part.end <= s->length);
        SPLIT_REQUIRE(s, part.row + at - part.first == s->row[at]);
        SPLIT_REQUIRE(s, s->owner[part.first] == part.rank && s->owner[part.end - 1] == part.rank);
        SPLIT_REQUIRE(s, part.first == 0 || part.first == s->cut || s->owner[part.first - 1] != part.rank);
        SPLIT_REQUIRE(s, part.end == s->length || part.end == s->cut || s->owner[part.end] != part.rank);
    }
}

/*
 * Groups: each of the share's rows once, in order, none across two ranges or a cut, none shorter than need be. Cuts are
 * between positions, which begin at an offset.
 */
static void require_groups(const split *s, int rank, const ra_share *share, const ra_grouping *grouping)
{
    int lanes = grouping->lanes;
    int64_t groups = ra_group_count(share, grouping), row = 0;
    bool was_whole = true;
    for (int64_t i = 0; i < groups; i++) {
        ra_group g = ra_group_at(share, grouping, i);
        int64_t last = g.query + g.rows - 1;
        SPLIT_REQUIRE(s, g.rows >= 1 && g.rows <= lanes && g.row == row && last < s->length);
        SPLIT_REQUIRE(s, s->owner[g.query] == rank && s->row[g.query] == row);
        SPLIT_REQUIRE(s, s->owner[last] == rank && s->row[last] == row + g.rows - 1);
        bool at_cut = grouping->cut && (last + 1 + grouping->origin) % grouping->cut == 0;
        bool ends = at_cut || last + 1 == s->length || last + 1 == s->cut || s->owner[last + 1] != rank;
        bool narrow = grouping->cut && g.rows == grouping->narrow;
        SPLIT_REQUIRE(s, g.rows == lanes || narrow || ends);
        /* Narrow ones come last, and no lanes are left that a narrow group more would spare. */
        SPLIT_REQUIRE(s, was_whole || g.rows <= grouping->narrow);
        was_whole = ends || g.rows > grouping->narrow;
        int worked = g.rows <= grouping->narrow ? grouping->narrow : lanes;
        int spared = lanes - grouping->narrow; /* by a narrow group */
        SPLIT_REQUIRE(s, !grouping->cut || !ends || !spared || worked < lanes || worked - g.rows < spared);
        for (int64_t at = g.query; grouping->cut && at < last; at++)
            SPLIT_REQUIRE(s, (at + 1 + grouping->origin) % grouping->cut != 0);
        row += g.rows;
    }
    SPLIT_REQUIRE(s, row == share->rows);
}

/* Without cuts, and cut where blocks of several sizes end; striped shares have no cuts. */
static void require_groupings(const split *s, int rank, const ra_share *share, int lanes)
{
    static const int64_t cuts[] = {1, 8, 33, 64, 100, 4000}, offsets[] = {0, 5, -70, 1000};
    ra_grouping plain = {lanes, lanes - lanes / 3, 0, 0, 0};
    require_groups(s, rank, share, &plain);
    int turn = (int)((s->length + lanes + rank) % 24);
    ra_grouping cut = {lanes, turn % 3 ? lanes - lanes / 3 : lanes, offsets[turn % 4], cuts[turn / 4],
                       offsets[turn % 4]};
    if (!share->step)
        require_groups(s, rank, share, &cut);
}

static void require_split(const split *s)
{
    static const int lanes[] = {1, 7, 8, 16, 24, 32, 64};
    int64_t rows = 0;
    require_owners(s);
    for (int rank = 0; rank < s->ranks; rank++) {
        ra_share share = ra_partition_share(&s->partition, rank);
        require_ranges(s, rank, &share);
        require_positions(s, rank, &share);
        for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
            if (i == 0 || (s->length + s->ranks + rank) % 7 == (int64_t)i || s->length < 300)
                require_groupings(s, rank, &share, lanes[i]);
        rows += share.rows;
    }
    SPLIT_REQUIRE(s, rows == s->length);
}

/* ---- Orders ------------------------------------------------------------------------------------------------------ */

/* Parts follow each other, are cut at blocks, and differ by a block at most. */
static void even_parts(void **state)
{
    (void)state;
    for (int i = 0; i < LENGTHS; i++)
        for (int64_t parts = 1; parts <= 2 * MOST_RANKS; parts++) {
            int64_t at = 0, least = INT64_MAX, most = 0;
            for (int64_t part = 0; part < parts; part++) {
                ra_piece p = ra_even_part(lengths[i], parts, part);
                int64_t blocks = p.first < p.end ? blocks_between(p.first, p.end) : 0;
                REQUIRE(p.first == at && p.end >= at && (p.end % RA_KEY_BLOCK == 0 || p.end == lengths[i]),
                        "part %lld of %lld of %lld: [%lld, %lld)", (long long)part, (long long)parts,
                        (long long)lengths[i], (long long)p.first, (long long)p.end);
                REQUIRE(p.rank == part, "part %lld has the number %d", (long long)part, p.rank);
                at = p.end;
                least = blocks < least ? blocks : least;
                most = blocks > most ? blocks : most;
            }
            REQUIRE(at == lengths[i] && most - least <= 1, "%lld parts of %lld: up to %lld, %lld to %lld blocks",
                    (long long)parts, (long long)lengths[i], (long long)at, (long long)least, (long long)most);
        }
    int64_t large = INT64_C(1) << 62; /* far beyond what a problem may have */
    ra_piece p = ra_even_part(large, 3, 2);
    assert_true(p.end == large && p.first % RA_KEY_BLOCK == 0 && p.first > large / 3 * 2 - 2 * RA_KEY_BLOCK);
}

/* The definitions of the orders, over the 64-position blocks of the sequence. */
static int owner_by_order(int64_t length, int ranks, ra_order order, int64_t at)
{
    if (order == RA_ORDER_STRIPED)
        return (int)(at / RA_KEY_BLOCK % ranks);
    int parts = order == RA_ORDER_ZIGZAG ? 2 * ranks : ranks, part = 0;
    while (ra_even_part(length, parts, part).end <= at)
        part++;
    return part < ranks ? part : 2 * ranks - 1 - part;
}

/* Blocks of 64 positions are whole, and everybody has as many as the others, or one more. */
static void require_balance(const split *s)
{
    int64_t blocks[MOST_RANKS] = {0}, all = blocks_between(0, s->length), least = INT64_MAX, most = 0, empty = 0;
    for (int64_t at = 0; at < s->length; at++) {
        SPLIT_REQUIRE(s, s->owner[at] == s->owner[at / RA_KEY_BLOCK * RA_KEY_BLOCK]);
        blocks[s->owner[at]] += at % RA_KEY_BLOCK == 0;
    }
    for (int rank = 0; rank < s->ranks; rank++) {
        least = blocks[rank] < least ? blocks[rank] : least;
        most = blocks[rank] > most ? blocks[rank] : most;
        empty += ra_partition_share(&s->partition, rank).rows == 0;
    }
    SPLIT_REQUIRE(s, most - least <= 1);
    SPLIT_REQUIRE(s, empty == (all < s->ranks ? s->ranks - all : 0));
}

static void orders_against_their_definitions(void **state)
{
    (void)state;
    split *s = malloc(sizeof *s);
    assert_non_null(s);
    for (int order = 0; order < ORDERS; order++)
        for (int i = 0; i < LENGTHS; i++)
            for (s->ranks = 1; s->ranks <= MOST_RANKS; s->ranks++) {
                snprintf(s->text, sizeof s->text, "%s", ra_order_name((ra_order)order));
                s->length = lengths[i];
                s->cut = order == RA_ORDER_ZIGZAG ? ra_even_part(s->length, 2 * s->ranks, s->ranks).first : -1;
                ra_status status =
                    ra_partition_make(&s->partition, "key", s->length, s->ranks, (ra_order)order, NULL, 0);
                SPLIT_REQUIRE(s, status == RA_OK);
                for (int64_t at = 0; at < s->length; at++)
                    s->owner[at] =
                        at % RA_KEY_BLOCK ? s->owner[at - 1] : owner_by_order(s->length, s->ranks, (ra_order)order, at);
                number_rows(s);
                require_split(s);
                require_balance(s);
                ra_partition_clear(&s->partition);
            }
    free(s);
}

/* ---- Pieces of the caller's own ---------------------------------------------------------------------------------- */

static void any_pieces(void **state)
{
    (void)state;
    split *s = malloc(sizeof *s);
    assert_non_null(s);
    seed_range range = seeds(400);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_piece pieces[MOST_PIECES];
        s->cut = -1;
        snprintf(s->text, sizeof s->text, "seed %llu", (unsigned long long)seed);
        s->ranks = (int)choose(&c, 1, chance(&c, 4) ? MOST_RANKS : 6);
        s->length = chance(&c, 2) ? lengths[choose(&c, 0, LENGTHS - 3)] : choose(&c, 1, 700);
        int64_t count = choose_pieces(&c, s->length, s->ranks, pieces, choose(&c, 1, MOST_PIECES));
        ra_order order = (ra_order)choose(&c, 0, 2); /* of no account */
        SPLIT_REQUIRE(s, !ra_partition_make(&s->partition, "key", s->length, s->ranks, order, pieces, count));
        for (int64_t i = 0; i < count; i++)
            for (int64_t at = pieces[i].first; at < pieces[i].end; at++)
                s->owner[at] = pieces[i].rank;
        memset(pieces, -1, sizeof pieces); /* they were copied */
        number_rows(s);
        require_split(s);
        ra_partition_clear(&s->partition);
    }
    free(s);
}

static void bad_pieces_are_refused_with_their_values(void **state)
{
    (void)state;
    static const struct {
        ra_piece pieces[3];
        int64_t count;
        const char *message;
    } cases[] = {
        {{{0, 40, 0}, {41, 100, 1}}, 2, "key pieces: piece 1 is rows [41, 100): must begin at 40 and end by 100"},
        {{{0, 40, 0}, {39, 100, 1}}, 2, "key pieces: piece 1 is rows [39, 100): must begin at 40 and end by 100"},
        {{{0, 40, 0}, {40, 101, 1}}, 2, "key pieces: piece 1 is rows [40, 101): must begin at 40 and end by 100"},
        {{{1, 100, 0}}, 1, "key pieces: piece 0 is rows [1, 100): must begin at 0 and end by 100"},
        {{{0, 40, 0}, {40, 30, 1}, {30, 100, 1}},
         3,
         "key pieces: piece 1 is rows [40, 30): must begin at 40 and end by 100"},
        {{{-5, 100, 0}}, 1, "key pieces: piece 0 is rows [-5, 100): must begin at 0 and end by 100"},
        {{{0, 100, 0}, {100, 100, 3}}, 2, "key pieces: piece 1 is on rank 3: must be 0..2"},
        {{{0, 100, -1}}, 1, "key pieces: piece 0 is on rank -1: must be 0..2"},
        {{{0, 40, 0}, {40, 99, 1}}, 2, "key pieces: they end at row 99 of 100"},
        {{{0, 100, 0}}, 0, "key pieces: they end at row 0 of 100"},
        {{{0, 100, 0}}, -1, "key pieces: they end at row 0 of 100"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ra_partition partition;
        assert_int_equal(
            ra_partition_make(&partition, "key", 100, 3, RA_ORDER_STRIPED, cases[i].pieces, cases[i].count),
            RA_ERROR_ARGUMENT);
        assert_string_equal(ra_last_message(), cases[i].message);
        ra_partition_clear(&partition);
    }
}

/* A share of one range, wherever it begins. */
static void single_ranges(void **state)
{
    (void)state;
    for (int64_t first = 0; first < 140; first++)
        for (int64_t end = 0; end < 300; end++) {
            ra_share share = ra_share_of_range(first, end);
            if (end <= first) {
                assert_true(share.rows == 0 && share.ranges == 0 && share.blocks == 0);
                assert_true(ra_share_find(&share, 0) == 0 && ra_share_rows_below(&share, 100) == 0);
                assert_true(ra_group_count(&share, &(ra_grouping){8, 8, 0, 0, 0}) == 0);
                continue;
            }
            ra_range range = ra_share_range(&share, 0);
            assert_true(share.rows == end - first && share.ranges == 1 && share.blocks == blocks_between(first, end));
            assert_true(range.first == first && range.end == end && range.row == 0 && range.block == 0);
            assert_true(ra_share_find(&share, end - 1) == 0 && ra_share_find(&share, end) == 1);
            assert_true(ra_share_rows_below(&share, first) == 0 && ra_share_rows_below(&share, end) == end - first);
            assert_true(ra_share_rows_below(&share, first + 1) == 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_parts),    cmocka_unit_test(orders_against_their_definitions),
        cmocka_unit_test(any_pieces),    cmocka_unit_test(bad_pieces_are_refused_with_their_values),
        cmocka_unit_test(single_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
