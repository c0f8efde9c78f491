/* SPDX-License-Identifier: Apache-2.0 */
/* Two states of a row made one, as when its keys were worked in two spans. */
#include "model.h"
#include "support/sample.h"
#include "support/unit.h"
#include "tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LANES = 64, MOST_COLUMNS = 100, STATE = 2 + MOST_COLUMNS };

/* `lanes` pairs of states: usual ones, empty ones, and maxima far apart. */
typedef struct pairs {
    int lanes, columns;
    float into[MOST_LANES][STATE], from[MOST_LANES][STATE];
} pairs;

static void choose_pairs(choices *c, int lanes, pairs *p)
{
    p->lanes = lanes;
    p->columns = (int)choose(c, 1, MOST_COLUMNS);
    for (int i = 0; i < lanes; i++) {
        choose_state(c, p->columns, p->into[i]);
        choose_state(c, p->columns, p->from[i]);
        if (chance(c, 4))
            p->into[i][0] += (float)choose(c, -300, 300);
    }
}

/* How states are merged: all lanes of a group, one row, or lane by lane, from other lanes of another group. */
typedef enum manner { GROUP, ROW, LANE, MANNERS } manner;

/* Lanes of a state that are merged with lane i are `shift` lanes farther on, round the group. */
static void merge(const ra_kernel *kernel, manner manner, const pairs *p, int shift, float merged[][STATE])
{
    if (manner == ROW) {
        memcpy(merged[0], p->into[0], sizeof p->into[0]);
        kernel->merge_row(merged[0], p->from[0], p->columns);
        return;
    }
    size_t bytes = (size_t)ra_group_state_floats(p->lanes, p->columns) * sizeof(float);
    float *into = take(bytes), *from = take(bytes);
    memset(into, 0, bytes);
    memset(from, 0, bytes);
    for (int i = 0; i < p->lanes; i++)
        for (int j = 0; j < 2 + p->columns; j++) {
            into[j * p->lanes + i] = p->into[i][j];
            from[j * p->lanes + (i + shift) % p->lanes] = p->from[i][j];
        }
    if (manner == GROUP)
        kernel->merge_group(into, from, p->columns);
    for (int i = 0; manner == LANE && i < p->lanes; i++)
        kernel->merge_lane(into + i, from + (i + shift) % p->lanes, p->columns);
    for (int i = 0; i < p->lanes; i++)
        for (int j = 0; j < 2 + p->columns; j++)
            merged[i][j] = into[j * p->lanes + i];
    free(into);
    free(from);
}

static void check_lane(const tested_table *table, uint64_t seed, const pairs *p, int lane, const float *merged)
{
    double expected[STATE], from[STATE], got[STATE];
    widen_state(p->into[lane], p->columns, expected);
    widen_state(p->from[lane], p->columns, from);
    widen_state(merged, p->columns, got);
    model_merge(expected, from, p->columns);
    double distance = state_distance(got, expected, p->columns);
    REQUIRE(distance <= STATE_TOLERANCE * fmax(1, fabs(expected[0]) / 32), "seed %llu, %s: lane %d is off by %.2e",
            (unsigned long long)seed, table->name, lane, distance);
    /* A side that has seen nothing changes nothing. */
    REQUIRE(p->from[lane][1] != 0 || same_bits(merged, p->into[lane], 2 + p->columns),
            "seed %llu, %s: lane %d was touched", (unsigned long long)seed, table->name, lane);
    REQUIRE(p->into[lane][1] != 0 || same_bits(merged, p->from[lane], 2 + p->columns),
            "seed %llu, %s: lane %d is no copy", (unsigned long long)seed, table->name, lane);
}

static void random_pairs(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(200);
    for (uint64_t seed = range.first; seed < range.end; seed++)
        for (int i = 0; i < count; i++)
            for (int manner = 0; manner < MANNERS; manner++) {
                choices c = {seed};
                pairs p;
                float merged[MOST_LANES][STATE] = {{0}};
                choose_pairs(&c, manner == ROW ? 1 : tables[i].kernel->blocking.lanes, &p);
                merge(tables[i].kernel, (enum manner)manner, &p, manner == LANE ? (int)(seed % 5) : 0, merged);
                for (int lane = 0; lane < p.lanes; lane++)
                    check_lane(&tables[i], seed, &p, lane, merged[lane]);
            }
}

/* A NaN on either side must not be lost. */
static void nan_is_kept(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    for (int i = 0; i < count; i++)
        for (int manner = 0; manner < MANNERS; manner++)
            for (int side = 0; side < 2; side++) {
                choices c = {3};
                pairs p;
                float merged[MOST_LANES][STATE] = {{0}};
                choose_pairs(&c, manner == ROW ? 1 : tables[i].kernel->blocking.lanes, &p);
                for (int lane = 0; lane < p.lanes; lane++)
                    (side ? p.into : p.from)[lane][1] = NAN;
                merge(tables[i].kernel, (enum manner)manner, &p, 0, merged);
                for (int lane = 0; lane < p.lanes; lane++)
                    assert_true(isnan(merged[lane][1]));
            }
}

/* One lane is merged, the others stay; and it matters to no bit in which lanes the two are. */
static void a_lane_alone(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    for (int i = 0; i < count; i++) {
        enum { COLUMNS = 7 };
        choices c = {5};
        int lanes = tables[i].kernel->blocking.lanes;
        int64_t floats = ra_group_state_floats(lanes, COLUMNS);
        size_t bytes = (size_t)floats * sizeof(float);
        float *into = take(bytes), *from = take(bytes), *kept = take(bytes), one[2 + COLUMNS], other[2 + COLUMNS];
        choose_state(&c, COLUMNS, one);
        choose_state(&c, COLUMNS, other);
        float first[2 + COLUMNS];
        for (int lane = 0; lane < lanes; lane++) {
            int beside = (lane * 5 + 3) % lanes;
            for (int64_t j = 0; j < floats; j++)
                into[j] = from[j] = NAN;
            for (int j = 0; j < 2 + COLUMNS; j++) {
                into[j * lanes + lane] = one[j];
                from[j * lanes + beside] = other[j];
            }
            memcpy(kept, into, bytes);
            tables[i].kernel->merge_lane(into + lane, from + beside, COLUMNS);
            for (int j = 0; j < 2 + COLUMNS; j++) {
                first[j] = lane ? first[j] : into[j * lanes];
                assert_true(same_bits(&into[j * lanes + lane], &first[j], 1));
                into[j * lanes + lane] = one[j];
            }
            assert_true(same_bits(into, kept, floats));
        }
        free(into);
        free(from);
        free(kept);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_pairs),
        cmocka_unit_test(nan_is_kept),
        cmocka_unit_test(a_lane_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
