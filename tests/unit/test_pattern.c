/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns: what texts mean, which are refused at which character, and intervals against the definition. */
#include "plan/pattern.h"
#include "support/naive.h"
#include "support/ragged.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stands in for files. */
static ra_status load_integers(const char *path, int64_t **lengths, int64_t *count, int64_t *columns)
{
    static const int64_t LENGTHS[] = {3, 5, 2, 5};
    *columns = strcmp(path, "pairs.npy") == 0 ? 2 : strcmp(path, "wide.npy") == 0 ? 3 : 1;
    if (*columns == 1 && strcmp(path, "lengths.npy") != 0)
        return ra_fail(RA_ERROR_FILE, "%s: no such file", path);
    *lengths = malloc(sizeof LENGTHS);
    assert_non_null(*lengths);
    memcpy(*lengths, LENGTHS, sizeof LENGTHS);
    *count = *columns == 1 ? 3 : 4 / *columns; /* 3, 5, 2; or 3/5, 2/5 */
    return RA_OK;
}

/* mask.npy: all heads keep the block two to the right. by_head.npy: head h the one h + 1 to the right. */
static ra_status load_mask(const char *path, int64_t count, int64_t heads, uint64_t **bits, bool *by_head)
{
    *by_head = strcmp(path, "by_head.npy") == 0;
    if (!*by_head && strcmp(path, "mask.npy") != 0)
        return ra_fail(RA_ERROR_FILE, "%s: no such file", path);
    int64_t words = ra_blocks_words(count), masks = *by_head ? heads : 1;
    *bits = calloc((size_t)(masks * count * words), sizeof **bits);
    assert_non_null(*bits);
    for (int64_t head = 0; head < masks; head++)
        for (int64_t row = 0; row < count; row++) {
            int64_t column = row + (*by_head ? head + 1 : 2);
            if (column < count)
                (*bits)[(head * count + row) * words + column / 64] |= UINT64_C(1) << (column % 64);
        }
    return RA_OK;
}

/* Every third pair; paths that begin with "each" have another mask for each batch element, "heads" for each head. */
static ra_status load_pairs(const char *path, const int64_t shape[4], uint64_t **bits, int64_t *batch, int64_t *heads)
{
    if (strncmp(path, "no", 2) == 0)
        return ra_fail(RA_ERROR_FILE, "%.40s: no such file", path);
    *batch = strncmp(path, "each", 4) == 0 ? shape[0] : 1;
    *heads = strncmp(path, "heads", 5) == 0 ? shape[1] : 1;
    int64_t rows = *batch * *heads * shape[2], words = ra_blocks_words(shape[3]);
    *bits = calloc((size_t)(rows * words) + 1, sizeof **bits);
    if (!*bits)
        return ra_fail(RA_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < rows * shape[3]; i++)
        if ((i / shape[3] + i % shape[3]) % 3 == 1)
            (*bits)[i / shape[3] * words + i % shape[3] / 64] |= UINT64_C(1) << (i % shape[3] % 64);
    return RA_OK;
}

static const ra_pattern_files files = {load_integers, load_mask, load_pairs};

/* ---- Meaning, against a definition written out here ------------------------------------------------------------- */

enum { KEYS = 10 };

/* What a head's query at a position sees of 10 keys, as text: '#' once, a digit for how often if more. */
static void head_sees(const char *text, int64_t heads, int64_t head, int64_t position, const char *expected)
{
    ra_pattern pattern;
    char row[KEYS + 1] = "..........";
    REQUIRE(!ra_pattern_parse(text, &(ra_pattern_shape){.kv_len = KEYS, .heads = heads}, &files, &pattern), "%s: %s",
            text, ra_last_message());
    for (int key = 0; key < KEYS; key++) {
        int times = ra_pattern_sees(&pattern, head, position, key);
        row[key] = (char)(times > 1 ? '0' + times : times ? '#' : '.');
    }
    ra_pattern_clear(&pattern);
    REQUIRE(strcmp(row, expected) == 0, "%s, head %lld at %lld: %s, expected %s", text, (long long)head,
            (long long)position, row, expected);
}

static void sees(const char *text, int64_t position, const char *expected)
{
    head_sees(text, 1, 0, position, expected);
}

static void texts_mean_what_they_say(void **state)
{
    (void)state;
    sees("full", 4, "##########");
    sees("full", -3, "##########");
    sees("causal", 0, "#.........");
    sees("causal", 4, "#####.....");
    sees("causal", -1, "..........");
    sees("window:2,1", 4, "..####....");
    sees("window:2", 4, "..#####...");
    sees("window:0", 4, "....#.....");
    sees("window:0,0", 0, "#.........");
    sees("window:1,3", -2, "##........");
    sees("window:1,1", -2, "..........");
    sees("documents:3,5,2", 2, "###.......");
    sees("documents:3,5,2", 3, "...#####..");
    sees("documents:3,5,2", 9, "........##");
    sees("documents:3,5,2", -1, "..........");
    sees("documents:10", 0, "##########");
    sees("documents:@lengths.npy", 7, "...#####..");
    sees("causal+window:2,1", 4, "..###.....");
    sees("causal+documents:3,5,2", 5, "...###....");
    sees("documents:@lengths.npy+window:1,9", 5, "....####..");
    sees("documents:3,5,2+documents:5,5", 4, "...##.....");
    sees("full+full+causal+full", 1, "##........");
}

