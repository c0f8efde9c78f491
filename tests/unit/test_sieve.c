/* SPDX-License-Identifier: Apache-2.0 */
/* Sieves: the bits of each row of each block of keys, against kept blocks and earlier branches asked pair by pair. */
#include "plan/sieve.h"
#include "support/naive.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 64, MOST_LANES = 64 };

/* Groups of members of a branch. */
typedef struct scene {
    uint64_t seed; /* for messages */
    char text[256];
    ra_pattern pattern;
    naive_pattern naive; /* its dilated term, if it has one */
    bool dilated;
    int64_t kv_len, heads, head;
    int branch, lanes, groups;
    int64_t members[MOST_GROUPS]; /* the first of each group */
    int rows[MOST_GROUPS];
    ra_lattice lattice;
    ra_sieve sieve;
} scene;

#define SCENE_REQUIRE(s, condition, at)                                                                                \
    REQUIRE(condition, "seed %llu, \"%s\", %lld keys, head %lld of %lld, branch %d, %d groups of %d, at %lld: not %s", \
            (unsigned long long)(s)->seed, (s)->text, (long long)(s)->kv_len, (long long)(s)->head,                    \
            (long long)(s)->heads, (s)->branch, (s)->groups, (s)->lanes, (long long)(at), #condition)

static bool kept(const scene *s, int64_t position, int64_t key)
{
    const ra_blocks *b = s->pattern.blocks;
    return !b || (position >= 0 && ra_blocks_keeps(b, s->head, position / b->size, key / b->size));
}

/* Whether a row sees a member, beside what its interval says. */
static bool sees(const scene *s, int64_t row, int64_t member)
{
    int64_t position = ra_lattice_position(&s->lattice, row), key = ra_lattice_position(&s->lattice, member);
    bool seen = kept(s, position, key);
    for (int i = 0; seen && ra_pattern_exclusive(&s->pattern, s->branch) && i < s->branch; i++)
        seen = !naive_in_branch(&s->naive.terms[0], s->heads, i, s->head, position, key);
    return seen;
}

/* Groups of consecutive members anywhere in the sequence, in order; where all positions are members, some below 0. */
static void choose_groups(scene *s, choices *c)
{
    int64_t all = ra_branch_members(&s->lattice, 0, s->kv_len).hi;
    int64_t at = ra_lattice_plain(&s->lattice) ? choose(c, -10, 10) : choose(c, 0, 5);
    int most = (int)choose(c, 1, chance(c, 4) ? MOST_GROUPS : 6);
    s->groups = 0;
    while (s->groups < most && at < all) {
        int64_t rows = choose(c, 1, s->lanes);
        s->members[s->groups] = at;
        s->rows[s->groups] = (int)(rows < all - at ? rows : all - at);
        at += s->rows[s->groups++] + (chance(c, 3) ? choose(c, 0, 40) : 0);
    }
}

static void check_block(scene *s, int64_t first, int skip, int rows)
{
    ra_sieve_look(&s->sieve, first, skip, rows);
    for (int g = 0; g < s->groups; g++) {
        for (int lane = 0; lane < s->rows[g]; lane++) {
            uint64_t bits = ra_sieve_row(&s->sieve, g, lane);
            for (int k = skip; k < rows; k++)
                SCENE_REQUIRE(s, (bits >> k & 1) == sees(s, s->members[g] + lane, first + k), first + k);
        }
        uint64_t one = ra_sieve_row(&s->sieve, g, 0);
        for (int lane = 1; s->pattern.blocks && ra_sieve_alike(&s->sieve, g, s->rows[g]) && lane < s->rows[g]; lane++)
            SCENE_REQUIRE(s, ra_sieve_row(&s->sieve, g, lane) == one, first);
    }
}

/* Nothing that kept blocks let some row see lies before what it says comes next. */
static void check_next(scene *s, int64_t from, int64_t all)
{
    int64_t next = ra_sieve_next(&s->sieve, from);
    SCENE_REQUIRE(s, next >= from, from);
    for (int64_t member = from; member < all && member < next; member++)
        for (int g = 0; g < s->groups; g++)
            for (int lane = 0; lane < s->rows[g]; lane++)
                SCENE_REQUIRE(s, !sees(s, s->members[g] + lane, member), member);
}

static void scene_check(scene *s, choices *c)
{
    int64_t all = ra_branch_members(&s->lattice, 0, s->kv_len).hi, room = s->groups + choose(c, 0, 3);
    int64_t bytes = ra_sieve_bytes(&s->pattern, s->lanes, room);
    char *memory = malloc((size_t)bytes + 1); /* exactly, for the sanitizers */
    assert_non_null(memory);
    memory[bytes] = 0x5a;
    ra_sieve_begin(&s->sieve, memory, &s->pattern, s->head, s->branch, s->lanes, room);
    for (int g = 0; g < s->groups; g++)
        for (int lane = 0; lane < s->rows[g]; lane++)
            ra_sieve_add(&s->sieve, g, lane, s->members[g] + lane);
    for (int i = 0; i < 6; i++) { /* back and forth */
        int64_t member = choose(c, 0, all - 1), first = member / RA_KEY_BLOCK * RA_KEY_BLOCK;
        int rows = (int)(all - first < RA_KEY_BLOCK ? all - first : RA_KEY_BLOCK);
        int skip = chance(c, 2) ? 0 : (int)(member - first);
        check_block(s, first, skip, chance(c, 3) ? (int)choose(c, skip + 1, rows) : rows);
        if (s->groups < 10)
            check_next(s, choose(c, 0, all - 1), all);
    }
    SCENE_REQUIRE(s, memory[bytes] == 0x5a, bytes);
    free(memory);
}

static void random_sieves(void **state)
{
    (void)state;
    static const int lanes[] = {1, 8, 32, MOST_LANES};
    scene *s = malloc(sizeof *s);
    assert_non_null(s);
    seed_range range = seeds(500);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        s->seed = seed;
        s->kv_len = choose(&c, 1, chance(&c, 6) ? 2500 : 300); /* long ones have several windows of kept blocks */
        s->heads = choose(&c, 1, 3);
        s->head = choose(&c, 0, s->heads - 1);
        s->lanes = lanes[choose(&c, 0, 3)];
        choose_sparse(&c, s->kv_len, s->text, sizeof s->text);
        REQUIRE(
            !ra_pattern_parse(s->text, &(ra_pattern_shape){.kv_len = s->kv_len, .heads = s->heads}, NULL, &s->pattern),
            "%s", ra_last_message());
        s->dilated = naive_read_dilated(s->text, s->kv_len, s->heads, &s->naive);
        s->branch = (int)choose(&c, 0, ra_pattern_branches(&s->pattern, s->head) - 1);
        s->lattice = ra_pattern_lattice(&s->pattern, s->head, s->branch);
        choose_groups(s, &c);
        bool exclusive = s->dilated && strcmp(s->naive.terms[0].mode, "union") == 0 && s->branch > 0;
        SCENE_REQUIRE(s, ra_sieve_needed(&s->pattern, s->branch) == (s->pattern.blocks || exclusive), 0);
        if (s->groups && ra_sieve_needed(&s->pattern, s->branch))
            scene_check(s, &c);
        ra_pattern_clear(&s->pattern);
    }
    free(s);
}

