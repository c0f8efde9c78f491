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

/*
 * The rows that are like r->at[first] but for what may differ, that did not fail and that have `value`, in the order of
 * `by`. None when that row itself is not such a row, or when an earlier row is like it: so each line is found once.
 */
line line_from(arena *a, const rows *r, int first, unsigned may_differ, const char *by, const char *value);

/* How many different numbers there are at `path`. */
int line_values(const line *l, const char *path);

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