static void dilated_texts_mean_what_they_say(void **state)
{
    (void)state;
    sees("dilated:4/1", 5, "....####..");
    sees("dilated:4/1", 9, "........##");
    sees("dilated:4/1", -1, "..........");
    sees("dilated:99/1", 3, "##########");
    head_sees("dilated:4/2", 2, 0, 0, "#.#.......");
    head_sees("dilated:4/2", 2, 0, 1, "..........");
    head_sees("dilated:4/2", 2, 1, 1, ".#.#......");
    head_sees("dilated:4/2", 2, 1, 9, ".........#");
    head_sees("dilated:4/3", 3, 0, 4, "....#..#..");
    head_sees("dilated:4/3", 3, 0, 3, "#..#......");
    head_sees("dilated:4/3", 3, 2, 6, "......#...");
    head_sees("dilated:4/3", 4, 3, 4, "....#..#..");
    sees("dilated:4/1,8/2", 0, "2#2##.#...");
    sees("dilated:4/1,8/2:mode=paper", 0, "2#2##.#...");
    sees("dilated:4/1,8/2:mode=union", 0, "#####.#...");
    sees("dilated:4/1,8/2", 1, "####......");
    head_sees("dilated:4/1,8/2", 2, 1, 1, "#2#2.#.#..");
    sees("dilated:5/1,5/1,5/1", 7, ".....33333");
    sees("dilated:5/1,5/1,5/1:mode=union", 7, ".....#####");
    head_sees("dilated:4/1,8/2:mode=grouped", 3, 0, 1, "####......");
    head_sees("dilated:4/1,8/2:mode=grouped", 3, 1, 6, "....####..");
    head_sees("dilated:4/1,8/2:mode=grouped", 3, 2, 1, ".#.#.#.#..");
    head_sees("dilated:4/1,8/2:mode=grouped", 3, 2, 0, "..........");
    head_sees("dilated:4/1,8/2,8/1:mode=grouped", 2, 1, 3, ".#.#.#.#..");
    head_sees("dilated:8/2:mode=torchscale", 3, 0, 2, "#.#.#.#...");
    head_sees("dilated:8/2:mode=torchscale", 3, 1, 2, "#.#.#.#...");
    head_sees("dilated:8/2:mode=torchscale", 3, 2, 3, ".#.#.#.#..");
    head_sees("dilated:8/2:mode=torchscale", 3, 2, 2, "..........");
    head_sees("dilated:8/4:mode=torchscale", 2, 1, 1, ".#...#....");
}

static void dilated_terms_are_cut_by_others(void **state)
{
    (void)state;
    sees("dilated:4/1,8/2+causal", 2, "2#2.......");
    sees("causal+dilated:4/1,8/2", 2, "2#2.......");
    head_sees("dilated:8/2+window:2,3", 2, 1, 5, "...#.#.#..");
    /* Segments count from position 0, wherever documents begin. */
    sees("dilated:4/1+documents:3,7", 5, "....####..");
    sees("dilated:4/1+documents:3,7", 3, "...#......");
    head_sees("dilated:4/2+documents:3,7", 2, 0, 2, "#.#.......");
}

static void blocks_texts_mean_what_they_say(void **state)
{
    (void)state;
    sees("blocks:3", 4, "...###....");
    sees("blocks:3", 9, ".........#");
    sees("blocks:3", -1, "..........");
    sees("blocks:99", 4, "##########");
    sees("blocks:3:local=1", 0, "######....");
    sees("blocks:3:local=1", 9, "......####");
    sees("blocks:2:global=1", 5, "##..##....");
    sees("blocks:2:global=1", 1, "##########");
    sees("blocks:2:global=9", 9, "##########");
    sees("blocks:2:stride=2", 9, "##..##..##");
    sees("blocks:2:stride=3", 1, "##....##..");
    sees("blocks:2:stride=1", 1, "##########");
    sees("blocks:2:density=1", 5, "##########");
    sees("blocks:2:density=0.2", 5, "....##....");
    sees("blocks:2:random=4", 5, "##########");
    sees("blocks:2:random=99", 5, "##########");
    sees("blocks:2:mask=@mask.npy", 3, "......##..");
    sees("blocks:2:mask=@mask.npy", 7, "..........");
    sees("blocks:2:local=0:mask=@mask.npy", 3, "..##..##..");
    sees("blocks:2:local=1:mask=@mask.npy", 3, "########..");
    sees("blocks:2:global=1:mask=@mask.npy", 3, "##....##..");
    head_sees("blocks:2:mask=@by_head.npy", 3, 0, 2, "....##....");
    head_sees("blocks:2:mask=@by_head.npy", 3, 2, 2, "........##");
    sees("blocks:4+documents:3,7", 5, "....####..");
    sees("blocks:4+documents:3,7", 3, "...#......");
    sees("blocks:4+causal", 5, "....##....");
    sees("blocks:3:local=1+window:1,1", 3, "..###.....");
    head_sees("blocks:5+dilated:8/2", 2, 1, 3, ".#.#......");
    sees("blocks:5+dilated:8/1,8/1", 6, ".....222..");
}

/* ---- Intervals against the definition ---------------------------------------------------------------------------- */

