/* SPDX-License-Identifier: Apache-2.0 */
/* Which queries see some keys: marks, sets of rows, traffic and counts against the definition, pair by pair. */
#include "plan/batch.h"
#include "plan/traffic.h"
#include "ring/marks.h"
#include "shares.h"
#include "support/ragged.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LENGTH = 400, MOST_RANKS = 7, MOST_PLANES = 3 };

/* A problem over some ranks. */
typedef struct scene {
    uint64_t seed; /* for messages */
    char pattern[512];
    ra_plan *plan;
    int ranks;
    int64_t planes;
    ra_partition queries, keys;
    /* Whether a rank's keys are seen by a query of a head of the plane, and how many pairs its keys are part of. */
    uint8_t needs[MOST_RANKS][MOST_PLANES][MOST_LENGTH];
    double pairs[MOST_RANKS];
} scene;

#define SCENE_REQUIRE(s, condition)                                                                                    \
    REQUIRE(condition, "seed %llu, \"%s\", %lld queries, %lld keys, %d ranks: not %s", (unsigned long long)(s)->seed,  \
            (s)->pattern, (long long)(s)->plan->q_len, (long long)(s)->plan->kv_len, (s)->ranks, #condition)

/* By the definition. */
static void look(scene *s, int rank, int64_t plane, int64_t query)
{
    ra_share keys = ra_partition_share(&s->keys, rank);
    int64_t heads = s->plan->heads / s->planes;
    for (int64_t i = 0; i < keys.ranges; i++) {
        ra_range range = ra_share_range(&keys, i);
        for (int64_t key = range.first; key < range.end; key++)
            for (int64_t i_head = 0; i_head < heads * s->plan->batch; i_head++) {
                int times = ra_plan_sees(s->plan, i_head / heads, plane * heads + i_head % heads, query, key);
                s->needs[rank][plane][query] |= times > 0;
                s->pairs[rank] += (double)times;
            }
    }
}

static void scene_make(scene *s, choices *c, uint64_t seed)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    memset(s, 0, sizeof *s);
    s->seed = seed;
    problem.batch = choose(c, 1, 2);
    problem.q_len = choose(c, 1, chance(c, 2) ? 80 : MOST_LENGTH);
    problem.kv_len = chance(c, 2) ? problem.q_len : choose(c, 1, MOST_LENGTH);
    problem.head_dim = 1;
    problem.kv_heads = choose(c, 1, MOST_PLANES);
    problem.heads = problem.kv_heads * choose(c, 1, 2);
    problem.pattern = s->pattern;
    options.threads = 1;
    choose_pattern(c, problem.kv_len, s->pattern, sizeof s->pattern);
    choose_positions(c, &problem);
    choose_ragged(c, &problem, s->pattern, sizeof s->pattern);
    REQUIRE(!ra_plan_create(&problem, &options, &s->plan), "seed %llu: %s", (unsigned long long)seed,
            ra_last_message());
    s->ranks = (int)choose(c, 1, MOST_RANKS);
    s->planes = ra_mark_planes(s->plan);
    choose_partition(c, problem.q_len, s->ranks, &s->queries);
    choose_partition(c, problem.kv_len, s->ranks, &s->keys);
    for (int rank = 0; rank < s->ranks; rank++)
        for (int64_t plane = 0; plane < s->planes; plane++)
            for (int64_t query = 0; query < problem.q_len; query++)
                look(s, rank, plane, query);
}

static void for_each_scene(int quick, void (*check)(scene *s, choices *c))
{
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    seed_range range = seeds(quick);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        scene_make(s, &c, seed);
        check(s, &c);
        ra_partition_clear(&s->queries);
        ra_partition_clear(&s->keys);
        ra_plan_free(s->plan);
    }
    free(s);
}

/* flags[row] = 1 for the rows of a share. */
static void rows_of(const ra_share *share, uint8_t *flags)
{
    memset(flags, 0, MOST_LENGTH);
    for (int64_t i = 0; i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        memset(flags + range.first, 1, (size_t)(range.end - range.first));
    }
}

