/* SPDX-License-Identifier: Apache-2.0 */
/* cli/compare.c, which judges results: distances, and how large they may be. */
#include "cli/compare.h"
#include "support/unit.h"

#include <float.h>
#include <math.h>

/* ---- Distances --------------------------------------------------------------------------------------------------- */

/* 1 has neighbours one step apart: half of it is the rounding of the stored value, and what is beyond it is error. */
static void half_a_step_is_free(void **state)
{
    (void)state;
    static const struct {
        ra_dtype dtype;
        double step; /* above 1 */
    } CASES[] = {{RA_F32, 0x1p-23}, {RA_F16, 0x1p-10}, {RA_BF16, 0x1p-7}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        double step = CASES[i].step;
        ra_dtype dtype = CASES[i].dtype;
        assert_true(distance(1 + step / 2, 1, dtype) == 0);
        assert_true(distance(1 - step / 2, 1, dtype) == 0);
        assert_true(distance(1 + step, 1, dtype) == step / 2);
        assert_true(distance(-4 - 4 * step, -4, dtype) == 2 * step);
        assert_true(distance(1.5 + 3 * step, 1.5, dtype) == 2.5 * step);
    }
}

/* Below the normal numbers, and at zero, steps stay the same. */
static void steps_end_at_the_least_normal_number(void **state)
{
    (void)state;
    assert_true(distance(0x1p-24, 0, RA_F16) == 0x1p-25);
    assert_true(distance(0x1p-24, 0x1p-20, RA_F16) == 0x1p-20 - 0x1p-24 - 0x1p-25);
    assert_true(distance(0x1p-133, 0, RA_BF16) == 0x1p-134);
    assert_true(distance(0x1p-149, 0, RA_F32) == 0x1p-150);
}

static void equal_is_equal(void **state)
{
    (void)state;
    assert_true(distance(3, 3, RA_F32) == 0);
    assert_true(distance(-INFINITY, -INFINITY, RA_F32) == 0);
    assert_true(distance(NAN, NAN, RA_F32) == 0);
    assert_true(distance(-0.0, 0, RA_F32) == 0);
}

static void nothing_is_near_nan_or_infinity(void **state)
{
    (void)state;
    const double odd[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        assert_true(distance(odd[i], 1, RA_F32) == INFINITY);
        assert_true(distance(1, odd[i], RA_BF16) == INFINITY);
        assert_true(distance(odd[i], odd[(i + 1) % 3], RA_F16) == INFINITY);
    }
}

/* ---- Tolerances -------------------------------------------------------------------------------------------------- */

static void unit_variance_has_the_usual_tolerances(void **state)
{
    (void)state;
    for (int64_t dim = 1; dim <= 1024; dim *= 4) {
        double size = 2 / 3.14159 * sqrt((double)dim);
        assert_true(output_tolerance(dim, size, 1, 0.5) == OUTPUT_TOLERANCE);
        assert_true(lse_tolerance(dim, size) == LSE_TOLERANCE);
    }
}

static void tolerances_follow_the_scores(void **state)
{
    (void)state;
    double large = output_tolerance(64, 4010, 1, 0);
    assert_true(fabs(large - (OUTPUT_TOLERANCE + 6 * 0x1p-24 * 4000)) < 1e-9);
    assert_true(fabs(lse_tolerance(64, 4010) - (LSE_TOLERANCE + 9 * 0x1p-24 * 4000)) < 1e-9);
    /* One key that has all the weight: its value comes out as it is, however large its score. */
    assert_true(output_tolerance(64, 4010, 0, 1) == OUTPUT_TOLERANCE);
    /* Large values round by more. */
    assert_true(output_tolerance(64, 1, 3e4, 4e4) == 16 * 0x1p-24 * 5e4);
}

/* An error that is not finite is above all of them. */
static void tolerances_are_finite(void **state)
{
    (void)state;
    const double odd[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        assert_true(output_tolerance(64, odd[i], 1, 1) == OUTPUT_TOLERANCE);
        assert_true(output_tolerance(64, 100, odd[i], 1) == OUTPUT_TOLERANCE);
        assert_true(isfinite(output_tolerance(64, 100, 1, odd[i])));
        assert_true(lse_tolerance(64, odd[i]) == LSE_TOLERANCE);
    }
}

/* In proportion to the size of a row, more for longer sums, and never infinite. */
static void gradients_of_any_size(void **state)
{
    (void)state;
    static const double odd[] = {(double)INFINITY, (double)NAN, DBL_MAX};
    assert_true(gradient_tolerance(64, 0) == (double)FLT_MIN);
    assert_true(fabs(gradient_tolerance(64, 1) - 12 * 0x1p-24) < 1e-15);
    assert_true(fabs(gradient_tolerance(64, 1000) - 12000 * 0x1p-24) < 1e-12);
    assert_true(fabs(gradient_tolerance(1 << 20, 1) - 520 * 0x1p-24) < 1e-12);
    for (int i = 0; i < 3; i++)
        assert_true(isfinite(gradient_tolerance(INT64_MAX, odd[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_a_step_is_free),
        cmocka_unit_test(steps_end_at_the_least_normal_number),
        cmocka_unit_test(equal_is_equal),
        cmocka_unit_test(nothing_is_near_nan_or_infinity),
        cmocka_unit_test(unit_variance_has_the_usual_tolerances),
        cmocka_unit_test(tolerances_follow_the_scores),
        cmocka_unit_test(tolerances_are_finite),
        cmocka_unit_test(gradients_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
