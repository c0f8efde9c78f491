/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charts of bars, one below the other, each beside its name. They are drawn here, not by gnuplot: the names come from
 * rows and may be any text. Bars begin at 0, on a logarithmic axis at 1.
 */
#ifndef REPORT_BARS_H
#define REPORT_BARS_H

#include "section.h"

#include <stdio.h>

int bars_height(const chart *c);

/* The inside of an <svg> of GNUPLOT_WIDTH x bars_height. */
void bars_svg(const chart *c, FILE *stream);

/* In GNUPLOT_COLUMNS characters a line, under the name of each series. */
void bars_text(const chart *c, FILE *stream);

#endif
