/* SPDX-License-Identifier: Apache-2.0 */
/* Kept blocks: each against a definition that is written out here, in rows, windows and walks, and how many they are.
 */
#include "plan/pattern.h"
#include "plan/shuffle.h"
#include "support/random.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Patterns with blocks ---------------------------------------------------------------------------------------- */

/* A mask of any blocks, few of them; of each head if the path says so. */
static ra_status any_mask(const char *path, int64_t count, int64_t heads, uint64_t **bits, bool *by_head)
{
    choices c = {(uint64_t)count};
    *by_head = strcmp(path, "by_head") == 0;
    int64_t rows = count * (*by_head ? heads : 1), words = ra_blocks_words(count);
    *bits = calloc((size_t)(rows * words), sizeof **bits);
    assert_non_null(*bits);
    for (int64_t i = 0; i < rows * count; i++)
        if (chance(&c, 6))
            (*bits)[i / count * words + i % count / 64] |= UINT64_C(1) << (i % count % 64);
    return RA_OK;
}

static const ra_pattern_files files = {.mask = any_mask};

/* So many blocks, the last of them cut short. */
static ra_pattern blocks_of(int64_t count, int64_t heads, const char *settings)
{
    ra_pattern pattern;
    char text[256];
    snprintf(text, sizeof text, "blocks:3%s", settings);
    REQUIRE(!ra_pattern_parse(text, &(ra_pattern_shape){.kv_len = 3 * count - 1, .heads = heads}, &files, &pattern),
            "%s: %s", text, ra_last_message());
    assert_true(pattern.blocks && pattern.blocks->count == count);
    return pattern;
}

/* ---- The definition ---------------------------------------------------------------------------------------------- */

static bool kept_by_rule(const ra_blocks *b, int64_t head, int64_t i, int64_t j)
{
    if (llabs(i - j) <= b->local)
        return true;
    if (i < b->global || j < b->global)
        return true;
    if (b->stride && (i - j) % b->stride == 0)
        return true;
    int64_t words = ra_blocks_words(b->count), mask = (b->mask_by_head ? head : 0) * b->count * words;
    return b->mask && (b->mask[mask + i * words + j / 64] >> (j % 64) & 1);
}

/* A row, one flag for each block: what rules keep, and `random` further ones, in the order of a shuffle. */
static void define_row(const ra_blocks *b, int64_t head, int64_t i, int64_t random, uint8_t *kept)
{
    ra_shuffle shuffle = ra_shuffle_make(b->count, b->seed, (uint64_t)head, (uint64_t)i);
    for (int64_t j = 0; j < b->count; j++)
        kept[j] = kept_by_rule(b, head, i, j);
    for (int64_t place = 0; place < b->count && random > 0; place++) {
        int64_t j = ra_shuffle_at(&shuffle, place);
        random -= !kept[j];
        kept[j] = 1;
    }
}

