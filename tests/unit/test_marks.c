/* SPDX-License-Identifier: Apache-2.0 */
/* Marks on rows against one flag for each position. */
#include "plan/batch.h"
#include "ring/marks.h"
#include "shares.h"
#include "support/ragged.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LENGTH = 700, MOST_RANKS = 9, MOST_SETS = 4, MOST_WORDS = MOST_LENGTH + 1 };

/* Some queries and some keys of a problem. */
typedef struct scene {
    uint64_t seed; /* for messages */
    char pattern[512];
    ra_plan *plan;
    ra_partition q_partition, kv_partition;
    ra_share queries, keys;
    uint64_t words[MOST_WORDS];
    uint8_t marked[MOST_LENGTH], expected[MOST_LENGTH];
} scene;

#define SCENE_REQUIRE(s, condition)                                                                                    \
    REQUIRE(condition, "seed %llu, \"%s\", %lld queries, %lld keys: not %s", (unsigned long long)(s)->seed,            \
            (s)->pattern, (long long)(s)->plan->q_len, (long long)(s)->plan->kv_len, #condition)

static ra_share choose_share(choices *c, const ra_partition *partition)
{
    if (!chance(c, 4))
        return ra_partition_share(partition, (int)choose(c, 0, partition->ranks - 1));
    int64_t first = choose(c, 0, partition->length - 1);
    return ra_share_of_range(first, choose(c, first, partition->length));
}

static void scene_make(scene *s, choices *c, uint64_t seed)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    s->seed = seed;
    problem.batch = choose(c, 1, 3);
    problem.q_len = choose(c, 1, chance(c, 2) ? 80 : MOST_LENGTH);
    problem.kv_len = chance(c, 2) ? problem.q_len : choose(c, 1, MOST_LENGTH);
    problem.head_dim = 1;
    problem.kv_heads = choose(c, 1, MOST_SETS);
    problem.heads = problem.kv_heads * choose(c, 1, 4);
    problem.pattern = s->pattern;
    options.threads = 1;
    choose_pattern(c, problem.kv_len, s->pattern, sizeof s->pattern);
    choose_positions(c, &problem);
    choose_ragged(c, &problem, s->pattern, sizeof s->pattern);
    REQUIRE(!ra_plan_create(&problem, &options, &s->plan), "seed %llu: %s", (unsigned long long)seed,
            ra_last_message());
    choose_partition(c, problem.q_len, (int)choose(c, 1, MOST_RANKS), &s->q_partition);
    choose_partition(c, problem.kv_len, (int)choose(c, 1, MOST_RANKS), &s->kv_partition);
    s->queries = choose_share(c, &s->q_partition);
    s->keys = choose_share(c, &s->kv_partition);
    memset(s->words, 0, sizeof s->words);
    memset(s->marked, 0, sizeof s->marked);
    memset(s->expected, 0, sizeof s->expected);
}

static void scene_free(scene *s)
{
    ra_partition_clear(&s->q_partition);
    ra_partition_clear(&s->kv_partition);
    ra_plan_free(s->plan);
}

/* flags[position] = 1 for the rows of a share. */
static void rows_of(const ra_share *share, uint8_t *flags)
{
    for (int64_t i = 0; i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        memset(flags + range.first, 1, (size_t)(range.end - range.first));
    }
}

/* The words have the expected marks, and nothing beside them. */
static void require_expected(scene *s)
{
    int64_t marks = 0;
    for (int64_t at = 0; at < s->plan->kv_len; at++)
        marks += s->expected[at];
    SCENE_REQUIRE(s, count_marks(&s->keys, s->words, s->marked) == marks);
    SCENE_REQUIRE(s, memcmp(s->marked, s->expected, sizeof s->marked) == 0);
    SCENE_REQUIRE(s, ra_marked(s->words, s->keys.blocks) == marks);
    for (int64_t i = s->keys.blocks; i < MOST_WORDS; i++)
        SCENE_REQUIRE(s, s->words[i] == 0);
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
        scene_free(s);
    }
    free(s);
}

/* ---- Marking ----------------------------------------------------------------------------------------------------- */

/* Several ranges, one after the other on the same words. */
static void check_ranges(scene *s, choices *c)
{
    uint8_t rows[MOST_LENGTH] = {0};
    rows_of(&s->keys, rows);
    for (int i = 0; i < 3; i++) {
        int64_t lo = choose(c, -3, s->plan->kv_len + 3), hi = chance(c, 8) ? INT64_MAX : choose(c, lo - 2, lo + 200);
        ra_mark_range(&s->keys, lo, hi, s->words);
        for (int64_t at = 0; at < s->plan->kv_len; at++)
            s->expected[at] |= rows[at] && lo <= at && at < hi;
    }
    require_expected(s);
}

/* Whether some query of the heads first .. first + count - 1 sees a key. */
static bool seen_by_some(const scene *s, const uint8_t *queries, int64_t first, int64_t count, int64_t key)
{
    for (int64_t query = 0; query < s->plan->q_len; query++)
        for (int64_t head = first; queries[query] && head < first + count; head++)
            for (int64_t batch = 0; batch < ra_plan_elements(s->plan); batch++)
                if (ra_plan_sees(s->plan, batch, head, query, key) > 0)
                    return true;
    return false;
}

