/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradients of every table, with a score stage in every other case: right, added to what was there, written nowhere
 * else. A row of d_query does not depend on its neighbours, and a pair that does not see each other gives nothing,
 * whatever its numbers are. What packs rows for them is in test_kernel_packing.c.
 */
#include "base/dropout.h"
#include "model.h"
#include "support/sample.h"
#include "support/unit.h"
#include "tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More rows than the widest group has lanes, so that every table has a group that is not full. */
enum { ROWS = 70, KEYS = RA_KEY_BLOCK };

enum { WANT_QUERY = 1, WANT_KEY = 2, WANT_VALUE = 4, WANT_ALL = 7 };

/* Rows of gradients: [ROWS][head_dim], [KEYS][head_dim] and [KEYS][value_dim]. */
typedef struct gradients {
    float *d_query, *d_key, *d_value;
} gradients;

/* ROWS queries against one block, before any table's way of laying them out. */
typedef struct gradient_case {
    int head_dim, value_dim, key_rows, begin, end;
    int64_t key_stride, value_stride;
    hiding hiding;
    int group_rows; /* of a group, where it has that many lanes */
    bool narrow;    /* in groups that leave their last lanes alone */
    bool guard_rows, guard_keys;
    int wanted;
    float query_factor, factor, scale;
    row_mask masks[ROWS];
    float lse[ROWS], lse_rest[ROWS], delta[ROWS];
    float *query, *d_output; /* [ROWS][head_dim], [ROWS][value_dim] */
    float *key, *value;      /* [key_rows, rounded up to units][stride] */
    gradients before;        /* what is added to */
    /* The stage, if the case has one. */
    bool scored, cap_first;
    float cap;    /* 0: no softcap */
    float *added; /* [ROWS][KEYS] */
    float kept;   /* 0: no dropout */
    uint32_t threshold;
    ra_draw_key row_draws[ROWS], key_draws[KEYS];
} gradient_case;

/* ---- Cases ------------------------------------------------------------------------------------------------------- */

static float *take_floats(int64_t floats)
{
    return take((size_t)floats * sizeof(float));
}

static gradients take_gradients(const gradient_case *t)
{
    return (gradients){take_floats((int64_t)ROWS * t->head_dim), take_floats((int64_t)KEYS * t->head_dim),
                       take_floats((int64_t)KEYS * t->value_dim)};
}

static void free_gradients(gradients *g)
{
    free(g->d_query);
    free(g->d_key);
    free(g->d_value);
}

/* Normal numbers in the rows that are there. The rest of the last unit is read, and nobody sees it. */
static float *choose_rows(choices *c, int rows, int64_t stride)
{
    int64_t units = (rows + RA_KEY_UNIT - 1) / RA_KEY_UNIT, floats = units * RA_KEY_UNIT * stride;
    float *values = take_floats(floats);
    fill_normal(c, values, rows * stride, 1);
    for (int64_t i = rows * stride; i < floats; i++)
        values[i] = NAN;
    return values;
}

static void gradient_free(gradient_case *t)
{
    free(t->query);
    free(t->d_output);
    free(t->key);
    free(t->value);
    free(t->added);
    free_gradients(&t->before);
}

static const float *query_of(const gradient_case *t, int row)
{
    return t->query + (ptrdiff_t)row * t->head_dim;
}

static bool in_mask(const gradient_case *t, int row, int key)
{
    const row_mask *m = &t->masks[row];
    return t->hiding == BY_BITS ? m->bits >> key & 1 : key >= m->lo && key < m->hi;
}

static bool row_sees(const gradient_case *t, int row, int key)
{
    return in_mask(t, row, key) && key >= t->begin && key < t->end;
}

/* What the model is told of a row and a key. */
static model_pair pair_of(const gradient_case *t, int row, int key)
{
    model_pair pair = {.query = query_of(t, row),
                       .d_output = t->d_output + (ptrdiff_t)row * t->value_dim,
                       .key = t->key + key * t->key_stride,
                       .value = t->value + key * t->value_stride,
                       .head_dim = t->head_dim,
                       .value_dim = t->value_dim,
                       .score_factor = (double)t->query_factor * t->factor,
                       .scale = t->scale,
                       .lse = (double)t->lse[row] + t->lse_rest[row],
                       .delta = t->delta[row],
                       .scored = t->scored,
                       .cap_first = t->cap_first,
                       .cap = t->cap,
                       .kept = 1};
    if (t->scored)
        pair.added = t->added[row * KEYS + key];
    if (t->scored && t->kept != 0)
        pair.kept = ra_draw(t->row_draws[row], t->key_draws[key]) < t->threshold ? 0 : t->kept;
    return pair;
}

