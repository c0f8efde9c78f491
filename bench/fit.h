/* A straight line through points. */
#ifndef BENCH_FIT_H
#define BENCH_FIT_H

typedef struct fit {
    double intercept, slope;
    double error; /* the standard error of the slope */
} fit;

/* Least squares; at least three points with different x. */
fit fit_line(const double *x, const double *y, int count);

#endif
