/* SPDX-License-Identifier: Apache-2.0 */
/* A pattern seen from afar: the mean count of each cell of a grid over [queries, keys], for each group of heads. */
#ifndef CLI_PATTERN_GRID_H
#define CLI_PATTERN_GRID_H

#include <ringattn/ringattn.h>

typedef struct pattern_grid {
    int64_t length, keys, heads; /* length: queries */
    int64_t batch, element;      /* batch elements, and the one that is looked at */
    int64_t rows, columns;       /* of the grid; at most `length` and `keys` */
    int64_t groups;              /* heads of one group look the same */
    int64_t *group_of;           /* [heads] */
    float *cells; /* [groups, rows, columns]: how often a query of the cell sees a key of it, on average */
} pattern_grid;

/*
 * Reads the pattern from the plan; `size` says all but groups and cells. Of very long sequences only some of the
 * queries in a row of cells. Returns an exit code and reports. Free the grid also after a failure.
 */
int pattern_grid_make(pattern_grid *grid, const ra_plan *plan, const pattern_grid *size);
void pattern_grid_free(pattern_grid *grid);

/* The cells [rows, columns] of a group. */
const float *pattern_grid_cells(const pattern_grid *grid, int64_t group);

/* "head 3", "heads 0-7", "heads 0, 2, 4-6"; of several batch elements "batch element 1, head 3". */
const char *pattern_grid_heads(const pattern_grid *grid, int64_t group, char *text, size_t size);

/* Which of `levels` shades a cell has: 0 sees nothing, and only that; the last sees every key. */
int pattern_grid_shade(float cell, int levels);

#endif