static void interval_is_the_definition(const ra_pattern *pattern, const char *text, int64_t position)
{
    ra_interval seen = ra_pattern_interval(pattern, position);
    REQUIRE(seen.lo >= 0 && seen.hi <= pattern->kv_len, "%s at %lld: %lld..%lld", text, (long long)position,
            (long long)seen.lo, (long long)seen.hi);
    for (int64_t key = 0; key < pattern->kv_len; key++)
        REQUIRE((key >= seen.lo && key < seen.hi) == ra_pattern_sees(pattern, 0, position, key),
                "%s at %lld, key %lld of %lld", text, (long long)position, (long long)key, (long long)pattern->kv_len);
}

/* Every window, alone and with a causal term, over every small length. */
static void windows_exhaustively(void **state)
{
    (void)state;
    for (int64_t kv_len = 1; kv_len <= 9; kv_len++)
        for (int window = 0; window < 2 * 11 * 11; window++) {
            char text[64];
            ra_pattern pattern;
            snprintf(text, sizeof text, "window:%d,%d%s", window / 11 % 11, window % 11, window < 121 ? "" : "+causal");
            assert_int_equal(
                ra_pattern_parse(text, &(ra_pattern_shape){.kv_len = kv_len, .heads = 1}, &files, &pattern), RA_OK);
            for (int64_t position = -12; position < kv_len + 12; position++)
                interval_is_the_definition(&pattern, text, position);
            ra_pattern_clear(&pattern);
        }
}

/* Every way to cut a small sequence into documents. */
static void documents_exhaustively(void **state)
{
    (void)state;
    for (int kv_len = 1; kv_len <= 9; kv_len++)
        for (unsigned cuts = 0; cuts < 1U << (kv_len - 1); cuts++) {
            char text[64] = "documents:", *end = text + strlen(text);
            ra_pattern pattern;
            for (int i = 1, length = 1; i <= kv_len; i++, length++)
                if (i == kv_len || cuts >> (i - 1) & 1) {
                    end += sprintf(end, i == kv_len ? "%d" : "%d,", length);
                    length = 0;
                }
            REQUIRE(!ra_pattern_parse(text, &(ra_pattern_shape){.kv_len = kv_len, .heads = 1}, &files, &pattern), "%s",
                    ra_last_message());
            for (int64_t position = -2; position < kv_len + 2; position++)
                interval_is_the_definition(&pattern, text, position);
            ra_pattern_clear(&pattern);
        }
}

static void random_combinations(void **state)
{
    (void)state;
    seed_range range = seeds(2000);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        char text[512], named[600];
        int64_t kv_len = choose(&c, 1, 150);
        ra_pattern pattern;
        ra_pattern_shape shape = {.kv_len = kv_len, .heads = 1, .origin = chance(&c, 2) ? choose(&c, 0, 300) : 0};
        shape.offset = -20, shape.q_len = kv_len + 60;
        choose_intervals(&c, kv_len, text, sizeof text);
        if (chance(&c, 3)) {
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "+");
            append_packed(&c, shape.q_len, kv_len, text, sizeof text);
        }
        snprintf(named, sizeof named, "seed %llu: %s", (unsigned long long)seed, text);
        REQUIRE(!ra_pattern_parse(text, &shape, &files, &pattern), "%s: %s", named, ra_last_message());
        ra_interval before = {0, 0};
        for (int64_t position = -20; position < kv_len + 40; position++) {
            ra_interval seen = ra_pattern_interval(&pattern, position);
            interval_is_the_definition(&pattern, named, position);
            REQUIRE(seen.lo >= before.lo && seen.hi >= before.hi, "%s at %lld: an end moves back", named,
                    (long long)position);
            before = seen;
        }
        ra_pattern_clear(&pattern);
    }
}

/* What query `query` of 6 sees of 10 keys. */
static void packed_sees(const char *text, int64_t query, const char *expected)
{
    ra_pattern pattern;
    const ra_pattern_shape shape = {.kv_len = KEYS, .heads = 1, .q_len = 6, .offset = 4};
    char row[KEYS + 1] = "..........";
    REQUIRE(!ra_pattern_parse(text, &shape, &files, &pattern), "%s: %s", text, ra_last_message());
    for (int key = 0; key < KEYS; key++)
        row[key] = ra_pattern_sees(&pattern, 0, query + 4, key) ? '#' : '.';
    ra_pattern_clear(&pattern);
    REQUIRE(strcmp(row, expected) == 0, "%s, query %lld: %s, expected %s", text, (long long)query, row, expected);
}

static void packed_sequences_mean_what_they_say(void **state)
{
    (void)state;
    packed_sees("documents:2/4,4/6", 0, "####......");
    packed_sees("documents:2/4,4/6", 2, "....######");
    packed_sees("documents:2/4,4/6+causal", 0, "###.......");
    packed_sees("documents:2/4,4/6+causal", 1, "####......");
    packed_sees("documents:2/4,4/6+causal", 2, "....###...");
    packed_sees("causal+documents:4/2,2/8", 0, "..........");
    packed_sees("causal+documents:4/2,2/8", 2, "#.........");
    packed_sees("causal+documents:4/2,2/8", 4, "..#######.");
    packed_sees("window:1,0+documents:3/3,0/3,3/4", 2, ".##.......");
    packed_sees("window:1,0+documents:3/3,0/3,3/4", 3, "......##..");
    packed_sees("documents:6/0,0/10", 5, "..........");
    packed_sees("documents:0/3,6/7", 0, "...#######");
    packed_sees("chunks:4+documents:2/5,4/5", 2, ".....###..");
}

