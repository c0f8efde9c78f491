/* SPDX-License-Identifier: Apache-2.0 */
/* The tile of every table: right, the same for a row whatever its neighbours are, untouched by keys it does not see. */
#include "model.h"
#include "support/sample.h"
#include "support/unit.h"
#include "tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More rows than the widest group has lanes, so that every table has a group that is not full. */
enum { ROWS = 70 };

/* ROWS queries against one block, before any table's way of laying them out. */
typedef struct tile_case {
    int head_dim, value_dim, key_rows, begin, end;
    int64_t key_stride;
    hiding hiding;
    bool guard;
    bool narrow;                /* in groups that leave their last lanes alone */
    int32_t lo[ROWS], hi[ROWS]; /* BY_RANGE */
    uint64_t sees[ROWS];        /* BY_BITS: one for each key */
    float *query;               /* [ROWS][head_dim] */
    float *key;                 /* [key_rows, rounded up to units][key_stride] */
    float *value;               /* [key_rows][value_dim] */
    float *state;               /* [ROWS][2 + value_dim] */
} tile_case;

static int64_t state_floats(const tile_case *t)
{
    return (int64_t)ROWS * (2 + t->value_dim);
}

static void tile_take(tile_case *t)
{
    t->query = take((size_t)(ROWS * t->head_dim) * sizeof(float));
    int64_t units = (t->key_rows + RA_KEY_UNIT - 1) / RA_KEY_UNIT, floats = units * RA_KEY_UNIT * t->key_stride;
    t->key = take((size_t)floats * sizeof(float));
    for (int64_t i = t->key_rows * t->key_stride; i < floats; i++)
        t->key[i] = NAN; /* rows that are read, and nobody sees */
    t->value = take((size_t)(t->key_rows * t->value_dim) * sizeof(float));
    t->state = take((size_t)state_floats(t) * sizeof(float));
}

static void tile_free(tile_case *t)
{
    free(t->query);
    free(t->key);
    free(t->value);
    free(t->state);
}

static void choose_row(choices *c, tile_case *t, int row)
{
    fill_normal(c, t->query + (ptrdiff_t)row * t->head_dim, t->head_dim, 1.5f / sqrtf((float)t->head_dim));
    choose_state(c, t->value_dim, t->state + (ptrdiff_t)row * (2 + t->value_dim));
    row_mask mask = choose_mask(c, t->hiding, t->key_rows);
    t->lo[row] = mask.lo;
    t->hi[row] = mask.hi;
    t->sees[row] = mask.bits;
}

static int choose_dim(choices *c)
{
    return (int)(chance(c, 4) ? choose(c, 250, 300) : chance(c, 10) ? choose(c, 500, 600) : choose(c, 1, 80));
}

static void choose_tile(choices *c, tile_case *t, hiding hiding)
{
    t->head_dim = choose_dim(c);
    t->value_dim = (int)choose(c, 1, chance(c, 4) ? 300 : 40);
    t->key_stride = t->head_dim + choose(c, 0, 3);
    t->hiding = hiding;
    t->guard = t->narrow = false;
    t->key_rows = (int)choose(c, 1, RA_KEY_BLOCK);
    int units = (t->key_rows + RA_KEY_UNIT - 1) / RA_KEY_UNIT;
    /* Only a mask can hide keys past the last row. */
    if (hiding == NOTHING_HIDDEN)
        t->key_rows = units * RA_KEY_UNIT;
    t->begin = (int)choose(c, 0, units - 1) * RA_KEY_UNIT;
    t->end = (int)choose(c, t->begin / RA_KEY_UNIT + 1, units) * RA_KEY_UNIT;
    tile_take(t);
    fill_normal(c, t->key, t->key_rows * t->key_stride, 1);
    fill_normal(c, t->value, (int64_t)t->key_rows * t->value_dim, 1);
    for (int row = 0; row < ROWS; row++)
        choose_row(c, t, row);
}

static bool row_sees(const tile_case *t, int row, int key)
{
    bool seen = t->hiding == BY_BITS ? t->sees[row] >> key & 1 : key >= t->lo[row] && key < t->hi[row];
    return seen && key >= t->begin && key < t->end;
}

