/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The score stage of every table, in tiles and in decoding: softcaps, additions and dropout as a double-precision model
 * has them; tanh for floats of all sizes; draws as base/dropout.h defines them; and a row's bits whatever its
 * neighbours.
 */
#include "base/dropout.h"
#include "model.h"
#include "support/sample.h"
#include "support/unit.h"
#include "tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES_MOST = 64, ROWS = 7, DIM = 5 };

/* ROWS queries against one block, with a stage: added[step][row][key]. */
typedef struct score_case {
    int rows, begin, end;
    hiding hiding;
    row_mask sees[LANES_MOST];
    float query[LANES_MOST][DIM], key[RA_KEY_BLOCK][DIM], value[RA_KEY_BLOCK][DIM];
    int count;
    ra_score_op op[RA_SCORE_STEPS];
    bool strip[RA_SCORE_STEPS]; /* of RA_STEP_ADD */
    float cap;
    float added[RA_SCORE_STEPS][LANES_MOST][RA_KEY_BLOCK];
    float kept;
    uint32_t threshold;
    ra_draw_key row_draw[LANES_MOST], key_draw[RA_KEY_BLOCK];
} score_case;

static void choose_step(choices *c, score_case *t, int step)
{
    t->op[step] = (ra_score_op)choose(c, RA_STEP_SOFTCAP, RA_STEP_ADD_ROWS);
    t->strip[step] = chance(c, 2);
    float diagonal[LANES_MOST + RA_KEY_BLOCK], by_key[RA_KEY_BLOCK];
    fill_normal(c, diagonal, LANES_MOST + RA_KEY_BLOCK, 1);
    fill_normal(c, by_key, RA_KEY_BLOCK, 1);
    for (int row = 0; row < LANES_MOST; row++)
        for (int k = 0; k < RA_KEY_BLOCK; k++)
            t->added[step][row][k] = t->op[step] == RA_STEP_ADD_KEY ? by_key[k]
                                     : t->strip[step]               ? diagonal[row - k + RA_KEY_BLOCK - 1]
                                                                    : choose_normal(c);
}

static score_case *choose_case(choices *c, int rows, hiding hiding)
{
    score_case *t = take(sizeof *t);
    memset(t, 0, sizeof *t);
    t->rows = rows;
    t->hiding = hiding;
    t->begin = (int)choose(c, 0, RA_KEY_BLOCK / RA_KEY_UNIT - 1) * RA_KEY_UNIT;
    t->end = (int)choose(c, t->begin / RA_KEY_UNIT + 1, RA_KEY_BLOCK / RA_KEY_UNIT) * RA_KEY_UNIT;
    fill_normal(c, t->query[0], (int64_t)LANES_MOST * DIM, 1);
    fill_normal(c, t->key[0], (int64_t)RA_KEY_BLOCK * DIM, 1);
    fill_normal(c, t->value[0], (int64_t)RA_KEY_BLOCK * DIM, 1);
    t->count = (int)choose(c, 0, RA_SCORE_STEPS);
    t->cap = 0.5f + (float)choose(c, 0, 8);
    for (int step = 0; step < t->count; step++)
        choose_step(c, t, step);
    for (int row = 0; row < LANES_MOST; row++)
        t->sees[row] = choose_mask(c, hiding, RA_KEY_BLOCK);
    if (chance(c, 2)) {
        double probability = (double)choose(c, 1, 9) / 10;
        t->kept = (float)(1 / (1 - probability));
        t->threshold = ra_draw_threshold(probability);
    }
    for (int row = 0; row < LANES_MOST; row++)
        t->row_draw[row] = ra_draw_row(7, 1, 2, row + (int64_t)choose(c, 0, 1000));
    for (int k = 0; k < RA_KEY_BLOCK; k++)
        t->key_draw[k] = ra_draw_column(7, k);
    return t;
}

static bool row_sees(const score_case *t, int row, int k)
{
    const row_mask *m = &t->sees[row];
    bool seen = t->hiding == BY_BITS ? m->bits >> k & 1 : k >= m->lo && k < m->hi;
    return seen && k >= t->begin && k < t->end;
}

