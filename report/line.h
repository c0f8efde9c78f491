/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that differ in one thing, in its order: what a chart joins by a line, and what a fit goes through. */
#ifndef REPORT_LINE_H
#define REPORT_LINE_H

#include "arena.h"
#include "bench/fit.h"
#include "rows.h"

typedef struct line {
    const row **at;
    int count;
} line;

/* All lines of one kind. */
typedef struct lines {
    line *at;
    int *of_row; /* for each row: the line that it is the first row of, -1: none */
} lines;

/*
 * Rows that are alike but for what may differ, that did not fail and that have `by` and `value`, in the order of `by`.
 */
lines lines_of(arena *a, const rows *r, unsigned may_differ, const char *by, const char *value);

/* The line whose first row, in the order of rows, is r->at[first]; an empty one where there is none. So each is found
 * once. */
line line_from(const lines *l, int first);

/* How many different numbers there are at `by`, which the line is in the order of. */
int line_values(const line *l, const char *by);

/* The power of `by` that `value` grows with, a straight line in logarithms; false with fewer than three places. */
bool line_power(arena *a, const line *l, const char *by, const char *value, fit *power);

/*
 * The same of what lies beyond a fixed part: where a straight line over `by` to the power of `expected` meets the axis,
 * none where that is below nothing.
 */
bool line_power_beyond(arena *a, const line *l, const char *by, const char *value, double expected, double *fixed,
                       fit *power);

/* "R^-0.991 (95%: -1.002..-0.980)". */
const char *line_power_text(arena *a, const char *variable, const fit *power);

#endif
