/* SPDX-License-Identifier: Apache-2.0 */
/* The report as Markdown. A chart is the table of its points. */
#include "document.h"
#include "escape.h"
#include "format.h"

static void write_line(FILE *stream, const char *before, const char *text, const char *after)
{
    fputs(before, stream);
    escape_markdown(stream, text);
    fputs(after, stream);
}

static void write_table(const table *t, FILE *stream)
{
    write_line(stream, "### ", t->title, "\n\n|");
    for (int i = 0; i < t->columns; i++)
        write_line(stream, " ", t->heads[i], " |");
    fputs("\n|", stream);
    for (int i = 0; i < t->columns; i++)
        fputs(t->numbers[i] ? "---:|" : "---|", stream);
    for (int i = 0; i < t->count; i++)
        write_line(stream, i % t->columns ? " " : "\n| ", t->cells[i], " |");
    fputs("\n\n", stream);
}

static void write_chart(arena *a, const chart *c, FILE *stream)
{
    section own = {0};
    if (!chart_points(c)) {
        write_line(stream, "### ", c->title, "\n\n");
        write_line(stream, "Not shown: ", c->missing, ".\n\n");
        return;
    }
    table *t = section_table(a, &own, c->title, arena_text(a, "series|%s#|%s#|quartiles#", c->x_axis, c->y_axis));
    for (int i = 0; i < c->count; i++)
        for (int j = 0; j < c->series[i].count && !c->series[i].reference; j++) {
            const chart_point *p = &c->series[i].points[j];
            table_cell(a, t, "%s", c->series[i].name);
            table_cell(a, t, "%s", c->x_scale == CHART_LOG_COUNT ? format_count(a, p->x) : format_number(a, p->x));
            table_cell(a, t, "%.4g", p->y);
            table_cell(a, t, "%s", p->low < p->high ? arena_text(a, "%.4g..%.4g", p->low, p->high) : "-");
        }
    write_table(t, stream);
    const char *left_out = chart_left_out(a, c);
    if (left_out)
        write_line(stream, "", left_out, "\n\n");
}

const char *document_markdown(document *d, FILE *stream)
{
    write_line(stream, "# ", d->title, "\n\n");
    for (int i = 0; i < d->count; i++) {
        const section *s = &d->sections[i];
        write_line(stream, "## ", s->title, "\n\n");
        for (int j = 0; j < s->sentence_count; j++)
            write_line(stream, "- ", s->sentences[j], "\n");
        if (s->sentence_count)
            fputc('\n', stream);
        if (s->about)
            write_line(stream, "", s->about, "\n\n");
        for (int j = 0; j < s->chart_count; j++)
            write_chart(&d->memory, &s->charts[j], stream);
        for (int j = 0; j < s->table_count; j++)
            write_table(&s->tables[j], stream);
    }
    if (d->missing)
        write_line(stream, "", d->missing, "\n");
    return NULL;
}