static void packed_sequences_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        bool placed;
    } bad[] = {
        {"causal+documents:2/4,4/7", "character 8: the keys of the 2 documents add up to 11, but there are 10", false},
        {"documents:2/4,5/6", "the queries of the 2 documents add up to 7, but there are 6", false},
        {"documents:2/4,4", "expected \"/\" and the document's number of keys, found the end", false},
        {"documents:2/4,4/", "expected a number of keys, >= 0, found the end", false},
        {"documents:6/10/2", "expected \"+\" or the end, found \"/2\"", false},
        {"documents:6,4/0", "expected \"+\" or the end, found \"/0\"", false},
        {"documents:2/4,4/9223372036854775807", "the documents add up to 2^63 or more", false},
        {"causal+documents:2/4,4/6", "character 8: query position 4 beside documents:Q/K", true},
        {"documents:2/4,4/6+documents:6/10", "there can be one documents:Q/K term", false},
        {"dilated:4/2+documents:2/4,4/6", "no dilated or blocks term beside documents:Q/K", false},
        {"documents:2/4,4/6+blocks:4", "no dilated or blocks term beside documents:Q/K", false},
        {"documents:@wide.npy", "character 11: wide.npy: int64 [1, 3]: documents must be [n] or [n, 2]", false},
        {"documents", "or an array of them, found the end", false}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ra_pattern pattern;
        const ra_pattern_shape shape = {.kv_len = KEYS, .heads = 1, .q_len = 6, .offset = 4, .placed = bad[i].placed};
        REQUIRE(ra_pattern_parse(bad[i].text, &shape, &files, &pattern) && strstr(ra_last_message(), bad[i].message),
                "%s: %s", bad[i].text, ra_last_message());
        ra_pattern_clear(&pattern);
    }
}

/* ---- Branches against the definition ----------------------------------------------------------------------------- */

/* A pattern with branches or blocks, and who is looked at. */
typedef struct sparse {
    char text[300]; /* for messages, with the seed */
    const ra_pattern *pattern;
    const naive_term *dilated; /* NULL: none */
    int64_t heads, head;
    int64_t origin; /* positions before key 0 */
} sparse;

#define SPARSE_REQUIRE(s, condition, at)                                                                               \
    REQUIRE(condition, "%s, head %lld of %lld, at %lld: not %s", (s)->text, (long long)(s)->head,                      \
            (long long)(s)->heads, (long long)(at), #condition)

/* Whether branch `branch` of the head has both; what it means for a pattern without branches is that all are there. */
static bool branch_has(const sparse *s, int branch, int64_t position, int64_t key)
{
    const naive_term *d = s->dilated;
    const ra_blocks *b = s->pattern->blocks;
    if (b && (position < 0 || position >= (s->pattern->kv_len + b->size - 1) / b->size * b->size))
        return false;
    if (!d)
        return true;
    position += s->origin, key += s->origin;
    for (int i = 0; strcmp(d->mode, "grouped") == 0 && i < d->count; i++)
        if (naive_in_branch(d, s->heads, i, s->head, position, key))
            return true;
    return strcmp(d->mode, "grouped") != 0 && naive_in_branch(d, s->heads, branch, s->head, position, key);
}

/* What interval terms say, by their own definition. */
static bool intervals_let(const sparse *s, int64_t position, int64_t key)
{
    bool seen = true;
    for (int i = 0; i < s->pattern->count; i++)
        if (s->pattern->terms[i].kind->interval)
            seen &= s->pattern->terms[i].kind->sees(&s->pattern->terms[i], s->head, position, key) > 0;
    return seen;
}

/* The interval of a query in each branch has exactly the members that intervals and the branch let it see. */
static void branch_intervals_are_the_definition(const sparse *s, int64_t position)
{
    for (int branch = 0; branch < ra_pattern_branches(s->pattern, s->head); branch++) {
        ra_lattice lattice = ra_pattern_lattice(s->pattern, s->head, branch);
        ra_interval here = ra_branch_members(&lattice, position, position + 1), seen = {0, 0};
        SPARSE_REQUIRE(s, here.hi - here.lo == 0 || here.hi - here.lo == 1, position);
        if (here.lo < here.hi)
            seen = ra_branch_interval(s->pattern, &lattice, here.lo);
        ra_interval all = ra_branch_members(&lattice, 0, s->pattern->kv_len);
        SPARSE_REQUIRE(s, seen.lo >= seen.hi || (seen.lo >= all.lo && seen.hi <= all.hi), position);
        for (int64_t key = 0; key < s->pattern->kv_len; key++) {
            ra_interval member = ra_branch_members(&lattice, key, key + 1);
            bool inside = member.lo < member.hi && member.lo >= seen.lo && member.lo < seen.hi;
            SPARSE_REQUIRE(s, inside == (branch_has(s, branch, position, key) && intervals_let(s, position, key)),
                           position);
        }
    }
}

static void blind_rows_see_nothing(const sparse *s, int64_t position)
{
    int64_t seen = 0;
    for (int64_t key = 0; key < s->pattern->kv_len; key++)
        seen += ra_pattern_sees(s->pattern, s->head, position, key);
    SPARSE_REQUIRE(s, ra_pattern_blind(s->pattern, s->head, position) == (seen == 0), position);
}

/* A mask need not have the diagonal: rows of blocks may keep nothing, or nothing that other terms leave. */
static void masks_leave_rows_blind(void **state)
{
    (void)state;
    static const char *const texts[] = {"blocks:2:mask=@mask.npy",
                                        "blocks:3:mask=@by_head.npy+causal",
                                        "blocks:1:mask=@mask.npy+window:9,1",
                                        "blocks:2:mask=@by_head.npy+window:1,9",
                                        "blocks:2:global=1:mask=@mask.npy+window:2",
                                        "blocks:2:mask=@by_head.npy+dilated:6/2,30/3",
                                        "blocks:4:mask=@mask.npy+dilated:9/4:mode=union",
                                        "blocks:1:random=1:mask=@mask.npy+window:3,0"};
    enum { KEYS_HERE = 40, HEADS = 3 };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ra_pattern pattern;
        REQUIRE(!ra_pattern_parse(texts[i], &(ra_pattern_shape){.kv_len = KEYS_HERE, .heads = HEADS}, &files, &pattern),
                "%s: %s", texts[i], ra_last_message());
        for (int64_t head = 0; head < HEADS; head++) {
            sparse s = {.pattern = &pattern, .heads = HEADS, .head = head};
            snprintf(s.text, sizeof s.text, "%s", texts[i]);
            for (int64_t position = -3; position < KEYS_HERE; position++)
                blind_rows_see_nothing(&s, position);
        }
        ra_pattern_clear(&pattern);
    }
}