/* Weights are at most 1, as they are when other blocks have their part of the sum. */
static void choose_statistics(choices *c, gradient_case *t, int row)
{
    double sum = exp2((double)choose_normal(c));
    for (int key = 0; key < t->key_rows; key++)
        if (in_mask(t, row, key)) {
            const model_pair pair = pair_of(t, row, key);
            sum += exp2(model_score(&pair, NULL));
        }
    t->lse_rest[row] = choose_normal(c) / 8;
    t->lse[row] = (float)log2(sum) - t->lse_rest[row];
    t->delta[row] = choose_normal(c);
}

static void choose_row(choices *c, gradient_case *t, int row)
{
    fill_normal(c, t->query + (ptrdiff_t)row * t->head_dim, t->head_dim, 1.5f / sqrtf((float)t->head_dim));
    fill_normal(c, t->d_output + (ptrdiff_t)row * t->value_dim, t->value_dim, 1);
    t->masks[row] = choose_mask(c, t->hiding, t->key_rows);
    choose_statistics(c, t, row);
}

static int choose_dim(choices *c)
{
    return (int)(chance(c, 4) ? choose(c, 120, 300) : choose(c, 1, 80));
}

static void choose_shape(choices *c, gradient_case *t)
{
    t->head_dim = choose_dim(c);
    t->value_dim = choose_dim(c);
    t->key_stride = t->head_dim + choose(c, 0, 3);
    t->value_stride = t->value_dim + choose(c, 0, 3);
    t->key_rows = (int)choose(c, 1, KEYS);
    int units = (t->key_rows + RA_KEY_UNIT - 1) / RA_KEY_UNIT;
    if (t->hiding == NOTHING_HIDDEN) /* only a mask can hide keys past the last row */
        t->key_rows = units * RA_KEY_UNIT;
    t->begin = (int)choose(c, 0, units - 1) * RA_KEY_UNIT;
    t->end = (int)choose(c, t->begin / RA_KEY_UNIT + 1, units) * RA_KEY_UNIT;
    t->group_rows = (int)(chance(c, 2) ? RA_LANES_MOST : choose(c, 1, RA_LANES_MOST));
}

/* Softcap, something that is added, and dropout: each of them, or not. */
static void choose_stage(choices *c, gradient_case *t)
{
    t->scored = chance(c, 2);
    t->cap_first = chance(c, 2);
    t->cap = chance(c, 3) ? 0 : 2 + 3 * fabsf(choose_normal(c));
    t->kept = chance(c, 2) ? 0 : 1.25f;
    t->threshold = ra_draw_threshold(0.2);
    t->added = take_floats((int64_t)ROWS * KEYS);
    fill_normal(c, t->added, (int64_t)ROWS * KEYS, chance(c, 3) ? 0 : 1);
    for (int row = 0; row < ROWS; row++)
        t->row_draws[row] = ra_draw_row(5, 0, 1, row);
    for (int key = 0; key < KEYS; key++)
        t->key_draws[key] = ra_draw_column(5, key);
}

static void choose_gradient(choices *c, gradient_case *t, hiding hiding)
{
    *t = (gradient_case){.hiding = hiding, .wanted = WANT_ALL};
    choose_shape(c, t);
    choose_stage(c, t);
    t->query_factor = 0.5f + (float)choose(c, 0, 8) / 8;
    t->factor = chance(c, 2) ? 1 : 0.5f;
    t->scale = chance(c, 8) ? 0 : choose_normal(c);
    t->query = take_floats((int64_t)ROWS * t->head_dim);
    t->d_output = take_floats((int64_t)ROWS * t->value_dim);
    t->key = choose_rows(c, t->key_rows, t->key_stride);
    t->value = choose_rows(c, t->key_rows, t->value_stride);
    t->before = take_gradients(t);
    fill_normal(c, t->before.d_query, (int64_t)ROWS * t->head_dim, 1);
    fill_normal(c, t->before.d_key, (int64_t)KEYS * t->head_dim, 1);
    fill_normal(c, t->before.d_value, (int64_t)KEYS * t->value_dim, 1);
    for (int row = 0; row < ROWS; row++)
        choose_row(c, t, row);
}

/* ---- Running one table ------------------------------------------------------------------------------------------- */

/* Arrays as a kernel wants them, each between two bands that nobody may write to. */
enum {
    QUERY,
    D_OUTPUT,
    QUERY_COLUMNS,
    D_OUTPUT_COLUMNS,
    WEIGHTS,
    D_SCORES,
    CAP_SLOPE,
    ADDED,
    D_QUERY,
    D_KEY,
    D_VALUE,
    ARRAYS
};
enum { BAND = 32 };

static const float MARK = 724.5f;

typedef struct laid_out {
    const ra_kernel *kernel;
    int lanes, first;                    /* first: row of the group */
    int64_t head_columns, value_columns; /* rounded up to a vector */
    float *at[ARRAYS];
    int64_t floats[ARRAYS];
    float *panels;
    int32_t lo[RA_LANES_MOST], hi[RA_LANES_MOST];
    uint64_t seen[KEYS];
    float lse[RA_LANES_MOST], lse_rest[RA_LANES_MOST], delta[RA_LANES_MOST];
    uint32_t row_a[RA_LANES_MOST], row_b[RA_LANES_MOST], key_a[KEYS], key_b[KEYS];
} laid_out;

