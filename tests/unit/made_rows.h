/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a benchmark, made up for tests of what reads them. */
#ifndef UNIT_MADE_ROWS_H
#define UNIT_MADE_ROWS_H

#include "report/rows.h"

/* What a test chooses of a row; zeros are left to the maker or left out. */
typedef struct made_row {
    const char *suite, *name, *status, *time, *method;
    const char *direction, *pattern, *strategy, *transport, *kernel, *processor;
    int length, ring_size, threads, hops;
    double seconds, spread; /* spread: between the quartiles, to the median */
    int samples;
    double planned, peak, of_peak;
    double peak_gflops, bandwidth;
} made_row;

/* One line of JSON, in memory of the caller's. */
char *made_row_line(const made_row *m);

/* Adds it to rows; complaints end the test. */
void made_rows_add(rows *r, const made_row *m);

#endif
