/* SPDX-License-Identifier: Apache-2.0 */
/* What gnuplot drew, as a part of a page: names that are its own, colours for light and dark, values to hover over. */
#ifndef REPORT_CHART_SVG_H
#define REPORT_CHART_SVG_H

#include "section.h"

#include <stdio.h>

/* How high the drawing of a chart is; each is GNUPLOT_WIDTH wide. */
int chart_svg_height(const chart *c);

/* The inside of an <svg> of that size. Each point is a <g class="point"> with a <title>. */
const char *chart_svg(arena *a, const chart *c, FILE *stream);

/* The mark of a series for a legend, as an element that is about `size` wide around its origin. */
void chart_svg_mark(const chart *c, int series, double size, FILE *stream);

/* The colour of a series, where the page is light. */
const char *chart_svg_colour(int series);

/* Rules of a style sheet: what is light where they are not applied becomes dark. */
void chart_svg_dark(FILE *stream);

#endif
