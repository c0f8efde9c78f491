/* SPDX-License-Identifier: Apache-2.0 */
/* Lines become rows, or are refused by name; of rows that ran the same, the newest counts. */
#include "made_rows.h"
#include "support/unit.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What was complained of last. */
typedef struct heard {
    int count, line;
    char what[256];
} heard;

static void hear(void *user, const char *path, int line, const char *what)
{
    heard *h = user;
    (void)path;
    h->count++;
    h->line = line;
    snprintf(h->what, sizeof h->what, "%s", what);
}

static int read_text(rows *r, const char *text, size_t length, heard *h)
{
    *h = (heard){0};
    FILE *stream = fmemopen((void *)text, length, "r");
    assert_non_null(stream);
    int found = rows_read_stream(r, stream, "text", hear, h);
    fclose(stream);
    return found;
}

/* A line is refused, with these words. */
static void refused(const char *line, const char *words)
{
    rows r = {0};
    heard h;
    int found = read_text(&r, line, strlen(line), &h);
    REQUIRE(found == 0 && r.count == 0 && r.unusable == 1 && h.line == 1, "accepted: %s", line);
    REQUIRE(strstr(h.what, words), "\"%s\", expected \"%s\"", h.what, words);
    rows_free(&r);
}

/* A good line with one value replaced, or taken out where it is NULL. */
static char *spoilt(const char *path, json_t *value)
{
    const made_row m = {.length = 64, .seconds = 1, .samples = 5};
    char *line = made_row_line(&m), name[32] = "";
    json_t *row = json_loads(line, 0, NULL), *at = row;
    const char *dot = strchr(path, '.');
    free(line);
    if (dot) {
        snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
        at = json_object_get(row, name);
        path = dot + 1;
    }
    if (value)
        json_object_set_new(at, path, value);
    else
        json_object_del(at, path);
    line = json_dumps(row, 0);
    json_decref(row);
    return line;
}