static void model_row(const score_case *t, int row, double state[2 + DIM])
{
    state[0] = -INFINITY;
    for (int i = 1; i < 2 + DIM; i++)
        state[i] = 0;
    for (int k = t->begin; k < t->end; k++) {
        if (!row_sees(t, row, k))
            continue;
        double score = model_dot(t->query[row], t->key[k], DIM);
        for (int step = 0; step < t->count; step++)
            if (t->op[step] == RA_STEP_SOFTCAP)
                score = t->cap * tanh(score / t->cap);
            else
                score += t->added[step][row][k];
        bool kept = t->kept == 0 || ra_draw(t->row_draw[row], t->key_draw[k]) >= t->threshold;
        float value[DIM];
        for (int d = 0; d < DIM; d++)
            value[d] = kept ? t->value[k][d] * (t->kept != 0 ? t->kept : 1) : 0;
        model_see(state, DIM, score, value);
    }
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

typedef struct stage_memory {
    float matrix[RA_SCORE_STEPS][RA_KEY_BLOCK * LANES_MOST], strip[RA_SCORE_STEPS][LANES_MOST + RA_KEY_BLOCK];
    uint32_t row_a[LANES_MOST], row_b[LANES_MOST], key_a[RA_KEY_BLOCK], key_b[RA_KEY_BLOCK];
} stage_memory;

static void fill_draws(const score_case *t, int first, stage_memory *m, ra_score_stage *stage)
{
    for (int i = 0; i < LANES_MOST; i++) {
        ra_draw_key row = t->row_draw[(first + i) % LANES_MOST];
        m->row_a[i] = row.a;
        m->row_b[i] = row.b;
        m->key_a[i] = t->key_draw[i].a;
        m->key_b[i] = t->key_draw[i].b;
    }
    stage->kept = t->kept;
    stage->threshold = t->threshold;
    stage->row_a = m->row_a;
    stage->row_b = m->row_b;
    stage->key_a = m->key_a;
    stage->key_b = m->key_b;
}

/* Rows first .. first + rows - 1 in the lanes. */
static void tile_stage(const score_case *t, int first, int rows, int lanes, stage_memory *m, ra_score_stage *stage)
{
    memset(m, 0, sizeof *m);
    *stage = (ra_score_stage){.count = t->count};
    fill_draws(t, first, m, stage);
    for (int step = 0; step < t->count; step++) {
        stage->step[step] = (ra_score_step){.op = t->op[step], .cap = t->cap, .add = m->matrix[step], .stride = lanes};
        if (t->op[step] == RA_STEP_ADD && t->strip[step])
            stage->step[step] =
                (ra_score_step){.op = RA_STEP_ADD, .add = m->strip[step] + RA_KEY_BLOCK - 1, .stride = -1};
        if (t->op[step] == RA_STEP_ADD_ROWS)
            stage->step[step] = (ra_score_step){.op = RA_STEP_ADD_ROWS,
                                                .add = t->added[step][first],
                                                .stride = RA_KEY_BLOCK,
                                                .factor = 1,
                                                .rows = rows,
                                                .end = RA_KEY_BLOCK};
        for (int i = 0; i < rows; i++)
            for (int k = 0; k < RA_KEY_BLOCK; k++) {
                float added = t->added[step][first + i][k];
                m->strip[step][i - k + RA_KEY_BLOCK - 1] = added;
                m->matrix[step][t->op[step] == RA_STEP_ADD_KEY ? k : k * lanes + i] = added;
            }
    }
}

static void run_tile(const ra_kernel *kernel, const score_case *t, int first, int rows, float states[][2 + DIM])
{
    int lanes = kernel->blocking.lanes;
    int64_t floats = ra_group_state_floats(lanes, DIM);
    float *query = take((size_t)(DIM * lanes) * sizeof *query), *state = take((size_t)floats * sizeof *state);
    float *scores = take((size_t)(RA_KEY_BLOCK * lanes) * sizeof *scores);
    float panels[8 * RA_KEY_BLOCK], staging[RA_KEY_BLOCK * DIM];
    int32_t lo[LANES_MOST] = {0}, hi[LANES_MOST] = {0};
    uint64_t seen[RA_KEY_BLOCK] = {0};
    ra_fetch nothing = {0};
    stage_memory *memory = take(sizeof *memory);
    ra_score_stage stage;
    ra_rows from = {t->query[first], RA_F32, DIM, 1, NULL, NULL}, value = {t->value, RA_F32, DIM, 1, NULL, NULL};
    kernel->pack_query(&from, rows, DIM, 1, query);
    kernel->pack_value(&value, RA_KEY_BLOCK, DIM, staging, panels);
    tile_stage(t, first, rows, lanes, memory, &stage);
    for (int64_t i = 0; i < floats; i++)
        state[i] = i < lanes ? -INFINITY : 0.0f;
    for (int i = 0; i < rows; i++) {
        lo[i] = t->sees[first + i].lo;
        hi[i] = t->sees[first + i].hi;
        for (int k = 0; k < RA_KEY_BLOCK; k++)
            seen[k] |= (t->sees[first + i].bits >> k & 1) << i;
    }
    ra_tile_call call = {.query = query, .key = t->key[0], .key_stride = DIM, .begin = t->begin, .end = t->end};
    call.value = panels;
    call.factor = 1;
    call.head_dim = call.value_dim = DIM;
    call.lo = t->hiding == BY_RANGE ? lo : NULL;
    call.hi = t->hiding == BY_RANGE ? hi : NULL;
    call.seen = t->hiding == BY_BITS ? seen : NULL;
    call.narrow = rows <= kernel->blocking.narrow;
    call.fetch_key = call.fetch_value = &nothing;
    call.scores = scores;
    call.state = state;
    stage.fetch = &nothing;
    call.stage = &stage;
    kernel->tile_scored(&call);
    for (int i = 0; i < rows; i++)
        for (int d = 0; d < 2 + DIM; d++)
            states[first + i][d] = state[(ptrdiff_t)d * lanes + i];
    free(query);
    free(state);
    free(scores);
    free(memory);
}

/* ---- Decoding ---------------------------------------------------------------------------------------------------- */

/* All rows as queries of one head, which see what their range says. */
static void run_decode(const ra_kernel *kernel, const score_case *t, float states[][2 + DIM])
{
    enum { ALL = LANES_MOST };
    float *scores = take(ALL * RA_KEY_BLOCK * sizeof *scores), *sums = take(ALL * (1 + DIM) * sizeof *sums);
    stage_memory *memory = take(sizeof *memory);
    int begin[ALL], end[ALL];
    ra_score_stage stage = {.count = t->count};
    fill_draws(t, 0, memory, &stage);
    for (int step = 0; step < t->count; step++)
        stage.step[step] = (ra_score_step){.op = t->op[step] == RA_STEP_SOFTCAP ? RA_STEP_SOFTCAP : RA_STEP_ADD,
                                           .cap = t->cap,
                                           .add = t->added[step][0]};
    for (int row = 0; row < t->rows; row++) {
        begin[row] = t->sees[row].lo > t->begin ? t->sees[row].lo : t->begin;
        end[row] = t->sees[row].hi < t->end ? t->sees[row].hi : t->end;
        begin[row] = begin[row] < end[row] ? begin[row] : end[row];
        for (int d = 0; d < 2 + DIM; d++)
            states[row][d] = d ? 0.0f : -INFINITY;
    }
    ra_decode_call call = {.heads = 1, .rows = t->rows, .queries = t->rows, .query = t->query[0]};
    call.key = call.next_key = t->key[0];
    call.value = t->value[0];
    call.key_stride = call.value_stride = DIM;
    call.begin = begin;
    call.end = end;
    call.head_dim = call.value_dim = DIM;
    call.factor = 1;
    call.scores = scores;
    call.sums = sums;
    call.state = states[0];
    call.stage = &stage;
    kernel->decode_scored(&call);
    free(scores);
    free(sums);
    free(memory);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void expect_model(const score_case *t, float states[][2 + DIM], const char *name, uint64_t seed)
{
    for (int row = 0; row < t->rows; row++) {
        double expected[2 + DIM], got[2 + DIM];
        model_row(t, row, expected);
        widen_state(states[row], DIM, got);
        double distance = state_distance(expected, got, DIM);
        REQUIRE(distance <= 4 * STATE_TOLERANCE, "%s, seed %llu, row %d: off by %g", name, (unsigned long long)seed,
                row, distance);
    }
}

static void stages_are_right(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(150);
    float states[LANES_MOST][2 + DIM];
    for (uint64_t seed = range.first; seed < range.end; seed++)
        for (int i = 0; i < count; i++) {
            const ra_kernel *kernel = tables[i].kernel;
            choices c = {seed};
            score_case *t = choose_case(&c, (int)choose(&c, 1, kernel->blocking.lanes), (hiding)(seed % 3));
            run_tile(kernel, t, 0, t->rows, states);
            expect_model(t, states, tables[i].name, seed);
            if (t->hiding == BY_RANGE) {
                run_decode(kernel, t, states);
                expect_model(t, states, "decoding", seed);
            }
            free(t);
        }
}

/* A row alone in its group has the bits that it has among others. */
static void neighbours_change_nothing(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(20);
    float together[LANES_MOST][2 + DIM], alone[LANES_MOST][2 + DIM];
    for (uint64_t seed = range.first; seed < range.end; seed++)
        for (int i = 0; i < count; i++) {
            choices c = {seed};
            score_case *t = choose_case(&c, ROWS, (hiding)(seed % 3));
            run_tile(tables[i].kernel, t, 0, ROWS, together);
            for (int row = 0; row < ROWS; row++) {
                run_tile(tables[i].kernel, t, row, 1, alone);
                REQUIRE(same_bits(together[row], alone[row], 2 + DIM), "%s, seed %llu, row %d", tables[i].name,
                        (unsigned long long)seed, row);
            }
            free(t);
        }
}

/* tanh(x[i]) for the lanes of a group: a softcap of 1, which the maximum of one key's scores shows. */
static void table_tanh(const ra_kernel *kernel, const float *x, float *y)
{
    int lanes = kernel->blocking.lanes;
    float query[LANES_MOST], key[RA_KEY_UNIT] = {1, 1, 1, 1}, panel[RA_PANEL * RA_KEY_BLOCK] = {0};
    float scores[RA_KEY_BLOCK * LANES_MOST], state[(2 + RA_PANEL) * LANES_MOST] = {0};
    ra_fetch nothing = {0};
    ra_score_stage stage = {.count = 1, .step = {{.op = RA_STEP_SOFTCAP, .cap = 1}}};
    for (int i = 0; i < lanes; i++) {
        query[i] = x[i];
        state[i] = -INFINITY;
    }
    ra_tile_call call = {.query = query, .key = key, .key_stride = 1, .begin = 0, .end = RA_KEY_UNIT, .value = panel};
    call.head_dim = call.value_dim = 1;
    call.factor = 1;
    call.fetch_key = call.fetch_value = &nothing;
    call.scores = scores;
    call.state = state;
    stage.fetch = &nothing;
    stage.fetch = &nothing;
    call.stage = &stage;
    kernel->tile_scored(&call);
    memcpy(y, state, (size_t)lanes * sizeof *y);
}

static void tanh_is_right_for_all_floats(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    const uint32_t step = (uint32_t)stride(997), infinity = 0x7f800000U;
    for (int i = 0; i < count; i++)
        for (uint64_t bits = 0; bits <= infinity; bits += (uint64_t)step * LANES_MOST) {
            float x[LANES_MOST], y[LANES_MOST];
            for (uint32_t lane = 0; lane < LANES_MOST; lane++) {
                uint64_t next = bits + (uint64_t)lane * step;
                uint32_t pattern = (uint32_t)(next < infinity ? next : infinity) | (lane & 1) << 31;
                memcpy(&x[lane], &pattern, sizeof pattern);
            }
            table_tanh(tables[i].kernel, x, y);
            for (int lane = 0; lane < tables[i].kernel->blocking.lanes; lane++) {
                double expected = tanh((double)x[lane]);
                REQUIRE(fabs(y[lane] - expected) <= 4e-7 * fabs(expected), "%s: tanh(%a) = %a", tables[i].name,
                        (double)x[lane], (double)y[lane]);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_right),
        cmocka_unit_test(neighbours_change_nothing),
        cmocka_unit_test(tanh_is_right_for_all_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
