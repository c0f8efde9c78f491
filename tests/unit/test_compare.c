/* SPDX-License-Identifier: Apache-2.0 */
/* An older and a newer file of rows: regressions are found, noise is not taken for one. */
#include "made_rows.h"
#include "report/compare.h"
#include "support/folder.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

/* The older file, the newer one, and what was said of them. */
static const char OLD[] = "a.jsonl", NEW[] = "b.jsonl";
static char *said;

static void write_rows(const char *path, const made_row *rows, int count)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < count; i++) {
        char *line = made_row_line(&rows[i]);
        fprintf(file, "%s\n", line);
        free(line);
    }
    fclose(file);
}

static int compare(double threshold)
{
    size_t size;
    free(said);
    FILE *out = open_memstream(&said, &size);
    assert_non_null(out);
    int code = report_compare(OLD, NEW, threshold, out);
    fclose(out);
    return code;
}

/* The exit code of one row against another. */
static int compare_two(made_row old, made_row new, double threshold)
{
    write_rows(OLD, &old, 1);
    write_rows(NEW, &new, 1);
    return compare(threshold);
}

static void has(const char *words)
{
    REQUIRE(strstr(said, words), "no \"%s\" in: %s", words, said);
}

/* 16 samples with quartiles 4% apart: a median is sure within 0.93%, a difference of two within 2.7%. */
static made_row timed(double seconds)
{
    return (made_row){.seconds = seconds, .spread = 0.04, .samples = 16};
}

static void noise_is_no_change(void **state)
{
    (void)state;
    assert_int_equal(compare_two(timed(1), timed(1.02), 0), 0);
    has("1 rows compared: 0 faster and 0 slower beyond the noise, 1 the same");
    assert_int_equal(compare_two(timed(1), timed(0.98), 0), 0);
    has("1 the same");
}

static void slower_past_the_threshold(void **state)
{
    (void)state;
    assert_int_equal(compare_two(timed(1), timed(1.2), 5), 1);
    has("SLOWER      kernel: a case; one piece, 1 thread");
    has("1.00 s -> 1.20 s, +20.0%, noise 3.0%");
    has("1 regressions past 5%: 1 slower, 0 larger, 0 newly failing");
    assert_int_equal(compare_two(timed(1), timed(1.04), 5), 0);
    has("slower      kernel");
    has("0 faster and 1 slower beyond the noise");
    assert_int_equal(compare_two(timed(1), timed(1.04), 3), 1);
    assert_int_equal(compare_two(timed(1), timed(0.8), 5), 0);
    has("faster      kernel");
}

/* The same difference, with samples that scatter four times as far. */
static void scatter_hides_a_change(void **state)
{
    (void)state;
    made_row old = timed(1), new = timed(1.2);
    old.spread = new.spread = 0.4;
    assert_int_equal(compare_two(old, new, 5), 0);
    has("1 the same");
    old.samples = new.samples = 100;
    assert_int_equal(compare_two(old, new, 5), 1);
}

static void few_samples_are_not_judged(void **state)
{
    (void)state;
    made_row old = timed(1), new = timed(3);
    new.samples = 2;
    assert_int_equal(compare_two(old, new, 5), 0);
    has("1 not judged");
}

static void failing_now_is_a_regression(void **state)
{
    (void)state;
    made_row good = timed(1), bad = timed(1);
    bad.status = "failed";
    assert_int_equal(compare_two(good, bad, 5), 1);
    has("FAILS NOW");
    assert_int_equal(compare_two(bad, good, 5), 0);
    has("works again");
    assert_int_equal(compare_two(bad, bad, 5), 0);
}

static void more_memory_is_a_regression(void **state)
{
    (void)state;
    const made_row old = {.planned = 100.0 * MIB};
    assert_int_equal(compare_two(old, (made_row){.planned = 104.0 * MIB}, 5), 0);
    assert_int_equal(compare_two(old, (made_row){.planned = 110.0 * MIB}, 5), 1);
    has("100 MiB -> 110 MiB held");
}

static void rows_of_one_file_are_listed(void **state)
{
    (void)state;
    const made_row old[] = {{.name = "both"}, {.name = "gone"}},
                   new[] = {{.name = "both", .hops = 3}, {.name = "come"}};
    write_rows(OLD, old, 2);
    write_rows(NEW, new, 2);
    assert_int_equal(compare(5), 0);
    has("a.jsonl: kernel: gone");
    has("b.jsonl: kernel: come");
    has("1 rows compared");
}

static void other_machines_are_loud(void **state)
{
    (void)state;
    made_row old = timed(1), new = timed(1);
    assert_int_equal(compare_two(old, new, 5), 0);
    assert_null(strstr(said, "ATTENTION"));
    new.processor = "a faster one";
    assert_int_equal(compare_two(old, new, 5), 0);
    has("has machine.processor \"a faster one\"");
    has("ATTENTION: these are not runs of the same kernels on the same machine");
    new = timed(1);
    new.kernel = "avx512";
    assert_int_equal(compare_two(old, new, 5), 2);
    has("has run.kernel \"avx512\"");
}

static void unusable_files(void **state)
{
    (void)state;
    made_row good = timed(1);
    write_rows(OLD, &good, 1);
    unlink(NEW);
    assert_int_equal(compare(5), 2);
    FILE *file = fopen(NEW, "w");
    fputs("nonsense\n", file);
    fclose(file);
    assert_int_equal(compare(5), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(noise_is_no_change),
        IN_FOLDER(slower_past_the_threshold),
        IN_FOLDER(scatter_hides_a_change),
        IN_FOLDER(few_samples_are_not_judged),
        IN_FOLDER(failing_now_is_a_regression),
        IN_FOLDER(more_memory_is_a_regression),
        IN_FOLDER(rows_of_one_file_are_listed),
        IN_FOLDER(other_machines_are_loud),
        IN_FOLDER(unusable_files),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(said);
    return failed;
}
