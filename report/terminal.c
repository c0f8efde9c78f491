/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences and charts for a terminal; tables of rows are too wide for one. */
#include "bars.h"
#include "document.h"
#include "gnuplot.h"

#include <string.h>

/* Broken at spaces; lines after the first are indented below it. */
static void write_wrapped(FILE *stream, const char *first, const char *text)
{
    int column = fprintf(stream, "%s", first), indent = column;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (column > indent && column + 1 + length > GNUPLOT_COLUMNS) {
            fprintf(stream, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(stream, "%s%.*s", column > indent ? " " : "", length, text);
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', stream);
}

static void write_legend(const chart *c, FILE *stream)
{
    for (int i = 0; i < c->count; i++) {
        char mark[8] = "  - ";
        if (!c->series[i].reference)
            mark[2] = (char)('A' + i % 26);
        write_wrapped(stream, mark, c->series[i].name);
    }
}

/* Without the spaces that gnuplot fills its lines with. */
static void write_drawn(FILE *stream, const char *drawn)
{
    for (drawn += strspn(drawn, "\f\n"); *drawn;) {
        int length = (int)strcspn(drawn, "\n"), shown = length;
        while (shown > 0 && drawn[shown - 1] == ' ')
            shown--;
        fprintf(stream, "%.*s\n", shown, drawn);
        drawn += length;
        drawn += *drawn == '\n';
    }
}

static const char *write_chart(arena *a, const chart *c, FILE *stream)
{
    char *drawn = NULL;
    const char *problem = NULL;
    fprintf(stream, "\n%s\n", c->title);
    if (!chart_points(c)) {
        write_wrapped(stream, "  ", arena_text(a, "Not shown: %s.", c->missing));
        return NULL;
    }
    if (c->bars)
        bars_text(c, stream);
    else
        problem = gnuplot_draw(a, c, GNUPLOT_CHARACTERS, &drawn);
    if (problem)
        return problem;
    if (!c->bars) {
        write_drawn(stream, drawn);
        write_legend(c, stream);
    }
    const char *left_out = chart_left_out(a, c);
    if (left_out)
        write_wrapped(stream, "  ", left_out);
    return NULL;
}

const char *document_text(document *d, FILE *stream)
{
    const char *problem = NULL;
    fprintf(stream, "%s\n", d->title);
    for (int i = 0; i < d->count && !problem; i++) {
        const section *s = &d->sections[i];
        if (!s->sentence_count && !s->chart_count)
            continue;
        fprintf(stream, "\n== %s\n\n", s->title);
        for (int j = 0; j < s->sentence_count; j++)
            write_wrapped(stream, "- ", s->sentences[j]);
        for (int j = 0; j < s->chart_count && !problem; j++)
            problem = write_chart(&d->memory, &s->charts[j], stream);
    }
    if (d->missing) {
        fputc('\n', stream);
        write_wrapped(stream, "", d->missing);
    }
    return problem;
}