static void fields_are_found(void **state)
{
    (void)state;
    rows r = {0};
    made_rows_add(&r, &(made_row){.name = "one", .length = 128, .seconds = 0.5});
    const row *it = &r.at[0];
    assert_string_equal(row_text(it, "case"), "one");
    assert_string_equal(row_text(it, "run.strategy"), "local");
    assert_string_equal(row_text(it, "run.direction"), "forward"); /* where none is named */
    assert_string_equal(row_text(it, "reason"), "");
    assert_true(row_number(it, "problem.q_len") == 128 && row_number(it, "seconds.median") == 0.5);
    assert_true(isnan(row_number(it, "of_peak")) && isnan(row_number(it, "published.seconds")));
    assert_true(isnan(row_number(it, "case")));
    assert_true(row_has(it, "memory") && !row_has(it, "error"));
    assert_false(it->failed);
    rows_free(&r);
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    static const char *const REQUIRED[] = {
        "suite",        "case",          "status",   "time",           "method",        "problem",
        "run",          "machine",       "version",  "compiler",       "problem.q_len", "problem.pattern",
        "run.strategy", "run.ring_size", "run.hops", "seconds.median", "seconds.low",   "machine.cores"};
    for (size_t i = 0; i < sizeof REQUIRED / sizeof *REQUIRED; i++) {
        char *line = spoilt(REQUIRED[i], NULL), words[64];
        snprintf(words, sizeof words, "%s: is missing", REQUIRED[i]);
        refused(line, words);
        free(line);
    }
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    const struct {
        const char *path;
        json_t *value;
        const char *words;
    } cases[] = {
        {"schema", json_integer(2), "schema: expected 1"},
        {"schema", json_string("1"), "schema: expected 1"},
        {"status", json_string("fine"), "status: expected ok or failed"},
        {"time", json_string("yesterday"), "time: expected"},
        {"case", json_integer(3), "case: is something else, expected a text"},
        {"run", json_array(), "run: is something else, expected an object"},
        {"problem.q_len", json_integer(0), "problem.q_len: is something else, expected a whole number from 1 on"},
        {"problem.q_len", json_real(64.5), "problem.q_len"},
        {"run.hops", json_integer(-1), "run.hops"},
        {"run.direction", json_string("sideways"), "run.direction: expected forward or backward"},
        {"run.direction", json_integer(1), "run.direction: is something else, expected a text"},
        {"seconds.median", json_real(0), "seconds.median: is something else, expected a number above 0"},
        {"seconds.low", json_real(2), "low <= median <= high"},
        {"seconds.quiet", json_integer(6), "more quiet samples than samples"},
        {"flops", json_real(1e31), "a number beyond 1e+30"},
        {"figures", json_pack("{s:f}", "x", -1e300), "a number beyond 1e+30"},
        {"gflops", json_true(), "gflops"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *line = spoilt(cases[i].path, cases[i].value);
        refused(line, cases[i].words);
        free(line);
    }
}

static void what_is_no_json_is_refused(void **state)
{
    (void)state;
    enum { DEEP = 5000 };
    static char deep[DEEP + 1];
    memset(deep, '[', DEEP);
    refused("{\"schema\": 1", "not JSON");
    refused("{\"schema\": <script>", "not JSON: invalid token at column");
    refused("[1, 2]", "expected an object");
    refused("{\"schema\": 1, \"schema\": 1}", "not JSON: duplicate object key");
    refused("{\"schema\": 1e999}", "not JSON");
    refused("{\"schema\": 123456789012345678901234567890}", "not JSON");
    refused("{\"schema\": NaN}", "not JSON");
    refused("{\"case\": \"\xff\"}", "not JSON");
    refused("{\"case\": \"\\u0000\"}", "not JSON");
    refused(deep, "not JSON");
}

/* Complaints give the line; what stands around a bad line counts. */
static void bad_lines_are_passed_over(void **state)
{
    (void)state;
    char *good = made_row_line(&(made_row){.name = "good"}), *other = made_row_line(&(made_row){.name = "other"});
    char text[4096];
    rows r = {0};
    heard h;
    int length = snprintf(text, sizeof text, "\n%s\r\n  \nbad\n%s", good, other);
    assert_int_equal(read_text(&r, text, (size_t)length, &h), 2);
    assert_true(r.count == 2 && r.unusable == 1 && h.count == 1 && h.line == 4);
    free(good);
    free(other);
    rows_free(&r);
}

static void long_lines_are_refused(void **state)
{
    (void)state;
    enum { LONG = (1 << 20) + 100 };
    char *text = malloc(LONG + 1024), *good = made_row_line(&(made_row){.name = "good"});
    rows r = {0};
    heard h;
    assert_non_null(text);
    memset(text, ' ', LONG);
    text[0] = '{';
    int length = LONG + snprintf(text + LONG, 1024, "\n%s\n", good);
    assert_int_equal(read_text(&r, text, (size_t)length, &h), 1);
    assert_true(h.line == 1 && strstr(h.what, "longer than 1048576 bytes"));
    free(text);
    free(good);
    rows_free(&r);
}

/* Texts can be shown anywhere: no control characters, no end. */
static void texts_are_tidied(void **state)
{
    (void)state;
    char name[3 * 2000 + 1] = "";
    rows r = {0};
    static const char TURN[] = {'\xe2', '\x80', '\xae', 0}; /* right to left from here on */
    snprintf(name, sizeof name, "a\nb\tc\033[31m\xc2\x85%s\xc3\xa9", TURN);
    made_rows_add(&r, &(made_row){.name = name});
    assert_string_equal(row_text(&r.at[0], "case"), "a b c [31m  \xc3\xa9");
    for (int i = 0; i < 2000; i++)
        memcpy(name + 3 * i, "\xe2\x82\xac", 4);
    made_rows_add(&r, &(made_row){.name = name});
    const char *cut = row_text(&r.at[1], "case");
    size_t length = strlen(cut);
    assert_true(length <= ROWS_MOST_TEXT && length > ROWS_MOST_TEXT - 8);
    assert_string_equal(cut + length - 6, "\xe2\x82\xac...");
    rows_free(&r);
}

static void the_newest_counts(void **state)
{
    (void)state;
    rows r = {0};
    made_rows_add(&r, &(made_row){.seconds = 2, .time = "2026-11-16T02:00:00Z"});
    made_rows_add(&r, &(made_row){.seconds = 1, .time = "2026-11-16T01:00:00Z"});
    assert_true(r.count == 1 && r.replaced == 1 && row_number(&r.at[0], "seconds.median") == 2);
    made_rows_add(&r, &(made_row){.seconds = 3, .time = "2026-11-16T03:00:00Z", .hops = 7});
    assert_true(r.count == 1 && r.replaced == 2 && row_number(&r.at[0], "seconds.median") == 3);
    made_rows_add(&r, &(made_row){.status = "failed", .time = "2026-11-16T04:00:00Z"});
    assert_true(r.count == 1 && r.at[0].failed);
    made_rows_add(&r, &(made_row){.threads = 2});
    made_rows_add(&r, &(made_row){.kernel = "generic"});
    made_rows_add(&r, &(made_row){.name = "another case"});
    assert_int_equal(r.count, 4);
    assert_ptr_equal(rows_find(&r, &r.at[2]), &r.at[2]);
    rows other = {0};
    made_rows_add(&other, &(made_row){.threads = 2, .name = "another case"});
    assert_null(rows_find(&r, &other.at[0]));
    rows_free(&other);
    rows_free(&r);
}

/* A row that says ok and is out of tolerance is not ok. */
static void out_of_tolerance_is_failed(void **state)
{
    (void)state;
    char *line = spoilt("error", json_pack("{s:f, s:f, s:i}", "largest", 3e-6, "tolerance", 2e-6, "rows", 6));
    rows r = {0};
    heard h;
    assert_int_equal(read_text(&r, line, strlen(line), &h), 1);
    assert_true(r.at[0].failed);
    free(line);
    rows_free(&r);
}

static void alike_but_for(void **state)
{
    (void)state;
    rows r = {0};
    made_rows_add(&r, &(made_row){.name = "a", .length = 64, .strategy = "ring", .ring_size = 2});
    made_rows_add(&r, &(made_row){.name = "b", .length = 64, .strategy = "ring", .ring_size = 4});
    made_rows_add(&r, &(made_row){.name = "c", .length = 128, .strategy = "ring", .ring_size = 4});
    made_rows_add(&r, &(made_row){.name = "d", .length = 64, .strategy = "ring", .ring_size = 4, .pattern = "causal"});
    assert_true(row_alike(&r.at[0], &r.at[1], ROW_RING) && !row_alike(&r.at[0], &r.at[1], ROW_LENGTH));
    assert_true(row_alike(&r.at[1], &r.at[2], ROW_LENGTH) && !row_alike(&r.at[0], &r.at[2], ROW_LENGTH));
    assert_true(row_alike(&r.at[0], &r.at[2], ROW_LENGTH | ROW_RING));
    assert_false(row_alike(&r.at[1], &r.at[3], ~0u >> 2));
    made_rows_add(&r,
                  &(made_row){.name = "e", .length = 64, .strategy = "ring", .ring_size = 4, .direction = "forward"});
    made_rows_add(&r,
                  &(made_row){.name = "f", .length = 64, .strategy = "ring", .ring_size = 4, .direction = "backward"});
    assert_true(row_alike(&r.at[1], &r.at[4], 0) && !row_alike(&r.at[4], &r.at[5], ~0u >> 2 & ~ROW_DIRECTION));
    assert_true(row_alike(&r.at[4], &r.at[5], ROW_DIRECTION));
    rows_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_found),           cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(what_is_wrong_is_named),     cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(bad_lines_are_passed_over),  cmocka_unit_test(long_lines_are_refused),
        cmocka_unit_test(texts_are_tidied),           cmocka_unit_test(the_newest_counts),
        cmocka_unit_test(out_of_tolerance_is_failed), cmocka_unit_test(alike_but_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
