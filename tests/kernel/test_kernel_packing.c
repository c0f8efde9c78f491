/* SPDX-License-Identifier: Apache-2.0 */
/* Into and out of the kernels' layouts: any dtype, any stride, and nothing but what was asked for is written. */
#include "model.h"
#include "support/unit.h"
#include "tables.h"

#include "base/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows as a caller has them: turned round, transposed, with gaps; or picked out of those by an index. */
typedef struct source {
    ra_rows rows;
    int count, dim;
    int64_t index[RA_KEY_BLOCK]; /* what rows.index is set to, by those who use one */
    void *memory;                /* of exactly the elements the rows span */
} source;

static float element(const ra_rows *rows, int64_t at)
{
    switch (rows->dtype) {
    case RA_F16: return ra_f16_to_f32(((const uint16_t *)rows->data)[at]);
    case RA_BF16: return ra_bf16_to_f32(((const uint16_t *)rows->data)[at]);
    case RA_I8: return ((const int8_t *)rows->data)[at];
    default: return ((const float *)rows->data)[at];
    }
}

static float source_get(const source *s, int row, int d)
{
    int64_t at = s->rows.index ? s->rows.index[row] : row;
    return at < 0 ? 0 : element(&s->rows, at * s->rows.row_stride + d * s->rows.dim_stride);
}

/* Any rows of the source in any order, some of them missing if they may. */
static void choose_index(choices *c, source *s, bool missing)
{
    for (int i = 0; i < s->count; i++)
        s->index[i] = missing && chance(c, 4) ? -1 : choose(c, 0, s->count - 1);
    s->rows.index = s->index;
}

/* Sets the element that is `at` elements into the memory. */
static void put(void *memory, ra_dtype dtype, int64_t at, float value)
{
    switch (dtype) {
    case RA_F16: ((uint16_t *)memory)[at] = ra_f32_to_f16(value); break;
    case RA_BF16: ((uint16_t *)memory)[at] = ra_f32_to_bf16(value); break;
    case RA_I8: ((int8_t *)memory)[at] = (int8_t)fmaxf(-127, fminf(127, 40 * value)); break;
    default: ((float *)memory)[at] = value; break;
    }
}

static source choose_of(choices *c, int most_rows, int dtype_count)
{
    static const ra_dtype dtypes[] = {RA_F32, RA_F16, RA_BF16, RA_I8};
    source s = {.count = (int)choose(c, 1, most_rows), .dim = (int)choose(c, 1, chance(c, 3) ? 300 : 40)};
    bool transposed = chance(c, 4);
    int64_t row_stride = transposed ? 1 : s.dim + choose(c, 0, 5),
            dim_stride = transposed ? s.count + choose(c, 0, 5) : 1;
    if (!transposed && chance(c, 4)) {
        dim_stride = choose(c, 2, 3);
        row_stride *= dim_stride;
    }
    int64_t span = (s.count - 1) * row_stride + (s.dim - 1) * dim_stride + 1, origin = 0;
    s.rows.dtype = dtypes[choose(c, 0, dtype_count - 1)];
    s.memory = take((size_t)span * ra_dtype_size(s.rows.dtype));
    for (int64_t i = 0; i < span; i++)
        put(s.memory, s.rows.dtype, i, choose_normal(c));
    if (chance(c, 3)) {
        origin += (s.count - 1) * row_stride;
        row_stride = -row_stride;
    }
    if (chance(c, 3)) {
        origin += (s.dim - 1) * dim_stride;
        dim_stride = -dim_stride;
    }
    s.rows.data = (char *)s.memory + origin * (int64_t)ra_dtype_size(s.rows.dtype);
    s.rows.row_stride = row_stride;
    s.rows.dim_stride = dim_stride;
    s.rows.index = NULL;
    return s;
}

/* What may be an output, too. */
static source choose_source(choices *c, int most_rows)
{
    return choose_of(c, most_rows, 3);
}

static size_t source_bytes(const source *s)
{
    int64_t span = (s->count - 1) * llabs(s->rows.row_stride) + (s->dim - 1) * llabs(s->rows.dim_stride) + 1;
    return (size_t)span * ra_dtype_size(s->rows.dtype);
}

/* Runs `test` for many seeds and every table. */
static void for_each_table(int quick, void (*test)(const tested_table *table, uint64_t seed))
{
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(quick);
    for (uint64_t seed = range.first; seed < range.end; seed++)
        for (int i = 0; i < count; i++)
            test(&tables[i], seed);
}

