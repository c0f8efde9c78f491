/* SPDX-License-Identifier: Apache-2.0 */
/* The PNG: 8-bit grey, black where every key is seen. Small grids are enlarged so that cells can be made out. */
#include "picture.h"

#include "report.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

enum { COMFORTABLE = 512, GAP = 8, WHITE = 255, GAP_GREY = 200 };
static const int64_t MOST_PIXELS = 1 << 28;

/* Cells are square: a grid for a PNG has as many rows as columns. */
static void draw_group(const pattern_grid *grid, int64_t group, int64_t enlarge, uint8_t *pixels)
{
    const float *cells = pattern_grid_cells(grid, group);
    int64_t side = grid->columns * enlarge;
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++) {
            float cell = cells[y / enlarge * grid->columns + x / enlarge];
            pixels[y * side + x] = (uint8_t)(WHITE - pattern_grid_shade(cell, WHITE + 1));
        }
}

int picture_png(const pattern_grid *grid, const char *path, FILE *stream)
{
    int64_t enlarge = grid->columns < COMFORTABLE ? COMFORTABLE / grid->columns : 1;
    int64_t side = grid->columns * enlarge, height = grid->groups * (side + GAP) - GAP;
    if (height > MOST_PIXELS / side)
        return report(EXIT_USAGE, "%s: %lld x %lld pixels: must be at most %lld in all", path, (long long)side,
                      (long long)height, (long long)MOST_PIXELS);
    uint8_t *pixels = malloc((size_t)(side * height));
    if (!pixels)
        return report(EXIT_USAGE, "%s: out of memory: %lld pixels", path, (long long)(side * height));
    memset(pixels, GAP_GREY, (size_t)(side * height));
    for (int64_t group = 0; group < grid->groups; group++)
        draw_group(grid, group, enlarge, pixels + group * (side + GAP) * side);

    png_image image = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_GRAY};
    image.width = (png_uint_32)side;
    image.height = (png_uint_32)height;
    int written = png_image_write_to_stdio(&image, stream, 0, pixels, 0, NULL);
    free(pixels);
    return written ? EXIT_OK : report(EXIT_WORK, "%s: cannot write: %s", path, image.message);
}
