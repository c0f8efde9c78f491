/* SPDX-License-Identifier: Apache-2.0 */
/* How cases take turns, and when that ends. Times are made up: nothing here is measured. */
#include "bench/harness.h"
#include "support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 4, MOST_CALLS = 400 };

/* What was run, in order; a case's seconds are its base and a part of it that alternates. */
static int calls[MOST_CALLS], call_count, stop_after;

typedef struct fake {
    int number;
    double base, part;
    int done;
    ra_status status;
} fake;

static ra_status run(void *user, sample *s)
{
    fake *f = user;
    calls[call_count++] = f->number;
    s->seconds = f->base * (1 + (f->done++ % 2 ? f->part : -f->part));
    s->share = 1;
    return f->status;
}

static bool never(void)
{
    return false;
}

static bool soon(void)
{
    return call_count >= stop_after;
}

static harness_case *make(fake *fakes, double part)
{
    harness_case *cases = calloc(CASES, sizeof *cases);
    call_count = 0;
    for (int i = 0; i < CASES; i++) {
        fakes[i] = (fake){.number = i, .base = i + 1, .part = part};
        cases[i] = (harness_case){.name = "made up", .threads = 1, .run = run, .user = &fakes[i]};
        cases[i].kernel = RA_KERNEL_GENERIC;
    }
    return cases;
}

static void every_round_has_every_case_once_in_an_order_of_its_own(void **state)
{
    (void)state;
    enum { ROUNDS = 10 };
    fake fakes[CASES];
    harness_case *cases = make(fakes, 0.3);
    const bench_options options = {.rounds = ROUNDS, .interrupted = never, .seed = 7};
    int repeated = 0;
    assert_int_equal(harness_measure(&options, cases, CASES), 0);
    assert_int_equal(call_count, ROUNDS * CASES);
    for (int round = 0; round < ROUNDS; round++) {
        int seen = 0;
        for (int i = 0; i < CASES; i++)
            seen |= 1 << calls[round * CASES + i];
        assert_int_equal(seen, (1 << CASES) - 1);
        repeated += memcmp(calls, calls + round * CASES, CASES * sizeof *calls) == 0;
    }
    assert_true(repeated < ROUNDS / 2);
    for (int i = 0; i < CASES; i++)
        assert_int_equal(cases[i].taken.count, ROUNDS);
    free(cases);
}

static void the_same_seed_gives_the_same_order(void **state)
{
    (void)state;
    fake fakes[CASES];
    const bench_options options = {.rounds = 5, .interrupted = never, .seed = 3};
    int first[MOST_CALLS];
    harness_case *cases = make(fakes, 0.3);
    assert_int_equal(harness_measure(&options, cases, CASES), 0);
    memcpy(first, calls, sizeof first);
    free(cases);
    cases = make(fakes, 0.3);
    assert_int_equal(harness_measure(&options, cases, CASES), 0);
    assert_memory_equal(first, calls, 5 * CASES * sizeof *calls);
    free(cases);
}

static void it_ends_when_samples_agree_or_time_is_up(void **state)
{
    (void)state;
    fake fakes[CASES];
    harness_case *cases = make(fakes, 0.001);
    bench_options options = {.rounds = 50, .interrupted = never};
    assert_int_equal(harness_measure(&options, cases, CASES), 0);
    assert_int_equal(cases[0].taken.count, 3);
    free(cases);
    cases = make(fakes, 0.3);
    options.seconds = 1e-9;
    assert_int_equal(harness_measure(&options, cases, CASES), 0);
    assert_int_equal(cases[0].taken.count, 3);
    free(cases);
}

static void a_case_may_have_fewer_samples_and_may_be_left_out(void **state)
{
    (void)state;
    fake fakes[CASES];
    harness_case *cases = make(fakes, 0.3);
    const bench_options options = {.rounds = 6, .interrupted = never};
    cases[1].most = 2;
    cases[2].run = NULL;
    assert_int_equal(harness_measure(&options, cases, CASES), 0);
    assert_int_equal(cases[0].taken.count, 6);
    assert_int_equal(cases[1].taken.count, 2);
    assert_int_equal(cases[2].taken.count, 0);
    free(cases);
}

static void a_failure_and_an_interruption_end_it(void **state)
{
    (void)state;
    fake fakes[CASES];
    harness_case *cases = make(fakes, 0.3);
    bench_options options = {.rounds = 6, .interrupted = never};
    fakes[3].status = RA_ERROR_MEMORY;
    assert_int_equal(harness_measure(&options, cases, CASES), 1);
    assert_true(call_count <= CASES && cases[3].taken.count == 0);
    free(cases);
    cases = make(fakes, 0.3);
    options.interrupted = soon;
    stop_after = 6;
    assert_int_equal(harness_measure(&options, cases, CASES), 0);
    assert_int_equal(call_count, 6);
    free(cases);
}

/* Samples with readings of the probe that are made up: what disturbs it is told by the gemm probe and by the share. */
static void quiet_samples_alone_are_counted(void **state)
{
    (void)state;
    samples s = {.count = 5};
    const double seconds[] = {1, 2, 3, 4, 100}, gemm[] = {10, 10, 10, 10, 5};
    for (int i = 0; i < s.count; i++)
        s.at[i] = (sample){.seconds = seconds[i],
                           .value = 8 / seconds[i],
                           .share = i == 3 ? 0.5 : 1,
                           .before = {16, gemm[i]},
                           .after = {20, gemm[i]}};
    sampling_result r = sampling_of(&s, (probe_reading){0, 10});
    assert_true(r.quiet == 3 && r.count == 5);
    assert_true(r.seconds == 2 && r.value == 4 && r.ratio == 4.0 / 20 && r.peak == 20);
    s.at[1].yard = 8;
    assert_true(sampling_of(&s, (probe_reading){0, 10}).ratio == 0.4); /* of 0.4, 4/8 and 8/3/20 */
    r = sampling_of(&s, (probe_reading){0, 1000});                     /* none is quiet: all count */
    assert_true(r.quiet == 0 && r.seconds == 3);
    sampling_relation against = sampling_against(&s, &s, (probe_reading){0, 10});
    assert_true(against.ratio == 1 && against.seconds == 2 && against.quiet == 3);
    assert_true(fabs(sampling_spread(&s) - (4.0 - 2.0) / 3) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_round_has_every_case_once_in_an_order_of_its_own),
        cmocka_unit_test(the_same_seed_gives_the_same_order),
        cmocka_unit_test(it_ends_when_samples_agree_or_time_is_up),
        cmocka_unit_test(a_case_may_have_fewer_samples_and_may_be_left_out),
        cmocka_unit_test(a_failure_and_an_interruption_end_it),
        cmocka_unit_test(quiet_samples_alone_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