static void check_rows(const tested_table *table, uint64_t seed)
{
    choices c = {seed};
    source s = choose_of(&c, RA_KEY_BLOCK, 4);
    if (seed % 2)
        choose_index(&c, &s, true);
    float *packed = take((size_t)(s.count * s.dim) * sizeof *packed);
    table->kernel->pack_rows(&s.rows, s.count, s.dim, packed);
    for (int row = 0; row < s.count; row++)
        for (int d = 0; d < s.dim; d++)
            REQUIRE(packed[(ptrdiff_t)row * s.dim + d] == source_get(&s, row, d), "seed %llu, %s: [%d, %d]",
                    (unsigned long long)seed, table->name, row, d);
    free(packed);
    free(s.memory);
}

static void rows(void **state)
{
    (void)state;
    for_each_table(200, check_rows);
}

static void check_query(const tested_table *table, uint64_t seed)
{
    choices c = {seed};
    int lanes = table->kernel->blocking.lanes;
    source s = choose_source(&c, lanes);
    if (seed % 2)
        choose_index(&c, &s, seed % 4 == 1);
    float factor = choose_normal(&c), *packed = take((size_t)(lanes * s.dim) * sizeof *packed);
    table->kernel->pack_query(&s.rows, s.count, s.dim, factor, packed);
    for (int lane = 0; lane < lanes; lane++)
        for (int d = 0; d < s.dim; d++) {
            float expected = lane < s.count ? source_get(&s, lane, d) * factor : 0;
            REQUIRE(packed[(ptrdiff_t)d * lanes + lane] == expected, "seed %llu, %s: lane %d, %d",
                    (unsigned long long)seed, table->name, lane, d);
        }
    free(packed);
    free(s.memory);
}

static void queries(void **state)
{
    (void)state;
    for_each_table(200, check_query);
}

static bool same_element(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* One element becomes NaN, infinite, or large and finite. Returns it. */
static float put_odd(choices *c, source *s)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 65504};
    float value = odd[choose(c, 0, 3)];
    int64_t at = choose(c, 0, s->count - 1) * s->rows.row_stride + choose(c, 0, s->dim - 1) * s->rows.dim_stride;
    put((void *)(uintptr_t)s->rows.data, s->rows.dtype, at, value);
    return value;
}

/* Whether all elements of the rows that are packed are finite. */
static bool all_finite(const source *s)
{
    for (int i = 0; i < s->count * s->dim; i++)
        if (!isfinite(source_get(s, i / s->dim, i % s->dim)))
            return false;
    return true;
}

/* One value may be made NaN or infinite: then, and only then, the answer is false. */
static void check_value(const tested_table *table, uint64_t seed)
{
    choices c = {seed};
    source s = choose_source(&c, RA_KEY_BLOCK);
    int panels = (s.dim + RA_PANEL - 1) / RA_PANEL;
    float odd = put_odd(&c, &s);
    if (seed % 2)
        choose_index(&c, &s, true);
    float *packed = take((size_t)(panels * RA_KEY_BLOCK * RA_PANEL) * sizeof *packed);
    float *staging = take((size_t)(RA_KEY_BLOCK * s.dim) * sizeof *staging);
    bool finite = table->kernel->pack_value(&s.rows, s.count, s.dim, staging, packed);
    REQUIRE(finite == all_finite(&s), "seed %llu, %s: %g among the values went unnoticed, or nothing did",
            (unsigned long long)seed, table->name, odd);
    int keys = (s.count + RA_KEY_UNIT - 1) / RA_KEY_UNIT * RA_KEY_UNIT;
    for (int key = 0; key < keys; key++)
        for (int d = 0; d < panels * RA_PANEL; d++) {
            float got = packed[(d / RA_PANEL * RA_KEY_BLOCK + key) * RA_PANEL + d % RA_PANEL];
            float expected = key < s.count && d < s.dim ? source_get(&s, key, d) : 0;
            REQUIRE(same_element(got, expected), "seed %llu, %s: key %d, column %d: %g, not %g",
                    (unsigned long long)seed, table->name, key, d, got, expected);
        }
    free(packed);
    free(staging);
    free(s.memory);
}

static void values(void **state)
{
    (void)state;
    for_each_table(300, check_value);
}

/* The rows of a source as dense float32, missing ones as zeros. */
static float *dense_rows(const source *s)
{
    float *dense = take((size_t)(s->count * s->dim) * sizeof *dense);
    for (int i = 0; i < s->count * s->dim; i++)
        dense[i] = source_get(s, i / s->dim, i % s->dim);
    return dense;
}