/* Everything that queries see is inside of their hull, and in each branch of their reach. */
static void hulls_have_all_keys(const sparse *s, int64_t first, int64_t count)
{
    ra_interval hull = ra_pattern_hull(s->pattern, first, count);
    SPARSE_REQUIRE(s, hull.lo >= hull.hi || (hull.lo >= 0 && hull.hi <= s->pattern->kv_len), first);
    for (int64_t position = first; position < first + count; position++)
        for (int64_t key = 0; key < s->pattern->kv_len; key++)
            SPARSE_REQUIRE(s, (key >= hull.lo && key < hull.hi) || !ra_pattern_sees(s->pattern, s->head, position, key),
                           position);
}

static void branch_reach_is_what_its_members_see(const sparse *s, int64_t first, int64_t count)
{
    for (int branch = 0; branch < ra_pattern_branches(s->pattern, s->head); branch++) {
        ra_lattice lattice = ra_pattern_lattice(s->pattern, s->head, branch);
        ra_interval queries = ra_branch_members(&lattice, first, first + count);
        if (queries.lo >= queries.hi)
            continue;
        ra_interval reach = ra_branch_reach(s->pattern, &lattice, queries.lo, queries.hi - queries.lo);
        ra_interval all = ra_branch_members(&lattice, 0, s->pattern->kv_len);
        for (int64_t key = all.lo; key < all.hi; key++) {
            bool seen = false;
            for (int64_t query = queries.lo; query < queries.hi && !seen; query++) {
                ra_interval one = ra_branch_interval(s->pattern, &lattice, query);
                seen = key >= one.lo && key < one.hi;
            }
            SPARSE_REQUIRE(s, seen == (key >= reach.lo && key < reach.hi), first);
        }
    }
}

/* Heads that are said to see the same do. */
static void same_heads_see_the_same(const sparse *s, int64_t other)
{
    if (!ra_pattern_same(s->pattern, s->head, other))
        return;
    for (int64_t position = 0; position < s->pattern->kv_len; position++)
        for (int64_t key = 0; key < s->pattern->kv_len; key++)
            SPARSE_REQUIRE(s,
                           ra_pattern_sees(s->pattern, s->head, position, key) ==
                               ra_pattern_sees(s->pattern, other, position, key),
                           position);
}

static void random_sparse_patterns(void **state)
{
    (void)state;
    seed_range range = seeds(600);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        char text[256];
        int64_t kv_len = choose(&c, 1, 90), heads = choose(&c, 1, 7);
        ra_pattern pattern;
        ra_pattern_shape shape = {.kv_len = kv_len, .heads = heads, .origin = chance(&c, 2) ? choose(&c, 0, 200) : 0};
        choose_sparse(&c, kv_len, text, sizeof text);
        REQUIRE(!ra_pattern_parse(text, &shape, &files, &pattern), "%s: %s", text, ra_last_message());
        naive_pattern naive;
        bool dilated = naive_read_dilated(text, kv_len, heads, &naive);
        sparse s = {.pattern = &pattern,
                    .dilated = dilated ? naive.terms : NULL,
                    .heads = heads,
                    .origin = shape.origin,
                    .head = choose(&c, 0, heads - 1)};
        snprintf(s.text, sizeof s.text, "seed %llu: %s", (unsigned long long)seed, text);
        SPARSE_REQUIRE(&s, !ra_pattern_is_interval(&pattern), 0);
        for (int64_t position = -5; position < kv_len + 30; position++) {
            branch_intervals_are_the_definition(&s, position);
            blind_rows_see_nothing(&s, position);
        }
        int64_t first = choose(&c, -8, kv_len + 20), count = choose(&c, 1, kv_len + 25 - first);
        hulls_have_all_keys(&s, first, count);
        branch_reach_is_what_its_members_see(&s, first, count);
        same_heads_see_the_same(&s, choose(&c, 0, heads - 1));
        ra_pattern_clear(&pattern);
    }
}

