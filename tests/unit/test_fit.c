/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of measured numbers: medians, quantiles, and a line's slope with its interval. */
#include "bench/fit.h"
#include "bench/sampling.h"
#include "support/unit.h"

#include <math.h>

static void near(double value, double expected, double within)
{
    REQUIRE(fabs(value - expected) <= within, "%.9g, expected %.9g", value, expected);
}

/* From the tables of any textbook. */
static void student(void **state)
{
    (void)state;
    static const struct {
        int degrees;
        double t;
    } TABLE[] = {{1, 12.7062}, {2, 4.30265},  {3, 3.18245},  {4, 2.77645},   {5, 2.57058},
                 {9, 2.26216}, {10, 2.22814}, {29, 2.04523}, {100, 1.98397}, {1000, 1.96234}};
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
        near(fit_student(TABLE[i].degrees), TABLE[i].t, 6e-5);
}

/* By hand: sums of squares 10 and 19.9 about the means (3, 6.02), the rest 0.107. */
static void slope_of_known_data(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4, 5}, y[] = {2.1, 3.9, 6.2, 7.8, 10.1};
    fit f = fit_line(x, y, 5);
    near(f.slope, 1.99, 1e-12);
    near(f.intercept, 0.05, 1e-12);
    near(f.error, 0.0597215762, 1e-9);
    near(f.low, 1.7999393, 1e-6);
    near(f.high, 2.1800607, 1e-6);
}

static void exact_line_has_no_width(void **state)
{
    (void)state;
    const double x[] = {0, 1, 2, 3}, y[] = {5, 3, 1, -1};
    fit f = fit_line(x, y, 4);
    near(f.slope, -2, 1e-12);
    near(f.high - f.low, 0, 1e-12);
}

/* 95 of 100 intervals hold the true slope, whatever the number of points. */
static void interval_covers(void **state)
{
    (void)state;
    enum { TRIALS = 4000 };
    uint64_t seed = 12345;
    for (int points = 3; points <= 9; points += 3) {
        int held = 0;
        for (int trial = 0; trial < TRIALS; trial++) {
            double x[9], y[9];
            for (int i = 0; i < points; i++) {
                double sum = -6; /* twelve uniform numbers are normal enough */
                for (int k = 0; k < 12; k++) {
                    seed = seed * 6364136223846793005u + 1442695040888963407u;
                    sum += (double)(seed >> 11) * 0x1p-53;
                }
                x[i] = i;
                y[i] = 1 - 0.5 * i + sum;
            }
            fit f = fit_line(x, y, points);
            held += f.low <= -0.5 && f.high >= -0.5;
        }
        REQUIRE(held > 0.94 * TRIALS && held < 0.96 * TRIALS, "%d points: %d of %d", points, held, TRIALS);
    }
}

static void medians_and_quantiles(void **state)
{
    (void)state;
    double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2}, many[] = {9, 8, 7, 6, 5, 4, 3, 2, 1};
    near(sampling_median(odd, 3), 3, 0);
    near(sampling_median(even, 4), 2.5, 0);
    near(sampling_median(even, 0), 0, 0);
    near(sampling_quantile(many, 9, 0.25), 3, 0);
    near(sampling_quantile(many, 9, 0.75), 7, 0);
    near(sampling_quantile(many, 9, 0), 1, 0);
    near(sampling_quantile(many, 9, 1), 9, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(student),
        cmocka_unit_test(slope_of_known_data),
        cmocka_unit_test(exact_line_has_no_width),
        cmocka_unit_test(interval_covers),
        cmocka_unit_test(medians_and_quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
