/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits the SVG that gnuplot wrote: its marks of series become colours, points get a title. gnuplot itself is started
 * in gnuplot.c. See chart_svg.h.
 */
#include "chart_svg.h"

#include "bars.h"
#include "escape.h"
#include "gnuplot.h"

#include <stdlib.h>
#include <string.h>

/* ---- Colours ----------------------------------------------------------------------------------------------------- */

typedef struct colour {
    const char *light, *dark;
} colour;

static const colour SERIES[] = {{"#0b62a4", "#6cb6ff"}, {"#c2410c", "#ff9e64"}, {"#15803d", "#6fd08c"},
                                {"#8b2fc9", "#cba6ff"}, {"#8a6100", "#e6c35c"}, {"#0e7490", "#5fd3e0"},
                                {"#be185d", "#ff8fc0"}, {"#50575e", "#b9c1c9"}};
enum { COLOURS = sizeof SERIES / sizeof *SERIES };
static const colour REFERENCE = {"#6b7280", "#9aa4b0"}, GRID = {"#e2e5e9", "#30363d"}, INK = {"black", "#d5dbe1"};

/* Of the number that stands for it in gnuplot's drawing. */
static const colour *colour_of(int red)
{
    if (red == GNUPLOT_REFERENCE)
        return &REFERENCE;
    return red == GNUPLOT_GRID ? &GRID : &SERIES[(red - 1) % COLOURS];
}

const char *chart_svg_colour(int series)
{
    return colour_of(series % (GNUPLOT_REFERENCE - 1) + 1)->light;
}

static void write_dark(FILE *stream, const colour *c)
{
    fprintf(stream, "[stroke=\"%s\"]{stroke:%s}[color=\"%s\"]{color:%s}\n", c->light, c->dark, c->light, c->dark);
}

void chart_svg_dark(FILE *stream)
{
    for (int i = 0; i < COLOURS; i++)
        write_dark(stream, &SERIES[i]);
    write_dark(stream, &REFERENCE);
    write_dark(stream, &GRID);
    write_dark(stream, &INK);
}

/* ---- The drawing ------------------------------------------------------------------------------------------------- */

/* Goes through gnuplot's text once. */
typedef struct editor {
    const char *at;
    const chart *chart;
    FILE *stream;
    int series, point; /* the next that gnuplot draws */
    int points;        /* that it has drawn */
    bool defined;      /* what is used before are parts of symbols */
    bool in_point;
} editor;

static bool finds(editor *e, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(e->at, text, length) != 0)
        return false;
    e->at += length;
    return true;
}

static const char *next_hover(editor *e)
{
    const chart *c = e->chart;
    while (e->series < c->count && (c->series[e->series].reference || e->point == c->series[e->series].count)) {
        e->series++;
        e->point = 0;
    }
    e->points++;
    return e->series < c->count ? c->series[e->series].points[e->point++].hover : "";
}

static void open_point(editor *e)
{
    e->in_point = true;
    fputs("<g class=\"point\"><title>", e->stream);
    escape_markup(e->stream, next_hover(e));
    fputs("</title><use ", e->stream);
}

static void close_point(editor *e)
{
    e->in_point = false;
    fputs("/></g>", e->stream);
}

/* One step: characters at which nothing that is changed begins; something that is changed, or a character that is not.
 */
static void edit(editor *e)
{
    size_t plain = strcspn(e->at, "< /hr");
    if (plain) {
        fwrite(e->at, 1, plain, e->stream);
        e->at += plain;
    } else if (finds(e, "<title>")) { /* gnuplot's own name for a plot */
        const char *end = strstr(e->at, "</title>");
        e->at = end ? end + strlen("</title>") : e->at;
    } else if (finds(e, "</defs>")) {
        e->defined = true;
        fputs("</defs>", e->stream);
    } else if (e->defined && finds(e, "<use "))
        open_point(e);
    else if (e->in_point && finds(e, "/>"))
        close_point(e);
    else if (finds(e, " id='") || finds(e, " id=\""))
        fprintf(e->stream, " id=%c%s-", e->at[-1], e->chart->id);
    else if (finds(e, "href='#"))
        fprintf(e->stream, "href='#%s-", e->chart->id);
    else if (finds(e, "rgb(")) {
        fputs(colour_of(atoi(e->at))->light, e->stream);
        e->at += strcspn(e->at, ")");
        e->at += *e->at == ')';
    } else
        fputc(*e->at++, e->stream);
}

int chart_svg_height(const chart *c)
{
    return c->bars ? bars_height(c) : GNUPLOT_HEIGHT;
}

/* What gnuplot draws. */
static const char *write_drawn(arena *a, const chart *c, FILE *stream)
{
    char *drawn = NULL;
    const char *problem = gnuplot_draw(a, c, GNUPLOT_SVG, &drawn);
    if (problem)
        return problem;
    char *begin = strstr(drawn, "<g id=\"gnuplot_canvas\""), *end = strstr(drawn, "</svg>");
    if (!begin || !end || begin > end)
        return arena_text(a, "gnuplot drew \"%s\" in a form that is not known here", c->title);
    *end = 0;
    editor e = {.at = begin, .chart = c, .stream = stream};
    while (*e.at)
        edit(&e);
    if (e.points != chart_points(c))
        return arena_text(a, "gnuplot drew %d points of \"%s\", which has %d", e.points, c->title, chart_points(c));
    return NULL;
}

const char *chart_svg(arena *a, const chart *c, FILE *stream)
{
    if (!c->bars)
        return write_drawn(a, c, stream);
    bars_svg(c, stream);
    return NULL;
}

void chart_svg_mark(const chart *c, int series, double size, FILE *stream)
{
    if (c->series[series].reference)
        fprintf(stream,
                "<path d=\"M%g 0H%g\" fill=\"none\" stroke=\"%s\" stroke-width=\"%g\" stroke-dasharray=\"%g\"/>",
                -size / 2, size / 2, REFERENCE.light, size / 8, size / 4);
    else if (c->bars)
        fprintf(stream, "<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" fill=\"currentColor\" color=\"%s\"/>",
                -size / 2, -size / 3, size, 2 * size / 3, chart_svg_colour(series));
    else
        fprintf(stream, "<use href=\"#%s-gpPt%d\" transform=\"scale(%g)\" fill=\"none\" color=\"%s\"/>", c->id,
                gnuplot_symbol(series), size / 3, chart_svg_colour(series));
}
