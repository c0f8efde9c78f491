/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report as one page that needs nothing else: no script, no font, no picture from elsewhere, which its own policy
 * forbids too. Wide tables move inside their boxes, never the page.
 */
#include "chart_svg.h"
#include "document.h"
#include "escape.h"
#include "gnuplot.h"

static const char STYLE[] =
    ":root{color-scheme:light "
    "dark;--page:#fff;--card:#f6f8fa;--ink:#1c2126;--soft:#57606a;--rule:#d5dae0;--link:#0b62a4}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:1rem;max-width:75rem;background:var(--page);color:var(--ink);"
    "font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}\n"
    "h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0 1rem}\n"
    "h2{font-size:1.25rem;margin:2.5rem 0 .75rem;padding-top:.75rem;border-top:1px solid var(--rule)}\n"
    "h3,figcaption{font-size:1rem;font-weight:600;margin:0 0 .5rem}\n"
    "h3{margin-top:1.5rem}\n"
    "a{color:var(--link)}\n"
    "nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1rem;padding:0;margin:0;list-style:none}\n"
    ".says{padding-left:1.25rem;margin:.5rem 0}\n"
    ".says li{margin:.3rem 0}\n"
    ".about{color:var(--soft);font-size:.875rem;max-width:60rem}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr));gap:1rem;margin:1rem 0}\n"
    "figure{margin:0;padding:.75rem;background:var(--card);border:1px solid "
    "var(--rule);border-radius:.5rem;min-width:0}\n"
    "figure>svg{display:block;width:100%;height:auto}\n"
    "figure text{fill:var(--ink);font-family:inherit}\n"
    ".point{pointer-events:bounding-box;cursor:help}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;margin:.5rem 0 "
    "0;padding:0;list-style:none;font-size:.8125rem}\n"
    ".legend svg{width:1.1em;height:1.1em;margin-right:.35em;vertical-align:-.15em}\n"
    ".scroll{overflow-x:auto;border:1px solid var(--rule);border-radius:.5rem}\n"
    "table{border-collapse:collapse;width:100%;font-size:.8125rem;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.35rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}\n"
    "td{overflow-wrap:break-word;min-width:5rem;max-width:22rem}\n"
    "@media(min-width:45rem){td{min-width:9rem}}\n"
    "tr:last-child td{border-bottom:0}\n"
    "th{background:var(--card);font-weight:600;white-space:nowrap}\n"
    "td.number,th.number{text-align:right;white-space:nowrap;min-width:0}\n";

static const char DARK[] =
    ":root{--page:#0f1317;--card:#161b21;--ink:#d5dbe1;--soft:#98a2ad;--rule:#2b323a;--link:#6cb6ff}\n";

/* `attributes`: as they stand in the tag, with a space before them. */
static void write_element(FILE *stream, const char *tag, const char *attributes, const char *text)
{
    fprintf(stream, "<%s%s>", tag, attributes);
    escape_markup(stream, text);
    fprintf(stream, "</%s>\n", tag);
}

/* ---- Charts ------------------------------------------------------------------------------------------------------ */

static void write_legend(const chart *c, FILE *stream)
{
    fputs("<ul class=\"legend\">\n", stream);
    for (int i = 0; i < c->count; i++) {
        fputs("<li><svg viewBox=\"-8 -8 16 16\" aria-hidden=\"true\">", stream);
        chart_svg_mark(c, i, 14, stream);
        fputs("</svg>", stream);
        escape_markup(stream, c->series[i].name);
        fputs("</li>\n", stream);
    }
    fputs("</ul>\n", stream);
}