/* ---- Marks ------------------------------------------------------------------------------------------------------- */

static void check_marks(scene *s, choices *c)
{
    int rank = (int)choose(c, 0, s->ranks - 1);
    ra_share keys = ra_partition_share(&s->keys, rank);
    ra_share on = ra_partition_share(&s->queries, (int)choose(c, 0, s->ranks - 1));
    uint8_t rows[MOST_LENGTH], marked[MOST_LENGTH];
    uint64_t *words = calloc((size_t)(s->planes * on.blocks + 1), sizeof *words);
    assert_non_null(words);
    rows_of(&on, rows);
    ra_mark_seers(s->plan, s->planes, &keys, &on, words);
    for (int64_t plane = 0; plane < s->planes; plane++) {
        memset(marked, 0, sizeof marked);
        SCENE_REQUIRE(s, count_marks(&on, words + plane * on.blocks, marked) >= 0);
        for (int64_t query = 0; query < s->plan->q_len; query++)
            SCENE_REQUIRE(s, marked[query] == (rows[query] && s->needs[rank][plane][query]));
    }
    SCENE_REQUIRE(s, words[s->planes * on.blocks] == 0);
    free(words);
}

static void marked_queries_are_those_that_see_some_key(void **state)
{
    (void)state;
    for_each_scene(600, check_marks);
}

/* ---- Sets of rows ------------------------------------------------------------------------------------------------ */

static void check_reach(scene *s, choices *c)
{
    int rank = (int)choose(c, 0, s->ranks - 1);
    ra_share keys = ra_partition_share(&s->keys, rank), own = ra_partition_share(&s->queries, rank);
    ra_share all = ra_share_of_range(0, s->plan->q_len);
    uint8_t mine[MOST_LENGTH];
    ra_row_set set;
    rows_of(&own, mine);
    SCENE_REQUIRE(
        s, ra_reach_find(&set, s->plan, RA_SIDE_QUERIES, s->planes, &keys, &own, (ra_interval){0, s->plan->q_len}));
    for (int64_t query = 0; query < s->plan->q_len; query++) {
        int64_t expected = 0;
        for (int64_t plane = 0; plane < s->planes && !mine[query]; plane++)
            expected += s->needs[rank][plane][query];
        SCENE_REQUIRE(s, ra_row_set_rows_between(&set, &all, query, query + 1) == expected);
    }
    ra_row_set_free(&set);
}

static void sets_of_queries_are_those_that_see_some_key(void **state)
{
    (void)state;
    for_each_scene(600, check_reach);
}

/* Nothing outside of the hull sees a key of the share. */
static void check_hull(scene *s, choices *c)
{
    int rank = (int)choose(c, 0, s->ranks - 1);
    ra_share keys = ra_partition_share(&s->keys, rank);
    if (keys.rows == 0)
        return;
    ra_interval between = {ra_share_range(&keys, 0).first, ra_share_range(&keys, keys.ranges - 1).end};
    ra_interval hull = ra_plan_seers_hull(s->plan, between.lo, between.hi);
    for (int64_t query = 0; query < s->plan->q_len; query++)
        for (int64_t plane = 0; plane < s->planes; plane++)
            SCENE_REQUIRE(s, !s->needs[rank][plane][query] || (hull.lo <= query && query < hull.hi));
}

static void no_query_outside_of_the_hull_sees_a_key(void **state)
{
    (void)state;
    for_each_scene(600, check_hull);
}

/* ---- Traffic ----------------------------------------------------------------------------------------------------- */

/* Whether a rank gets a row from another one, because a plane of its keys is seen by it. */
static bool reads(const scene *s, int rank, int64_t plane, int64_t query)
{
    return s->needs[rank][plane][query] && ra_partition_owner(&s->queries, query).rank != rank;
}

typedef struct traffic_of {
    ra_traffic ring[MOST_RANKS], broadcast[MOST_RANKS], allgather[MOST_RANKS];
} traffic_of;

/*
 * A row comes from the rank before if that one has it, else from its owner, and its sum comes along. A sum goes home
 * where the next rank does not read the row.
 */