/* Numbers up to the largest are numbers. */
static void segments_and_settings_may_be_huge(void **state)
{
    (void)state;
#define HUGE_NUMBER "9223372036854775807"
    sees("dilated:" HUGE_NUMBER "/1", 4, "##########");
    sees("dilated:" HUGE_NUMBER "/2+causal", 4, "#.#.#.....");
    sees("dilated:" HUGE_NUMBER "/" HUGE_NUMBER, 0, "#.........");
    sees("dilated:" HUGE_NUMBER "/" HUGE_NUMBER ":mode=torchscale", 0, "#.........");
    sees("dilated:4/1," HUGE_NUMBER "/3:mode=union", 3, "####..#..#");
    sees("blocks:" HUGE_NUMBER, 4, "##########");
    sees("blocks:2:local=" HUGE_NUMBER, 4, "##########");
    sees("blocks:2:global=" HUGE_NUMBER, 4, "##########");
    sees("blocks:2:stride=" HUGE_NUMBER, 4, "....##....");
    sees("blocks:2:random=" HUGE_NUMBER, 4, "##########");
    sees("blocks:2:seed=" HUGE_NUMBER, 4, "....##....");
    static const char *const texts[] = {"dilated:" HUGE_NUMBER "/" HUGE_NUMBER,
                                        "dilated:" HUGE_NUMBER "/2,3/3:mode=union",
                                        "blocks:" HUGE_NUMBER,
                                        "blocks:1:local=" HUGE_NUMBER,
                                        "blocks:1:stride=" HUGE_NUMBER,
                                        "blocks:1:random=" HUGE_NUMBER ":local=2"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ra_pattern pattern;
        REQUIRE(!ra_pattern_parse(texts[i], &(ra_pattern_shape){.kv_len = KEYS, .heads = 1}, &files, &pattern),
                "%s: %s", texts[i], ra_last_message());
        for (int64_t row = 0; pattern.blocks && row < pattern.blocks->count; row++) {
            uint64_t bits = 0;
            ra_blocks_row(pattern.blocks, 0, row, 0, 1, &bits);
            for (int64_t column = 0; column < pattern.blocks->count; column++)
                assert_int_equal(bits >> column & 1, ra_blocks_keeps(pattern.blocks, 0, row, column));
        }
        for (int64_t position = -3; position < KEYS; position++) {
            ra_interval hull = ra_pattern_hull(&pattern, position, 1);
            assert_true(hull.lo >= 0 && hull.hi <= KEYS);
        }
        ra_pattern_clear(&pattern);
    }
}

