/* SPDX-License-Identifier: Apache-2.0 */
/* Lines: rows grouped by what they ran and put in an order, and what is fitted to them. */
#include "line.h"

#include <math.h>

static bool counts(const row *r, const char *by, const char *value)
{
    return !r->failed && row_number(r, by) > 0 && row_number(r, value) > 0;
}

static void sort_line(arena *a, line *l, const char *by)
{
    double *keys = arena_take(a, (size_t)l->count * sizeof *keys);
    const row **sorted = arena_take(a, (size_t)l->count * sizeof(const row *));
    for (int i = 0; i < l->count; i++)
        keys[i] = row_number(l->at[i], by);
    const int *order = arena_order(a, keys, l->count);
    for (int i = 0; i < l->count; i++)
        sorted[i] = l->at[order[i]];
    l->at = sorted;
}

lines lines_of(arena *a, const rows *r, unsigned may_differ, const char *by, const char *value)
{
    int count;
    const int *groups = rows_groups(a, r, may_differ, &count);
    lines all = {arena_take(a, (size_t)count * sizeof *all.at), arena_take(a, (size_t)r->count * sizeof *all.of_row)};
    for (int i = 0; i < r->count; i++) {
        line *l = &all.at[groups[i]];
        all.of_row[i] = -1;
        if (!counts(&r->at[i], by, value))
            continue;
        if (!l->count)
            all.of_row[i] = groups[i];
        l->at = arena_more(a, l->at, l->count, sizeof(const row *));
        l->at[l->count++] = &r->at[i];
    }
    for (int i = 0; i < count; i++)
        if (all.at[i].count > 1)
            sort_line(a, &all.at[i], by);
    return all;
}

line line_from(const lines *l, int first)
{
    return l->of_row[first] < 0 ? (line){0} : l->at[l->of_row[first]];
}

int line_values(const line *l, const char *by)
{
    int values = l->count > 0;
    for (int i = 1; i < l->count; i++)
        values += row_number(l->at[i], by) != row_number(l->at[i - 1], by);
    return values;
}

static fit logarithms(arena *a, const line *l, const char *by, const char *value, double fixed)
{
    double *x = arena_take(a, (size_t)l->count * sizeof *x), *y = arena_take(a, (size_t)l->count * sizeof *y);
    for (int i = 0; i < l->count; i++) {
        x[i] = log(row_number(l->at[i], by));
        y[i] = log(row_number(l->at[i], value) - fixed);
    }
    return fit_line(x, y, l->count);
}

bool line_power(arena *a, const line *l, const char *by, const char *value, fit *power)
{
    if (line_values(l, by) < 3)
        return false;
    *power = logarithms(a, l, by, value, 0);
    return true;
}

static double fixed_part(arena *a, const line *l, const char *by, const char *value, double expected)
{
    double *x = arena_take(a, (size_t)l->count * sizeof *x), *y = arena_take(a, (size_t)l->count * sizeof *y);
    double least = INFINITY;
    for (int i = 0; i < l->count; i++) {
        x[i] = pow(row_number(l->at[i], by), expected);
        y[i] = row_number(l->at[i], value);
        least = fmin(least, y[i]);
    }
    double fixed = fit_line(x, y, l->count).intercept;
    return fixed > 0 && fixed < least ? fixed : 0;
}

bool line_power_beyond(arena *a, const line *l, const char *by, const char *value, double expected, double *fixed,
                       fit *power)
{
    if (line_values(l, by) < 3)
        return false;
    *fixed = fixed_part(a, l, by, value, expected);
    *power = logarithms(a, l, by, value, *fixed);
    return true;
}

const char *line_power_text(arena *a, const char *variable, const fit *power)
{
    return arena_text(a, "%s^%.3f (95%%: %.3f..%.3f)", variable, power->slope, power->low, power->high);
}