static void take_array(laid_out *l, int array, int64_t floats)
{
    float *memory = take_floats(floats + 2 * BAND);
    for (int64_t i = 0; i < floats + 2 * BAND; i++)
        memory[i] = i < BAND || i >= floats + BAND ? MARK : NAN; /* what is not written first must not be read */
    l->at[array] = memory + BAND;
    l->floats[array] = floats;
}

static void free_arrays(laid_out *l)
{
    for (int array = 0; array < ARRAYS; array++) {
        for (int i = 0; i < BAND; i++)
            REQUIRE(l->at[array][-1 - i] == MARK && l->at[array][l->floats[array] + i] == MARK,
                    "written %d floats outside of array %d, which has %lld", i + 1, array, (long long)l->floats[array]);
        free(l->at[array] - BAND);
    }
    free(l->panels);
}

static void take_arrays(laid_out *l, const ra_kernel *kernel, const gradient_case *t)
{
    int lanes = kernel->blocking.lanes, width = lanes - kernel->blocking.narrow;
    *l = (laid_out){.kernel = kernel, .lanes = lanes};
    l->head_columns = (t->head_dim + width - 1) / width * width;
    l->value_columns = (t->value_dim + width - 1) / width * width;
    take_array(l, QUERY, (int64_t)lanes * t->head_dim);
    take_array(l, D_OUTPUT, (int64_t)lanes * t->value_dim);
    take_array(l, QUERY_COLUMNS, lanes * l->head_columns);
    take_array(l, D_OUTPUT_COLUMNS, lanes * l->value_columns);
    take_array(l, WEIGHTS, (int64_t)KEYS * lanes);
    take_array(l, D_SCORES, (int64_t)KEYS * lanes);
    take_array(l, CAP_SLOPE, (int64_t)KEYS * lanes);
    take_array(l, ADDED, (int64_t)KEYS * lanes);
    take_array(l, D_QUERY, ra_group_state_floats(lanes, t->head_dim));
    take_array(l, D_KEY, KEYS * l->head_columns);
    take_array(l, D_VALUE, KEYS * l->value_columns);
    int panels = (t->head_dim + RA_PANEL - 1) / RA_PANEL;
    float *staging = take_floats((int64_t)KEYS * t->head_dim);
    l->panels = take_floats((int64_t)panels * KEYS * RA_PANEL);
    const ra_rows key = {t->key, RA_F32, t->key_stride, 1, NULL, NULL};
    kernel->pack_value(&key, t->key_rows, t->head_dim, staging, l->panels);
    free(staging);
}

/* Rows of sums of keys, between those of the case and those that have whole vectors. */
static void copy_sums(float *to, int64_t to_stride, const float *from, int64_t from_stride, int dim)
{
    for (int key = 0; key < KEYS; key++, to += to_stride, from += from_stride)
        memcpy(to, from, (size_t)dim * sizeof *to);
}

/* Rows first .. first + rows - 1 into the lanes. */
static void pack_group(laid_out *l, const gradient_case *t, int first, int rows)
{
    l->first = first;
    const ra_rows query = {query_of(t, first), RA_F32, t->head_dim, 1, NULL, NULL};
    const ra_rows d_output = {t->d_output + (ptrdiff_t)first * t->value_dim, RA_F32, t->value_dim, 1, NULL, NULL};
    l->kernel->pack_query(&query, rows, t->head_dim, t->query_factor, l->at[QUERY]);
    l->kernel->pack_query(&d_output, rows, t->value_dim, 1, l->at[D_OUTPUT]);
    l->kernel->pack_columns(&query, rows, t->head_dim, l->at[QUERY_COLUMNS]);
    l->kernel->pack_columns(&d_output, rows, t->value_dim, l->at[D_OUTPUT_COLUMNS]);
    memset(l->seen, 0, sizeof l->seen);
    for (int lane = 0; lane < l->lanes; lane++) {
        bool there = lane < rows;
        const row_mask mask = there ? t->masks[first + lane] : (row_mask){0};
        l->lo[lane] = mask.lo;
        l->hi[lane] = mask.hi;
        for (int key = 0; key < KEYS; key++) {
            l->seen[key] |= (mask.bits >> key & 1) << lane;
            l->at[ADDED][key * l->lanes + lane] = there ? t->added[(first + lane) * KEYS + key] : NAN;
            l->key_a[key] = t->key_draws[key].a, l->key_b[key] = t->key_draws[key].b;
        }
        l->row_a[lane] = t->row_draws[there ? first + lane : 0].a;
        l->row_b[lane] = t->row_draws[there ? first + lane : 0].b;
        l->lse[lane] = there ? t->lse[first + lane] : 0;
        l->lse_rest[lane] = there ? t->lse_rest[first + lane] : 0;
        l->delta[lane] = there ? t->delta[first + lane] : 0;
        for (int i = 0; i < 2 + t->head_dim; i++)
            l->at[D_QUERY][(ptrdiff_t)i * l->lanes + lane] =
                there && i >= 2 ? t->before.d_query[(ptrdiff_t)(first + lane) * t->head_dim + i - 2] : MARK;
    }
}

