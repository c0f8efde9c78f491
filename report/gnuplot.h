/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charts drawn by gnuplot, in a process of its own. It is given numbers and this project's own words: no text of a row
 * ever reaches it.
 */
#ifndef REPORT_GNUPLOT_H
#define REPORT_GNUPLOT_H

#include "section.h"

enum { GNUPLOT_WIDTH = 480, GNUPLOT_HEIGHT = 310, GNUPLOT_COLUMNS = 79, GNUPLOT_LINES = 24 };

typedef enum gnuplot_form {
    GNUPLOT_SVG,
    GNUPLOT_CHARACTERS /* the points of the first series are A, of the second B */
} gnuplot_form;

/*
 * What gnuplot writes for a chart with points: in `drawn`, which is the arena's. In an SVG the colour of series i is
 * rgb(i + 1, 0, 0), that of lines to compare with and of the grid are the numbers below in place of i + 1, and points
 * are the <use> elements behind its definitions, series after series. NULL; what is wrong when there is no gnuplot or
 * when it fails.
 */
enum { GNUPLOT_REFERENCE = 254, GNUPLOT_GRID = 255 };
const char *gnuplot_draw(arena *a, const chart *c, gnuplot_form form, char **drawn);

/* The number of gnuplot's symbol for the points of a series, as in #gpPt6. */
int gnuplot_symbol(int series);

#endif
