/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic that says when it does not fit. */
#include "base/checked.h"
#include "support/unit.h"

static void products_and_sums_that_fit(void **state)
{
    (void)state;
    int64_t result;
    assert_true(ra_mul_ok(INT64_C(1) << 31, INT64_C(1) << 31, &result));
    assert_true(result == INT64_C(1) << 62);
    assert_true(ra_mul_ok(INT64_MIN, 1, &result) && result == INT64_MIN);
    assert_true(ra_mul_ok(-3, 7, &result) && result == -21);
    assert_true(ra_add_ok(INT64_MAX, 0, &result) && result == INT64_MAX);
    assert_true(ra_add_ok(INT64_MAX, INT64_MIN, &result) && result == -1);
}

static void products_and_sums_that_do_not(void **state)
{
    (void)state;
    int64_t result;
    assert_false(ra_mul_ok(INT64_C(1) << 32, INT64_C(1) << 31, &result));
    assert_false(ra_mul_ok(INT64_MIN, -1, &result));
    assert_false(ra_add_ok(INT64_MAX, 1, &result));
    assert_false(ra_add_ok(INT64_MIN, -1, &result));
}

static void clamped_sums_stop_at_the_ends(void **state)
{
    (void)state;
    assert_true(ra_add_clamped(2, 3) == 5);
    assert_true(ra_add_clamped(INT64_MAX - 1, 1) == INT64_MAX);
    assert_true(ra_add_clamped(INT64_MAX, 1) == INT64_MAX);
    assert_true(ra_add_clamped(INT64_MIN, -1) == INT64_MIN);
    assert_true(ra_add_clamped(-1, -INT64_MAX) == INT64_MIN);
    assert_true(ra_add_clamped(INT64_MIN, INT64_MAX) == -1);
}

static void divisions_round_up(void **state)
{
    (void)state;
    assert_true(ra_ceil_div(0, 64) == 0);
    assert_true(ra_ceil_div(1, 64) == 1);
    assert_true(ra_ceil_div(64, 64) == 1);
    assert_true(ra_ceil_div(65, 64) == 2);
    assert_true(ra_ceil_div(INT64_MAX, 1) == INT64_MAX);
    assert_true(ra_ceil_div(INT64_MAX, 2) == INT64_C(1) << 62);
}

static void smaller_and_larger(void **state)
{
    (void)state;
    assert_true(ra_min(-5, 3) == -5 && ra_min(3, -5) == -5);
    assert_true(ra_max(-5, 3) == 3 && ra_max(3, -5) == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_and_sums_that_fit),
        cmocka_unit_test(products_and_sums_that_do_not),
        cmocka_unit_test(clamped_sums_stop_at_the_ends),
        cmocka_unit_test(divisions_round_up),
        cmocka_unit_test(smaller_and_larger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