/* ---- Running one table ------------------------------------------------------------------------------------------- */

/* Rows first .. first + rows - 1 in the lanes of one group; their states to `states`. */
static void run_group(const ra_kernel *kernel, const tile_case *t, const float *panels, int first, int rows,
                      float *states)
{
    int lanes = kernel->blocking.lanes;
    int64_t floats = ra_group_state_floats(lanes, t->value_dim);
    float *query = take((size_t)(t->head_dim * lanes) * sizeof *query), *state = take((size_t)floats * sizeof *state);
    float *scores = take((size_t)(RA_KEY_BLOCK * lanes) * sizeof *scores);
    int32_t lo[64] = {0}, hi[64] = {0};
    uint64_t seen[RA_KEY_BLOCK] = {0};
    ra_fetch nothing = {0};
    ra_rows from = {t->query + (ptrdiff_t)first * t->head_dim, RA_F32, t->head_dim, 1, NULL, NULL};
    kernel->pack_query(&from, rows, t->head_dim, 1, query);
    for (int64_t i = 0; i < floats; i++)
        state[i] = i < lanes ? -INFINITY : 0.0f;
    for (int row = 0; row < rows; row++) {
        for (int i = 0; i < 2 + t->value_dim; i++)
            state[i * lanes + row] = t->state[(ptrdiff_t)(first + row) * (2 + t->value_dim) + i];
        lo[row] = t->lo[first + row];
        hi[row] = t->hi[first + row];
        for (int key = 0; key < RA_KEY_BLOCK; key++)
            seen[key] |= (t->sees[first + row] >> key & 1) << row;
    }
    ra_tile_call call = {.query = query,
                         .key = t->key,
                         .key_stride = t->key_stride,
                         .begin = t->begin,
                         .end = t->end,
                         .value = panels,
                         .factor = 1,
                         .head_dim = t->head_dim,
                         .value_dim = t->value_dim,
                         .lo = t->hiding == BY_RANGE ? lo : NULL,
                         .hi = t->hiding == BY_RANGE ? hi : NULL,
                         .seen = t->hiding == BY_BITS ? seen : NULL,
                         .narrow = t->narrow,
                         .guard = t->guard,
                         .fetch_key = &nothing,
                         .fetch_value = &nothing,
                         .scores = scores,
                         .state = state};
    kernel->tile(&call);
    for (int lane = kernel->blocking.narrow; t->narrow && lane < lanes; lane++)
        for (int i = 0; i < 2 + t->value_dim; i++)
            assert_true(state[i * lanes + lane] == (i ? 0.0f : -INFINITY)); /* left alone */
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < 2 + t->value_dim; i++)
            states[(ptrdiff_t)(first + row) * (2 + t->value_dim) + i] = state[i * lanes + row];
    free(query);
    free(state);
    free(scores);
}

/* The states of all rows after the tile; the caller frees them. */
static float *run_tile(const ra_kernel *kernel, const tile_case *t)
{
    int lanes = t->narrow ? kernel->blocking.narrow : kernel->blocking.lanes;
    size_t columns = (size_t)(t->value_dim + RA_PANEL - 1) / RA_PANEL * RA_PANEL;
    float *panels = take(columns * RA_KEY_BLOCK * sizeof *panels);
    float *staging = take((size_t)(RA_KEY_BLOCK * t->value_dim) * sizeof *staging);
    float *states = take((size_t)state_floats(t) * sizeof *states);
    ra_rows value = {t->value, RA_F32, t->value_dim, 1, NULL, NULL};
    kernel->pack_value(&value, t->key_rows, t->value_dim, staging, panels);
    for (int first = 0; first < ROWS; first += lanes)
        run_group(kernel, t, panels, first, ROWS - first < lanes ? ROWS - first : lanes, states);
    free(panels);
    free(staging);
    return states;
}

static void model_row(const tile_case *t, int row, double *state)
{
    const float *query = t->query + (ptrdiff_t)row * t->head_dim;
    widen_state(t->state + (ptrdiff_t)row * (2 + t->value_dim), t->value_dim, state);
    for (int k = t->begin; k < t->end; k++) {
        double score = 0;
        for (int d = 0; row_sees(t, row, k) && d < t->head_dim; d++)
            score += (double)query[d] * t->key[k * t->key_stride + d];
        if (row_sees(t, row, k))
            model_see(state, t->value_dim, score, t->value + (ptrdiff_t)k * t->value_dim);
    }
}