/* Between the two calls: gradients of scores that are not times scale, and 0 of pairs that are not seen. */
static void check_between(const laid_out *l, const gradient_case *t, int rows)
{
    for (int key = t->begin; key < t->end; key++)
        for (int lane = 0; lane < rows; lane++) {
            ptrdiff_t at = (ptrdiff_t)key * l->lanes + lane;
            double got = l->at[D_SCORES][at], slope = t->cap != 0 ? l->at[CAP_SLOPE][at] : 0;
            if (!row_sees(t, l->first + lane, key)) {
                REQUIRE(got == 0 && slope == 0, "key %d, lane %d: %g and %g, unseen", key, lane, got, slope);
                continue;
            }
            const model_pair pair = pair_of(t, l->first + lane, key);
            double expected, expected_slope;
            model_sum d = model_d_score(&pair);
            expected = d.value;
            (void)model_score(&pair, &expected_slope);
            REQUIRE(!isfinite(expected) || fabs(got - expected) <= GRADIENT_TOLERANCE * d.size,
                    "key %d, lane %d: %g, not %g", key, lane, got, expected);
            REQUIRE(t->cap == 0 || !isfinite(expected) || fabs(slope - expected_slope) <= 2e-6,
                    "key %d, lane %d: a slope of %g, not %g", key, lane, slope, expected_slope);
        }
}

static ra_score_stage stage_of(const laid_out *l, const gradient_case *t)
{
    ra_score_stage stage = {.kept = t->kept,
                            .threshold = t->threshold,
                            .row_a = l->row_a,
                            .row_b = l->row_b,
                            .key_a = l->key_a,
                            .key_b = l->key_b};
    const ra_score_step cap = {.op = RA_STEP_SOFTCAP, .cap = t->cap};
    const ra_score_step add = {.op = RA_STEP_ADD, .add = l->at[ADDED], .stride = l->lanes};
    if (t->cap != 0 && t->cap_first)
        stage.step[stage.count++] = cap;
    stage.step[stage.count++] = add;
    if (t->cap != 0 && !t->cap_first)
        stage.step[stage.count++] = cap;
    return stage;
}

static void call_kernel(laid_out *l, const gradient_case *t, int rows)
{
    const ra_score_stage stage = stage_of(l, t);
    const ra_gradient_call call = {.query = l->at[QUERY],
                                   .d_output = l->at[D_OUTPUT],
                                   .query_columns = l->at[QUERY_COLUMNS],
                                   .d_output_columns = l->at[D_OUTPUT_COLUMNS],
                                   .lse = l->lse,
                                   .lse_rest = l->lse_rest,
                                   .delta = l->delta,
                                   .rows = rows,
                                   .narrow = t->narrow,
                                   .guard_rows = t->guard_rows,
                                   .key = t->key,
                                   .value = t->value,
                                   .key_stride = t->key_stride,
                                   .value_stride = t->value_stride,
                                   .key_panels = t->wanted & WANT_QUERY ? l->panels : NULL,
                                   .guard_keys = t->guard_keys,
                                   .begin = t->begin,
                                   .end = t->end,
                                   .lo = t->hiding == BY_RANGE ? l->lo : NULL,
                                   .hi = t->hiding == BY_RANGE ? l->hi : NULL,
                                   .seen = t->hiding == BY_BITS ? l->seen : NULL,
                                   .head_dim = t->head_dim,
                                   .value_dim = t->value_dim,
                                   .factor = t->factor,
                                   .scale = t->scale,
                                   .weights = l->at[WEIGHTS],
                                   .d_scores = l->at[D_SCORES],
                                   .d_query = t->wanted & WANT_QUERY ? l->at[D_QUERY] : NULL,
                                   .d_key = t->wanted & WANT_KEY ? l->at[D_KEY] : NULL,
                                   .d_value = t->wanted & WANT_VALUE ? l->at[D_VALUE] : NULL,
                                   .stage = &stage,
                                   .cap_slope = t->scored && t->cap != 0 ? l->at[CAP_SLOPE] : NULL};
    if (!t->scored) {
        l->kernel->gradient(&call);
        return;
    }
    l->kernel->gradient_scores(&call);
    check_between(l, t, rows);
    l->kernel->gradient_products(&call);
}

/* What stands before the sums of d_query stays, as do the lanes that a narrow group leaves alone. */
static void check_left_alone(const laid_out *l, const gradient_case *t)
{
    int first_idle = t->narrow ? l->kernel->blocking.narrow : l->lanes;
    for (int i = 0; i < 2 + t->head_dim; i++)
        for (int lane = i < 2 ? 0 : first_idle; lane < l->lanes; lane++)
            REQUIRE(l->at[D_QUERY][(ptrdiff_t)i * l->lanes + lane] == MARK, "row %d of d_query, lane %d", i, lane);
}

