/* SPDX-License-Identifier: Apache-2.0 */
/* Draws bars as SVG and as characters. The order is that of the series, and of the points in each. See bars.h. */
#include "bars.h"

#include "chart_svg.h"
#include "escape.h"
#include "gnuplot.h"

#include <math.h>
#include <string.h>

/* Names end, bars begin and end, and values end there; a row, its bar, its letters and the axis are so high. */
enum { NAMES = 216, PLOT = 222, PLOT_END = 432, VALUES = 472, ROW = 20, BAR = 12, FONT = 12, AXIS = 42 };

/* ---- The axis ---------------------------------------------------------------------------------------------------- */

typedef struct axis {
    double least, most, base; /* base: where bars begin */
    bool logarithmic;
} axis;

static axis axis_of(const chart *c)
{
    axis x = {.logarithmic = c->y_scale != CHART_FROM_ZERO};
    x.base = x.logarithmic ? 1 : 0;
    x.least = x.most = x.base;
    for (int i = 0; i < c->count; i++)
        for (int j = 0; j < c->series[i].count; j++) {
            x.least = fmin(x.least, c->series[i].points[j].y);
            x.most = fmax(x.most, c->series[i].points[j].y);
        }
    if (!(x.most > x.least))
        x.most = x.base + 1;
    if (x.logarithmic && x.least < 1)
        x.least /= 1.1;
    return x;
}

/* From 0 to 1. */
static double place(const axis *x, double value)
{
    return x->logarithmic ? log(value / x->least) / log(x->most / x->least) : (value - x->least) / (x->most - x->least);
}

/* The marks of a linear axis: a step of 1, 2 or 5 of some decade, five of them at most. */
static double step_of(const axis *x)
{
    enum { MOST = 5 };
    static const double DIGITS[] = {1, 2, 5, 10};
    double decade = pow(10, floor(log10((x->most - x->least) / MOST)));
    for (int i = 0; i < 4; i++)
        if ((x->most - x->least) / (decade * DIGITS[i]) <= MOST)
            return decade * DIGITS[i];
    return decade * 10;
}

/* The marks of a logarithmic one: 1, 2 and 5 of each decade, or decades alone where there are many. */
static double next_mark(const axis *x, double mark)
{
    if (!x->logarithmic)
        return mark + step_of(x);
    if (x->most / x->least > 1000)
        return mark * 10;
    double decade = pow(10, floor(log10(mark) + 1e-9)), digit = mark / decade;
    return decade * (digit < 1.5 ? 2 : digit < 3 ? 5 : 10);
}

static double first_mark(const axis *x)
{
    if (!x->logarithmic)
        return 0;
    double mark = pow(10, floor(log10(x->least)));
    while (mark < x->least)
        mark = next_mark(x, mark);
    return mark;
}

/* ---- SVG --------------------------------------------------------------------------------------------------------- */

int bars_height(const chart *c)
{
    return ROW * chart_points(c) + AXIS;
}

static double across(const axis *x, double value)
{
    return PLOT + (PLOT_END - PLOT) * place(x, value);
}

/* The name of a bar, without its end where it is long. */
enum { NAME_MOST = 33 };
typedef struct bar_name {
    char text[4 * NAME_MOST + 4];
    int characters;
} bar_name;

static bar_name name_of(const char *label)
{
    bar_name name = {.characters = 0};
    size_t length = 0, kept = 0;
    for (; label[length] && name.characters <= NAME_MOST; length++)
        if (((unsigned char)label[length] & 0xc0) != 0x80) {
            name.characters++;
            if (name.characters == NAME_MOST - 2)
                kept = length;
        }
    bool whole = name.characters <= NAME_MOST && length < sizeof name.text;
    snprintf(name.text, sizeof name.text, "%.*s%s", (int)(whole ? length : kept), label, whole ? "" : "...");
    if (!whole)
        name.characters = NAME_MOST;
    return name;
}

static void write_text(FILE *stream, double x, double y, const char *anchor, const char *text)
{
    fprintf(stream, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"%s\">", x, y, FONT, anchor);
    escape_markup(stream, text);
    fputs("</text>\n", stream);
}

static void write_marks(const axis *x, double bottom, FILE *stream)
{
    char text[32];
    double mark = first_mark(x);
    while (mark <= x->most * (1 + 1e-9)) {
        fprintf(stream, "<path d=\"M%.1f 0V%.1f\" stroke=\"#e2e5e9\"/>\n", across(x, mark), bottom);
        snprintf(text, sizeof text, "%g", mark);
        write_text(stream, across(x, mark), bottom + FONT + 2, "middle", text);
        mark = next_mark(x, mark);
    }
}

static void write_bar(const axis *x, const chart_point *p, double top, const char *colour, FILE *stream)
{
    double begin = across(x, x->base), end = across(x, p->y), middle = top + ROW / 2.0;
    write_text(stream, NAMES, middle + FONT / 3.0, "end", name_of(p->label).text);
    fputs("<g class=\"point\"><title>", stream);
    escape_markup(stream, p->hover);
    fprintf(stream,
            "</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"currentColor\" "
            "color=\"%s\"/></g>\n",
            fmin(begin, end), middle - BAR / 2.0, fmax(1, fabs(end - begin)), BAR, colour);
    write_text(stream, VALUES, middle + FONT / 3.0, "end", p->shown);
}

void bars_svg(const chart *c, FILE *stream)
{
    axis x = axis_of(c);
    double bottom = ROW * chart_points(c), top = 0;
    write_marks(&x, bottom, stream);
    for (int i = 0; i < c->count; i++)
        for (int j = 0; j < c->series[i].count; j++) {
            const chart_point *p = &c->series[i].points[j];
            if (c->series[i].reference)
                fprintf(stream,
                        "<path d=\"M%.1f 0V%.1f\" stroke=\"#6b7280\" stroke-width=\"1.5\" stroke-dasharray=\"3\"/>\n",
                        across(&x, p->y), bottom);
            else {
                write_bar(&x, p, top, chart_svg_colour(i), stream);
                top += ROW;
            }
        }
    write_text(stream, (PLOT + PLOT_END) / 2.0, bottom + AXIS - 8, "middle", c->y_axis);
}

/* ---- Characters -------------------------------------------------------------------------------------------------- */

enum { TEXT_BARS = 34 };

void bars_text(const chart *c, FILE *stream)
{
    axis x = axis_of(c);
    for (int i = 0; i < c->count; i++) {
        if (c->series[i].reference)
            continue;
        fprintf(stream, "  %s\n", c->series[i].name);
        for (int j = 0; j < c->series[i].count; j++) {
            const chart_point *p = &c->series[i].points[j];
            int from = (int)lround(TEXT_BARS * place(&x, fmin(x.base, p->y)));
            int to = (int)lround(TEXT_BARS * place(&x, fmax(x.base, p->y)));
            bar_name name = name_of(p->label);
            fprintf(stream, "    %s%*s", name.text, 1 + NAME_MOST - name.characters + from, "");
            for (int k = from; k < to; k++)
                fputc('#', stream);
            fprintf(stream, "%s%s\n", to > from ? " " : "", p->shown);
        }
    }
    fprintf(stream, "  %s\n", c->y_axis);
}
