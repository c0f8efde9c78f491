/* SPDX-License-Identifier: Apache-2.0 */
/* A straight line through points, with the interval of its slope by Student's t. See fit.h. */
#include "fit.h"

#include <math.h>

/*
 * How much of the distribution lies between -t and t: the closed forms for whole degrees of freedom, in the angle whose
 * tangent is t / sqrt(degrees).
 */
static double student_within(double t, int degrees)
{
    double angle = atan(t / sqrt(degrees)), square = cos(angle) * cos(angle);
    double term = degrees % 2 ? cos(angle) : 1, sum = degrees == 1 ? 0 : term;
    for (int k = degrees % 2 ? 3 : 2; k <= degrees - 2; k += 2)
        sum += term *= square * (k - 1) / k;
    return degrees % 2 ? 2 / acos(-1) * (angle + sin(angle) * sum) : sin(angle) * sum;
}

double fit_student(int degrees)
{
    const double wanted = 0.95;
    double low = 1, high = 13; /* of one degree of freedom it is 12.7, of infinitely many 1.96 */
    while (high - low > 1e-12 * high) {
        double middle = (low + high) / 2;
        *(student_within(middle, degrees) < wanted ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

fit fit_line(const double *x, const double *y, int count)
{
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0, rest = 0;
    for (int i = 0; i < count; i++) {
        mean_x += x[i] / count;
        mean_y += y[i] / count;
    }
    for (int i = 0; i < count; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    fit f = {.slope = xy / xx};
    f.intercept = mean_y - f.slope * mean_x;
    for (int i = 0; i < count; i++)
        rest += pow(y[i] - f.intercept - f.slope * x[i], 2);
    f.error = sqrt(rest / (count - 2) / xx);
    double reach = fit_student(count - 2) * f.error;
    f.low = f.slope - reach;
    f.high = f.slope + reach;
    return f;
}
