/* SPDX-License-Identifier: Apache-2.0 */
/* Curves over tiles: every cell once, and steps no longer than they should be. */
#include "plan/curve.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 70 };

static int distance(ra_cell a, ra_cell b)
{
    return abs(a.block - b.block) + abs(a.group - b.group);
}

/* The cells of what there is, in order; returns how many. Those outside are passed over, as they are in a run. */
static int list_cells(ra_tile_order order, int blocks, int groups, ra_cell *cells)
{
    int found = 0;
    for (int i = 0; i < ra_curve_cells(order, blocks, groups); i++) {
        ra_cell cell = ra_curve_at(order, blocks, groups, i);
        REQUIRE(cell.block >= 0 && cell.group >= 0, "%s, %d x %d: cell %d", ra_tile_order_name(order), blocks, groups,
                i);
        if (cell.block < blocks && cell.group < groups)
            cells[found++] = cell;
    }
    return found;
}

static void every_cell_once(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64, MOST};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    ra_cell *cells = malloc(4 * (size_t)MOST * MOST * sizeof *cells);
    static unsigned char met[MOST][MOST];
    assert_non_null(cells);
    for (int order = RA_TILES_ROW; order <= RA_TILES_HILBERT; order++)
        for (int i = 0; i < SIZES * SIZES; i++) {
            int blocks = sizes[i / SIZES], groups = sizes[i % SIZES];
            int count = list_cells((ra_tile_order)order, blocks, groups, cells);
            memset(met, 0, sizeof met);
            for (int j = 0; j < count; j++)
                REQUIRE(!met[cells[j].block][cells[j].group]++, "%s, %d x %d: block %d, group %d comes again",
                        ra_tile_order_name((ra_tile_order)order), blocks, groups, cells[j].block, cells[j].group);
            REQUIRE(count == blocks * groups, "%s, %d x %d: %d cells", ra_tile_order_name((ra_tile_order)order), blocks,
                    groups, count);
        }
    free(cells);
}

/* Row takes a group through all blocks, then the next group. */
static void row_order(void **state)
{
    (void)state;
    for (int i = 0; i < 15; i++) {
        ra_cell cell = ra_curve_at(RA_TILES_ROW, 3, 5, i);
        assert_true(cell.group == i / 3 && cell.block == i % 3);
    }
}

/* Serpentine never jumps, whatever the shape; hilbert does not where the shape is a square of a power of two. */
static void neighbours_are_adjacent(void **state)
{
    (void)state;
    ra_cell cells[64 * 64];
    for (int blocks = 1; blocks <= 9; blocks++)
        for (int groups = 1; groups <= 9; groups++) {
            int count = list_cells(RA_TILES_SERPENTINE, blocks, groups, cells);
            for (int i = 1; i < count; i++)
                REQUIRE(distance(cells[i - 1], cells[i]) == 1, "serpentine, %d x %d: cell %d", blocks, groups, i);
        }
    for (int side = 1; side <= 64; side *= 2) {
        int count = list_cells(RA_TILES_HILBERT, side, side, cells);
        assert_true(cells[0].block == 0 && cells[0].group == 0);
        for (int i = 1; i < count; i++)
            REQUIRE(distance(cells[i - 1], cells[i]) == 1, "hilbert, side %d: cell %d", side, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_once),
        cmocka_unit_test(row_order),
        cmocka_unit_test(neighbours_are_adjacent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