/* Each set of marks, from one array of words, against what the query heads of its key/value heads see. */
static void check_needed(scene *s, choices *c)
{
    (void)c;
    uint8_t keys[MOST_LENGTH] = {0}, queries[MOST_LENGTH] = {0};
    int64_t planes = ra_mark_planes(s->plan), heads = s->plan->heads / planes;
    SCENE_REQUIRE(s, planes == 1 || planes == s->plan->kv_heads);
    uint64_t *words = calloc((size_t)(planes * s->keys.blocks + 1), sizeof *words);
    assert_non_null(words);
    rows_of(&s->keys, keys);
    rows_of(&s->queries, queries);
    ra_mark_needed(s->plan, planes, &s->queries, &s->keys, words);
    for (int64_t plane = 0; plane < planes; plane++) {
        memset(s->marked, 0, sizeof s->marked);
        memcpy(s->words, words + plane * s->keys.blocks, (size_t)s->keys.blocks * sizeof *words);
        for (int64_t key = 0; key < s->plan->kv_len; key++)
            s->expected[key] = keys[key] && seen_by_some(s, queries, plane * heads, heads, key);
        require_expected(s);
    }
    SCENE_REQUIRE(s, words[planes * s->keys.blocks] == 0);
    free(words);
}

/* Where all heads see the same one set is enough, and there is one; else each key/value head has its own. */
static void check_planes(scene *s, choices *c)
{
    (void)c;
    bool same = true;
    for (int64_t head = 1; head < s->plan->heads && same; head++)
        for (int64_t query = 0; query < s->plan->q_len && same; query++)
            for (int64_t key = 0; key < s->plan->kv_len && same; key += 1 + s->plan->kv_len / 100)
                same = ra_plan_sees(s->plan, 0, 0, query, key) == ra_plan_sees(s->plan, 0, head, query, key);
    SCENE_REQUIRE(s, same || ra_mark_planes(s->plan) == s->plan->kv_heads);
    SCENE_REQUIRE(s, !ra_pattern_is_interval(&s->plan->pattern) || ra_mark_planes(s->plan) == 1);
}

/* Out of the marks of the whole sequence. */
static void check_extract(scene *s, choices *c)
{
    int64_t planes = choose(c, 1, MOST_SETS), whole_blocks = (s->plan->kv_len + RA_KEY_BLOCK - 1) / RA_KEY_BLOCK;
    size_t room = (size_t)(planes * (s->keys.blocks + whole_blocks));
    uint64_t *whole = malloc((room + 1) * sizeof *whole), *words = whole + planes * whole_blocks;
    assert_non_null(whole);
    for (int64_t i = 0; i < planes * whole_blocks; i++)
        whole[i] = choose_bits(c);
    memset(words, 0xff, (size_t)(planes * s->keys.blocks) * sizeof *words);
    ra_mark_extract(whole, whole_blocks, planes, &s->keys, words);
    for (int64_t plane = 0; plane < planes; plane++) {
        uint8_t keys[MOST_LENGTH] = {0};
        rows_of(&s->keys, keys);
        memset(s->marked, 0, sizeof s->marked);
        memcpy(s->words, words + plane * s->keys.blocks, (size_t)s->keys.blocks * sizeof *words);
        for (int64_t at = 0; at < s->plan->kv_len; at++)
            s->expected[at] = keys[at] && (whole[plane * whole_blocks + at / RA_KEY_BLOCK] >> at % RA_KEY_BLOCK & 1);
        require_expected(s);
    }
    free(whole);
}

static void check_owned(scene *s, choices *c)
{
    uint8_t keys[MOST_LENGTH] = {0}, owned[MOST_LENGTH] = {0};
    ra_partition other;
    int64_t planes = choose(c, 1, MOST_SETS);
    choose_partition(c, s->plan->kv_len, (int)choose(c, 1, MOST_RANKS), &other);
    ra_share share = choose_share(c, &other);
    rows_of(&s->keys, keys);
    rows_of(&share, owned);
    for (int64_t at = 0; at < s->plan->kv_len; at++)
        s->expected[at] = keys[at] && owned[at];
    uint64_t *words = calloc((size_t)(planes * s->keys.blocks + 1), sizeof *words);
    assert_non_null(words);
    for (int64_t plane = 0; plane < planes; plane++)
        ra_mark_shared(&share, 0, INT64_MAX, &s->keys, words + plane * s->keys.blocks);
    for (int64_t plane = 0; plane < planes; plane++) {
        memset(s->marked, 0, sizeof s->marked);
        memcpy(s->words, words + plane * s->keys.blocks, (size_t)s->keys.blocks * sizeof *words);
        require_expected(s);
    }
    SCENE_REQUIRE(s, words[planes * s->keys.blocks] == 0);
    free(words);
    ra_partition_clear(&other);
}

static void ranges_are_marked(void **state)
{
    (void)state;
    for_each_scene(6000, check_ranges);
}

static void needed_keys_are_those_that_some_query_sees(void **state)
{
    (void)state;
    for_each_scene(500, check_needed);
}

