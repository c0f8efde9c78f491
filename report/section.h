/* SPDX-License-Identifier: Apache-2.0 */
/* What a report consists of: sections with sentences, charts and tables, whatever form they are written in. */
#ifndef REPORT_SECTION_H
#define REPORT_SECTION_H

#include "arena.h"
#include "places.h"
#include "rows.h"

#include <stdbool.h>

typedef struct chart_point {
    double x, y;
    double low, high; /* the quartiles of y; y where it has no spread */
    const char *hover;
    double beside;             /* is drawn this part of x to the right, so that points of one place can be told apart */
    const char *label, *shown; /* of bars: their name, and their value as a text */
} chart_point;

typedef struct chart_series {
    const char *name;
    bool reference; /* a line to compare with, not data */
    chart_point *points;
    int count;
} chart_series;

/* How an axis counts. */
typedef enum chart_scale {
    CHART_FROM_ZERO,
    CHART_LOG,
    CHART_LOG_COUNT /* with powers of two, as in 64K */
} chart_scale;

typedef struct chart {
    const char *id, *title;
    const char *x_axis, *y_axis;
    chart_scale x_scale, y_scale;
    bool joined;         /* points of a series are joined by lines, in the order of x */
    bool bars;           /* each point is a bar as long as its y, see bars.h */
    const char *missing; /* what to say when there is nothing to show */
    chart_series *series;
    int count;
    places names;          /* of the series */
    const char **left_out; /* names of series that are not shown, because there are CHART_SERIES_MOST already */
    int left_out_count;
    places left_out_names;
} chart;

/* Series of data in a chart, lines to compare with, and bars; nobody can tell more of them apart. */
enum { CHART_SERIES_MOST = 48 };

/* Cells are in rows, one after the other. */
typedef struct table {
    const char *title;
    const char **heads;
    bool *numbers; /* a column of numbers */
    int columns;
    const char **cells;
    int count;
} table;

typedef struct section {
    const char *id, *title;
    const char *about; /* definitions, NULL: none */
    const char *needs; /* the command whose rows it is made of; "": none; NULL: it is always shown */
    const char **sentences;
    int sentence_count;
    chart *charts;
    int chart_count;
    table *tables;
    int table_count;
} section;

/* ---- Making them ------------------------------------------------------------------------------------------------- */

/* One more sentence. */
void section_say(arena *a, section *s, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* One more chart, a copy of `form`, which stays the caller's until the next. */
chart *section_chart(arena *a, section *s, const chart *form);

/*
 * A point of the series of that name, which is made by its first point. Points without a place are left out, and so are
 * all series after the first CHART_SERIES_MOST: false. Points are in the order of x after section_finish.
 */
bool chart_add(arena *a, chart *c, const char *name, const chart_point *point);

/* A bar of that series, behind those that it has; its x is not looked at. False: there are CHART_SERIES_MOST already.
 */
bool chart_bar(arena *a, chart *c, const char *name, const chart_point *bar);

/* A point of a line to compare with; in a chart of bars it is a line at y. */
void chart_refer(arena *a, chart *c, const char *name, double x, double y);

/* How many points are data. */
int chart_points(const chart *c);

/* A sentence that says how many series or bars are not shown; NULL: none. */
const char *chart_left_out(arena *a, const chart *c);

/* `heads` names the columns, separated by '|'; a '#' behind a name: numbers. */
table *section_table(arena *a, section *s, const char *title, const char *heads);

/* Whether it has something to show: a chart with points, or a table with rows. */
bool section_has_data(const section *s);

/* Behind the last point of the last chart: puts points in their order. */
void section_finish(arena *a, section *s);

/* The next cell: a text that stays, or one that is made. */
void table_put(arena *a, table *t, const char *text);
void table_cell(arena *a, table *t, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- The sections, each from the rows alone ---------------------------------------------------------------------- */

void section_summary(arena *a, const rows *r, section *s);
void section_memory(arena *a, const rows *r, section *s);
void section_speed(arena *a, const rows *r, section *s);
void section_lengths(arena *a, const rows *r, section *s);
void section_methods(arena *a, const rows *r, section *s);
void section_ranks(arena *a, const rows *r, section *s);
void section_backward(arena *a, const rows *r, section *s);
void section_roofline(arena *a, const rows *r, section *s);
void section_dilated(arena *a, const rows *r, section *s);
void section_published(arena *a, const rows *r, section *s);
void section_failed(arena *a, const rows *r, section *s);
void section_cases(arena *a, const rows *r, section *s);

#endif