static void windows_may_be_huge(void **state)
{
    (void)state;
    static const char *const texts[] = {"window:9223372036854775807", "window:9223372036854775807,9223372036854775807",
                                        "window:9223372036854775806"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ra_pattern pattern;
        assert_int_equal(ra_pattern_parse(texts[i], &(ra_pattern_shape){.kv_len = 100, .heads = 1}, &files, &pattern),
                         RA_OK);
        for (int64_t position = -300; position < 100; position += 50) {
            ra_interval seen = ra_pattern_interval(&pattern, position);
            assert_true(seen.lo == 0 && seen.hi == 100);
        }
        ra_pattern_clear(&pattern);
    }
    sees("window:9223372036854775807,0", 4, "#####.....");
    sees("window:0,9223372036854775807", 4, "....######");
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

#define TERMS                                                                                                          \
    "one of full, causal[:prefix=N], window:LEFT,RIGHT, chunks:SIZE, documents:LEN,LEN,... or "                        \
    "documents:Q/K,Q/K,... or documents:@FILE.npy, lengths:@FILE.npy, mask:@FILE.npy, "                                \
    "dilated:W/R,W/R,...[:mode=paper|union|grouped|torchscale], "                                                      \
    "blocks:SIZE[:local=N][:global=N][:stride=N][:random=N][:seed=S][:density=F][:mask=@FILE.npy]"
#define SEGMENT "expected a segment length, >= 1, found "
#define RATE "expected a rate, >= 1, found "
#define SIZE "expected the size of a block, >= 1, found "
#define SETTING "expected local=N, global=N, stride=N, random=N, seed=S, density=F or mask=@FILE.npy, found "
#define DENSITY "expected a density in (0, 1], as a decimal fraction of up to 15 digits, found "
#define LEFT "the number of positions to the left, >= 0"
#define RIGHT "the number of positions to the right, >= 0"

static const struct refusal {
    const char *text;
    int character; /* 0: not a matter of one character */
    const char *message;
} refusals[] = {
    {"", 1, "expected " TERMS ", found the end"},
    {"cause", 1, "expected " TERMS ", found \"cause\""},
    {"Causal", 1, "expected " TERMS ", found \"Causal\""},
    {" causal", 1, "expected " TERMS ", found \" causal\""},
    {"causal ", 1, "expected " TERMS ", found \"causal \""},
    {"causal+", 8, "expected " TERMS ", found the end"},
    {"+causal", 1, "expected " TERMS ", found \"+causal\""},
    {"causal++full", 8, "expected " TERMS ", found \"+full\""},
    {"causal+banded:3", 8, "expected " TERMS ", found \"banded:3\""},
    {"causal:3", 7, "expected \":prefix=N\", \"+\" or the end after \"causal\", found \":3\""},
    {"causal:prefix=", 15, "expected a number of positions, >= 0, found the end"},
    {"causal:prefix=-1", 15, "expected a number of positions, >= 0, found \"-1\""},
    {"chunks", 7, "expected \":SIZE\" after \"chunks\", found the end"},
    {"causal+chunks:0", 15, "expected the size of a chunk, >= 1, found \"0\""},
    {"chunks:9223372036854775808", 8, "expected a number below 2^63, found"},
    {"full:", 5, "expected \"+\" or the end, found \":\""},
    {"window", 7, "expected \":LEFT,RIGHT\" after \"window\", found the end"},
    {"window+causal", 7, "expected \":LEFT,RIGHT\" after \"window\", found \"+causal\""},
    {"window:", 8, "expected " LEFT ", found the end"},
    {"window:-1", 8, "expected " LEFT ", found \"-1\""},
    {"window:a", 8, "expected " LEFT ", found \"a\""},
    {"window: 1", 8, "expected " LEFT ", found \" 1\""},
    {"window:1,", 10, "expected " RIGHT ", found the end"},
    {"window:1,-2", 10, "expected " RIGHT ", found \"-2\""},
    {"window:1,2,3", 11, "expected \"+\" or the end, found \",3\""},
    {"window:1x", 9, "expected \"+\" or the end, found \"x\""},
    {"window:9223372036854775808", 8, "expected a number below 2^63, found \"9223372036854775808\""},
    {"causal+window:1,99999999999999999999", 17, "expected a number below 2^63, found \"99999999999999999999\""},
    {"documents", 10, "after \"documents\", or an array of them, found the end"},
    {"documents:", 11, "expected a document length, >= 1, found the end"},
    {"documents:3,", 13, "expected a document length, >= 1, found the end"},
    {"documents:3,,7", 13, "expected a document length, >= 1, found \",7\""},
    {"documents:@", 12, "expected a path after \"@\", found the end"},
    {"documents:@+causal", 12, "expected a path after \"@\", found \"+causal\""},
    {"documents:3,7;", 14, "expected \"+\" or the end, found \";\""},
    {"documents:10,0", 1, "document 2 has length 0: must be >= 1"},
    {"documents:3,6", 1, "the 2 documents add up to 9, but the key length is 10"},
    {"documents:3,8", 1, "the 2 documents add up to 11, but the key length is 10"},
    {"documents:9223372036854775807,11", 1, "documents add up to"},
    {"documents:9223372036854775807,9223372036854775807,12", 1, "documents add up to"},
    {"dilated", 8, "expected \":W/R,W/R,...\" after \"dilated\", found the end"},
    {"dilated+causal", 8, "expected \":W/R,W/R,...\" after \"dilated\", found \"+causal\""},
    {"dilated:", 9, SEGMENT "the end"},
    {"dilated:0/1", 9, SEGMENT "\"0/1\""},
    {"dilated:-4/1", 9, SEGMENT "\"-4/1\""},
    {"dilated:/2", 9, SEGMENT "\"/2\""},
    {"dilated:8/2,0/1", 13, SEGMENT "\"0/1\""},
    {"dilated:8/2,", 13, SEGMENT "the end"},
    {"dilated:99999999999999999999/1", 9, "expected a number below 2^63, found \"99999999999999999999/1\""},
    {"dilated:8", 10, "expected \"/\" and a rate after the segment length, found the end"},
    {"dilated:8,4/2", 10, "expected \"/\" and a rate after the segment length, found \",4/2\""},
    {"dilated:8/2,4", 14, "expected \"/\" and a rate after the segment length, found the end"},
    {"dilated:8/2/4", 12, "found \"/4\""},
    {"dilated:8/", 11, RATE "the end"},
    {"dilated:8/0", 11, RATE "\"0\""},
    {"dilated:8/-1", 11, RATE "\"-1\""},
    {"dilated:8/2,8/0", 15, RATE "\"0\""},
    {"dilated:8/9", 11, "expected a rate that is no more than its segment length, found \"9\""},
    {"dilated:8/2,4/5", 15, "expected a rate that is no more than its segment length, found \"5\""},
    {"dilated:8/2:mode=mean", 18, "expected one of the modes paper, union, grouped, torchscale, found \"mean\""},
    {"dilated:8/2:mode=", 18, "expected one of the modes paper, union, grouped, torchscale, found the end"},
    {"dilated:8/2:mode=Paper", 18, "expected one of the modes paper, union, grouped, torchscale, found \"Paper\""},
    {"dilated:8/2:causal", 12, "expected \":mode=\", \"+\" or the end, found \":causal\""},
    {"dilated:8/2:mode=paper:mode=union", 23, "expected \"+\" or the end, found \":mode=union\""},
    {"dilated:1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1,1/1", 73,
     "expected no more than 16 branches, found \"1/1\""},
    {"dilated:8/2+dilated:4/1", 13, "there can be one dilated and one blocks term, found \"dilated:4/1\""},
    {"blocks", 7, "expected \":SIZE\" after \"blocks\", found the end"},
    {"blocks:", 8, SIZE "the end"},
    {"blocks:0", 8, SIZE "\"0\""},
    {"blocks:-3", 8, SIZE "\"-3\""},
    {"blocks:local=1", 8, SIZE "\"local=1\""},
    {"blocks:4x", 9, "expected \"+\" or the end, found \"x\""},
    {"blocks:4:", 10, SETTING "the end"},
    {"blocks:4:near=1", 10, SETTING "\"near=1\""},
    {"blocks:4:Local=1", 10, SETTING "\"Local=1\""},
    {"blocks:4:local", 10, SETTING "\"local\""},
    {"blocks:4:local=", 16, "expected blocks to each side, >= 0, found the end"},
    {"blocks:4:local=-1", 16, "expected blocks to each side, >= 0, found \"-1\""},
    {"blocks:4:global=x", 17, "expected global blocks, >= 0, found \"x\""},
    {"blocks:4:stride=0", 17, "expected a stride in blocks, >= 1, found \"0\""},
    {"blocks:4:stride=", 17, "expected a stride in blocks, >= 1, found the end"},
    {"blocks:4:random=-1", 17, "expected random blocks, >= 0, found \"-1\""},
    {"blocks:4:seed=-1", 15, "expected a seed, >= 0, found \"-1\""},
    {"blocks:4:density=0", 18, DENSITY "\"0\""},
    {"blocks:4:density=0.000", 18, DENSITY "\"0.000\""},
    {"blocks:4:density=-0.1", 18, DENSITY "\"-0.1\""},
    {"blocks:4:density=1.5", 18, DENSITY "\"1.5\""},
    {"blocks:4:density=1.00000000000001", 18, DENSITY "\"1.00000000000001\""},
    {"blocks:4:density=0.1234567890123456", 18, DENSITY "\"0.1234567890123456\""},
    {"blocks:4:density=", 18, DENSITY "the end"},
    {"blocks:4:density=.", 18, DENSITY "\".\""},
    {"blocks:4:density=nan", 18, DENSITY "\"nan\""},
    {"blocks:4:density=1e-3", 19, "expected \"+\" or the end, found \"e-3\""},
    {"blocks:4:density=0.1.2", 21, "expected \"+\" or the end, found \".2\""},
    {"blocks:4:density=0.1:local=1", 22, "expected nothing but a seed beside density"},
    {"blocks:4:random=2:density=0.1", 10, "expected nothing but a seed beside density"},
    {"blocks:4:local=1:local=2", 18, "expected a setting that was not given before, found \"local=2\""},
    {"blocks:4:seed=1:random=1:seed=1", 26, "expected a setting that was not given before, found \"seed=1\""},
    {"blocks:4:mask=file.npy", 10, SETTING "\"mask=file.npy\""},
    {"blocks:4:mask=@", 16, "expected a path after \"@\", found the end"},
    {"blocks:4:mask=@+causal", 16, "expected a path after \"@\", found \"+causal\""},
    {"blocks:4+causal+blocks:8", 17, "there can be one dilated and one blocks term, found \"blocks:8\""},
    {"full+full+full+full+full+full+full+full+full+full+full+full+full+full+full+full+causal", 81,
     "expected no more than 16 terms, found \"causal\""},
};

static void refusals_name_the_character(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        char place[32] = "";
        ra_pattern pattern;
        ra_status status = ra_pattern_parse(r->text, &(ra_pattern_shape){.kv_len = KEYS, .heads = 1}, &files, &pattern);
        ra_pattern_clear(&pattern);
        if (r->character)
            snprintf(place, sizeof place, "\", character %d: ", r->character);
        const char *said = ra_last_message();
        REQUIRE(status == RA_ERROR_ARGUMENT && strstr(said, r->text) && strstr(said, place) && strstr(said, r->message),
                "\"%s\": status %s, %s", r->text, ra_status_name(status), said);
    }
}

