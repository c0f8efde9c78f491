/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what queries see of each column of a grid: all queries of a row, or samples of them. `show` draws it. See
 * pattern_grid.h.
 */
#include "pattern_grid.h"

#include "interrupt.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_KEYS = 1 << 16 }; /* asked for at a time */

/* Above ENOUGH_COUNTS, less than a second of work, only some queries are counted: at least one for each row of
 * the picture. */
static const double ENOUGH_COUNTS = 1 << 26, MOST_COUNTS = 4294967296.0;

/* Where part `part` of `parts` begins in [0, length). */
static int64_t boundary(int64_t part, int64_t parts, int64_t length)
{
    return length / parts * part + length % parts * part / parts;
}

/* Adds one query's counts to the cells of its row. */
static ra_status add_query(const pattern_grid *grid, const ra_plan *plan, int64_t head, int64_t query, uint8_t *counts,
                           double *sums)
{
    int64_t column = 0, column_end = boundary(1, grid->columns, grid->keys);
    for (int64_t first = 0; first < grid->keys; first += PIECE_KEYS) {
        int64_t left = grid->keys - first, count = left < PIECE_KEYS ? left : PIECE_KEYS;
        ra_status status = ra_plan_visible_element(plan, grid->element, head, query, first, count, counts);
        if (status)
            return status;
        for (int64_t key = first; key < first + count;) {
            int64_t end = column_end < first + count ? column_end : first + count, sum = 0;
            for (; key < end; key++)
                sum += counts[key - first];
            sums[column] += (double)sum;
            if (key == column_end)
                column_end = boundary(++column + 1, grid->columns, grid->keys);
        }
    }
    return RA_OK;
}

/* One of `count` numbers, always the same for `seed`: at even distances a dilated pattern would show one of its faces.
 */
static int64_t any_below(int64_t seed, int64_t count)
{
    uint64_t x = ((uint64_t)seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (int64_t)((x ^ x >> 32) % (uint64_t)count);
}

static ra_status fill_head(const pattern_grid *grid, const ra_plan *plan, int64_t head, uint8_t *counts, double *sums,
                           float *cells)
{
    double affordable = ENOUGH_COUNTS / ((double)grid->heads * (double)grid->rows * (double)grid->keys);
    for (int64_t row = 0; row < grid->rows; row++) {
        int64_t first = boundary(row, grid->rows, grid->length);
        int64_t queries = boundary(row + 1, grid->rows, grid->length) - first;
        int64_t asked = affordable < (double)queries ? (int64_t)affordable + 1 : queries;
        memset(sums, 0, (size_t)grid->columns * sizeof *sums);
        for (int64_t i = 0; i < asked; i++) {
            int64_t from = boundary(i, asked, queries), among = boundary(i + 1, asked, queries) - from;
            ra_status status = add_query(grid, plan, head, first + from + any_below(first + from, among), counts, sums);
            if (status)
                return status;
        }
        for (int64_t column = 0; column < grid->columns; column++) {
            int64_t keys =
                boundary(column + 1, grid->columns, grid->keys) - boundary(column, grid->columns, grid->keys);
            cells[row * grid->columns + column] = (float)(sums[column] / ((double)asked * (double)keys));
        }
        if (interrupted())
            return RA_ERROR_CANCELLED;
    }
    return RA_OK;
}

/* Gives each head to the first group that looks like it; a head that looks like none makes a group of its own. */
static int fill(pattern_grid *grid, const ra_plan *plan, uint8_t *counts, double *sums)
{
    size_t bytes = (size_t)grid->rows * (size_t)grid->columns * sizeof *grid->cells;
    for (int64_t head = 0; head < grid->heads; head++) {
        float *cells = realloc(grid->cells, (size_t)(grid->groups + 1) * bytes);
        if (!cells)
            return report(EXIT_USAGE, "out of memory: %zu bytes for a picture", (size_t)(grid->groups + 1) * bytes);
        grid->cells = cells;
        float *own = cells + grid->groups * grid->rows * grid->columns;
        ra_status status = fill_head(grid, plan, head, counts, sums, own);
        if (status)
            return report_failure(status);
        int64_t group = 0;
        while (group < grid->groups && memcmp(pattern_grid_cells(grid, group), own, bytes) != 0)
            group++;
        grid->group_of[head] = group;
        grid->groups += group == grid->groups;
    }
    return EXIT_OK;
}

int pattern_grid_make(pattern_grid *grid, const ra_plan *plan, const pattern_grid *size)
{
    *grid = *size;
    if ((double)size->heads * (double)size->rows * (double)size->keys > MOST_COUNTS)
        return report(EXIT_USAGE, "length %lld with %lld heads is too much for %lld rows of a picture",
                      (long long)size->length, (long long)size->heads, (long long)size->rows);
    grid->group_of = calloc((size_t)size->heads, sizeof *grid->group_of);
    uint8_t *counts = malloc(PIECE_KEYS);
    double *sums = malloc((size_t)size->columns * sizeof *sums);
    int code = grid->group_of && counts && sums ? fill(grid, plan, counts, sums)
                                                : report(EXIT_USAGE, "out of memory: %lld heads, %lld columns",
                                                         (long long)size->heads, (long long)size->columns);
    free(sums);
    free(counts);
    return code;
}

void pattern_grid_free(pattern_grid *grid)
{
    free(grid->group_of);
    free(grid->cells);
    *grid = (pattern_grid){0};
}

const float *pattern_grid_cells(const pattern_grid *grid, int64_t group)
{
    return grid->cells + group * grid->rows * grid->columns;
}

const char *pattern_grid_heads(const pattern_grid *grid, int64_t group, char *text, size_t size)
{
    size_t used = 0;
    int64_t members = 0;
    char list[160] = "", element[64] = "";
    for (int64_t head = 0, last; head < grid->heads; head = last + 1) {
        last = head;
        if (grid->group_of[head] != group)
            continue;
        while (last + 1 < grid->heads && grid->group_of[last + 1] == group)
            last++;
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, last > head ? "%s%lld-%lld" : "%s%lld",
                                     members ? ", " : "", (long long)head, (long long)last);
        members += last - head + 1;
    }
    if (grid->batch > 1)
        snprintf(element, sizeof element, "batch element %lld, ", (long long)grid->element);
    snprintf(text, size, "%s%s %s", element, members == 1 ? "head" : "heads", list);
    return text;
}

int pattern_grid_shade(float cell, int levels)
{
    if (!(cell > 0))
        return 0;
    int shade = 1 + (int)(cell * (float)(levels - 2));
    return shade < levels ? shade : levels - 1;
}