static int rows_of_groups(const ra_kernel *kernel, const gradient_case *t)
{
    int most = t->narrow ? kernel->blocking.narrow : kernel->blocking.lanes;
    return t->group_rows < most ? t->group_rows : most;
}

/* The gradients of all rows and keys, which the caller frees. */
static gradients run_gradient(const ra_kernel *kernel, const gradient_case *t)
{
    laid_out l;
    gradients after = take_gradients(t);
    int most = rows_of_groups(kernel, t);
    take_arrays(&l, kernel, t);
    copy_sums(l.at[D_KEY], l.head_columns, t->before.d_key, t->head_dim, t->head_dim);
    copy_sums(l.at[D_VALUE], l.value_columns, t->before.d_value, t->value_dim, t->value_dim);
    for (int first = 0; first < ROWS; first += most) {
        int rows = ROWS - first < most ? ROWS - first : most;
        pack_group(&l, t, first, rows);
        call_kernel(&l, t, rows);
        check_left_alone(&l, t);
        for (int row = 0; row < rows; row++)
            for (int d = 0; d < t->head_dim; d++)
                after.d_query[(ptrdiff_t)(first + row) * t->head_dim + d] =
                    l.at[D_QUERY][(ptrdiff_t)(2 + d) * l.lanes + row];
    }
    copy_sums(after.d_key, t->head_dim, l.at[D_KEY], l.head_columns, t->head_dim);
    copy_sums(after.d_value, t->value_dim, l.at[D_VALUE], l.value_columns, t->value_dim);
    free_arrays(&l);
    return after;
}

/* Whether a row of one of the gradients is the same to the bit in both. */
static bool same_query(const gradient_case *t, const gradients *a, const gradients *b, int row)
{
    ptrdiff_t at = (ptrdiff_t)row * t->head_dim;
    return same_bits(a->d_query + at, b->d_query + at, t->head_dim);
}

static bool same_key(const gradient_case *t, const gradients *a, const gradients *b, int key)
{
    ptrdiff_t at = (ptrdiff_t)key * t->head_dim, value_at = (ptrdiff_t)key * t->value_dim;
    return same_bits(a->d_key + at, b->d_key + at, t->head_dim) &&
           same_bits(a->d_value + value_at, b->d_value + value_at, t->value_dim);
}

static bool same_gradients(const gradient_case *t, const gradients *a, const gradients *b)
{
    bool same = same_bits(a->d_query, b->d_query, (int64_t)ROWS * t->head_dim);
    for (int key = 0; key < KEYS; key++)
        same = same && same_key(t, a, b, key);
    return same;
}

/* ---- The model --------------------------------------------------------------------------------------------------- */

typedef struct model_gradients {
    model_sum *d_query, *d_key, *d_value;
} model_gradients;

static model_sum *begin_sums(const float *before, int64_t count)
{
    model_sum *sums = take((size_t)count * sizeof *sums);
    for (int64_t i = 0; i < count; i++)
        sums[i] = (model_sum){before[i], fabs((double)before[i])};
    return sums;
}

static model_gradients model_run(const gradient_case *t)
{
    model_gradients m = {begin_sums(t->before.d_query, (int64_t)ROWS * t->head_dim),
                         begin_sums(t->before.d_key, (int64_t)KEYS * t->head_dim),
                         begin_sums(t->before.d_value, (int64_t)KEYS * t->value_dim)};
    for (int row = 0; row < ROWS; row++)
        for (int key = t->begin; key < t->end; key++) {
            const model_pair pair = pair_of(t, row, key);
            if (row_sees(t, row, key))
                model_gradient(&pair, m.d_query + (ptrdiff_t)row * t->head_dim, m.d_key + (ptrdiff_t)key * t->head_dim,
                               m.d_value + (ptrdiff_t)key * t->value_dim);
        }
    return m;
}

static void model_free(model_gradients *m)
{
    free(m->d_query);
    free(m->d_key);
    free(m->d_value);
}

/* The largest difference of two gradients, as a part of the sizes that were added up. */
static double distance(const model_sum *model, const float *got, const float *other, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double from_model = fabs(got[i] - model[i].value) / model[i].size;
        double from_other = fabs((double)got[i] - other[i]) / model[i].size;
        if (isnan(from_model) || isnan(from_other))
            return INFINITY;
        largest = fmax(largest, fmax(from_model, from_other));
    }
    return largest;
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

/* One case with one table; calls of one test differ in the seed and in nothing else. */
typedef void (*check)(const tested_table *table, uint64_t seed);

static void for_each_table(int quick, check test)
{
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(quick);
    for (uint64_t seed = range.first; seed < range.end; seed++)
        for (int i = 0; i < count; i++)
            test(&tables[i], seed);
}

