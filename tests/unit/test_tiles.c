/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over tiles: every visible pair is in a tile of each branch that has it, no mask lets another through. */
#include "plan/tiles.h"
#include "support/ragged.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 200, MOST_LANES = 64, MOST_KEYS = 300, MOST_HEADS = 3, MOST_BLOCKS = 8 };

typedef struct walk {
    uint64_t seed; /* for messages */
    char text[512];
    ra_pattern pattern;
    int64_t kv_len, heads, first_position;
    int rows, lanes;
    ra_lattice lattice;                    /* of the branch that is looked at */
    int64_t members[MOST_ROWS];            /* the queries that it has, */
    int group_first[MOST_ROWS];            /* and the first of each group, as an index into them */
    uint8_t covered[MOST_ROWS][MOST_KEYS]; /* how many tiles of a head let the pair through */
} walk;

#define WALK_REQUIRE(w, condition)                                                                                     \
    REQUIRE(condition, "seed %llu, \"%s\", %lld keys, %lld heads, %d rows from %lld, %d lanes: not %s",                \
            (unsigned long long)(w)->seed, (w)->text, (long long)(w)->kv_len, (long long)(w)->heads, (w)->rows,        \
            (long long)(w)->first_position, (w)->lanes, #condition)

static void cover_tile(walk *w, const ra_tiles *tiles, int group, const ra_block *block, const ra_tile *tile)
{
    int32_t lo[MOST_LANES], hi[MOST_LANES];
    uint64_t seen[RA_KEY_BLOCK];
    int64_t counted = 0, rows = tiles->groups[group].rows;
    WALK_REQUIRE(w, tile->begin % RA_KEY_UNIT == 0 && tile->end % RA_KEY_UNIT == 0);
    WALK_REQUIRE(w, tile->begin >= 0 && tile->begin < tile->end && tile->end < block->rows + RA_KEY_UNIT);
    WALK_REQUIRE(w, tile->masked || (tile->end <= block->rows && tile->begin >= block->skip && !tile->bits));
    int64_t visible = rows * (tile->end - tile->begin);
    if (tile->masked)
        visible = ra_tiles_mask(tiles, group, block, tile, lo, hi, seen);
    for (int i = 0; i < w->lanes; i++)
        for (int k = tile->begin; k < tile->end; k++) {
            bool sees = !tile->masked || (tile->bits ? seen[k] >> i & 1 : k >= lo[i] && k < hi[i]);
            if (!sees || i >= rows) {
                WALK_REQUIRE(w, !sees || !tile->masked);
                continue;
            }
            WALK_REQUIRE(w, k >= block->skip && k < block->rows);
            int64_t key = ra_lattice_position(&w->lattice, block->first + k);
            int64_t query = ra_lattice_position(&w->lattice, w->members[w->group_first[group] + i]);
            WALK_REQUIRE(w, key >= 0 && key < w->kv_len);
            w->covered[query - w->first_position][key]++;
            counted++;
        }
    WALK_REQUIRE(w, visible == counted);
}

static void cover_block(walk *w, ra_tiles *tiles, const ra_block *block)
{
    int parts = 0;
    ra_tiles_look(tiles, block);
    for (int group = 0; group < tiles->group_count; group++) {
        ra_tile tile;
        if (!ra_tiles_part(tiles, group, block, &tile))
            continue;
        cover_tile(w, tiles, group, block, &tile);
        parts++;
    }
    WALK_REQUIRE(w, parts > 0 || tiles->sifted);
}

/* The tiles of keys first <= k < end, as they come or, having been listed, from the last to the first. */
static void cover_span(walk *w, ra_tiles *tiles, int64_t first, int64_t end, bool later)
{
    ra_interval members = ra_branch_members(&w->lattice, first, end);
    ra_block block, listed[MOST_BLOCKS];
    int64_t after = members.lo;
    int count = 0;
    ra_tiles_seek(tiles, members.lo, members.hi);
    while (ra_tiles_next(tiles, &block)) {
        WALK_REQUIRE(w, block.first % RA_KEY_BLOCK == 0 && block.first + block.skip >= after);
        WALK_REQUIRE(w,
                     block.rows > block.skip && block.rows <= RA_KEY_BLOCK && block.first + block.rows <= members.hi);
        after = block.first + block.rows;
        WALK_REQUIRE(w, count < MOST_BLOCKS);
        listed[count++] = block;
        if (!later)
            cover_block(w, tiles, &block);
    }
    while (later && count-- > 0)
        cover_block(w, tiles, &listed[count]);
}

/* One branch of a head: its members among the rows, in groups. */
static void cover_branch(walk *w, choices *c, int64_t head, int branch)
{
    ra_interval rows[MOST_ROWS + MOST_LANES];
    ra_group_bounds groups[MOST_ROWS];
    ra_tiles tiles;
    w->lattice = ra_pattern_lattice(&w->pattern, head, branch);
    ra_interval members = ra_branch_members(&w->lattice, w->first_position, w->first_position + w->rows);
    int count = (int)(members.hi - members.lo), most = count ? (count + w->lanes - 1) / w->lanes : 1;
    void *sieve = malloc((size_t)ra_sieve_bytes(&w->pattern, w->lanes, most) + 1);
    assert_non_null(sieve);
    const ra_tiles_memory memory = {rows, groups, sieve, most};
    ra_tiles_begin(&tiles, &w->pattern, head, branch, w->lanes, &memory);
    for (int i = 0; i < count; i++)
        w->members[i] = members.lo + i;
    for (int i = 0; i < count; i += w->lanes) {
        w->group_first[tiles.group_count] = i;
        ra_tiles_add(&tiles, w->members[i], count - i < w->lanes ? count - i : w->lanes);
    }
    /* The keys in one piece, or in spans cut at any blocks, or anywhere. */
    int64_t unit = chance(c, 2) ? RA_KEY_BLOCK : 1;
    bool later = chance(c, 2);
    for (int64_t first = 0, end; first < w->kv_len; first = end) {
        end = first + unit * choose(c, 1, MOST_KEYS / unit + 1);
        end = end < w->kv_len ? end : w->kv_len;
        cover_span(w, &tiles, first, end, later);
    }
    free(sieve);
}

static void every_visible_pair_as_often_as_it_is_seen(void **state)
{
    (void)state;
    static const int LANES[] = {1, 8, 24, 64};
    walk *w = malloc(sizeof *w);
    assert_non_null(w);
    seed_range range = seeds(1500);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        w->seed = seed;
        w->kv_len = choose(&c, 1, MOST_KEYS);
        w->heads = choose(&c, 1, MOST_HEADS);
        w->rows = (int)choose(&c, 1, MOST_ROWS);
        w->lanes = LANES[choose(&c, 0, 3)];
        w->first_position = choose(&c, -MOST_ROWS, w->kv_len - w->rows);
        choose_pattern(&c, w->kv_len, w->text, sizeof w->text);
        ra_problem problem = RA_PROBLEM_INIT;
        problem.q_len = w->rows, problem.kv_len = w->kv_len, problem.heads = w->heads;
        choose_ragged(&c, &problem, w->text, sizeof w->text);
        ra_pattern_shape shape = {
            .kv_len = w->kv_len, .heads = w->heads, .q_len = w->rows, .offset = w->first_position, .batch = 1};
        shape.lengths = problem.score_arrays ? problem.score_arrays->lengths : NULL;
        shape.mask = problem.score_arrays ? problem.score_arrays->mask : NULL;
        assert_int_equal(ra_pattern_parse(w->text, &shape, NULL, &w->pattern), RA_OK);
        const ra_lengths *l = w->pattern.lengths;
        if (l)
            w->pattern.valid = (ra_interval){ra_lengths_value(l, 0, 0), ra_lengths_value(l, 0, 1)};
        int64_t head = choose(&c, 0, w->heads - 1);
        memset(w->covered, 0, sizeof w->covered);
        for (int branch = 0; branch < ra_pattern_branches(&w->pattern, head); branch++)
            cover_branch(w, &c, head, branch);
        for (int row = 0; row < w->rows; row++)
            for (int64_t key = 0; key < w->kv_len; key++)
                WALK_REQUIRE(w,
                             w->covered[row][key] == ra_pattern_sees(&w->pattern, head, w->first_position + row, key));
        ra_pattern_clear(&w->pattern);
    }
    free(w);
}

static void rows_that_see_nothing_are_left_out_of_the_bounds(void **state)
{
    (void)state;
    const ra_interval rows[] = {{5, 5}, {10, 30}, {7, 2}, {20, 90}};
    ra_group_bounds b = ra_group_bounds_of(rows, 4);
    assert_true(b.min_lo == 10 && b.max_hi == 90);
    assert_true(b.max_lo >= b.min_hi); /* no key is seen by all of them */
    b = ra_group_bounds_of(rows + 1, 1);
    assert_true(b.min_lo == 10 && b.max_hi == 30 && b.max_lo == 10 && b.min_hi == 30);
    b = ra_group_bounds_of(rows, 1);
    assert_true(b.min_lo >= b.max_hi);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_visible_pair_as_often_as_it_is_seen),
        cmocka_unit_test(rows_that_see_nothing_are_left_out_of_the_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
