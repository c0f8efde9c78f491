/* Patterns: what texts mean, which are refused at which character, and intervals against the definition. */
#include "plan/pattern.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stands in for files. */
static ra_status load_lengths(const char *path, int64_t **lengths, int64_t *count)
{
    static const int64_t LENGTHS[] = {3, 5, 2};
    if (strcmp(path, "lengths.npy") != 0)
        return ra_fail(RA_ERROR_FILE, "%s: no such file", path);
    *lengths = malloc(sizeof LENGTHS);
    assert_non_null(*lengths);
    memcpy(*lengths, LENGTHS, sizeof LENGTHS);
    *count = sizeof LENGTHS / sizeof *LENGTHS;
    return RA_OK;
}

/* ---- Meaning, against a definition written out here ------------------------------------------------------------- */

enum { KEYS = 10 };

/* What each position of 0 .. 9 sees of 10 keys, as text: '#' seen. */
static void sees(const char *text, int64_t position, const char *expected)
{
    ra_pattern pattern;
    char row[KEYS + 1] = "..........";
    REQUIRE(!ra_pattern_parse(text, KEYS, load_lengths, &pattern), "%s: %s", text, ra_last_message());
    for (int key = 0; key < KEYS; key++)
        if (ra_pattern_sees(&pattern, position, key))
            row[key] = '#';
    ra_pattern_clear(&pattern);
    REQUIRE(strcmp(row, expected) == 0, "%s at %lld: %s, expected %s", text, (long long)position, row, expected);
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

/* ---- Intervals against the definition ---------------------------------------------------------------------------- */

static void interval_is_the_definition(const ra_pattern *pattern, const char *text, int64_t position)
{
    ra_interval seen = ra_pattern_interval(pattern, position);
    REQUIRE(seen.lo >= 0 && seen.hi <= pattern->kv_len, "%s at %lld: %lld..%lld", text, (long long)position,
            (long long)seen.lo, (long long)seen.hi);
    for (int64_t key = 0; key < pattern->kv_len; key++)
        REQUIRE((key >= seen.lo && key < seen.hi) == ra_pattern_sees(pattern, position, key),
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
            assert_int_equal(ra_pattern_parse(text, kv_len, load_lengths, &pattern), RA_OK);
            for (int64_t position = -12; position < kv_len; position++)
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
            REQUIRE(!ra_pattern_parse(text, kv_len, load_lengths, &pattern), "%s", ra_last_message());
            for (int64_t position = -2; position < kv_len; position++)
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
        char text[256], named[320];
        int64_t kv_len = choose(&c, 1, 150);
        ra_pattern pattern;
        choose_pattern(&c, kv_len, text, sizeof text);
        snprintf(named, sizeof named, "seed %llu: %s", (unsigned long long)seed, text);
        REQUIRE(!ra_pattern_parse(text, kv_len, load_lengths, &pattern), "%s: %s", named, ra_last_message());
        for (int64_t position = -20; position < kv_len; position++)
            interval_is_the_definition(&pattern, named, position);
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
        assert_int_equal(ra_pattern_parse(texts[i], 100, load_lengths, &pattern), RA_OK);
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

#define TERMS "one of full, causal, window:LEFT,RIGHT, documents:LEN,LEN,... or documents:@FILE.npy"
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
    {"causal:3", 7, "expected \"+\" or the end, found \":3\""},
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
    {"documents", 10, "expected \":LEN,LEN,...\" or \":@FILE.npy\" after \"documents\", found the end"},
    {"documents:", 11, "expected a document length, >= 1, found the end"},
    {"documents:3,", 13, "expected a document length, >= 1, found the end"},
    {"documents:3,,7", 13, "expected a document length, >= 1, found \",7\""},
    {"documents:@", 12, "expected a path after \"@\", found the end"},
    {"documents:@+causal", 12, "expected a path after \"@\", found \"+causal\""},
    {"documents:3,7;", 14, "expected \"+\" or the end, found \";\""},
    {"documents:10,0", 0, "document 2 has length 0: must be >= 1"},
    {"documents:3,6", 0, "the 2 documents add up to 9, but the key length is 10"},
    {"documents:3,8", 0, "the 2 documents add up to 11, but the key length is 10"},
    {"documents:9223372036854775807,11", 0, "documents add up to"},
    {"documents:9223372036854775807,9223372036854775807,12", 0, "documents add up to"},
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
        ra_status status = ra_pattern_parse(r->text, KEYS, load_lengths, &pattern);
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
    assert_int_equal(ra_pattern_parse("causal+documents:@none.npy+full", KEYS, load_lengths, &pattern), RA_ERROR_FILE);
    assert_string_equal(ra_last_message(), "none.npy: no such file");
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
        cmocka_unit_test(windows_exhaustively),
        cmocka_unit_test(documents_exhaustively),
        cmocka_unit_test(random_combinations),
        cmocka_unit_test(windows_may_be_huge),
        cmocka_unit_test(refusals_name_the_character),
        cmocka_unit_test(a_file_that_fails_is_its_loaders_matter),
        cmocka_unit_test(sixteen_terms_are_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