static void require_right(const gradient_case *t, const model_gradients *model, const gradients *generic,
                          const tested_table *table, uint64_t seed)
{
    gradients got = run_gradient(table->kernel, t);
    double query = distance(model->d_query, got.d_query, generic->d_query, (int64_t)ROWS * t->head_dim);
    double key = distance(model->d_key, got.d_key, generic->d_key, (int64_t)KEYS * t->head_dim);
    double value = distance(model->d_value, got.d_value, generic->d_value, (int64_t)KEYS * t->value_dim);
    REQUIRE(query <= GRADIENT_TOLERANCE && key <= GRADIENT_TOLERANCE && value <= GRADIENT_TOLERANCE,
            "seed %llu, %s, dim %d:%d, keys %d..%d of %d, groups of %d: d_query %.2e, d_key %.2e, d_value %.2e off",
            (unsigned long long)seed, table->name, t->head_dim, t->value_dim, t->begin, t->end, t->key_rows,
            rows_of_groups(table->kernel, t), query, key, value);
    for (int k = 0; k < KEYS; k++)
        REQUIRE((k >= t->begin && k < t->end) || same_key(t, &t->before, &got, k),
                "seed %llu, %s: sums of key %d are changed outside of %d..%d", (unsigned long long)seed, table->name, k,
                t->begin, t->end);
    free_gradients(&got);
}

static void random_gradients(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(150);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        gradient_case t;
        choose_gradient(&c, &t, (hiding)(seed % 3));
        t.narrow = chance(&c, 3);
        model_gradients model = model_run(&t);
        gradients generic = run_gradient(tables[0].kernel, &t);
        for (int i = 0; i < count; i++)
            require_right(&t, &model, &generic, &tables[i], seed);
        free_gradients(&generic);
        model_free(&model);
        gradient_free(&t);
    }
}

/* What is not wanted changes nothing of what is. */
static void check_wanted(const tested_table *table, uint64_t seed)
{
    choices c = {seed};
    gradient_case t;
    choose_gradient(&c, &t, (hiding)(seed % 3));
    gradients all = run_gradient(table->kernel, &t);
    for (t.wanted = 0; t.wanted < WANT_ALL; t.wanted++) {
        gradients some = run_gradient(table->kernel, &t);
        const gradients expected = {t.wanted & WANT_QUERY ? all.d_query : t.before.d_query,
                                    t.wanted & WANT_KEY ? all.d_key : t.before.d_key,
                                    t.wanted & WANT_VALUE ? all.d_value : t.before.d_value};
        REQUIRE(same_gradients(&t, &expected, &some), "seed %llu, %s: wanted %d", (unsigned long long)seed, table->name,
                t.wanted);
        free_gradients(&some);
    }
    free_gradients(&all);
    gradient_free(&t);
}

static void gradients_that_are_not_wanted(void **state)
{
    (void)state;
    for_each_table(12, check_wanted);
}

static const float POISONS[] = {17.0f, NAN, INFINITY, -INFINITY};

/* A key and its value: rows that do not see them and all other keys keep their bits; rows that do see a NaN have it. */
static void check_poisoned_key(const tested_table *table, uint64_t seed, float poison)
{
    choices c = {seed};
    gradient_case t;
    choose_gradient(&c, &t, (hiding)(seed % 3));
    gradients before = run_gradient(table->kernel, &t);
    int key = (int)choose(&c, 0, t.key_rows - 1);
    t.key[key * t.key_stride + choose(&c, 0, t.head_dim - 1)] = poison;
    t.value[key * t.value_stride + choose(&c, 0, t.value_dim - 1)] = poison;
    t.guard_keys = !isfinite(poison);
    gradients after = run_gradient(table->kernel, &t);
    for (int row = 0; row < ROWS; row++) {
        bool seen = row_sees(&t, row, key), shows = isnan(after.d_query[(ptrdiff_t)row * t.head_dim]);
        REQUIRE(seen || same_query(&t, &before, &after, row), "seed %llu, %s: %g at key %d shows in row %d",
                (unsigned long long)seed, table->name, poison, key, row);
        REQUIRE(!isnan(poison) || shows == seen, "seed %llu, %s: row %d sees a NaN and is none",
                (unsigned long long)seed, table->name, row);
    }
    for (int other = 0; other < KEYS; other++)
        REQUIRE(other == key || same_key(&t, &before, &after, other), "seed %llu, %s: %g at key %d shows at key %d",
                (unsigned long long)seed, table->name, poison, key, other);
    free_gradients(&before);
    free_gradients(&after);
    gradient_free(&t);
}

static void check_poisoned_keys(const tested_table *table, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        check_poisoned_key(table, seed, POISONS[i]);
}

static void unseen_keys_are_no_ops(void **state)
{
    (void)state;
    for_each_table(45, check_poisoned_keys);
}

