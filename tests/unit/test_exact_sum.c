/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of floats that do not depend on order, and lose nothing. */
#include "base/exact_sum.h"
#include "support/random.h"
#include "support/unit.h"

#include <float.h>
#include <math.h>

enum { VALUES = 300 };

/* Floats of any size and sign, subnormal ones too. */
static float choose_float(choices *c)
{
    return ldexpf(choose_normal(c), (int)choose(c, -149, 100));
}

static ra_exact_sum sum_of(const float *values, int count)
{
    ra_exact_sum sum = {0};
    for (int i = 0; i < count; i++)
        ra_exact_add(&sum, values[i]);
    return sum;
}

static void require_same(const ra_exact_sum *a, const ra_exact_sum *b, uint64_t seed)
{
    double x = ra_exact_value(a), y = ra_exact_value(b);
    bool same = x == y ? signbit(x) == signbit(y) : isnan(x) && isnan(y);
    REQUIRE(same, "seed %llu: %.17g and %.17g", (unsigned long long)seed, x, y);
}

/* In any order, in any parts, with carries at any time. */
static void order_does_not_matter(void **state)
{
    (void)state;
    seed_range range = seeds(200);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        float values[VALUES];
        for (int i = 0; i < VALUES; i++)
            values[i] = choose_float(&c);
        ra_exact_sum whole = sum_of(values, VALUES);
        for (int i = VALUES - 1; i > 0; i--) {
            int other = (int)choose(&c, 0, i);
            float kept = values[i];
            values[i] = values[other];
            values[other] = kept;
        }
        int part = (int)choose(&c, 0, VALUES);
        ra_exact_sum first = sum_of(values, part), rest = sum_of(values + part, VALUES - part);
        if (chance(&c, 2))
            ra_exact_carry(&first, 1);
        ra_exact_carry(&rest, 1);
        ra_exact_merge(&first, &rest, 1);
        require_same(&whole, &first, seed);
    }
}

/* Of what cancels nothing is left but what does not. */
static void nothing_is_lost(void **state)
{
    (void)state;
    seed_range range = seeds(200);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        float values[VALUES];
        double left = (double)choose_float(&c);
        ra_exact_sum sum = {0};
        for (int i = 0; i < VALUES; i++)
            ra_exact_add(&sum, values[i] = choose_float(&c));
        ra_exact_add(&sum, (float)left);
        ra_exact_carry(&sum, 1);
        for (int i = 0; i < VALUES; i++)
            ra_exact_add(&sum, -values[i]);
        REQUIRE(ra_exact_value(&sum) == left, "seed %llu: %.17g left of %.17g", (unsigned long long)seed,
                ra_exact_value(&sum), left);
    }
}

/* Sums of small integers, which double has without rounding. */
static void many_additions(void **state)
{
    (void)state;
    choices c = {1};
    double exact = 0;
    ra_exact_sum sum = {0};
    for (int i = 0; i < 1000000; i++) {
        float value = (float)choose(&c, -1000000, 1000000) * 0.125f;
        exact += (double)value;
        ra_exact_add(&sum, value);
    }
    assert_true(ra_exact_value(&sum) == exact);
}

static void the_largest_and_the_smallest(void **state)
{
    (void)state;
    ra_exact_sum sum = {0};
    for (int i = 0; i < 1000; i++)
        ra_exact_add(&sum, FLT_MAX);
    assert_true(ra_exact_value(&sum) == 1000 * (double)FLT_MAX);
    for (int i = 0; i < 1000; i++)
        ra_exact_add(&sum, -FLT_MAX);
    ra_exact_add(&sum, -FLT_TRUE_MIN);
    assert_true(ra_exact_value(&sum) == -(double)FLT_TRUE_MIN);
    ra_exact_add(&sum, FLT_TRUE_MIN);
    assert_true(ra_exact_value(&sum) == 0);
}

static void infinities_and_nan_stay(void **state)
{
    (void)state;
    ra_exact_sum sum = {0}, other = {0};
    ra_exact_add(&sum, INFINITY);
    ra_exact_add(&sum, 1);
    assert_true(ra_exact_value(&sum) == INFINITY);
    ra_exact_add(&other, -INFINITY);
    assert_true(ra_exact_value(&other) == -INFINITY);
    ra_exact_merge(&sum, &other, 1);
    assert_true(isnan(ra_exact_value(&sum)));
    other = (ra_exact_sum){0};
    ra_exact_add(&other, -NAN);
    assert_true(isnan(ra_exact_value(&other)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_does_not_matter),   cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(many_additions),          cmocka_unit_test(the_largest_and_the_smallest),
        cmocka_unit_test(infinities_and_nan_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
