#include "line.h"

#include <math.h>

static bool counts(const row *r, const char *by, const char *value)
{
    return !r->failed && row_number(r, by) > 0 && row_number(r, value) > 0;
}

static void insert(arena *a, line *l, const row *r, const char *by)
{
    l->at = arena_more(a, l->at, l->count, sizeof(const row *));
    int place = l->count++;
    for (; place > 0 && row_number(l->at[place - 1], by) > row_number(r, by); place--)
        l->at[place] = l->at[place - 1];
    l->at[place] = r;
}

line line_from(arena *a, const rows *r, int first, unsigned may_differ, const char *by, const char *value)
{
    line l = {0};
    const row *model = &r->at[first];
    if (!counts(model, by, value))
        return l;
    for (int i = 0; i < first; i++)
        if (row_alike(&r->at[i], model, may_differ) && counts(&r->at[i], by, value))
            return l;
    for (int i = first; i < r->count; i++)
        if (row_alike(&r->at[i], model, may_differ) && counts(&r->at[i], by, value))
            insert(a, &l, &r->at[i], by);
    return l;
}

int line_values(const line *l, const char *path)
{
    int values = 0;
    for (int i = 0; i < l->count; i++) {
        bool met = false;
        for (int j = 0; j < i; j++)
            met |= row_number(l->at[j], path) == row_number(l->at[i], path);
        values += !met;
    }
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