/* The same for a row: keys that it does not see and all other rows keep their bits. */
static void check_poisoned_row(const tested_table *table, uint64_t seed, float poison)
{
    choices c = {seed};
    gradient_case t;
    choose_gradient(&c, &t, (hiding)(seed % 3));
    gradients before = run_gradient(table->kernel, &t);
    int row = (int)choose(&c, 0, ROWS - 1);
    t.query[row * t.head_dim + choose(&c, 0, t.head_dim - 1)] = poison;
    t.d_output[row * t.value_dim + choose(&c, 0, t.value_dim - 1)] = poison;
    t.lse[row] = t.delta[row] = poison;
    t.guard_rows = !isfinite(poison);
    gradients after = run_gradient(table->kernel, &t);
    for (int other = 0; other < ROWS; other++)
        REQUIRE(other == row || same_query(&t, &before, &after, other), "seed %llu, %s: %g in row %d shows in row %d",
                (unsigned long long)seed, table->name, poison, row, other);
    for (int key = 0; key < KEYS; key++) {
        bool seen = row_sees(&t, row, key), shows = isnan(after.d_value[(ptrdiff_t)key * t.value_dim]);
        REQUIRE(seen || same_key(&t, &before, &after, key), "seed %llu, %s: %g in row %d shows at key %d",
                (unsigned long long)seed, table->name, poison, row, key);
        REQUIRE(!isnan(poison) || shows == seen, "seed %llu, %s: key %d is seen by a NaN and is none",
                (unsigned long long)seed, table->name, key);
    }
    free_gradients(&before);
    free_gradients(&after);
    gradient_free(&t);
}

static void check_poisoned_rows(const tested_table *table, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        check_poisoned_row(table, seed, POISONS[i]);
}

static void rows_give_nothing_to_unseen_keys(void **state)
{
    (void)state;
    for_each_table(45, check_poisoned_rows);
}

static void move_row(gradient_case *t, int from, int to)
{
    memmove(t->query + (ptrdiff_t)to * t->head_dim, query_of(t, from), (size_t)t->head_dim * sizeof(float));
    memmove(t->d_output + (ptrdiff_t)to * t->value_dim, t->d_output + (ptrdiff_t)from * t->value_dim,
            (size_t)t->value_dim * sizeof(float));
    memmove(t->before.d_query + (ptrdiff_t)to * t->head_dim, t->before.d_query + (ptrdiff_t)from * t->head_dim,
            (size_t)t->head_dim * sizeof(float));
    t->masks[to] = t->masks[from];
    t->lse[to] = t->lse[from];
    t->lse_rest[to] = t->lse_rest[from];
    t->delta[to] = t->delta[from];
    memmove(t->added + (ptrdiff_t)to * KEYS, t->added + (ptrdiff_t)from * KEYS, KEYS * sizeof(float));
    t->row_draws[to] = t->row_draws[from];
}

/* One row stays as it is, in any lane of any group, while all others change. */
static void check_neighbours(const tested_table *table, uint64_t seed)
{
    choices c = {seed};
    gradient_case t;
    choose_gradient(&c, &t, (hiding)(seed % 3));
    int row = (int)choose(&c, 0, ROWS - 1), moved = (int)choose(&c, 0, ROWS - 1);
    gradients before = run_gradient(table->kernel, &t);
    move_row(&t, row, moved);
    for (int other = 0; other < ROWS; other++)
        if (other != moved)
            choose_row(&c, &t, other);
    t.group_rows = (int)choose(&c, 1, RA_LANES_MOST);
    gradients after = run_gradient(table->kernel, &t);
    REQUIRE(same_bits(before.d_query + row * t.head_dim, after.d_query + moved * t.head_dim, t.head_dim),
            "seed %llu, %s: row %d is another one as row %d among others", (unsigned long long)seed, table->name, row,
            moved);
    free_gradients(&before);
    free_gradients(&after);
    gradient_free(&t);
}

static void a_row_does_not_know_its_neighbours(void **state)
{
    (void)state;
    for_each_table(60, check_neighbours);
}

/* Working fewer keys, where the others are masked anyway, is the same to the bit. */
static void check_ends(const tested_table *table, uint64_t seed)
{
    choices c = {seed};
    gradient_case t;
    choose_gradient(&c, &t, seed % 2 ? BY_RANGE : BY_BITS);
    for (int row = 0; row < ROWS; row++) {
        row_mask *m = &t.masks[row];
        m->lo = m->lo < t.begin ? t.begin : m->lo;
        m->hi = m->hi > t.end ? t.end : m->hi;
        for (int key = 0; key < KEYS; key++)
            if (key < t.begin || key >= t.end)
                m->bits &= ~(UINT64_C(1) << key);
    }
    t.guard_rows = seed % 4 > 1;
    gradients fewer = run_gradient(table->kernel, &t);
    t.begin = 0;
    t.end = (t.key_rows + RA_KEY_UNIT - 1) / RA_KEY_UNIT * RA_KEY_UNIT;
    gradients more = run_gradient(table->kernel, &t);
    REQUIRE(same_gradients(&t, &fewer, &more), "seed %llu, %s", (unsigned long long)seed, table->name);
    free_gradients(&fewer);
    free_gradients(&more);
    gradient_free(&t);
}