static void heads_that_differ_have_planes_of_their_own(void **state)
{
    (void)state;
    for_each_scene(300, check_planes);
}

static void marks_of_a_share_out_of_those_of_all(void **state)
{
    (void)state;
    for_each_scene(2000, check_extract);
}

static void owned_keys_are_those_in_both_shares(void **state)
{
    (void)state;
    for_each_scene(6000, check_owned);
}

/* ---- Walking ----------------------------------------------------------------------------------------------------- */

/* Marks on some of the share's positions: in runs, or here and there. */
static void choose_marks(scene *s, choices *c, uint64_t *words)
{
    int often = (int)choose(c, 1, 4);
    if (chance(c, 2)) {
        for (int i = 0; i < often; i++) {
            int64_t lo = choose(c, 0, s->plan->kv_len);
            ra_mark_range(&s->keys, lo, lo + choose(c, 0, 150), words);
        }
        return;
    }
    for (int64_t at = 0; at < s->plan->kv_len; at++)
        if (!chance(c, 1 + often * often))
            ra_mark_range(&s->keys, at, at + 1, words);
}

static bool is_marked(const uint64_t *words, int64_t bit)
{
    return words[bit / RA_KEY_BLOCK] >> bit % RA_KEY_BLOCK & 1;
}

/* The marks of `held` in order; a run is a longest row of them that are all in `some`. */
static void check_mark_walk(scene *s, choices *c)
{
    uint64_t some[MOST_WORDS] = {0};
    choose_marks(s, c, s->words);
    if (chance(c, 3))
        memcpy(some, s->words, sizeof some);
    else
        choose_marks(s, c, some);
    for (int64_t i = 0; i < s->keys.blocks; i++)
        some[i] &= s->words[i];
    ra_mark_walk walk = ra_mark_walk_begin(some, s->words, s->keys.blocks);
    ra_mark_run run;
    int64_t row = 0, rows = 0;
    for (int64_t bit = 0; bit <= s->keys.blocks * RA_KEY_BLOCK; bit++) {
        bool end = bit == s->keys.blocks * RA_KEY_BLOCK;
        if (!end && !is_marked(s->words, bit))
            continue;
        if (!end && is_marked(some, bit)) {
            rows++;
        } else if (rows) {
            SCENE_REQUIRE(s, ra_mark_walk_next(&walk, &run));
            SCENE_REQUIRE(s, run.row == row - rows && run.rows == rows);
            rows = 0;
        }
        row++;
    }
    SCENE_REQUIRE(s, !ra_mark_walk_next(&walk, &run));
}

static void check_before(scene *s, choices *c)
{
    int64_t before[MOST_WORDS], marks = 0;
    choose_marks(s, c, s->words);
    before[s->keys.blocks] = -7;
    ra_marks_before(s->words, s->keys.blocks, before);
    for (int64_t bit = 0; bit < s->keys.blocks * RA_KEY_BLOCK; bit++) {
        SCENE_REQUIRE(s, bit % RA_KEY_BLOCK || before[bit / RA_KEY_BLOCK] == marks);
        marks += is_marked(s->words, bit);
    }
    SCENE_REQUIRE(s, before[s->keys.blocks] == -7 && ra_marked(s->words, s->keys.blocks) == marks);
}

/* Runs of positions, broken at the ends of ranges. */
static void check_position_walk(scene *s, choices *c)
{
    choose_marks(s, c, s->words);
    SCENE_REQUIRE(s, count_marks(&s->keys, s->words, s->marked) >= 0);
    ra_position_walk walk = {&s->keys, s->words, 0, 0, 0};
    ra_position_run run;
    int64_t row = 0;
    for (int64_t i = 0; i < s->keys.ranges; i++) {
        ra_range range = ra_share_range(&s->keys, i);
        for (int64_t at = range.first, end; at < range.end; at = end) {
            for (end = at; end < range.end && s->marked[end]; end++) {
            }
            if (end > at) {
                SCENE_REQUIRE(s, ra_position_walk_next(&walk, &run));
                SCENE_REQUIRE(s, run.position == at && run.rows == end - at && run.row == row);
                row += end - at;
            } else {
                end++;
            }
        }
    }
    SCENE_REQUIRE(s, !ra_position_walk_next(&walk, &run));
}

static void runs_among_the_rows_that_are_held(void **state)
{
    (void)state;
    for_each_scene(4000, check_mark_walk);
}

static void marks_before_each_block(void **state)
{
    (void)state;
    for_each_scene(2000, check_before);
}

static void runs_of_positions(void **state)
{
    (void)state;
    for_each_scene(4000, check_position_walk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_marked),
        cmocka_unit_test(needed_keys_are_those_that_some_query_sees),
        cmocka_unit_test(heads_that_differ_have_planes_of_their_own),
        cmocka_unit_test(marks_of_a_share_out_of_those_of_all),
        cmocka_unit_test(owned_keys_are_those_in_both_shares),
        cmocka_unit_test(runs_among_the_rows_that_are_held),
        cmocka_unit_test(marks_before_each_block),
        cmocka_unit_test(runs_of_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