static bool same_row(const tile_case *t, const float *a, const float *b, int row)
{
    ptrdiff_t floats = 2 + t->value_dim;
    return same_bits(a + row * floats, b + row * floats, floats);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void random_tiles(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(200);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        tile_case t;
        choose_tile(&c, &t, (hiding)(seed % 3));
        double *expected = take((2 + (size_t)t.value_dim) * sizeof *expected);
        double *got = take((2 + (size_t)t.value_dim) * sizeof *got);
        double *generic = take((2 + (size_t)t.value_dim) * sizeof *generic);
        float *generic_states = run_tile(tables[0].kernel, &t);
        for (int i = 0; i < count; i++) {
            float *states = run_tile(tables[i].kernel, &t);
            for (int row = 0; row < ROWS; row++) {
                ptrdiff_t at = (ptrdiff_t)row * (2 + t.value_dim);
                model_row(&t, row, expected);
                widen_state(states + at, t.value_dim, got);
                widen_state(generic_states + at, t.value_dim, generic);
                double from_model = state_distance(got, expected, t.value_dim);
                double from_generic = state_distance(got, generic, t.value_dim);
                REQUIRE(from_model <= STATE_TOLERANCE && from_generic <= STATE_TOLERANCE,
                        "seed %llu, %s, dim %d:%d, keys %d..%d of %d, row %d sees %d..%d or %llx: %.2e from the "
                        "model, %.2e from generic",
                        (unsigned long long)seed, tables[i].name, t.head_dim, t.value_dim, t.begin, t.end, t.key_rows,
                        row, t.lo[row], t.hi[row], (unsigned long long)t.sees[row], from_model, from_generic);
            }
            free(states);
        }
        free(generic_states);
        free(expected);
        free(got);
        free(generic);
        tile_free(&t);
    }
}

/* Keys that a row does not see: other numbers, NaN or infinity there leave its bits as they are. */
static void unseen_keys_are_no_ops(void **state)
{
    (void)state;
    static const float poisons[] = {17.0f, NAN, INFINITY, -INFINITY};
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(60);
    for (uint64_t seed = range.first; seed < range.end; seed++)
        for (int i = 0; i < count; i++)
            for (int p = 0; p < 4; p++) {
                choices c = {seed};
                tile_case t;
                choose_tile(&c, &t, seed % 2 ? BY_RANGE : BY_BITS);
                float *before = run_tile(tables[i].kernel, &t);
                int key = (int)choose(&c, 0, t.key_rows - 1);
                t.key[key * t.key_stride + t.head_dim - 1] = poisons[p];
                t.value[(ptrdiff_t)key * t.value_dim + choose(&c, 0, t.value_dim - 1)] = poisons[p];
                t.guard = p > 0;
                float *after = run_tile(tables[i].kernel, &t);
                for (int row = 0; row < ROWS; row++)
                    REQUIRE(row_sees(&t, row, key) || same_row(&t, before, after, row),
                            "seed %llu, %s: %g at key %d shows in row %d, which sees %d..%d or %llx of %d..%d",
                            (unsigned long long)seed, tables[i].name, poisons[p], key, row, t.lo[row], t.hi[row],
                            (unsigned long long)t.sees[row], t.begin, t.end);
                free(before);
                free(after);
                tile_free(&t);
            }
}

/* A row that sees nothing of the block keeps its state. */
static void rows_that_see_nothing_keep_their_state(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    for (int i = 0; i < 2 * count; i++) {
        choices c = {1};
        tile_case t;
        choose_tile(&c, &t, i % 2 ? BY_RANGE : BY_BITS);
        for (int row = 0; row < ROWS; row += 2) {
            t.hi[row] = t.lo[row];
            t.sees[row] = 0;
        }
        float *states = run_tile(tables[i / 2].kernel, &t);
        for (int row = 0; row < ROWS; row += 2)
            assert_true(same_row(&t, states, t.state, row));
        free(states);
        tile_free(&t);
    }
}