static void a_file_that_fails_is_its_loaders_matter(void **state)
{
    (void)state;
    ra_pattern pattern;
    assert_int_equal(ra_pattern_parse("causal+documents:@none.npy+full",
                                      &(ra_pattern_shape){.kv_len = KEYS, .heads = 1}, &files, &pattern),
                     RA_ERROR_FILE);
    assert_string_equal(ra_last_message(),
                        "pattern \"causal+documents:@none.npy+full\", character 18: none.npy: no such file");
    ra_pattern_clear(&pattern);
    assert_int_equal(ra_pattern_parse("causal+blocks:4:mask=@none.npy+full",
                                      &(ra_pattern_shape){.kv_len = KEYS, .heads = 1}, &files, &pattern),
                     RA_ERROR_FILE);
    assert_string_equal(ra_last_message(),
                        "pattern \"causal+blocks:4:mask=@none.npy+full\", character 23: none.npy: no such file");
    ra_pattern_clear(&pattern);
}

static void sixteen_terms_are_allowed(void **state)
{
    (void)state;
    sees("full+full+full+full+full+full+full+full+full+full+full+full+full+full+full+causal", 2, "###.......");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_mean_what_they_say),
        cmocka_unit_test(dilated_texts_mean_what_they_say),
        cmocka_unit_test(dilated_terms_are_cut_by_others),
        cmocka_unit_test(blocks_texts_mean_what_they_say),
        cmocka_unit_test(packed_sequences_mean_what_they_say),
        cmocka_unit_test(packed_sequences_that_are_refused),
        cmocka_unit_test(windows_exhaustively),
        cmocka_unit_test(documents_exhaustively),
        cmocka_unit_test(random_combinations),
        cmocka_unit_test(random_sparse_patterns),
        cmocka_unit_test(masks_leave_rows_blind),
        cmocka_unit_test(windows_may_be_huge),
        cmocka_unit_test(segments_and_settings_may_be_huge),
        cmocka_unit_test(refusals_name_the_character),
        cmocka_unit_test(a_file_that_fails_is_its_loaders_matter),
        cmocka_unit_test(sixteen_terms_are_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