/* Blocks of keys around the edge between two windows, after the one before: as a run comes to them. */
static void check_edge(scene *s, int64_t edge, int64_t all)
{
    int64_t block = edge / RA_KEY_BLOCK * RA_KEY_BLOCK;
    for (int64_t first = block - RA_KEY_BLOCK; first <= block + RA_KEY_BLOCK && first < all; first += RA_KEY_BLOCK)
        check_block(s, first, 0, (int)(all - first < RA_KEY_BLOCK ? all - first : RA_KEY_BLOCK));
    for (int64_t from = edge - 2; from <= edge + 2 && from < all; from++) {
        ra_sieve_look(&s->sieve, block - RA_KEY_BLOCK, 0, RA_KEY_BLOCK); /* back in the window before */
        check_next(s, from, from + 200 < all ? from + 200 : all);
    }
}

/* More blocks than one window has. */
static void edges_of_windows(void **state)
{
    (void)state;
    static const char *const texts[] = {"blocks:1:stride=3:random=40",   "blocks:2:stride=5:random=30:seed=7",
                                        "blocks:1:local=2:global=1",     "blocks:3:stride=2",
                                        "blocks:2:stride=2+window:5000", "blocks:1:stride=7+dilated:100/3,24000/2"};
    enum { GROUPS = 12, LANES = 64 };
    scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        s->kv_len = 24000, s->heads = 2, s->head = 1, s->lanes = LANES, s->groups = GROUPS;
        snprintf(s->text, sizeof s->text, "%s", texts[i]);
        REQUIRE(
            !ra_pattern_parse(s->text, &(ra_pattern_shape){.kv_len = s->kv_len, .heads = s->heads}, NULL, &s->pattern),
            "%s", ra_last_message());
        s->branch = ra_pattern_branches(&s->pattern, s->head) - 1;
        s->lattice = ra_pattern_lattice(&s->pattern, s->head, s->branch);
        int64_t bytes = ra_sieve_bytes(&s->pattern, LANES, GROUPS),
                all = ra_branch_members(&s->lattice, 0, s->kv_len).hi;
        char *memory = malloc((size_t)bytes);
        assert_non_null(memory);
        ra_sieve_begin(&s->sieve, memory, &s->pattern, s->head, s->branch, LANES, GROUPS);
        for (int g = 0; g < GROUPS; g++) {
            s->members[g] = g * (all / GROUPS), s->rows[g] = 3;
            for (int lane = 0; lane < s->rows[g]; lane++)
                ra_sieve_add(&s->sieve, g, lane, s->members[g] + lane);
        }
        int64_t window = 64 * s->sieve.words * s->pattern.blocks->size; /* positions */
        SCENE_REQUIRE(s, window < s->kv_len, window);
        for (int64_t edge = window; edge < s->kv_len; edge += window)
            check_edge(s, ra_lattice_below(&s->lattice, edge), all);
        free(memory);
        ra_pattern_clear(&s->pattern);
    }
    free(s);
}

static void bits_from_to(void **state)
{
    (void)state;
    for (int from = 0; from <= 70; from++)
        for (int to = 0; to <= 70; to++)
            for (int i = 0; i < 64; i++)
                assert_int_equal(ra_bits(from, to) >> i & 1, i >= from && i < to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sieves),
        cmocka_unit_test(edges_of_windows),
        cmocka_unit_test(bits_from_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
