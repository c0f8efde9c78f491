/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal's picture: one or two characters a cell. */
#include "picture.h"

enum { SHADES = 5 };

void picture_text(const pattern_grid *grid, int cell_width, bool utf8, FILE *stream)
{
    static const char *const FINE[SHADES] = {"·", "░", "▒", "▓", "█"};
    static const char *const PLAIN[SHADES] = {".", "-", "+", "*", "#"};
    const char *const *shades = utf8 ? FINE : PLAIN;
    char heads[256];
    for (int64_t group = 0; group < grid->groups; group++) {
        const float *cells = pattern_grid_cells(grid, group);
        fprintf(stream, "%s%s\n", group ? "\n" : "", pattern_grid_heads(grid, group, heads, sizeof heads));
        for (int64_t row = 0; row < grid->rows; row++) {
            for (int64_t column = 0; column < grid->columns; column++)
                for (int i = 0; i < cell_width; i++)
                    fputs(shades[pattern_grid_shade(cells[row * grid->columns + column], SHADES)], stream);
            fputc('\n', stream);
        }
    }
}