#define ROW_REQUIRE(b, head, i, condition)                                                                             \
    REQUIRE(condition,                                                                                                 \
            "%lld blocks, local %lld, global %lld, stride %lld, random %lld, seed %llu, wanted %g: head %lld, row "    \
            "%lld: not %s",                                                                                            \
            (long long)(b)->count, (long long)(b)->local, (long long)(b)->global, (long long)(b)->stride,              \
            (long long)(b)->random, (unsigned long long)(b)->seed, (b)->wanted, (long long)(head), (long long)(i),     \
            #condition)

/* Any window of a row: the bits of its columns, and no others. */
static void check_window(const ra_blocks *b, int64_t head, int64_t i, int64_t first, int64_t words, const uint8_t *kept)
{
    uint64_t *bits = malloc((size_t)words * sizeof *bits); /* exactly, for the sanitizers */
    assert_non_null(bits);
    memset(bits, 0xff, (size_t)words * sizeof *bits);
    ra_blocks_row(b, head, i, first, words, bits);
    for (int64_t j = first; j < first + 64 * words; j++)
        ROW_REQUIRE(b, head, i, (bits[(j - first) / 64] >> (j % 64) & 1) == (j < b->count && kept[j]));
    free(bits);
}

static void check_walk(const ra_blocks *b, int64_t head, int64_t i, int64_t first, int64_t end, const uint8_t *kept)
{
    ra_blocks_walk walk = ra_blocks_walk_begin(b, head, i, first, end);
    int64_t at = first, from, to;
    end = end < b->count ? end : b->count;
    while (ra_blocks_walk_next(&walk, &from, &to)) {
        ROW_REQUIRE(b, head, i, from >= at && from < to && to <= end);
        for (; at < from; at++)
            ROW_REQUIRE(b, head, i, !kept[at]);
        for (; at < to; at++)
            ROW_REQUIRE(b, head, i, kept[at]);
    }
    for (; at < end; at++)
        ROW_REQUIRE(b, head, i, !kept[at]);
    ROW_REQUIRE(b, head, i, !ra_blocks_walk_next(&walk, &from, &to));
}

static void check_row(const ra_blocks *b, choices *c, int64_t head, int64_t i, const uint8_t *kept)
{
    int64_t words = ra_blocks_words(b->count), first = choose(c, 0, words - 1);
    for (int64_t j = 0; j < b->count; j += 1 + b->count / 500)
        ROW_REQUIRE(b, head, i, ra_blocks_keeps(b, head, i, j) == kept[j]);
    check_window(b, head, i, 0, words, kept);
    check_window(b, head, i, 64 * first, choose(c, 1, words - first), kept);
    check_window(b, head, i, 64 * first, 1, kept);
    check_walk(b, head, i, 0, b->count, kept);
    int64_t from = choose(c, 0, b->count - 1);
    check_walk(b, head, i, from, choose(c, from, b->count + 9), kept);
}

static void choose_settings(choices *c, char *text, size_t size)
{
    static const char *const masks[] = {"", ":mask=@all", ":mask=@by_head"};
    char local[32] = "", global[32] = "", stride[32] = "", random[32] = "", seed[32] = "";
    if (chance(c, 2))
        snprintf(local, sizeof local, ":local=%d", (int)choose(c, 0, 4));
    if (chance(c, 3))
        snprintf(global, sizeof global, ":global=%d", (int)choose(c, 0, 4));
    if (chance(c, 3))
        snprintf(stride, sizeof stride, ":stride=%d", (int)choose(c, 1, 90));
    if (chance(c, 2))
        snprintf(random, sizeof random, ":random=%d", (int)choose(c, 0, 12));
    if (chance(c, 2))
        snprintf(seed, sizeof seed, ":seed=%d", (int)choose(c, 0, 99999));
    snprintf(text, size, "%s%s%s%s%s%s", random, stride, local, seed, global, masks[choose(c, 0, 2)]);
}

/* Of all rows of all heads; and how many blocks are kept is what the density says. */
static void rows_against_the_definition(void **state)
{
    (void)state;
    seed_range range = seeds(250);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        char settings[160];
        uint8_t kept[300] = {0};
        int64_t heads = choose(&c, 1, 3), count = choose(&c, 1, chance(&c, 3) ? 300 : 70);
        choose_settings(&c, settings, sizeof settings);
        ra_pattern pattern = blocks_of(count, heads, settings);
        const ra_blocks *b = pattern.blocks;
        double all = 0;
        for (int64_t row = 0; row < heads * count; row++) {
            define_row(b, row / count, row % count, b->random, kept);
            check_row(b, &c, row / count, row % count, kept);
            for (int64_t j = 0; j < count; j++)
                all += kept[j];
        }
        ROW_REQUIRE(b, 0, 0, fabs(b->density - all / (double)(heads * count * count)) < 1e-12);
        ra_pattern_clear(&pattern);
    }
}

