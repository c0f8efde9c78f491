/* The walk over tiles: every visible pair is in exactly one tile, no mask lets another through. */
#include "plan/tiles.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 200, MOST_LANES = 64, MOST_KEYS = 300 };

typedef struct walk {
    uint64_t seed; /* for messages */
    char text[256];
    ra_pattern pattern;
    int64_t kv_len, first_position;
    int rows, lanes;
    uint8_t covered[MOST_ROWS][MOST_KEYS]; /* how many tiles let the pair through */
} walk;

#define WALK_REQUIRE(w, condition)                                                                                     \
    REQUIRE(condition, "seed %llu, \"%s\", %lld keys, %d rows from %lld, %d lanes: not %s",                            \
            (unsigned long long)(w)->seed, (w)->text, (long long)(w)->kv_len, (w)->rows,                               \
            (long long)(w)->first_position, (w)->lanes, #condition)

static void cover_tile(walk *w, const ra_tiles *tiles, int group, const ra_block *block, const ra_tile *tile)
{
    int32_t lo[64], hi[64];
    int64_t counted = 0, rows = tiles->groups[group].rows;
    WALK_REQUIRE(w, tile->begin % RA_KEY_UNIT == 0 && tile->end % RA_KEY_UNIT == 0);
    WALK_REQUIRE(w, tile->begin >= 0 && tile->begin < tile->end && tile->end < block->rows + RA_KEY_UNIT);
    WALK_REQUIRE(w, tile->masked || tile->end <= block->rows);
    for (int i = 0; i < w->lanes; i++) {
        lo[i] = 0;
        hi[i] = block->rows;
    }
    WALK_REQUIRE(w, tile->masked || tile->begin >= block->skip);
    int64_t visible = tile->masked ? ra_tiles_mask(tiles, group, block, lo, hi) : rows * (tile->end - tile->begin);
    for (int i = 0; i < w->lanes; i++)
        for (int k = tile->begin; k < tile->end; k++) {
            if (k < lo[i] || k >= hi[i])
                continue;
            if (i >= rows) {
                WALK_REQUIRE(w, !tile->masked);
                continue;
            }
            WALK_REQUIRE(w, k >= block->skip && k < block->rows && block->first + k < w->kv_len);
            w->covered[group * w->lanes + i][block->first + k]++;
            counted++;
        }
    WALK_REQUIRE(w, visible == counted);
}

/* The tiles of keys first <= k < end. */
static void cover_span(walk *w, int64_t first, int64_t end)
{
    ra_interval rows[MOST_ROWS + MOST_LANES];
    ra_group_bounds groups[MOST_ROWS];
    ra_tiles tiles = {w->lanes, 0, rows, groups, 0, 0};
    ra_block block;
    int64_t after = first;
    for (int row = 0; row < w->rows; row += w->lanes)
        ra_tiles_add(&tiles, &w->pattern, w->first_position + row, w->rows - row < w->lanes ? w->rows - row : w->lanes);
    ra_tiles_seek(&tiles, first, end);
    while (ra_tiles_next(&tiles, &block)) {
        int parts = 0;
        WALK_REQUIRE(w, block.first % RA_KEY_BLOCK == 0 && block.first + block.skip >= after);
        WALK_REQUIRE(w, block.rows > block.skip && block.rows <= RA_KEY_BLOCK && block.first + block.rows <= end);
        after = block.first + block.rows;
        for (int group = 0; group < tiles.group_count; group++) {
            ra_tile tile;
            if (!ra_tiles_part(&tiles, group, &block, &tile))
                continue;
            cover_tile(w, &tiles, group, &block, &tile);
            parts++;
        }
        WALK_REQUIRE(w, parts > 0);
    }
}

static void every_visible_pair_once(void **state)
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
        w->rows = (int)choose(&c, 1, MOST_ROWS);
        w->lanes = LANES[choose(&c, 0, 3)];
        w->first_position = choose(&c, -MOST_ROWS, w->kv_len - w->rows);
        choose_pattern(&c, w->kv_len, w->text, sizeof w->text);
        memset(w->covered, 0, sizeof w->covered);
        assert_int_equal(ra_pattern_parse(w->text, w->kv_len, NULL, &w->pattern), RA_OK);
        /* The keys in one piece, or in spans cut at any blocks, or anywhere. */
        int64_t unit = chance(&c, 2) ? RA_KEY_BLOCK : 1;
        for (int64_t first = 0, end; first < w->kv_len; first = end) {
            end = first + unit * choose(&c, 1, MOST_KEYS / unit + 1);
            end = end < w->kv_len ? end : w->kv_len;
            cover_span(w, first, end);
        }
        for (int row = 0; row < w->rows; row++)
            for (int64_t key = 0; key < w->kv_len; key++)
                WALK_REQUIRE(w, w->covered[row][key] == ra_pattern_sees(&w->pattern, w->first_position + row, key));
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
        cmocka_unit_test(every_visible_pair_once),
        cmocka_unit_test(rows_that_see_nothing_are_left_out_of_the_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
