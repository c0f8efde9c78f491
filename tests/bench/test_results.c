/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as lines of JSON: in the form of the schema, one by one, and nothing in them that was not measured. */
#include "bench/results.h"
#include "bench/stats_row.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/ringattn-test-results-XXXXXX";

/* ---- The schema, as far as it is used ---------------------------------------------------------------------------- */

static bool type_fits(const char *type, const json_t *value)
{
    return (strcmp(type, "object") == 0 && json_is_object(value)) ||
           (strcmp(type, "string") == 0 && json_is_string(value)) ||
           (strcmp(type, "integer") == 0 && json_is_integer(value)) ||
           (strcmp(type, "number") == 0 && json_is_number(value));
}

/* All but what is in an object's fields. */
static void assert_value(const json_t *schema, const json_t *value, const char *name)
{
    const json_t *type = json_object_get(schema, "type"), *choices = json_object_get(schema, "enum"), *one;
    size_t i;
    if (type && !type_fits(json_string_value(type), value))
        fail_msg("%s: not of type %s", name, json_string_value(type));
    bool found = !choices;
    json_array_foreach(choices, i, one) found |= json_equal(one, value);
    if (!found)
        fail_msg("%s: not one of its values", name);
    json_array_foreach(json_object_get(schema, "required"), i, one)
    {
        if (!json_object_get(value, json_string_value(one)))
            fail_msg("%s: without %s", name, json_string_value(one));
    }
}

static const json_t *schema_of(const json_t *schema, const char *field)
{
    const json_t *known = json_object_get(json_object_get(schema, "properties"), field);
    known = known ? known : json_object_get(schema, "additionalProperties");
    if (!known)
        fail_msg("%s is not in the schema", field);
    return known;
}