/* One row stays as it is, in any lane, while all others change. */
static void a_row_does_not_know_its_neighbours(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(60);
    for (uint64_t seed = range.first; seed < range.end; seed++)
        for (int i = 0; i < count; i++) {
            choices c = {seed};
            tile_case t;
            choose_tile(&c, &t, seed % 2 ? BY_RANGE : BY_BITS);
            int row = (int)choose(&c, 0, ROWS - 1), moved = (int)choose(&c, 0, ROWS - 1);
            ptrdiff_t floats = 2 + t.value_dim;
            float *before = run_tile(tables[i].kernel, &t);
            memmove(t.query + (ptrdiff_t)moved * t.head_dim, t.query + (ptrdiff_t)row * t.head_dim,
                    (size_t)t.head_dim * sizeof(float));
            memmove(t.state + moved * floats, t.state + row * floats, (size_t)floats * sizeof(float));
            t.lo[moved] = t.lo[row];
            t.hi[moved] = t.hi[row];
            t.sees[moved] = t.sees[row];
            for (int other = 0; other < ROWS; other++)
                if (other != moved)
                    choose_row(&c, &t, other);
            float *after = run_tile(tables[i].kernel, &t);
            REQUIRE(same_bits(before + row * floats, after + moved * floats, floats),
                    "seed %llu, %s: row %d is another one as row %d among others", (unsigned long long)seed,
                    tables[i].name, row, moved);
            free(before);
            free(after);
            tile_free(&t);
        }
}

/* Working fewer keys, where the others are masked anyway, is the same to the bit. */
static void begin_and_end_are_like_a_mask(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(60);
    for (uint64_t seed = range.first; seed < range.end; seed++)
        for (int i = 0; i < count; i++) {
            choices c = {seed};
            tile_case t;
            choose_tile(&c, &t, seed % 2 ? BY_RANGE : BY_BITS);
            for (int row = 0; row < ROWS; row++) {
                t.lo[row] = t.lo[row] < t.begin ? t.begin : t.lo[row];
                t.hi[row] = t.hi[row] > t.end ? t.end : t.hi[row];
                for (int key = 0; key < RA_KEY_BLOCK; key++)
                    if (key < t.begin || key >= t.end)
                        t.sees[row] &= ~(UINT64_C(1) << key);
            }
            float *narrow = run_tile(tables[i].kernel, &t);
            t.begin = 0;
            t.end = (t.key_rows + RA_KEY_UNIT - 1) / RA_KEY_UNIT * RA_KEY_UNIT;
            float *wide = run_tile(tables[i].kernel, &t);
            for (int row = 0; row < ROWS; row++)
                REQUIRE(same_row(&t, narrow, wide, row), "seed %llu, %s: row %d", (unsigned long long)seed,
                        tables[i].name, row);
            free(narrow);
            free(wide);
            tile_free(&t);
        }
}

/* Bits that say what ranges say give the same bits, whether or not values are guarded. */
static void bits_and_ranges_say_the_same(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(60);
    for (uint64_t seed = range.first; seed < range.end; seed++)
        for (int i = 0; i < count; i++) {
            choices c = {seed};
            tile_case t;
            choose_tile(&c, &t, BY_RANGE);
            for (int row = 0; row < ROWS; row++) {
                t.sees[row] = 0;
                for (int key = 0; key < RA_KEY_BLOCK; key++)
                    t.sees[row] |= (uint64_t)(key >= t.lo[row] && key < t.hi[row]) << key;
            }
            t.guard = seed % 2;
            float *ranges = run_tile(tables[i].kernel, &t);
            t.hiding = BY_BITS;
            float *bits = run_tile(tables[i].kernel, &t);
            REQUIRE(same_bits(ranges, bits, state_floats(&t)), "seed %llu, %s", (unsigned long long)seed,
                    tables[i].name);
            free(ranges);
            free(bits);
            tile_free(&t);
        }
}

