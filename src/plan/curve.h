/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which the tiles of a few groups of queries and a few blocks of keys are worked: cells of a square, along
 * a curve. In row order a group goes through all blocks, then the next one does. Cells without a tile are
 * skipped.
 */
#ifndef RA_PLAN_CURVE_H
#define RA_PLAN_CURVE_H

#include "ringattn/ringattn.h"

typedef struct ra_cell {
    int block, group;
} ra_cell;

/* The number of cells of the curve over `blocks` x `groups`. */
int ra_curve_cells(ra_tile_order order, int blocks, int groups);

ra_cell ra_curve_at(ra_tile_order order, int blocks, int groups, int cell);

#endif
