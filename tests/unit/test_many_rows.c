/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A report of many rows, made so that whatever looks for one row among all of them would have to go through all of
 * them: lines of one row, points from right to left, different texts, goals that are missed. In time that grows with
 * the square of the rows this does not come to its end before its CTest timeout.
 */
#include "made_rows.h"
#include "report/compare.h"
#include "report/document.h"
#include "support/folder.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 20000 };

static const char *const SUITES[] = {"memory", "ring", "compare", "kernel", "extreme"};
enum { SUITE_COUNT = sizeof SUITES / sizeof *SUITES };

static char *line_of(int i)
{
    char name[32], processor[32];
    snprintf(name, sizeof name, "case %d", i);
    snprintf(processor, sizeof processor, "processor %d", i);
    return made_row_line(&(made_row){.suite = SUITES[i % SUITE_COUNT],
                                     .name = name,
                                     .processor = processor,
                                     .length = 2 * MANY - i / 3,
                                     .ring_size = i % 3 + 1,
                                     .strategy = i % 3 ? "ring" : "local",
                                     .seconds = 1 + i % 7,
                                     .peak = 1000 + i,
                                     .status = i < MANY / 4 ? "failed" : "ok"});
}

static void write_lines(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < MANY; i++) {
        char *line = line_of(i);
        fprintf(file, "%s\n", line);
        free(line);
    }
    assert_int_equal(fclose(file), 0);
}

static void complain(void *user, const char *path, int line, const char *what)
{
    (void)user, (void)path;
    fail_msg("line %d: %s", line, what);
}

static void a_report_of_many_rows(void **state)
{
    (void)state;
    rows r = {0};
    document d;
    char *text = NULL;
    size_t size = 0;
    write_lines("many.jsonl");
    assert_int_equal(rows_read(&r, "many.jsonl", complain, NULL), MANY);
    assert_int_equal(r.count, MANY);
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    document_make(&d, &r);
    assert_null(document_markdown(&d, stream));
    rows_csv(&r, stream);
    assert_int_equal(fclose(stream), 0);
    assert_non_null(strstr(text, "20000 rows of 1 file"));
    assert_non_null(strstr(text, "5000 of them failed"));
    free(text);
    document_free(&d);
    rows_free(&r);
    remove("many.jsonl");
}

/* Every three rows are a line of their own. */
static void a_report_of_many_lines(void **state)
{
    (void)state;
    enum { LINES = 4500 };
    static const char *(*const FORMS[])(document * d, FILE * stream) = {document_html, document_markdown, document_svg,
                                                                        document_text};
    rows r = {0};
    for (int i = 0; i < LINES; i++) {
        char pattern[32];
        snprintf(pattern, sizeof pattern, "window:%d,0", i / 3);
        made_rows_add(&r, &(made_row){.suite = "memory",
                                      .pattern = pattern,
                                      .length = 1000 + 1000 * (i % 3),
                                      .ring_size = 2,
                                      .strategy = "ring",
                                      .planned = 1000,
                                      .peak = 900});
    }
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        document d;
        char *text = NULL;
        size_t size = 0;
        document_make(&d, &r);
        FILE *stream = open_memstream(&text, &size);
        assert_non_null(stream);
        const char *problem = FORMS[i](&d, stream);
        REQUIRE(!problem, "%s", problem);
        assert_int_equal(fclose(stream), 0);
        assert_non_null(strstr(text, " more lines are not drawn"));
        free(text);
        document_free(&d);
    }
    rows_free(&r);
}

/* Every row is a problem of its own, with a sentence and a table of its own where there are few. */
static void a_report_of_many_problems(void **state)
{
    (void)state;
    enum { SHOWN = 1000, MORE = 7 };
    rows r = {0};
    document d;
    char *text = NULL;
    size_t size = 0;
    for (int i = 0; i < SHOWN + MORE; i++)
        made_rows_add(&r, &(made_row){.suite = "compare", .length = 1000 + i, .seconds = 1});
    document_make(&d, &r);
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    assert_null(document_markdown(&d, stream));
    assert_int_equal(fclose(stream), 0);
    assert_non_null(strstr(text, "7 more problems are in the chart and among all cases only."));
    free(text);
    document_free(&d);
    rows_free(&r);
}

static void a_comparison_of_many_rows(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    write_lines("many.jsonl");
    assert_int_equal(report_compare("many.jsonl", "many.jsonl", 5, stream), 0);
    assert_int_equal(fclose(stream), 0);
    assert_non_null(strstr(text, "20000 rows compared"));
    free(text);
    remove("many.jsonl");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_report_of_many_rows),
        cmocka_unit_test(a_report_of_many_lines),
        cmocka_unit_test(a_report_of_many_problems),
        IN_FOLDER(a_comparison_of_many_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