/*
 * Columns of any rows are those of the same rows in dense float32; what that layout is worth is in
 * test_kernel_gradient.c. Nothing is written behind the room that the table asks for.
 */
static void check_columns(const tested_table *table, uint64_t seed)
{
    choices c = {seed};
    int lanes = table->kernel->blocking.lanes, width = lanes - table->kernel->blocking.narrow;
    source s = choose_source(&c, lanes);
    float odd = chance(&c, 2) ? put_odd(&c, &s) : 0;
    if (seed % 2)
        choose_index(&c, &s, true);
    int floats = s.count * ((s.dim + width - 1) / width * width);
    float *packed = take((size_t)floats * sizeof *packed), *expected = take((size_t)floats * sizeof *expected);
    float *dense = dense_rows(&s);
    const ra_rows dense_source = {dense, RA_F32, s.dim, 1, NULL, NULL};
    bool finite = table->kernel->pack_columns(&s.rows, s.count, s.dim, packed);
    REQUIRE(finite == all_finite(&s), "seed %llu, %s: %g went unnoticed, or nothing did", (unsigned long long)seed,
            table->name, odd);
    REQUIRE(table->kernel->pack_columns(&dense_source, s.count, s.dim, expected) == finite, "seed %llu, %s",
            (unsigned long long)seed, table->name);
    for (int i = 0; i < floats; i++)
        REQUIRE(same_element(packed[i], expected[i]), "seed %llu, %s, %s: float %d is %g, not %g",
                (unsigned long long)seed, table->name, ra_dtype_name(s.rows.dtype), i, packed[i], expected[i]);
    free(packed);
    free(expected);
    free(dense);
    free(s.memory);
}

static void columns(void **state)
{
    (void)state;
    for_each_table(300, check_columns);
}

/* Every float16 and bfloat16 there is, through the vector conversions. */
static void check_halves(const tested_table *table, uint64_t seed)
{
    (void)seed;
    uint16_t *halves = take(65536 * sizeof *halves);
    float *wide = take(65536 * sizeof *wide);
    for (int i = 0; i < 65536; i++)
        halves[i] = (uint16_t)i;
    for (ra_dtype dtype = RA_F16; dtype <= RA_BF16; dtype++) {
        ra_rows from = {halves, dtype, 1024, 1, NULL, NULL};
        table->kernel->pack_rows(&from, 64, 1024, wide);
        for (int i = 0; i < 65536; i++) {
            float expected = element(&from, i);
            REQUIRE(ra_float_bits(wide[i]) == ra_float_bits(expected) || (isnan(wide[i]) && isnan(expected)),
                    "%s, %s %#x: %g, not %g", table->name, ra_dtype_name(dtype), i, wide[i], expected);
        }
    }
    free(halves);
    free(wide);
}

static void every_half(void **state)
{
    (void)state;
    for_each_table(1, check_halves);
}

/* acc / sum of each row, rounded once; a row without weight is NaN; gaps between rows stay as they were. */
static void check_finish(const tested_table *table, uint64_t seed)
{
    choices c = {seed};
    int lanes = table->kernel->blocking.lanes;
    source s = choose_source(&c, lanes);
    int64_t floats = ra_group_state_floats(lanes, s.dim);
    size_t bytes = source_bytes(&s);
    float *state = take((size_t)floats * sizeof *state);
    char *expected = take(bytes);
    fill_normal(&c, state, floats, 1);
    state[lanes] = 0; /* the sum of the first row */
    for (int column = 0; column < s.dim; column++)
        state[(2 + (ptrdiff_t)column) * lanes] = 0;
    memcpy(expected, s.memory, bytes);
    int64_t origin = ((const char *)s.rows.data - (const char *)s.memory) / (int64_t)ra_dtype_size(s.rows.dtype);
    for (int row = 1; row < s.count; row++)
        for (int d = 0; d < s.dim; d++)
            put(expected, s.rows.dtype, origin + row * s.rows.row_stride + d * s.rows.dim_stride,
                state[(2 + (ptrdiff_t)d) * lanes + row] / state[lanes + row]);
    table->kernel->finish_group(state, s.count, s.dim, &s.rows);
    for (int d = 0; d < s.dim; d++) {
        REQUIRE(isnan(source_get(&s, 0, d)), "seed %llu, %s: no weight, but a result", (unsigned long long)seed,
                table->name);
        put(s.memory, s.rows.dtype, origin + d * s.rows.dim_stride, 0);
        put(expected, s.rows.dtype, origin + d * s.rows.dim_stride, 0);
    }
    REQUIRE(memcmp(s.memory, expected, bytes) == 0, "seed %llu, %s, %s", (unsigned long long)seed, table->name,
            ra_dtype_name(s.rows.dtype));
    free(state);
    free(expected);
    free(s.memory);
}

