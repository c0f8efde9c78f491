/* SPDX-License-Identifier: Apache-2.0 */
/* The cells of a square along a Hilbert curve or back and forth. See curve.h. */
#include "plan/curve.h"

/* The side of the smallest power of two that has room for both. */
static int hilbert_side(int blocks, int groups)
{
    int side = 1;
    while (side < blocks || side < groups)
        side *= 2;
    return side;
}

/*
 * From the smallest square of the curve to the largest: two bits of the cell's number say which quarter it is in, and
 * the curve inside the first and the last quarter is mirrored.
 */
static ra_cell hilbert(int side, int cell)
{
    int x = 0, y = 0;
    for (int half = 1; half < side; half *= 2, cell /= 4) {
        int right = cell / 2 & 1, up = (cell ^ right) & 1;
        if (!up) {
            int mirrored_x = right ? half - 1 - x : x, mirrored_y = right ? half - 1 - y : y;
            x = mirrored_y;
            y = mirrored_x;
        }
        x += right * half;
        y += up * half;
    }
    return (ra_cell){x, y};
}

int ra_curve_cells(ra_tile_order order, int blocks, int groups)
{
    if (order != RA_TILES_HILBERT)
        return blocks * groups;
    int side = hilbert_side(blocks, groups);
    return side * side;
}

ra_cell ra_curve_at(ra_tile_order order, int blocks, int groups, int cell)
{
    if (order == RA_TILES_HILBERT)
        return hilbert(hilbert_side(blocks, groups), cell);
    if (order == RA_TILES_ROW)
        return (ra_cell){cell % blocks, cell / blocks};
    int block = cell / groups, group = cell % groups;
    return (ra_cell){block, order == RA_TILES_SERPENTINE && block % 2 ? groups - 1 - group : group};
}
