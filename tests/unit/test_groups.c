/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of branches: the queries of some groups of a share that a lattice has, each once, side by side. */
#include "plan/groups.h"
#include "shares.h"
#include "support/random.h"
#include "support/unit.h"

enum { MOST_LENGTH = 600, MOST_RANKS = 7 };

/* A part of a share, in groups, and a lattice. */
typedef struct scene {
    uint64_t seed; /* for messages */
    ra_partition partition;
    ra_share share;
    ra_grouping grouping;
    ra_lattice lattice;
    int64_t first, count;                         /* groups of the share */
    int64_t query[MOST_LENGTH], row[MOST_LENGTH]; /* those of their queries that the lattice has */
    int64_t found;
} scene;

#define SCENE_REQUIRE(s, condition)                                                                                    \
    REQUIRE(condition,                                                                                                 \
            "seed %llu, %lld rows, %d lanes, offset %lld, cut %lld, lattice %lld/%lld+%lld, groups %lld to + %lld: "   \
            "not %s",                                                                                                  \
            (unsigned long long)(s)->seed, (long long)(s)->share.rows, (s)->grouping.lanes,                            \
            (long long)(s)->grouping.offset, (long long)(s)->grouping.cut, (long long)(s)->lattice.segment,            \
            (long long)(s)->lattice.rate, (long long)(s)->lattice.offset, (long long)(s)->first,                       \
            (long long)(s)->count, #condition)

static bool scene_make(scene *s, choices *c)
{
    static const int lanes[] = {1, 8, 16, 24, 32, 64};
    int64_t length = choose(c, 1, MOST_LENGTH), segment = choose(c, 1, 200);
    int ranks = (int)choose(c, 1, MOST_RANKS);
    choose_partition(c, length, ranks, &s->partition);
    s->share = ra_partition_share(&s->partition, (int)choose(c, 0, ranks - 1));
    int all = lanes[choose(c, 0, 5)];
    s->grouping = (ra_grouping){all, chance(c, 3) ? all : all - all / 3, choose(c, -100, 100), 0, 0};
    s->grouping.origin = chance(c, 2) ? s->grouping.offset : 0;
    if (chance(c, 2) && !s->share.step)
        s->grouping.cut = choose(c, 1, 150);
    int64_t rate = choose(c, 1, chance(c, 2) ? segment : 1 + segment / 8);
    s->lattice = chance(c, 4) ? ra_lattice_all() : ra_lattice_make(segment, rate, choose(c, 0, rate - 1));
    int64_t groups = ra_group_count(&s->share, &s->grouping);
    if (groups == 0)
        return false;
    s->first = choose(c, 0, groups - 1);
    s->count = choose(c, 1, groups - s->first);
    return true;
}

/* A position below 0 is no member, unless all positions are. */
static bool has(const ra_lattice *l, int64_t position)
{
    return l->rate == 1 || (position >= 0 && (position % l->segment) % l->rate == l->offset);
}

static void list_members(scene *s)
{
    s->found = 0;
    for (int64_t number = s->first; number < s->first + s->count; number++) {
        ra_group group = ra_group_at(&s->share, &s->grouping, number);
        for (int i = 0; i < group.rows; i++)
            if (has(&s->lattice, group.query + i + s->grouping.offset)) {
                s->query[s->found] = group.query + i;
                s->row[s->found++] = group.row + i;
            }
    }
}

static void check_walk(scene *s)
{
    ra_members_walk walk = ra_members_begin(&s->share, &s->grouping, s->lattice, s->first, s->count);
    ra_members m;
    int64_t at = 0, groups = 0;
    for (; ra_members_next(&walk, &m); groups++) {
        SCENE_REQUIRE(s, m.rows >= 1 && m.rows <= s->grouping.lanes && at + m.rows <= s->found);
        for (int i = 0; i < m.rows; i++, at++) {
            SCENE_REQUIRE(s, ra_lattice_position(&s->lattice, m.member + i) == s->query[at] + s->grouping.offset);
            SCENE_REQUIRE(s, ra_member_row(&m, &s->lattice, s->grouping.offset, i) == s->row[at]);
        }
        /* The share's own groups are left as they are. */
        if (ra_lattice_plain(&s->lattice)) {
            ra_group own = ra_group_at(&s->share, &s->grouping, s->first + groups);
            SCENE_REQUIRE(s, m.rows == own.rows && m.query == own.query && m.row == own.row);
        }
    }
    SCENE_REQUIRE(s, at == s->found && groups <= s->count);
    SCENE_REQUIRE(s, !ra_members_next(&walk, &m));
}

static void every_member_once(void **state)
{
    (void)state;
    static scene s;
    seed_range range = seeds(4000);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        s.seed = seed;
        if (scene_make(&s, &c)) {
            list_members(&s);
            check_walk(&s);
        }
        ra_partition_clear(&s.partition);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_member_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