static void begin_and_end_are_like_a_mask(void **state)
{
    (void)state;
    for_each_table(60, check_ends);
}

/* Bits that say what ranges say give the same bits, and so do guards where all numbers are finite. */
static void check_masks(const tested_table *table, uint64_t seed)
{
    choices c = {seed};
    gradient_case t;
    choose_gradient(&c, &t, BY_RANGE);
    for (int row = 0; row < ROWS; row++) {
        row_mask *m = &t.masks[row];
        m->bits = 0;
        for (int key = 0; key < KEYS; key++)
            m->bits |= (uint64_t)(key >= m->lo && key < m->hi) << key;
    }
    gradients ranges = run_gradient(table->kernel, &t);
    t.hiding = BY_BITS;
    for (int guards = 0; guards < 4; guards++) {
        t.guard_rows = guards & 1;
        t.guard_keys = guards & 2;
        gradients bits = run_gradient(table->kernel, &t);
        REQUIRE(same_gradients(&t, &ranges, &bits), "seed %llu, %s, guards %d", (unsigned long long)seed, table->name,
                guards);
        free_gradients(&bits);
    }
    free_gradients(&ranges);
    gradient_free(&t);
}

static void masks_and_guards_say_the_same(void **state)
{
    (void)state;
    for_each_table(45, check_masks);
}

/* A narrow group has the bits of a whole one with the same rows. */
static void check_narrow(const tested_table *table, uint64_t seed)
{
    choices c = {seed};
    gradient_case t;
    choose_gradient(&c, &t, (hiding)(seed % 3));
    t.group_rows = (int)choose(&c, 1, table->kernel->blocking.narrow);
    t.guard_rows = t.guard_keys = seed % 2;
    gradients whole = run_gradient(table->kernel, &t);
    t.narrow = true;
    gradients narrow = run_gradient(table->kernel, &t);
    REQUIRE(same_gradients(&t, &whole, &narrow), "seed %llu, %s, groups of %d", (unsigned long long)seed, table->name,
            t.group_rows);
    free_gradients(&whole);
    free_gradients(&narrow);
    gradient_free(&t);
}

static void narrow_groups_are_the_same(void **state)
{
    (void)state;
    for_each_table(60, check_narrow);
}

static void fill_with(float *values, int64_t count, float value)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = value;
}

/* A tile is summed by itself first: ones added one by one to 2^24 would be lost. */
static void check_large_sums(const tested_table *table, uint64_t seed)
{
    (void)seed;
    choices c = {1};
    gradient_case t;
    choose_gradient(&c, &t, NOTHING_HIDDEN);
    t.scored = false;
    t.begin = 0;
    t.end = t.key_rows;
    t.scale = 0;
    t.group_rows = table->kernel->blocking.lanes;
    fill_with(t.query, (int64_t)ROWS * t.head_dim, 0); /* weights of 1, gradients of scores of 2 */
    fill_with(t.d_output, (int64_t)ROWS * t.value_dim, 1);
    fill_with(t.key, t.key_rows * t.key_stride, 1);
    fill_with(t.lse, ROWS, 0);
    fill_with(t.lse_rest, ROWS, 0);
    fill_with(t.delta, ROWS, -2);
    fill_with(t.before.d_query, (int64_t)ROWS * t.head_dim, 0x1p25f);
    fill_with(t.before.d_value, (int64_t)KEYS * t.value_dim, 0x1p24f);
    gradients got = run_gradient(table->kernel, &t);
    for (int i = 0; i < ROWS * t.head_dim; i++)
        REQUIRE(got.d_query[i] == 0x1p25f + 2 * (float)t.key_rows, "%s: %.9g", table->name, got.d_query[i]);
    for (int i = 0; i < t.key_rows * t.value_dim; i++)
        REQUIRE(got.d_value[i] == 0x1p24f + ROWS, "%s: %.9g", table->name, got.d_value[i]);
    free_gradients(&got);
    gradient_free(&t);
}

static void sums_do_not_stagnate(void **state)
{
    (void)state;
    for_each_table(1, check_large_sums);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_gradients),
        cmocka_unit_test(gradients_that_are_not_wanted),
        cmocka_unit_test(unseen_keys_are_no_ops),
        cmocka_unit_test(rows_give_nothing_to_unseen_keys),
        cmocka_unit_test(a_row_does_not_know_its_neighbours),
        cmocka_unit_test(begin_and_end_are_like_a_mask),
        cmocka_unit_test(masks_and_guards_say_the_same),
        cmocka_unit_test(narrow_groups_are_the_same),
        cmocka_unit_test(sums_do_not_stagnate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
