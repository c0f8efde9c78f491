/* SPDX-License-Identifier: Apache-2.0 */
/* Sections are made here, part by part; what they say comes from section_*.c. */
#include "section.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

void section_say(arena *a, section *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    s->sentences = arena_more(a, s->sentences, s->sentence_count, sizeof *s->sentences);
    s->sentences[s->sentence_count++] = arena_vtext(a, format, arguments);
    va_end(arguments);
}

/* ---- Charts ------------------------------------------------------------------------------------------------------ */

chart *section_chart(arena *a, section *s, const chart *form)
{
    s->charts = arena_more(a, s->charts, s->chart_count, sizeof *s->charts);
    s->charts[s->chart_count] = *form;
    return &s->charts[s->chart_count++];
}

typedef struct series_search {
    const chart *chart;
    const char *name;
    bool reference;
} series_search;

static bool is_series(const void *user, int index)
{
    const series_search *s = user;
    const chart_series *it = &s->chart->series[index];
    return it->reference == s->reference && strcmp(it->name, s->name) == 0;
}

static bool is_left_out(const void *user, int index)
{
    const series_search *s = user;
    return strcmp(s->chart->left_out[index], s->name) == 0;
}

static void leave_out(arena *a, chart *c, const char *name)
{
    uint64_t hash = places_hash(0, name, strlen(name));
    if (places_find(&c->left_out_names, hash, is_left_out, &(series_search){c, name, false}) >= 0)
        return;
    places_add(a, &c->left_out_names, hash, c->left_out_count);
    c->left_out = arena_more(a, c->left_out, c->left_out_count, sizeof *c->left_out);
    c->left_out[c->left_out_count++] = name;
}

static bool is_full(const chart *c, bool reference)
{
    int count = 0;
    for (int i = 0; i < c->count; i++)
        count += c->series[i].reference == reference;
    return count == CHART_SERIES_MOST;
}

/* NULL: there are too many. */
static chart_series *series_of(arena *a, chart *c, const char *name, bool reference)
{
    uint64_t hash = places_hash(reference, name, strlen(name));
    int place = places_find(&c->names, hash, is_series, &(series_search){c, name, reference});
    if (place >= 0)
        return &c->series[place];
    if (is_full(c, reference)) {
        if (!reference)
            leave_out(a, c, name);
        return NULL;
    }
    places_add(a, &c->names, hash, c->count);
    c->series = arena_more(a, c->series, c->count, sizeof *c->series);
    c->series[c->count] = (chart_series){.name = name, .reference = reference};
    return &c->series[c->count++];
}

static bool has_place(chart_scale scale, double value)
{
    return isfinite(value) && (scale == CHART_FROM_ZERO ? value >= 0 : value > 0);
}

static bool add(arena *a, chart *c, const char *name, bool reference, const chart_point *point)
{
    if (!has_place(c->x_scale, point->x) || !has_place(c->y_scale, point->y))
        return false;
    chart_series *s = series_of(a, c, name, reference);
    if (!s)
        return false;
    s->points = arena_more(a, s->points, s->count, sizeof *s->points);
    s->points[s->count++] = *point;
    return true;
}

bool chart_add(arena *a, chart *c, const char *name, const chart_point *point)
{
    return add(a, c, name, false, point);
}

bool chart_bar(arena *a, chart *c, const char *name, const chart_point *bar)
{
    int count = chart_points(c);
    chart_point point = *bar;
    if (count >= CHART_SERIES_MOST) {
        c->left_out_count++;
        return false;
    }
    point.x = count + 1;
    point.low = point.high = point.y;
    return chart_add(a, c, name, &point);
}

void chart_refer(arena *a, chart *c, const char *name, double x, double y)
{
    const chart_point point = {.x = x, .y = y, .low = y, .high = y, .hover = ""};
    add(a, c, name, true, &point);
}

int chart_points(const chart *c)
{
    int points = 0;
    for (int i = 0; i < c->count; i++)
        points += c->series[i].reference ? 0 : c->series[i].count;
    return points;
}

const char *chart_left_out(arena *a, const chart *c)
{
    return c->left_out_count ? arena_text(a, "%d more %s are not drawn: more than %d cannot be told apart.",
                                          c->left_out_count, c->bars ? "bars" : "lines", CHART_SERIES_MOST)
                             : NULL;
}

bool section_has_data(const section *s)
{
    for (int i = 0; i < s->chart_count; i++)
        if (chart_points(&s->charts[i]))
            return true;
    return s->table_count > 0;
}

static bool in_order(const chart_series *s)
{
    for (int i = 1; i < s->count; i++)
        if (s->points[i - 1].x > s->points[i].x)
            return false;
    return true;
}

/* Points of one place stay in the order in which they came. */
static void sort_points(arena *a, chart_series *s)
{
    double *keys = arena_take(a, (size_t)s->count * sizeof *keys);
    chart_point *sorted = arena_take(a, (size_t)s->count * sizeof *sorted);
    for (int i = 0; i < s->count; i++)
        keys[i] = s->points[i].x;
    const int *order = arena_order(a, keys, s->count);
    for (int i = 0; i < s->count; i++)
        sorted[i] = s->points[order[i]];
    s->points = sorted;
}

void section_finish(arena *a, section *s)
{
    for (int i = 0; i < s->chart_count; i++)
        for (int j = 0; j < s->charts[i].count; j++)
            if (!in_order(&s->charts[i].series[j]))
                sort_points(a, &s->charts[i].series[j]);
}

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

table *section_table(arena *a, section *s, const char *title, const char *heads)
{
    table made = {.title = title};
    for (char *head = arena_text(a, "%s", heads); head;) {
        char *end = strchr(head, '|');
        if (end)
            *end = 0;
        size_t length = strlen(head);
        bool number = length > 0 && head[length - 1] == '#';
        if (number)
            head[length - 1] = 0;
        made.heads = arena_more(a, made.heads, made.columns, sizeof *made.heads);
        made.numbers = arena_more(a, made.numbers, made.columns, sizeof *made.numbers);
        made.numbers[made.columns] = number;
        made.heads[made.columns++] = head;
        head = end ? end + 1 : NULL;
    }
    s->tables = arena_more(a, s->tables, s->table_count, sizeof *s->tables);
    s->tables[s->table_count] = made;
    return &s->tables[s->table_count++];
}

void table_put(arena *a, table *t, const char *text)
{
    t->cells = arena_more(a, t->cells, t->count, sizeof *t->cells);
    t->cells[t->count++] = text;
}

void table_cell(arena *a, table *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    table_put(a, t, arena_vtext(a, format, arguments));
    va_end(arguments);
}