/* A row has fields, and fields of those that are objects, and no more. */
static void assert_fits(const json_t *schema, json_t *row)
{
    const char *name, *inner_name;
    json_t *field, *inner;
    assert_value(schema, row, "row");
    json_object_foreach(row, name, field)
    {
        const json_t *known = schema_of(schema, name);
        assert_value(known, field, name);
        json_object_foreach(field, inner_name, inner) assert_value(schema_of(known, inner_name), inner, inner_name);
    }
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static bench_options into_file(void)
{
    return (bench_options){.output = path, .mpi = "an MPI"};
}

static result_row full_row(void)
{
    static const published_figure PUBLISHED = {"somewhere", "a card", "float16", 0.5, 4096, 1e6, "all", "nothing"};
    result_row row = {.suite = "compare", .name = "a \"case\" <b>", .against = "of peak", .against_value = 0.5};
    row.problem = (ra_problem)RA_PROBLEM_INIT;
    row.problem.q_len = 128;
    row.problem.heads = 4;
    row.problem.head_dim = 16;
    row.backward = true;
    row.strategy = "ring";
    row.transport = "sim";
    row.ring_size = 3;
    row.hops = 6;
    row.bytes_received = 1000;
    row.kernel = RA_KERNEL_GENERIC;
    row.threads = 2;
    row.seconds =
        (sampling_result){.seconds = 2, .low = 1.5, .high = 2.5, .ratio = 0.25, .peak = 2e9, .count = 5, .quiet = 4};
    row.flops = 1e9;
    row.of_peak = true;
    row.planned_bytes = 300;
    row.peak_bytes = 200;
    row.error = 1e-7;
    row.tolerance = 2e-6;
    row.rows = 6;
    row.goal = 0.4;
    row.predicted_seconds = 2.2;
    row.published = &PUBLISHED;
    result_figure(&row, "balance", 1.5);
    return row;
}

/* The last line that was written, which is one of `count`. */
static json_t *read_back(int count)
{
    static char line[8192];
    FILE *file = fopen(path, "r");
    int lines = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        lines++;
    fclose(file);
    assert_int_equal(lines, count);
    json_t *row = json_loads(line, 0, NULL), *schema = json_load_file(SCHEMA, 0, NULL);
    assert_non_null(row);
    assert_non_null(schema);
    assert_fits(schema, row);
    json_decref(schema);
    return row;
}

static double number(const json_t *row, const char *object, const char *field)
{
    return json_number_value(json_object_get(json_object_get(row, object), field));
}

static void rows_have_the_form_of_the_schema(void **state)
{
    (void)state;
    const bench_options options = into_file();
    results *kept;
    result_row row = full_row();
    assert_int_equal(results_open(&options, &kept), 0);
    results_bandwidth(kept, 3e10);
    results_add(kept, &row);
    json_t *read = read_back(1); /* before it is closed: rows come as they are made */
    assert_string_equal(json_string_value(json_object_get(read, "case")), "a \"case\" <b>");
    assert_string_equal(json_string_value(json_object_get(read, "status")), "ok");
    assert_true(number(read, "seconds", "median") == 2 && number(read, "seconds", "spread") == 0.5);
    assert_true(json_number_value(json_object_get(read, "gflops")) == 0.5);
    assert_true(json_number_value(json_object_get(read, "tokens_per_second")) == 64);
    assert_true(number(read, "problem", "kv_len") == 128 && number(read, "run", "ring_size") == 3);
    assert_string_equal(json_string_value(json_object_get(json_object_get(read, "run"), "direction")), "backward");
    assert_true(number(read, "published", "tokens_per_second") == 8192);
    assert_true(number(read, "machine", "bandwidth_gbs") == 30 && number(read, "machine", "peak_gflops") == 2);
    json_decref(read);
    assert_int_equal(results_close(kept), 0);
}

static void what_was_not_measured_is_left_out(void **state)
{
    (void)state;
    const bench_options options = into_file();
    results *kept;
    result_row row = {.suite = "memory", .name = "plan", .planned_bytes = 7};
    row.problem = (ra_problem)RA_PROBLEM_INIT;
    assert_int_equal(results_open(&options, &kept), 0);
    results_add(kept, &row);
    assert_int_equal(results_close(kept), 0);
    json_t *read = read_back(2);
    static const char *const ABSENT[] = {
        "seconds",           "flops",  "gflops",           "of_peak", "error", "against", "published",
        "predicted_seconds", "reason", "tokens_per_second"};
    for (size_t i = 0; i < sizeof ABSENT / sizeof *ABSENT; i++)
        assert_null(json_object_get(read, ABSENT[i]));
    assert_null(json_object_get(json_object_get(read, "memory"), "peak_bytes"));
    json_decref(read);
}

static void a_row_out_of_tolerance_is_failed(void **state)
{
    (void)state;
    const double errors[] = {3e-6, NAN, INFINITY};
    const bench_options options = into_file();
    results *kept;
    assert_int_equal(results_open(&options, &kept), 0);
    for (int i = 0; i < 3; i++) {
        result_row row = full_row();
        row.error = errors[i];
        results_add(kept, &row);
        json_t *read = read_back(3 + i);
        assert_string_equal(json_string_value(json_object_get(read, "status")), "failed");
        assert_string_equal(json_string_value(json_object_get(read, "reason")), "out of tolerance");
        json_decref(read);
    }
    assert_int_equal(results_close(kept), 0);
}

static void a_file_that_cannot_be_written_is_said(void **state)
{
    (void)state;
    bench_options options = {.output = "/nowhere/results.jsonl"};
    results *kept;
    assert_int_equal(results_open(&options, &kept), 2);
    options.output = "/dev/full";
    assert_int_equal(results_open(&options, &kept), 0);
    result_row row = full_row();
    results_add(kept, &row);
    assert_int_equal(results_close(kept), 1);
}

static void statistics_of_a_run_are_a_row(void **state)
{
    (void)state;
    json_t *stats =
        json_pack("{s:{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:s,s:s}, s:{s:s,s:i,s:s,s:s,s:s,s:s,s:i}, s:{s:f,s:f}, s:f,"
                  " s:{s:i,s:i,s:i}, s:[{s:i,s:i},{s:i,s:i}], s:{s:i,s:f,s:f}}",
                  "problem", "batch", 2, "q_len", 5, "kv_len", 7, "heads", 4, "kv_heads", 2, "head_dim", 8, "value_dim",
                  9, "dtype", "float16", "pattern", "causal", "run", "kernel", "avx2", "threads", 2, "strategy", "ring",
                  "transport", "sim", "order", "zigzag", "tile_order", "hilbert", "ring_size", 2, "seconds", "compute",
                  1.0, "total", 2.0, "flops", 1e6, "memory", "planned_peak_bytes", 30, "peak_bytes", 20,
                  "rss_peak_bytes", 50, "ranks", "hops", 1, "bytes_received", 10, "hops", 2, "bytes_received", 20,
                  "output", "rows_checked", 64, "largest_error", 1e-5, "tolerance", 1e-3);
    assert_non_null(stats);
    result_row row = {0};
    stats_row(stats, &row);
    assert_true(row.problem.batch == 2 && row.problem.kv_len == 7 && row.problem.value_dim == 9);
    assert_true(row.dtype == RA_F16 && row.order == RA_ORDER_ZIGZAG && row.tiles == RA_TILES_HILBERT);
    assert_true(row.kernel == RA_KERNEL_AVX2 && row.ring_size == 2 && row.hops == 3 && row.bytes_received == 30);
    assert_true(row.seconds.seconds == 2 && row.seconds.count == 1 && row.rows == 64 && row.error == 1e-5);
    assert_true(row.planned_bytes == 30 && row.peak_bytes == 20 && row.resident_bytes == 50);
    json_decref(stats);
}

static int make_file(void **state)
{
    (void)state;
    int file = mkstemp(path);
    return file < 0 || close(file);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_the_form_of_the_schema), cmocka_unit_test(what_was_not_measured_is_left_out),
        cmocka_unit_test(a_row_out_of_tolerance_is_failed), cmocka_unit_test(a_file_that_cannot_be_written_is_said),
        cmocka_unit_test(statistics_of_a_run_are_a_row),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