static const char *write_chart(arena *a, const chart *c, FILE *stream)
{
    int points = chart_points(c);
    const char *problem = NULL;
    fprintf(stream, "<figure id=\"%s\" data-points=\"%d\">\n", c->id, points);
    write_element(stream, "figcaption", "", c->title);
    if (points) {
        fprintf(stream, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", GNUPLOT_WIDTH, chart_svg_height(c));
        escape_markup(stream, c->bars
                                  ? arena_text(a, "%s: %d bars, %s", c->title, points, c->y_axis)
                                  : arena_text(a, "%s: %d points, %s over %s", c->title, points, c->y_axis, c->x_axis));
        fputs("\">\n", stream);
        problem = chart_svg(a, c, stream);
        fputs("</svg>\n", stream);
        write_legend(c, stream);
        const char *left_out = chart_left_out(a, c);
        if (left_out)
            write_element(stream, "p", " class=\"about\"", left_out);
    } else
        write_element(stream, "p", " class=\"about\"", arena_text(a, "Not shown: %s.", c->missing));
    fputs("</figure>\n", stream);
    return problem;
}

/* ---- Sections ---------------------------------------------------------------------------------------------------- */

static void write_table(const table *t, FILE *stream)
{
    write_element(stream, "h3", "", t->title);
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", stream);
    escape_markup(stream, t->title);
    fputs("\"><table>\n<thead><tr>\n", stream);
    for (int i = 0; i < t->columns; i++)
        write_element(stream, "th", t->numbers[i] ? " scope=\"col\" class=\"number\"" : " scope=\"col\"", t->heads[i]);
    fputs("</tr></thead>\n<tbody>\n", stream);
    for (int i = 0; i < t->count; i++) {
        if (i % t->columns == 0)
            fputs("<tr>\n", stream);
        write_element(stream, "td", t->numbers[i % t->columns] ? " class=\"number\"" : "", t->cells[i]);
        if (i % t->columns == t->columns - 1)
            fputs("</tr>\n", stream);
    }
    fputs("</tbody></table></div>\n", stream);
}

static const char *write_section(arena *a, const section *s, FILE *stream)
{
    const char *problem = NULL;
    fprintf(stream, "<section id=\"%s-section\">\n", s->id);
    write_element(stream, "h2", "", s->title);
    if (s->sentence_count) {
        fputs("<ul class=\"says\">\n", stream);
        for (int i = 0; i < s->sentence_count; i++)
            write_element(stream, "li", "", s->sentences[i]);
        fputs("</ul>\n", stream);
    }
    if (s->chart_count) {
        fputs("<div class=\"charts\">\n", stream);
        for (int i = 0; i < s->chart_count && !problem; i++)
            problem = write_chart(a, &s->charts[i], stream);
        fputs("</div>\n", stream);
    }
    if (s->about)
        write_element(stream, "p", " class=\"about\"", s->about);
    for (int i = 0; i < s->table_count; i++)
        write_table(&s->tables[i], stream);
    fputs("</section>\n", stream);
    return problem;
}

/* ---- The page ---------------------------------------------------------------------------------------------------- */

static void write_head(const document *d, FILE *stream)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"description\" content=\"Speed and memory of ringattn, from rows of ringattn bench\">\n",
          stream);
    write_element(stream, "title", "", d->title);
    fprintf(stream, "<style>\n%s@media(prefers-color-scheme:dark){\n%s", STYLE, DARK);
    chart_svg_dark(stream);
    fputs("}\n</style>\n</head>\n<body>\n", stream);
}

const char *document_html(document *d, FILE *stream)
{
    const char *problem = NULL;
    write_head(d, stream);
    write_element(stream, "h1", "", d->title);
    fputs("<nav aria-label=\"Sections\"><ul>\n", stream);
    for (int i = 0; i < d->count; i++) {
        fprintf(stream, "<li><a href=\"#%s-section\">", d->sections[i].id);
        escape_markup(stream, d->sections[i].title);
        fputs("</a></li>\n", stream);
    }
    fputs("</ul></nav>\n<main>\n", stream);
    for (int i = 0; i < d->count && !problem; i++)
        problem = write_section(&d->memory, &d->sections[i], stream);
    if (d->missing)
        write_element(stream, "p", " class=\"about\"", d->missing);
    fputs("</main>\n</body>\n</html>\n", stream);
    return problem;
}