/* More columns than a walk looks at together. */
static void long_rows(void **state)
{
    (void)state;
    enum { COUNT = 9000 };
    static const char *const settings[] = {
        "", ":local=1:random=3", ":stride=1000:global=2", ":random=900:seed=4", ":local=5000", ":density=0.013"};
    uint8_t *kept = calloc(COUNT, 1);
    assert_non_null(kept);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        ra_pattern pattern = blocks_of(COUNT, 2, settings[i]);
        const ra_blocks *b = pattern.blocks;
        choices c = {i};
        for (int turn = 0; turn < 6; turn++) {
            int64_t row = turn == 0 ? 0 : turn == 1 ? COUNT - 1 : choose(&c, 0, COUNT - 1);
            uint64_t bits[(COUNT + 63) / 64];
            int64_t regular = 0, all = 0;
            ra_blocks_row(b, 1, row, 0, (COUNT + 63) / 64, bits);
            for (int64_t j = 0; j < COUNT; j++) {
                regular += kept_by_rule(b, 1, row, j);
                all += (int64_t)(bits[j / 64] >> (j % 64) & 1);
            }
            define_row(b, 1, row, b->wanted > 0 ? all - regular : b->random, kept);
            check_row(b, &c, 1, row, kept);
        }
        ra_pattern_clear(&pattern);
    }
    free(kept);
}

/* ---- Random blocks ----------------------------------------------------------------------------------------------- */

static int64_t kept_in_row(const ra_blocks *b, int64_t head, int64_t i)
{
    int64_t kept = 0;
    for (int64_t j = 0; j < b->count; j++)
        kept += ra_blocks_keeps(b, head, i, j);
    return kept;
}

/* As many further blocks as were asked for, wherever there is room for them. */
static void random_blocks_are_further_ones(void **state)
{
    (void)state;
    static const char *const others[] = {
        "", ":local=1", ":global=2", ":stride=3", ":local=2:global=1:stride=7", ":mask=@by_head"};
    for (int64_t random = 0; random <= 12; random++)
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            for (int64_t count = 1; count <= 40; count += 3) {
                char settings[80];
                snprintf(settings, sizeof settings, ":random=%lld%s", (long long)random, others[i]);
                ra_pattern with = blocks_of(count, 2, settings), without = blocks_of(count, 2, others[i]);
                for (int64_t row = 0; row < 2 * count; row++) {
                    int64_t regular = kept_in_row(without.blocks, row / count, row % count);
                    int64_t expected = regular + random < count ? regular + random : count;
                    ROW_REQUIRE(with.blocks, row / count, row % count,
                                kept_in_row(with.blocks, row / count, row % count) == expected);
                }
                ra_pattern_clear(&with);
                ra_pattern_clear(&without);
            }
}

/* Blocks that two rows keep both, of those that are random. */
static int64_t in_common(const ra_blocks *a, int64_t a_head, int64_t i, const ra_blocks *b, int64_t b_head, int64_t j)
{
    int64_t common = 0;
    for (int64_t column = 0; column < a->count; column++)
        common += column != i && column != j && ra_blocks_keeps(a, a_head, i, column) &&
                  ra_blocks_keeps(b, b_head, j, column);
    return common;
}

/* 20 of 1000: two rows have 0.4 in common, on the average. */
static void heads_rows_and_seeds_draw_for_themselves(void **state)
{
    (void)state;
    ra_pattern a = blocks_of(1000, 4, ":random=20:seed=1"), b = blocks_of(1000, 4, ":random=20:seed=2");
    ra_pattern again = blocks_of(1000, 2, ":seed=1:random=20");
    int64_t heads = 0, rows = 0, seeds = 0;
    for (int64_t i = 0; i < 100; i++) {
        heads += in_common(a.blocks, 0, i, a.blocks, 1, i);
        rows += in_common(a.blocks, 0, i, a.blocks, 0, i + 1);
        seeds += in_common(a.blocks, 0, i, b.blocks, 0, i);
        assert_int_equal(in_common(a.blocks, 1, i, again.blocks, 1, i), 20); /* whatever else the problem has */
    }
    assert_in_range(heads, 5, 120);
    assert_in_range(rows, 5, 120);
    assert_in_range(seeds, 5, 120);
    ra_pattern_clear(&a);
    ra_pattern_clear(&b);
    ra_pattern_clear(&again);
}

