/* SPDX-License-Identifier: Apache-2.0 */
/* What a report says follows from its rows: other rows, other words. */
#include "made_rows.h"
#include "report/document.h"
#include "support/unit.h"

#include <math.h>
#include <string.h>

typedef void section_maker(arena *a, const rows *r, section *s);

/* The first sentence with these words; NULL: none. */
static const char *sentence(const section *s, const char *words)
{
    for (int i = 0; i < s->sentence_count; i++)
        if (strstr(s->sentences[i], words))
            return s->sentences[i];
    return NULL;
}

/* A section of the rows says so. */
static void says(section_maker *make, const rows *r, const char *words)
{
    arena a = {0};
    section s;
    make(&a, r, &s);
    REQUIRE(sentence(&s, words), "no \"%s\", the first is: %s", words, s.sentence_count ? s.sentences[0] : "none");
    arena_free(&a);
}

static void says_not(section_maker *make, const rows *r, const char *words)
{
    arena a = {0};
    section s;
    make(&a, r, &s);
    REQUIRE(!sentence(&s, words), "%s", sentence(&s, words));
    arena_free(&a);
}

static int points(section_maker *make, const rows *r, int chart)
{
    arena a = {0};
    section s;
    make(&a, r, &s);
    int count = chart_points(&s.charts[chart]);
    arena_free(&a);
    return count;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

enum { MIB = 1 << 20 };

/* Rings of 2 to 2^count; what a rank holds is fixed + part x R^power. */
static void add_rings(rows *r, int count, double fixed, double part, double power)
{
    for (int ring = 2, i = 0; i < count; i++, ring *= 2)
        made_rows_add(r, &(made_row){.suite = "memory",
                                     .length = 65536,
                                     .strategy = "ring",
                                     .ring_size = ring,
                                     .planned = (fixed + part * pow(ring, power)) * MIB});
}

static void memory_falls_as_it_does(void **state)
{
    (void)state;
    rows r = {0};
    add_rings(&r, 6, 2, 800, -1);
    says(section_memory, &r,
         "beyond a fixed 2.00 MiB, memory falls as R^-1.000 (95%: -1.000..-1.000) over 6 ring sizes "
         "from 2 to 64; 1/R is inside");
    assert_int_equal(points(section_memory, &r, 0), 6);
    rows_free(&r);
    add_rings(&r, 6, 0, 800, -0.5);
    says(section_memory, &r, "1/R is outside");
    says_not(section_memory, &r, "R^-1.000");
    rows_free(&r);
}

/* The chart is of the problem with the most ring sizes: planned and the line of 1/R, without what was accounted. */
static void memory_chart_is_of_one_problem(void **state)
{
    (void)state;
    rows r = {0};
    arena a = {0};
    section s;
    add_rings(&r, 4, 2, 800, -1);
    for (int ring = 2, i = 0; i < 5; i++, ring *= 2)
        made_rows_add(&r, &(made_row){.suite = "memory",
                                      .length = 4096,
                                      .strategy = "ring",
                                      .ring_size = ring,
                                      .planned = 100.0 * MIB / ring,
                                      .peak = 99.0 * MIB / ring});
    section_memory(&a, &r, &s);
    assert_int_equal(s.charts[0].count, 2);
    assert_string_equal(s.charts[0].title, "Memory of a rank over the ring size: 4,096 tokens, float32");
    assert_string_equal(s.charts[0].series[0].name, "planned");
    assert_true(s.charts[0].series[1].reference);
    assert_int_equal(chart_points(&s.charts[0]), 5);
    arena_free(&a);
    rows_free(&r);
    add_rings(&r, 4, 2, 800, -1);
    section_memory(&a, &r, &s);
    assert_string_equal(s.charts[0].title, "Memory of a rank over the ring size: 65,536 tokens, float32");
    assert_int_equal(chart_points(&s.charts[0]), 4);
    arena_free(&a);
    rows_free(&r);
}

static void too_little_is_said_to_be(void **state)
{
    (void)state;
    rows r = {0};
    add_rings(&r, 2, 2, 800, -1);
    says(section_memory, &r, "2 ring sizes are too few");
    says(section_memory, &r, "the fastest in a budget cannot be said");
    rows_free(&r);
    made_rows_add(&r, &(made_row){.suite = "tiles"});
    assert_int_equal(points(section_memory, &r, 0), 0);
    says(section_ranks, &r, "No row of suite ring");
    says(section_roofline, &r, "Nothing can be placed");
    says(section_dilated, &r, "No row with a dilated pattern");
    says(section_backward, &r, "No row is of a backward pass");
    says(section_methods, &r, "how this library compares cannot be said");
    says(section_published, &r, "No row has a published figure");
    says(section_summary, &r, "No row was checked against the oracle");
    rows_free(&r);
}

static void add_timed(rows *r, int ring, double seconds, double mebibytes)
{
    made_rows_add(r, &(made_row){.suite = "memory",
                                 .length = 4096,
                                 .strategy = "ring",
                                 .ring_size = ring,
                                 .seconds = seconds,
                                 .peak = mebibytes * MIB});
}

static void the_fastest_that_fits(void **state)
{
    (void)state;
    rows r = {0};
    add_timed(&r, 2, 1.0, 100);
    add_timed(&r, 4, 1.1, 60);
    add_timed(&r, 8, 1.3, 30);
    says(section_memory, &r, "ring size 2 is the fastest that fits 128 MiB");
    says(section_memory, &r, "ring size 4 is the fastest that fits 64.0 MiB");
    says(section_memory, &r, "ring size 8 is the fastest that fits 32.0 MiB");
    rows_free(&r);
    add_timed(&r, 2, 1.0, 100);
    add_timed(&r, 4, 1.1, 60);
    add_timed(&r, 8, 0.9, 30);
    says(section_memory, &r, "ring size 8 is the fastest that fits 32.0 MiB");
    says_not(section_memory, &r, "ring size 4 is the fastest");
    says_not(section_memory, &r, "ring size 2 is the fastest");
    rows_free(&r);
}

static void memory_grows_with_the_length(void **state)
{
    (void)state;
    rows r = {0};
    for (int length = 1024; length <= 16384; length *= 2)
        made_rows_add(&r, &(made_row){.suite = "memory",
                                      .length = length,
                                      .strategy = "ring",
                                      .ring_size = 8,
                                      .planned = MIB + pow(length, 1)});
    says(section_memory, &r,
         "beyond a fixed 1.00 MiB, memory grows as n^1.000 (95%: 1.000..1.000) over 5 lengths from 1,024 "
         "to 16,384 tokens");
    assert_int_equal(points(section_memory, &r, 1), 5);
    rows_free(&r);
}

/* ---- Ranks ------------------------------------------------------------------------------------------------------- */

static void add_ring(rows *r, const char *transport, int ranks, int threads, double seconds)
{
    made_rows_add(r, &(made_row){.suite = "ring",
                                 .length = 8192,
                                 .strategy = ranks > 1 ? "ring" : "local",
                                 .transport = transport,
                                 .ring_size = ranks,
                                 .threads = threads,
                                 .seconds = seconds});
}

/* The machine has 4 cores. */
static void speed_up_counts_cores(void **state)
{
    (void)state;
    rows r = {0};
    add_ring(&r, "mpi", 4, 1, 0.625);
    says(section_ranks, &r, "there is no run in one piece to compare with");
    add_ring(&r, "none", 1, 2, 1.0);
    says(section_ranks, &r, "4 ranks are 3.20 times as fast as one core (efficiency 80.0% on 4 cores)");
    add_ring(&r, "none", 1, 1, 1.75);
    says(section_ranks, &r, "4 ranks are 2.80 times as fast as one core (efficiency 70.0% on 4 cores)");
    add_ring(&r, "mpi", 8, 1, 0.5);
    says(section_ranks, &r, "8 ranks are 3.50 times as fast as one core (efficiency 87.5% on 4 cores)");
    add_ring(&r, "sim", 8, 2, 1.05);
    says(section_ranks, &r, "8 virtual ranks on 2 threads take 1.20 times the core seconds of one piece");
    assert_int_equal(points(section_ranks, &r, 0), 2);
    assert_int_equal(points(section_ranks, &r, 1), 3);
    rows_free(&r);
}

/* ---- Speed ------------------------------------------------------------------------------------------------------- */

/* 1024 tokens: 4 x 1024^2 x 64 flops, 1024 x 2 x 128 x 4 bytes, 256 flops a byte. */
static void roofs_are_the_machines(void **state)
{
    (void)state;
    rows r = {0};
    double flops = 4.0 * 1024 * 1024 * 64;
    made_rows_add(&r, &(made_row){.name = "low", .length = 1024, .seconds = flops / 50e9, .peak_gflops = 100});
    says(section_roofline, &r, "Closest to its roof is low (kernel): 50.0% of it");
    says(section_roofline, &r, "No row has the machine's bandwidth");
    made_rows_add(
        &r, &(made_row){.name = "high", .length = 1024, .seconds = flops / 90e9, .peak_gflops = 100, .bandwidth = 20});
    says(section_roofline, &r, "The ridge is at 5 flops a byte; 2 of 2 runs lie beyond it");
    says(section_roofline, &r, "Closest to its roof is high (kernel): 90.0% of it");
    says(section_roofline, &r, "Farthest from it is low (kernel): 50.0%");
    made_rows_add(
        &r,
        &(made_row){.name = "read", .length = 8, .seconds = 4.0 * 64 * 64 / 38e9, .peak_gflops = 100, .bandwidth = 20});
    says(section_roofline, &r, "2 of 3 runs lie beyond it");
    says(section_roofline, &r, "Closest to its roof is read (kernel): 95.0% of it");
    rows_free(&r);
}

/* Gradients move twice the tensors: 128 flops a byte of the same flops. */
static void roofs_of_gradients(void **state)
{
    (void)state;
    rows r = {0};
    double flops = 4.0 * 1024 * 1024 * 64;
    made_rows_add(
        &r, &(made_row){
                .direction = "backward", .length = 1024, .seconds = flops / 64e9, .peak_gflops = 1000, .bandwidth = 1});
    says(section_roofline, &r, "Closest to its roof is a case (kernel): 50.0% of it");
    rows_free(&r);
}

/* Bars: a part of the peak, for decoding of the bandwidth. */
static void speed_beside_the_peak(void **state)
{
    (void)state;
    rows r = {0};
    made_rows_add(&r, &(made_row){.suite = "compare", .length = 64, .seconds = 1, .of_peak = 0.5});
    assert_int_equal(points(section_speed, &r, 0), 0);
    says_not(section_speed, &r, "reach");
    made_rows_add(&r, &(made_row){.length = 8192, .seconds = 1, .of_peak = 0.8});
    made_rows_add(
        &r, &(made_row){.suite = "backward", .direction = "backward", .length = 64, .seconds = 1, .of_peak = 0.7});
    made_rows_add(&r, &(made_row){.length = 128, .seconds = 1}); /* nothing to divide by */
    assert_int_equal(points(section_speed, &r, 0), 2);
    says(section_speed, &r, "2 cases reach 70.0% to 80.0% of the machine's peak");
    rows_free(&r);
}

/* Bars: times as fast as another method on the same problem. A method without our row of its problem has none. */
static void speed_beside_others(void **state)
{
    (void)state;
    rows r = {0};
    made_rows_add(&r, &(made_row){.suite = "peers", .method = "PyTorch", .length = 64, .seconds = 3});
    made_rows_add(&r, &(made_row){.suite = "peers", .length = 128, .seconds = 2});
    assert_int_equal(points(section_speed, &r, 1), 0);
    made_rows_add(&r, &(made_row){.suite = "peers", .length = 64, .seconds = 2});
    made_rows_add(&r, &(made_row){.suite = "peers", .method = "JAX", .length = 128, .seconds = 1});
    assert_int_equal(points(section_speed, &r, 1), 2);
    says(section_speed, &r, "Beside PyTorch: 1 problem, 1.5 to 1.5 times as fast");
    says(section_speed, &r, "Beside JAX: 1 problem, 0.5 to 0.5 times as fast");
    rows_free(&r);
}

/* Lines are of passes in one piece at two lengths or more. */
static void speed_over_the_length(void **state)
{
    (void)state;
    rows r = {0};
    made_rows_add(&r, &(made_row){.length = 1024, .seconds = 1, .of_peak = 0.5});
    assert_int_equal(points(section_lengths, &r, 0), 0);
    made_rows_add(&r, &(made_row){.length = 8192, .seconds = 1, .of_peak = 0.8});
    made_rows_add(
        &r, &(made_row){.suite = "backward", .direction = "backward", .length = 64, .seconds = 1, .of_peak = 0.7});
    assert_int_equal(points(section_lengths, &r, 0), 2);
    says(section_lengths, &r, "80.0% of the multiply-add peak at 8,192 tokens");
    says_not(section_lengths, &r, "backward");
    made_rows_add(&r, &(made_row){.suite = "ring", .strategy = "ring", .length = 64, .seconds = 1, .of_peak = 0.7});
    made_rows_add(
        &r, &(made_row){.suite = "backward", .direction = "backward", .length = 128, .seconds = 1, .of_peak = 0.6});
    assert_int_equal(points(section_lengths, &r, 0), 4);
    says(section_lengths, &r, "60.0% of the multiply-add peak at 128 tokens");
    rows_free(&r);
}

static void add_pass(rows *r, const char *direction, int length, double seconds, double of_peak)
{
    made_rows_add(r, &(made_row){.suite = *direction == 'b' ? "backward" : "kernel",
                                 .direction = direction,
                                 .length = length,
                                 .seconds = seconds,
                                 .of_peak = of_peak});
}

/* Rows of the same problem are found in whichever suite they are; a backward pass is none to compare with. */
static void backward_beside_forward(void **state)
{
    (void)state;
    rows r = {0};
    add_pass(&r, "backward", 1024, 5, 0.5);
    add_pass(&r, "backward", 2048, 24, 0.75);
    says(section_backward, &r, "2 backward passes reach 50.0% to 75.0% of the multiply-add peak, half of them 62.5%");
    says(section_backward, &r, "is not known");
    add_pass(&r, "forward", 4096, 1, 0.9);
    says(section_backward, &r, "is not known");
    add_pass(&r, "forward", 1024, 2, 0.9);
    add_pass(&r, "forward", 2048, 8, 0.9);
    says(section_backward, &r, "Of 2 problems both passes were timed: the backward pass takes 2.50 to 3.00 times");
    says(section_backward, &r, "2 backward passes");
    rows_free(&r);
}

static void dilated_cost(void **state)
{
    (void)state;
    rows r = {0};
    for (int length = 1 << 20; length <= 1 << 24; length *= 4)
        made_rows_add(&r, &(made_row){.suite = "extreme",
                                      .length = length,
                                      .pattern = "dilated:512/1",
                                      .strategy = "ring",
                                      .ring_size = length >> 19,
                                      .seconds = 1e-6 * length * (length == 1 << 24 ? 1.1 : 1)});
    says(section_dilated, &r, "a token of 16,777,216 costs 1.10 times a token of 1,048,576 (1.10 us and 1.00 us)");
    says(section_dilated, &r, "time grows as n^1.03");
    assert_int_equal(points(section_dilated, &r, 0), 3);
    assert_int_equal(points(section_dilated, &r, 1), 0);
    rows_free(&r);
}

static void methods_against_each_other(void **state)
{
    (void)state;
    rows r = {0};
    made_rows_add(&r, &(made_row){.suite = "compare", .name = "l", .length = 64, .seconds = 1, .peak = MIB});
    made_rows_add(&r, &(made_row){.suite = "compare",
                                  .name = "o",
                                  .length = 64,
                                  .seconds = 3,
                                  .peak = 8 * MIB,
                                  .method = "openblas",
                                  .kernel = "openblas"});
    made_rows_add(
        &r,
        &(made_row){.suite = "compare", .name = "r", .length = 64, .seconds = 1.5, .strategy = "ring", .ring_size = 4});
    made_rows_add(
        &r, &(made_row){
                .suite = "compare", .name = "a", .length = 64, .seconds = 2, .strategy = "allgather", .ring_size = 4});
    says(section_methods, &r,
         "ringattn in one piece is 3.00 times as fast as openblas (1.00 s, 3.00 s); it holds 1.00 MiB, "
         "the other 8.00 MiB");
    says(section_methods, &r,
         "of 2 ways to spread it, ring of 4, contiguous, sim, 1 thread is the fastest, 1.50 times the "
         "time of one piece; allgather of 4, contiguous, sim, 1 thread is the slowest, 2.00 times");
    assert_int_equal(points(section_methods, &r, 0), 4);
    rows_free(&r);
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

/* A failed row changes no sentence of these sections and adds no point. */
static void failed_rows_never_count(void **state)
{
    (void)state;
    static section_maker *const MAKERS[] = {section_memory,  section_ranks,   section_backward, section_roofline,
                                            section_dilated, section_methods, section_published};
    rows without = {0}, with = {0};
    for (int i = 0; i < 2; i++) {
        rows *r = i ? &with : &without;
        add_rings(r, 4, 2, 800, -1);
        add_ring(r, "none", 1, 2, 1.0);
        add_ring(r, "mpi", 2, 1, 1.25);
        add_pass(r, "backward", 1024, 5, 0.5);
    }
    static const char *const SUITES[] = {"memory", "ring", "kernel", "extreme", "compare", "seed-table", "backward"};
    for (size_t i = 0; i < sizeof SUITES / sizeof *SUITES; i++)
        made_rows_add(&with, &(made_row){.suite = SUITES[i],
                                         .name = "failed",
                                         .status = "failed",
                                         .direction = i == 6 ? "backward" : NULL,
                                         .of_peak = 0.1,
                                         .length = i == 0 ? 65536 : 8192,
                                         .pattern = i == 3 ? "dilated:512/1" : NULL,
                                         .strategy = "ring",
                                         .ring_size = 128,
                                         .seconds = 1e-3,
                                         .planned = 1,
                                         .peak = 1,
                                         .peak_gflops = 1e9});
    for (size_t i = 0; i < sizeof MAKERS / sizeof *MAKERS; i++) {
        arena a = {0};
        section x, y;
        MAKERS[i](&a, &without, &x);
        MAKERS[i](&a, &with, &y);
        assert_int_equal(x.sentence_count, y.sentence_count);
        for (int j = 0; j < x.sentence_count; j++)
            assert_string_equal(x.sentences[j], y.sentences[j]);
        for (int j = 0; j < x.chart_count; j++)
            assert_int_equal(chart_points(&x.charts[j]), chart_points(&y.charts[j]));
        arena_free(&a);
    }
    says(section_summary, &with, "7 of them failed");
    rows_free(&without);
    rows_free(&with);
}

static void machines_that_differ_are_loud(void **state)
{
    (void)state;
    rows r = {0};
    made_rows_add(&r, &(made_row){.name = "a"});
    says_not(section_summary, &r, "ATTENTION");
    made_rows_add(&r, &(made_row){.name = "b", .processor = "another"});
    says(section_summary, &r, "ATTENTION: the rows are of 2 different processors");
    rows_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_falls_as_it_does),
        cmocka_unit_test(memory_chart_is_of_one_problem),
        cmocka_unit_test(too_little_is_said_to_be),
        cmocka_unit_test(the_fastest_that_fits),
        cmocka_unit_test(memory_grows_with_the_length),
        cmocka_unit_test(speed_up_counts_cores),
        cmocka_unit_test(roofs_are_the_machines),
        cmocka_unit_test(speed_beside_the_peak),
        cmocka_unit_test(speed_beside_others),
        cmocka_unit_test(speed_over_the_length),
        cmocka_unit_test(roofs_of_gradients),
        cmocka_unit_test(backward_beside_forward),
        cmocka_unit_test(dilated_cost),
        cmocka_unit_test(methods_against_each_other),
        cmocka_unit_test(failed_rows_never_count),
        cmocka_unit_test(machines_that_differ_are_loud),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