/* A narrow group's rows have the bits of whole ones, whatever hides keys from them. */
static void narrow_groups_are_the_same(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(90);
    for (uint64_t seed = range.first; seed < range.end; seed++)
        for (int i = 0; i < count; i++) {
            static const hiding HIDINGS[] = {NOTHING_HIDDEN, BY_RANGE, BY_BITS};
            choices c = {seed};
            tile_case t;
            choose_tile(&c, &t, HIDINGS[seed % 3]);
            t.guard = seed % 2;
            float *whole = run_tile(tables[i].kernel, &t);
            t.narrow = true;
            float *narrow = run_tile(tables[i].kernel, &t);
            REQUIRE(same_bits(whole, narrow, state_floats(&t)), "seed %llu, %s", (unsigned long long)seed,
                    tables[i].name);
            free(whole);
            free(narrow);
            tile_free(&t);
        }
}

/* A block is summed by itself first: 64 ones added one by one to 2^24 would be lost. */
static void sums_do_not_stagnate(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    for (int i = 0; i < count; i++) {
        tile_case t = {.head_dim = 1, .value_dim = 1, .key_rows = 64, .begin = 0, .end = 64, .key_stride = 1};
        tile_take(&t);
        for (int k = 0; k < 64; k++)
            t.key[k] = t.value[k] = 1;
        for (int row = 0; row < ROWS; row++) {
            t.query[row] = 0;
            t.state[3 * (ptrdiff_t)row] = 0;
            t.state[3 * (ptrdiff_t)row + 1] = t.state[3 * (ptrdiff_t)row + 2] = 0x1p24f;
        }
        float *states = run_tile(tables[i].kernel, &t);
        for (int row = 0; row < ROWS; row++)
            assert_true(states[3 * (ptrdiff_t)row + 1] == 0x1p24f + 64 &&
                        states[3 * (ptrdiff_t)row + 2] == 0x1p24f + 64);
        free(states);
        tile_free(&t);
    }
}

/* Values that pick out single weights show what exp2 the table has. */
static void weights_are_powers_of_two(void **state)
{
    (void)state;
    enum { KEYS = 64 };
    int count;
    const tested_table *tables = tested_tables(&count);
    for (int i = 0; i < count; i++) {
        tile_case t = {.head_dim = 1, .value_dim = KEYS, .key_rows = KEYS, .end = KEYS, .key_stride = 1};
        tile_take(&t);
        memset(t.value, 0, sizeof(float) * KEYS * KEYS);
        for (int k = 0; k < KEYS; k++) {
            t.key[k] = (float)k / 63;
            t.value[k * KEYS + k] = 1;
        }
        for (int row = 0; row < ROWS; row++) { /* scores 0 down to -140 in the last rows, and some just below 0 */
            t.query[row] = row % 8 == 1 ? -ldexpf(1, -row) : -2.03f * (float)row;
            for (int j = 0; j < 2 + KEYS; j++)
                t.state[(ptrdiff_t)row * (2 + KEYS) + j] = j ? 0 : -INFINITY;
        }
        float *states = run_tile(tables[i].kernel, &t);
        for (int row = 0; row < ROWS; row++)
            for (int k = 0; k < KEYS; k++) {
                float score = t.query[row] * t.key[k], weight = states[(ptrdiff_t)row * (2 + KEYS) + 2 + k];
                double expected = exp2((double)score);
                bool right = fabs(weight - expected) <= 2e-7 * expected;
                if (score > -127 && score < -126) /* the last ones become 0 a little before float does */
                    right |= weight == 0;
                if (score <= -127)
                    right = weight == 0;
                REQUIRE(right && (score != 0 || weight == 1), "%s: 2^%.9g became %.9g", tables[i].name, score, weight);
            }
        free(states);
        tile_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_tiles),
        cmocka_unit_test(unseen_keys_are_no_ops),
        cmocka_unit_test(rows_that_see_nothing_keep_their_state),
        cmocka_unit_test(a_row_does_not_know_its_neighbours),
        cmocka_unit_test(begin_and_end_are_like_a_mask),
        cmocka_unit_test(bits_and_ranges_say_the_same),
        cmocka_unit_test(narrow_groups_are_the_same),
        cmocka_unit_test(sums_do_not_stagnate),
        cmocka_unit_test(weights_are_powers_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
