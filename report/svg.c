/* SPDX-License-Identifier: Apache-2.0 */
/* The charts alone, below each other in one SVG, each with its title and legend. */
#include "chart_svg.h"
#include "document.h"
#include "escape.h"
#include "gnuplot.h"

enum { MARGIN = 16, TITLE = 30, LEGEND = 20, WIDTH = GNUPLOT_WIDTH + 2 * MARGIN };

static int height_of(const chart *c)
{
    int lines = c->count + (c->left_out_count > 0);
    return TITLE + (chart_points(c) ? chart_svg_height(c) + lines * LEGEND : LEGEND) + MARGIN;
}

static void write_text(FILE *stream, const char *class, int x, int y, const char *text)
{
    fprintf(stream, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, x, y);
    escape_markup(stream, text);
    fputs("</text>\n", stream);
}

static const char *write_chart(arena *a, const chart *c, int top, FILE *stream)
{
    write_text(stream, "title", MARGIN, top + TITLE - 10, c->title);
    top += TITLE;
    if (!chart_points(c)) {
        write_text(stream, "legend", MARGIN, top + LEGEND - 6, arena_text(a, "Not shown: %s.", c->missing));
        return NULL;
    }
    fprintf(stream, "<g transform=\"translate(%d %d)\">\n", MARGIN, top);
    const char *problem = chart_svg(a, c, stream);
    fputs("</g>\n", stream);
    top += chart_svg_height(c);
    for (int i = 0; i < c->count && !problem; i++) {
        int middle = top + i * LEGEND + LEGEND / 2;
        fprintf(stream, "<g transform=\"translate(%d %d)\">", MARGIN + 16, middle);
        chart_svg_mark(c, i, 14, stream);
        fputs("</g>", stream);
        write_text(stream, "legend", MARGIN + 34, middle + 5, c->series[i].name);
    }
    const char *left_out = chart_left_out(a, c);
    if (left_out)
        write_text(stream, "legend", MARGIN, top + c->count * LEGEND + LEGEND / 2 + 5, left_out);
    return problem;
}

const char *document_svg(document *d, FILE *stream)
{
    const char *problem = NULL;
    int height = MARGIN, top = MARGIN;
    for (int i = 0; i < d->count; i++)
        for (int j = 0; j < d->sections[i].chart_count; j++)
            height += height_of(&d->sections[i].charts[j]);
    fprintf(stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\"%d\" "
            "height=\"%d\" viewBox=\"0 0 %d %d\">\n<title>",
            WIDTH, height, WIDTH, height);
    escape_markup(stream, d->title);
    fputs("</title>\n<style>\n"
          "svg{background:#fff;font:14px sans-serif}\n"
          "text{fill:#1c2126}\n"
          ".title{font-weight:bold}\n"
          ".legend{font-size:13px}\n"
          "@media(prefers-color-scheme:dark){\n"
          "svg{background:#14181d}\n"
          "text{fill:#d5dbe1}\n",
          stream);
    chart_svg_dark(stream);
    fputs("}\n</style>\n", stream);
    for (int i = 0; i < d->count && !problem; i++)
        for (int j = 0; j < d->sections[i].chart_count && !problem; j++) {
            const chart *c = &d->sections[i].charts[j];
            problem = write_chart(&d->memory, c, top, stream);
            top += height_of(c);
        }
    fputs("</svg>\n", stream);
    return problem;
}
