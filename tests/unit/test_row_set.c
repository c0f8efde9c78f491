/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of rows against one byte a position. */
#include "plan/row_set.h"
#include "shares.h"
#include "support/random.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH = 4000, RANKS_MOST = 9 };

/* A set, and the same as bytes. */
typedef struct model {
    ra_row_set set;
    uint8_t has[LENGTH];
} model;

static void fill(model *m, int64_t lo, int64_t hi)
{
    memset(m->has + lo, 1, (size_t)(hi - lo));
}

/* Stretches that begin one after the other, with the step of some stripes more often than not. */
static void choose_stretches(choices *c, model *m, int64_t period)
{
    int64_t at = 0;
    memset(m, 0, sizeof *m);
    while (at < LENGTH && !chance(c, 6)) {
        int64_t step = chance(c, 4) ? choose(c, 1, 300) : period, rows = choose(c, 1, chance(c, 4) ? 700 : 90);
        int64_t lo = at + choose(c, 0, chance(c, 3) ? 0 : 400), most = (LENGTH - lo - rows) / step + 1;
        if (lo + rows > LENGTH || most < 1)
            break;
        int64_t count = chance(c, 2) ? 1 : choose(c, 1, most);
        REQUIRE(ra_row_set_add(&m->set, lo, lo + rows, step, count), "out of memory%s", "");
        for (int64_t i = 0; i < count; i++)
            fill(m, lo + i * step, lo + i * step + rows);
        at = lo + (count - 1) * step;
    }
}

/* A rank's own rows. */
static void choose_share(choices *c, model *m, const ra_partition *p)
{
    ra_share share = ra_partition_share(p, (int)choose(c, 0, p->ranks - 1));
    memset(m, 0, sizeof *m);
    REQUIRE(ra_row_set_add_share(&m->set, &share), "out of memory%s", "");
    for (int64_t i = 0; i < share.ranges; i++)
        fill(m, ra_share_range(&share, i).first, ra_share_range(&share, i).end);
}

static void choose_pages(choices *c, model *m)
{
    int64_t fresh = 0, expected = 0;
    memset(m, 0, sizeof *m);
    REQUIRE(ra_pages_make(&m->set.pages, 1, LENGTH), "out of memory%s", "");
    for (int64_t i = choose(c, 0, 30); i > 0; i--) {
        int64_t lo = choose(c, 0, LENGTH - 1), hi = choose(c, lo + 1, chance(c, 2) ? LENGTH : lo + 1);
        REQUIRE(ra_pages_mark(&m->set.pages, 0, lo, hi, &fresh), "out of memory%s", "");
        for (int64_t at = lo; at < hi; at++)
            expected += !m->has[at];
        fill(m, lo, hi);
    }
    assert_int_equal(fresh, expected);
}

static int64_t rows_of_bytes(const uint8_t *has, const ra_share *share, int64_t lo, int64_t hi)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        for (int64_t at = range.first; at < range.end; at++)
            rows += at >= lo && at < hi && has[at];
    }
    return rows;
}

static void add_owner(void *user, int owner, int64_t rows)
{
    ((int64_t *)user)[owner] += rows;
}

/* Rows of all ranks, in both ways of counting them, and those of a window. */
static void require_rows(choices *c, const ra_row_set *set, const uint8_t *has, const ra_partition *p, uint64_t seed)
{
    int64_t by_owner[RANKS_MOST] = {0}, all = 0, lo = choose(c, 0, LENGTH), hi = choose(c, 0, LENGTH);
    ra_row_set_owners(set, p, add_owner, by_owner);
    for (int rank = 0; rank < p->ranks; rank++) {
        ra_share share = ra_partition_share(p, rank);
        int64_t rows = rows_of_bytes(has, &share, 0, LENGTH);
        REQUIRE(ra_row_set_rows_in(set, &share) == rows, "seed %llu, rank %d", (unsigned long long)seed, rank);
        REQUIRE(by_owner[rank] == rows, "seed %llu, rank %d: owners", (unsigned long long)seed, rank);
        REQUIRE(ra_row_set_rows_between(set, &share, lo, hi) == rows_of_bytes(has, &share, lo, hi),
                "seed %llu, rank %d, %lld to %lld", (unsigned long long)seed, rank, (long long)lo, (long long)hi);
        all += rows;
    }
    REQUIRE(ra_row_set_rows(set) == all, "seed %llu: all rows", (unsigned long long)seed);
}

static void sets_are_their_bytes(void **state)
{
    (void)state;
    seed_range range = seeds(3000);
    model *a = malloc(sizeof *a), *b = malloc(sizeof *b);
    assert_true(a && b);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_partition p;
        int ranks = (int)choose(&c, 1, RANKS_MOST);
        choose_partition(&c, LENGTH, ranks, &p);
        if (chance(&c, 3))
            choose_pages(&c, a), choose_pages(&c, b);
        else
            choose_stretches(&c, a, ranks * 64), choose_stretches(&c, b, ranks * 64);
        if (!b->set.pages.planes && chance(&c, 3)) {
            ra_row_set_free(&b->set);
            choose_share(&c, b, &p);
        }
        require_rows(&c, &a->set, a->has, &p, seed);
        for (int operation = RA_SET_BOTH; operation <= RA_SET_ONLY; operation++) {
            ra_row_set made = {0};
            uint8_t expected[LENGTH];
            REQUIRE(ra_row_set_combine(&a->set, &b->set, (ra_set_operation)operation, &made), "out of memory%s", "");
            for (int64_t i = 0; i < LENGTH; i++)
                expected[i] = a->has[i] && b->has[i] == (operation == RA_SET_BOTH);
            require_rows(&c, &made, expected, &p, seed);
            /* What was made takes part in the next operation, on either side. */
            ra_row_set left = {0}, right = {0};
            REQUIRE(ra_row_set_combine(&b->set, &made, RA_SET_ONLY, &right), "out of memory%s", "");
            REQUIRE(ra_row_set_combine(&made, &b->set, RA_SET_BOTH, &left), "out of memory%s", "");
            uint8_t other[LENGTH];
            for (int64_t i = 0; i < LENGTH; i++)
                other[i] = b->has[i] && !expected[i];
            require_rows(&c, &right, other, &p, seed);
            for (int64_t i = 0; i < LENGTH; i++)
                other[i] = b->has[i] && expected[i];
            require_rows(&c, &left, other, &p, seed);
            ra_row_set_free(&left);
            ra_row_set_free(&right);
            ra_row_set_free(&made);
        }
        ra_row_set_free(&a->set);
        ra_row_set_free(&b->set);
        ra_partition_clear(&p);
    }
    free(a);
    free(b);
}

/* What repeats is kept once, however long the sequence is. */
static void repetition_takes_no_room(void **state)
{
    (void)state;
    ra_row_set s = {0};
    for (int64_t i = 0; i < 3; i++)
        assert_true(ra_row_set_add(&s, i * 1000000, i * 1000000 + 100, 1000, 900));
    assert_int_equal(s.count, 3);
    assert_int_equal(ra_row_set_rows(&s), 3 * 900 * 100);
    ra_row_set_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_their_bytes),
        cmocka_unit_test(repetition_takes_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
