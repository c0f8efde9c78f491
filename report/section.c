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

static chart_series *series_of(arena *a, chart *c, const char *name, bool reference)
{
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->series[i].name, name) == 0 && c->series[i].reference == reference)
            return &c->series[i];
    c->series = arena_more(a, c->series, c->count, sizeof *c->series);
    c->series[c->count] = (chart_series){.name = name, .reference = reference};
    return &c->series[c->count++];
}

static bool has_place(chart_scale scale, double value)
{
    return isfinite(value) && (scale == CHART_FROM_ZERO ? value >= 0 : value > 0);
}

/* In the order of x. */
static void insert(arena *a, chart_series *s, const chart_point *point)
{
    s->points = arena_more(a, s->points, s->count, sizeof *s->points);
    int place = s->count++;
    for (; place > 0 && s->points[place - 1].x > point->x; place--)
        s->points[place] = s->points[place - 1];
    s->points[place] = *point;
}

void chart_add(arena *a, chart *c, const char *name, const chart_point *point)
{
    if (has_place(c->x_scale, point->x) && has_place(c->y_scale, point->y))
        insert(a, series_of(a, c, name, false), point);
}

void chart_refer(arena *a, chart *c, const char *name, double x, double y)
{
    const chart_point point = {.x = x, .y = y, .low = y, .high = y, .hover = ""};
    if (has_place(c->x_scale, x) && has_place(c->y_scale, y))
        insert(a, series_of(a, c, name, true), &point);
}

int chart_points(const chart *c)
{
    int points = 0;
    for (int i = 0; i < c->count; i++)
        points += c->series[i].reference ? 0 : c->series[i].count;
    return points;
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

void table_cell(arena *a, table *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    t->cells = arena_more(a, t->cells, t->count, sizeof *t->cells);
    t->cells[t->count++] = arena_vtext(a, format, arguments);
    va_end(arguments);
}
