/* SPDX-License-Identifier: Apache-2.0 */
/* A straight line through points. */
#ifndef BENCH_FIT_H
#define BENCH_FIT_H

typedef struct fit {
    double intercept, slope;
    double error;     /* the standard error of the slope */
    double low, high; /* the slope's 95% interval, by Student's t */
} fit;

/* Least squares; at least three points with different x. */
fit fit_line(const double *x, const double *y, int count);

/* Student's t: 95% of its distribution with `degrees` >= 1 degrees of freedom lies between minus and plus this. */
double fit_student(int degrees);

#endif