static void outputs(void **state)
{
    (void)state;
    for_each_table(200, check_finish);
}

/* The same of a decoding row. */
static void check_finish_row(const tested_table *table, uint64_t seed)
{
    choices c = {seed};
    source s = choose_source(&c, 1);
    size_t bytes = source_bytes(&s);
    float *state = take((size_t)(2 + s.dim) * sizeof *state);
    char *expected = take(bytes);
    fill_normal(&c, state, 2 + s.dim, 1);
    memcpy(expected, s.memory, bytes);
    int64_t origin = ((const char *)s.rows.data - (const char *)s.memory) / (int64_t)ra_dtype_size(s.rows.dtype);
    for (int d = 0; d < s.dim; d++)
        put(expected, s.rows.dtype, origin + d * s.rows.dim_stride, state[2 + d] / state[1]);
    table->kernel->finish_row(state, s.dim, &s.rows);
    REQUIRE(memcmp(s.memory, expected, bytes) == 0, "seed %llu, %s, %s", (unsigned long long)seed, table->name,
            ra_dtype_name(s.rows.dtype));
    free(state);
    free(expected);
    free(s.memory);
}

static void outputs_of_rows(void **state)
{
    (void)state;
    for_each_table(200, check_finish_row);
}

/* Rows of a group go to different places: any, some of them to none. */
static void choose_places(choices *c, source *s)
{
    choose_index(c, s, true);
    for (int i = 0; i < s->count; i++)
        s->index[i] = s->index[i] < 0 ? -1 : i;
    for (int i = s->count - 1; i > 0; i--) {
        int other = (int)choose(c, 0, i);
        int64_t place = s->index[i];
        s->index[i] = s->index[other];
        s->index[other] = place;
    }
}

/* Columns of a group to rows, stored or added: each element once, rows without a place nowhere, gaps as they were. */
static void check_group(const tested_table *table, uint64_t seed, bool add)
{
    choices c = {seed};
    int lanes = table->kernel->blocking.lanes;
    source s = choose_source(&c, lanes);
    while (add && s.rows.dtype != RA_F32) {
        free(s.memory);
        s = choose_source(&c, lanes);
    }
    if (seed % 2)
        choose_places(&c, &s);
    size_t bytes = source_bytes(&s), size = ra_dtype_size(s.rows.dtype);
    float *acc = take((size_t)(lanes * s.dim) * sizeof *acc);
    char *expected = take(bytes);
    fill_normal(&c, acc, (int64_t)lanes * s.dim, 1);
    memcpy(expected, s.memory, bytes);
    int64_t origin = ((const char *)s.rows.data - (const char *)s.memory) / (int64_t)size;
    for (int i = 0; i < s.count * s.dim; i++) {
        int row = i / s.dim, d = i % s.dim;
        int64_t place = s.rows.index ? s.rows.index[row] : row;
        float old = add ? source_get(&s, row, d) : 0;
        if (place >= 0)
            put(expected, s.rows.dtype, origin + place * s.rows.row_stride + d * s.rows.dim_stride,
                old + acc[(ptrdiff_t)d * lanes + row]);
    }
    (add ? table->kernel->add_group : table->kernel->store_group)(acc, s.count, s.dim, &s.rows);
    REQUIRE(memcmp(s.memory, expected, bytes) == 0, "seed %llu, %s, %s", (unsigned long long)seed, table->name,
            ra_dtype_name(s.rows.dtype));
    free(acc);
    free(expected);
    free(s.memory);
}

static void check_stored(const tested_table *table, uint64_t seed)
{
    check_group(table, seed, false);
}

static void check_added(const tested_table *table, uint64_t seed)
{
    check_group(table, seed, true);
}

static void stored_groups(void **state)
{
    (void)state;
    for_each_table(200, check_stored);
}

static void added_groups(void **state)
{
    (void)state;
    for_each_table(200, check_added);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(queries),
        cmocka_unit_test(values),
        cmocka_unit_test(columns),
        cmocka_unit_test(every_half),
        cmocka_unit_test(outputs),
        cmocka_unit_test(outputs_of_rows),
        cmocka_unit_test(stored_groups),
        cmocka_unit_test(added_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