static void count_in_ring(const scene *s, int64_t plane, int64_t query, int owner, int rank, ra_traffic *ring)
{
    int before = (rank + s->ranks - 1) % s->ranks, next = (rank + 1) % s->ranks;
    int from = before == owner || reads(s, before, plane, query) ? before : owner;
    ring[rank].rows_received++;
    ring[from].rows_sent++;
    ring[rank].sums_received++;
    ring[from].sums_sent++;
    if (!reads(s, next, plane, query)) {
        ring[rank].sums_sent++;
        ring[owner].sums_received++;
    }
}

static void count_row(const scene *s, int64_t plane, int64_t query, traffic_of *t)
{
    int owner = ra_partition_owner(&s->queries, query).rank;
    for (int rank = 0; rank < s->ranks; rank++) {
        if (rank != owner) {
            t->allgather[rank].rows_received++;
            t->allgather[owner].rows_sent++;
        }
        if (!reads(s, rank, plane, query))
            continue;
        count_in_ring(s, plane, query, owner, rank, t->ring);
        t->broadcast[rank].rows_received++;
        t->broadcast[owner].rows_sent++;
        t->allgather[rank].sums_sent++;
        t->allgather[owner].sums_received++;
    }
}

static bool same_rows(const ra_traffic *a, const ra_traffic *b)
{
    return a->rows_sent == b->rows_sent && a->rows_received == b->rows_received && a->sums_sent == b->sums_sent &&
           a->sums_received == b->sums_received;
}

/* All ranks together, and each alone. */
static void require_traffic(const scene *s, ra_traffic_counter count, bool sums, const ra_traffic *expected)
{
    ra_traffic_question question = {.plan = s->plan,
                                    .planes = s->planes,
                                    .queries = &s->queries,
                                    .keys = &s->keys,
                                    .end = s->ranks,
                                    .moving = RA_SIDE_QUERIES,
                                    .sums = sums};
    ra_traffic counted[MOST_RANKS], one;
    SCENE_REQUIRE(s, !count(&question, counted));
    for (int rank = 0; rank < s->ranks; rank++) {
        SCENE_REQUIRE(s, same_rows(&counted[rank], &expected[rank]));
        question.first = rank;
        question.end = rank + 1;
        SCENE_REQUIRE(s, !count(&question, &one));
        SCENE_REQUIRE(s, same_rows(&one, &expected[rank]) && one.hops == counted[rank].hops);
    }
}

static void check_traffic(scene *s, choices *c)
{
    (void)c;
    traffic_of t = {0};
    for (int64_t plane = 0; plane < s->planes; plane++)
        for (int64_t query = 0; query < s->plan->q_len; query++)
            count_row(s, plane, query, &t);
    require_traffic(s, ra_traffic_ring, true, t.ring);
    require_traffic(s, ra_traffic_broadcast, false, t.broadcast);
    require_traffic(s, ra_traffic_allgather, true, t.allgather);
}

static void queries_travel_to_the_keys_that_they_see(void **state)
{
    (void)state;
    for_each_scene(400, check_traffic);
}

/* ---- Counts ------------------------------------------------------------------------------------------------------ */

static void check_pairs(scene *s, choices *c)
{
    (void)c;
    for (int rank = 0; rank < s->ranks; rank++) {
        ra_share keys = ra_partition_share(&s->keys, rank);
        double pairs;
        SCENE_REQUIRE(s, !ra_count_key_pairs(s->plan, &keys, &pairs));
        SCENE_REQUIRE(s, pairs == s->pairs[rank]);
    }
}

static void pairs_of_keys_are_counted(void **state)
{
    (void)state;
    for_each_scene(600, check_pairs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marked_queries_are_those_that_see_some_key),
        cmocka_unit_test(sets_of_queries_are_those_that_see_some_key),
        cmocka_unit_test(no_query_outside_of_the_hull_sees_a_key),
        cmocka_unit_test(queries_travel_to_the_keys_that_they_see),
        cmocka_unit_test(pairs_of_keys_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
