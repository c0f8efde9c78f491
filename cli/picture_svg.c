/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SVG: cells are user units, scaled to a comfortable width. Each shade is one path of horizontal runs, so the file
 * grows with the number of edges and not with the number of cells.
 */
#include "picture.h"

enum { SHADES = 9, PIXELS = 512, MARGIN = 16, CAPTION = 24 };

static void write_runs(const pattern_grid *grid, const float *cells, int shade, FILE *stream)
{
    for (int64_t row = 0; row < grid->rows; row++)
        for (int64_t column = 0, end; column < grid->columns; column = end) {
            const float *line = cells + row * grid->columns;
            int own = pattern_grid_shade(line[column], SHADES);
            for (end = column + 1; end < grid->columns && pattern_grid_shade(line[end], SHADES) == own;)
                end++;
            if (own == shade)
                fprintf(stream, "M%lld %lldh%lldv1H%lldz", (long long)column, (long long)row, (long long)(end - column),
                        (long long)column);
        }
}

static bool has_shade(const pattern_grid *grid, const float *cells, int shade)
{
    for (int64_t i = 0; i < grid->rows * grid->columns; i++)
        if (pattern_grid_shade(cells[i], SHADES) == shade)
            return true;
    return false;
}

static void write_group(const pattern_grid *grid, int64_t group, FILE *stream)
{
    const float *cells = pattern_grid_cells(grid, group);
    int top = MARGIN + CAPTION + (int)group * (PIXELS + CAPTION + MARGIN);
    char heads[256];
    fprintf(stream, "<text x=\"%d\" y=\"%d\">%s: queries down, keys across</text>\n", MARGIN, top - 8,
            pattern_grid_heads(grid, group, heads, sizeof heads));
    fprintf(stream, "<g transform=\"translate(%d %d) scale(%.6g %.6g)\">\n", MARGIN, top,
            (double)PIXELS / (double)grid->columns, (double)PIXELS / (double)grid->rows);
    for (int shade = 1; shade < SHADES; shade++)
        if (has_shade(grid, cells, shade)) {
            fprintf(stream, "<path fill-opacity=\"%.3g\" d=\"", (double)shade / (SHADES - 1));
            write_runs(grid, cells, shade, stream);
            fputs("\"/>\n", stream);
        }
    fprintf(stream, "</g>\n<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", MARGIN, top, PIXELS,
            PIXELS);
}

static void write_escaped(const char *text, FILE *stream)
{
    for (; *text; text++)
        if (*text == '<')
            fputs("&lt;", stream);
        else if (*text == '&')
            fputs("&amp;", stream);
        else
            fputc(*text, stream);
}

void picture_svg(const pattern_grid *grid, const char *title, FILE *stream)
{
    int width = PIXELS + 2 * MARGIN, height = MARGIN + (int)grid->groups * (PIXELS + CAPTION + MARGIN);
    fprintf(stream, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
            width, height, width, height);
    fputs("<title>", stream);
    write_escaped(title, stream);
    fputs("</title>\n"
          "<style>\n"
          "svg{background:#fff;color:#1f3a5f}\n"
          "@media(prefers-color-scheme:dark){svg{background:#14181d;color:#9cc4f5}}\n"
          "path,text{fill:currentColor;shape-rendering:crispEdges}\n"
          "text{font:14px sans-serif}\n"
          ".frame{fill:none;stroke:currentColor}\n"
          "</style>\n",
          stream);
    for (int64_t group = 0; group < grid->groups; group++)
        write_group(grid, group, stream);
    fputs("</svg>\n", stream);
}
