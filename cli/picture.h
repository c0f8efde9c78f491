/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to draw a grid. Writers that may fail return an exit code and report. */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include "pattern_grid.h"

#include <stdbool.h>
#include <stdio.h>

/* Characters on `stream`: a cell is `cell_width` characters wide; `utf8` chooses the shades. */
void picture_text(const pattern_grid *grid, int cell_width, bool utf8, FILE *stream);

/* One self-contained SVG, readable on light and dark; `title` says what it shows. */
void picture_svg(const pattern_grid *grid, const char *title, FILE *stream);

/* Grey pixels, groups below each other; `path` is for messages. */
int picture_png(const pattern_grid *grid, const char *path, FILE *stream);

#endif