/* ---- Density ----------------------------------------------------------------------------------------------------- */

/* The number of kept blocks is the nearest there is to the fraction, but for the diagonal, which is always kept. */
static void check_density(int64_t count, double fraction, const char *text)
{
    char settings[64];
    snprintf(settings, sizeof settings, ":density=%s", text);
    ra_pattern pattern = blocks_of(count, 2, settings);
    double kept = 0, wanted = fmax((double)count, fraction * (double)count * (double)count);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = kept_in_row(pattern.blocks, 1, i);
        kept += (double)row;
        REQUIRE(row >= 1 && ra_blocks_keeps(pattern.blocks, 1, i, i), "%lld blocks, density %s: row %lld",
                (long long)count, text, (long long)i);
    }
    REQUIRE(fabs(kept - wanted) <= 0.5 + 1e-6, "%lld blocks, density %s: %.0f kept, expected %g", (long long)count,
            text, kept, wanted);
    REQUIRE(fabs(pattern.blocks->density - kept / (double)count / (double)count) < 1e-12,
            "%lld blocks, density %s: said to be %g", (long long)count, text, pattern.blocks->density);
    ra_pattern_clear(&pattern);
}

static void densities_are_met_to_half_a_block(void **state)
{
    (void)state;
    static const char *const fractions[] = {"0.001", "0.01", "0.05", "0.1", "0.125", "0.2",  "0.25",  "0.3333",
                                            "0.5",   "0.6",  "0.75", "0.9", "0.95",  "0.99", "0.999", "1"};
    for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++)
        for (int64_t count = 1; count <= 130; count += count < 40 ? 1 : 13)
            check_density(count, atof(fractions[i]), fractions[i]);
    seed_range range = seeds(150);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        char text[32];
        snprintf(text, sizeof text, "0.%05d", (int)choose(&c, 1, 99999));
        check_density(choose(&c, 1, 200), atof(text), text);
    }
}

/* ---- What is said about all of them ------------------------------------------------------------------------------ */

static void heads_that_are_the_same_and_reach(void **state)
{
    (void)state;
    seed_range range = seeds(150);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        char settings[160];
        int64_t count = choose(&c, 1, 40), reach = 0;
        bool same = true;
        choose_settings(&c, settings, sizeof settings);
        ra_pattern pattern = blocks_of(count, 2, settings);
        const ra_blocks *b = pattern.blocks;
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < count; j++) {
                same &= ra_blocks_keeps(b, 0, i, j) == ra_blocks_keeps(b, 1, i, j);
                if (ra_blocks_keeps(b, 0, i, j) && llabs(i - j) > reach)
                    reach = llabs(i - j);
            }
        ROW_REQUIRE(b, 0, 0, same || !ra_blocks_same(b));
        ROW_REQUIRE(b, 0, 0, reach <= ra_blocks_reach(b) && ra_blocks_reach(b) <= count);
        ra_pattern_clear(&pattern);
    }
    ra_pattern local = blocks_of(40, 3, ":local=2");
    assert_true(ra_blocks_same(local.blocks) && ra_blocks_reach(local.blocks) == 2);
    ra_pattern_clear(&local);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_against_the_definition),       cmocka_unit_test(long_rows),
        cmocka_unit_test(random_blocks_are_further_ones),    cmocka_unit_test(heads_rows_and_seeds_draw_for_themselves),
        cmocka_unit_test(densities_are_met_to_half_a_block), cmocka_unit_test(heads_that_are_the_same_and_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
