/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding with every table: right, and the same bits for a row whatever else the call works. */
#include "model.h"
#include "support/sample.h"
#include "support/unit.h"
#include "tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_QUERIES = 8 };

typedef struct decode_case {
    int heads, groups, queries; /* rows of a head: groups x queries */
    int head_dim, value_dim, key_rows;
    ra_dtype key_dtype, value_dtype; /* how the kernel gets them; the floats here are such numbers */
    int64_t key_stride, key_head_stride, value_stride, value_head_stride;
    int begin[MOST_QUERIES], end[MOST_QUERIES];
    float *query, *key, *value, *state;
} decode_case;

static int all_rows(const decode_case *t)
{
    return t->heads * t->groups * t->queries;
}

static size_t state_bytes(const decode_case *t)
{
    return (size_t)all_rows(t) * (size_t)(2 + t->value_dim) * sizeof(float);
}

/* Heads inside positions, or each head's positions together; with gaps either way. */
static void choose_strides(choices *c, bool inside, int heads, int keys, int dim, int64_t *stride, int64_t *head_stride)
{
    int64_t row = dim + choose(c, 0, 3);
    *head_stride = inside ? row : row * keys + choose(c, 0, 3);
    *stride = inside ? row * heads + choose(c, 0, 3) : row;
}

static int64_t elements(const decode_case *t, int64_t stride, int64_t head_stride, int dim)
{
    return (t->heads - 1) * head_stride + (t->key_rows - 1) * stride + dim;
}

/* The same numbers as elements of a dtype; exact for those that choose_rows has made. */
static void *as_dtype(const float *rows, int64_t count, ra_dtype dtype)
{
    void *memory = take((size_t)count * sizeof *rows);
    ra_tensor t = ra_tensor_dense(memory, dtype, RA_BSHD, 1, 1, 1, count);
    for (int64_t i = 0; i < count; i++)
        ra_tensor_set(&t, 0, 0, 0, i, rows[i]);
    return memory;
}

static float *choose_rows(choices *c, const decode_case *t, int64_t stride, int64_t head_stride, int dim,
                          ra_dtype dtype)
{
    int64_t floats = elements(t, stride, head_stride, dim);
    float *rows = take((size_t)floats * sizeof *rows);
    fill_normal(c, rows, floats, 1);
    void *rounded = as_dtype(rows, floats, dtype);
    ra_tensor from = ra_tensor_dense(rounded, dtype, RA_BSHD, 1, 1, 1, floats);
    for (int64_t i = 0; i < floats; i++)
        rows[i] = (float)ra_tensor_get(&from, 0, 0, 0, i);
    free(rounded);
    return rows;
}

static void choose_decode(choices *c, decode_case *t)
{
    bool inside = chance(c, 2), all = chance(c, 3); /* every query sees every key */
    t->heads = (int)choose(c, 1, 5);
    t->groups = (int)choose(c, 1, 4);
    t->queries = (int)choose(c, 1, MOST_QUERIES);
    t->head_dim = (int)choose(c, 1, chance(c, 4) ? 300 : 70);
    t->value_dim = (int)choose(c, 1, chance(c, 4) ? 300 : 70);
    t->key_rows = (int)choose(c, 1, RA_KEY_BLOCK);
    choose_strides(c, inside, t->heads, t->key_rows, t->head_dim, &t->key_stride, &t->key_head_stride);
    choose_strides(c, inside, t->heads, t->key_rows, t->value_dim, &t->value_stride, &t->value_head_stride);
    t->key_dtype = (ra_dtype)choose(c, RA_F32, RA_BF16);
    t->value_dtype = (ra_dtype)choose(c, RA_F32, RA_BF16);
    t->key = choose_rows(c, t, t->key_stride, t->key_head_stride, t->head_dim, t->key_dtype);
    t->value = choose_rows(c, t, t->value_stride, t->value_head_stride, t->value_dim, t->value_dtype);
    t->query = take((size_t)(all_rows(t) * t->head_dim) * sizeof *t->query);
    t->state = take(state_bytes(t));
    fill_normal(c, t->query, (int64_t)all_rows(t) * t->head_dim, 1.5f / sqrtf((float)t->head_dim));
    for (int row = 0; row < all_rows(t); row++)
        choose_state(c, t->value_dim, t->state + (ptrdiff_t)row * (2 + t->value_dim));
    for (int q = 0; q < t->queries; q++) {
        t->begin[q] = t->end[q] = 0;
        if (!all && chance(c, 5))
            continue; /* sees nothing of the block */
        t->begin[q] = (int)choose(c, 0, t->key_rows - 1);
        t->end[q] = (int)choose(c, t->begin[q] + 1, t->key_rows);
        if (all) {
            t->begin[q] = 0;
            t->end[q] = t->key_rows;
        }
    }
}

static void decode_free(decode_case *t)
{
    free(t->query);
    free(t->key);
    free(t->value);
    free(t->state);
}

/* The states of `heads` heads from `first` on, worked in one call, to their places in `states`. */
static void run_heads(const ra_kernel *kernel, const decode_case *t, int first, int heads, float *states)
{
    int rows = t->groups * t->queries;
    size_t count = (size_t)heads * (size_t)rows;
    float *scores = take(count * RA_KEY_BLOCK * sizeof *scores);
    float *sums = take(count * (size_t)(1 + t->value_dim) * sizeof *sums);
    ptrdiff_t at = (ptrdiff_t)first * rows * (2 + t->value_dim);
    int64_t key_count = elements(t, t->key_stride, t->key_head_stride, t->head_dim);
    int64_t value_count = elements(t, t->value_stride, t->value_head_stride, t->value_dim);
    char *key = as_dtype(t->key, key_count, t->key_dtype), *value = as_dtype(t->value, value_count, t->value_dtype);
    int64_t key_first = first * t->key_head_stride * (int64_t)ra_dtype_size(t->key_dtype);
    int64_t value_first = first * t->value_head_stride * (int64_t)ra_dtype_size(t->value_dtype);
    ra_decode_call call = {.heads = heads,
                           .rows = rows,
                           .queries = t->queries,
                           .query = t->query + (ptrdiff_t)first * rows * t->head_dim,
                           .key = key + key_first,
                           .value = value + value_first,
                           .key_dtype = t->key_dtype,
                           .value_dtype = t->value_dtype,
                           .key_stride = t->key_stride,
                           .key_head_stride = t->key_head_stride,
                           .value_stride = t->value_stride,
                           .value_head_stride = t->value_head_stride,
                           .next_key = t->key,
                           .begin = t->begin,
                           .end = t->end,
                           .factor = 1,
                           .head_dim = t->head_dim,
                           .value_dim = t->value_dim,
                           .scores = scores,
                           .sums = sums,
                           .state = states + at};
    memcpy(states + at, t->state + at, count * (size_t)(2 + t->value_dim) * sizeof *states);
    kernel->decode(&call);
    free(key);
    free(value);
    free(scores);
    free(sums);
}

static void model_row(const decode_case *t, int row, double *state)
{
    int rows = t->groups * t->queries, head = row / rows, query = row % t->queries;
    widen_state(t->state + (ptrdiff_t)row * (2 + t->value_dim), t->value_dim, state);
    for (int k = t->begin[query]; k < t->end[query]; k++) {
        const float *key = t->key + head * t->key_head_stride + k * t->key_stride;
        double score = 0;
        for (int d = 0; d < t->head_dim; d++)
            score += (double)t->query[(ptrdiff_t)row * t->head_dim + d] * key[d];
        model_see(state, t->value_dim, score, t->value + head * t->value_head_stride + k * t->value_stride);
    }
}

/* Runs `test` with random calls and every table. */
static void for_each_call(int quick, void (*test)(const tested_table *table, decode_case *t, uint64_t seed))
{
    int count;
    const tested_table *tables = tested_tables(&count);
    seed_range range = seeds(quick);
    for (uint64_t seed = range.first; seed < range.end; seed++)
        for (int i = 0; i < count; i++) {
            choices c = {seed};
            decode_case t;
            choose_decode(&c, &t);
            test(&tables[i], &t, seed);
            decode_free(&t);
        }
}

static void check_against_model(const tested_table *table, decode_case *t, uint64_t seed)
{
    size_t bytes = (2 + (size_t)t->value_dim) * sizeof(double);
    double *expected = take(bytes), *got = take(bytes), *generic = take(bytes);
    float *states = take(state_bytes(t)), *generic_states = take(state_bytes(t));
    run_heads(table->kernel, t, 0, t->heads, states);
    run_heads(&ra_kernel_generic, t, 0, t->heads, generic_states);
    for (int row = 0; row < all_rows(t); row++) {
        ptrdiff_t at = (ptrdiff_t)row * (2 + t->value_dim);
        model_row(t, row, expected);
        widen_state(states + at, t->value_dim, got);
        widen_state(generic_states + at, t->value_dim, generic);
        double from_model = state_distance(got, expected, t->value_dim);
        double from_generic = state_distance(got, generic, t->value_dim);
        REQUIRE(from_model <= STATE_TOLERANCE && from_generic <= STATE_TOLERANCE,
                "seed %llu, %s, heads %d, dim %d:%d, row %d: %.2e from the model, %.2e from generic",
                (unsigned long long)seed, table->name, t->heads, t->head_dim, t->value_dim, row, from_model,
                from_generic);
    }
    free(expected);
    free(got);
    free(generic);
    free(states);
    free(generic_states);
}

static void random_calls(void **state)
{
    (void)state;
    for_each_call(200, check_against_model);
}

/* All heads in one call, or each in its own. */
static void check_one_by_one(const tested_table *table, decode_case *t, uint64_t seed)
{
    float *together = take(state_bytes(t)), *alone = take(state_bytes(t));
    run_heads(table->kernel, t, 0, t->heads, together);
    for (int head = 0; head < t->heads; head++)
        run_heads(table->kernel, t, head, 1, alone);
    REQUIRE(same_bits(together, alone, (int64_t)all_rows(t) * (2 + t->value_dim)), "seed %llu, %s",
            (unsigned long long)seed, table->name);
    free(together);
    free(alone);
}

static void heads_together_or_one_by_one(void **state)
{
    (void)state;
    for_each_call(100, check_one_by_one);
}

/* Keys and values of 16 bits have the bits of the same numbers as floats. */
static void check_widened(const tested_table *table, decode_case *t, uint64_t seed)
{
    float *narrow = take(state_bytes(t)), *wide = take(state_bytes(t));
    run_heads(table->kernel, t, 0, t->heads, narrow);
    t->key_dtype = t->value_dtype = RA_F32;
    run_heads(table->kernel, t, 0, t->heads, wide);
    REQUIRE(same_bits(narrow, wide, (int64_t)all_rows(t) * (2 + t->value_dim)), "seed %llu, %s",
            (unsigned long long)seed, table->name);
    free(narrow);
    free(wide);
}

static void halves_are_widened(void **state)
{
    (void)state;
    for_each_call(100, check_widened);
}

/* ---- Caches ------------------------------------------------------------------------------------------------------ */

/* Rows of one side of a call as a cache has them: of 8 bits with scales, and anywhere. */
typedef struct scattered {
    int8_t *data;
    int64_t at[RA_KEY_BLOCK];
    float scale[5][RA_KEY_BLOCK];
} scattered;

/* Integers times powers of two in `rows`, so that every order of multiplying has the same bits; data has the integers.
 */
static void scatter(choices *c, const decode_case *t, float *rows, int64_t stride, int64_t head_stride, int dim,
                    scattered *s)
{
    int run = (int)choose(c, 1, 20); /* rows that stay one behind the other, but for a gap after each of these runs */
    int64_t room = elements(t, stride, head_stride, dim) + 2 * RA_KEY_BLOCK * stride;
    s->data = take((size_t)room);
    for (int k = 0; k < t->key_rows; k++)
        s->at[k] = (k + (run < 20 ? k / run : 0)) * stride;
    for (int i = 0; i < t->heads * t->key_rows; i++) {
        int head = i / t->key_rows, k = i % t->key_rows;
        float *row = rows + head * head_stride + k * stride;
        int8_t *to = s->data + head * head_stride + s->at[k];
        s->scale[head][k] = ldexpf(1, (int)choose(c, -6, -4));
        for (int d = 0; d < dim; d++) {
            to[d] = (int8_t)choose(c, -127, 127);
            row[d] = (float)to[d] * s->scale[head][k];
        }
    }
}

/*
 * Heads beside each other leave no gaps for rows that move, unless a stride has all heads: only then the rows of one do
 * not run into those of the next.
 */
static bool heads_inside(const decode_case *t)
{
    return t->key_stride >= t->heads * t->key_head_stride && t->value_stride >= t->heads * t->value_head_stride;
}

static void check_cached(const tested_table *table, decode_case *t, uint64_t seed)
{
    choices c = {seed + 3000};
    scattered key, value;
    if (!heads_inside(t))
        return;
    t->key_dtype = t->value_dtype = RA_F32;
    scatter(&c, t, t->key, t->key_stride, t->key_head_stride, t->head_dim, &key);
    scatter(&c, t, t->value, t->value_stride, t->value_head_stride, t->value_dim, &value);
    float *wide = take(state_bytes(t)), *narrow = take(state_bytes(t));
    run_heads(table->kernel, t, 0, t->heads, wide);
    memcpy(narrow, t->state, state_bytes(t));
    float *scores = take((size_t)all_rows(t) * RA_KEY_BLOCK * sizeof *scores);
    float *sums = take((size_t)(all_rows(t) * (1 + t->value_dim)) * sizeof *sums);
    const ra_decode_call call = {.heads = t->heads,
                                 .rows = t->groups * t->queries,
                                 .queries = t->queries,
                                 .query = t->query,
                                 .key = key.data,
                                 .value = value.data,
                                 .key_dtype = RA_I8,
                                 .value_dtype = RA_I8,
                                 .key_stride = t->key_stride,
                                 .key_head_stride = t->key_head_stride,
                                 .value_stride = t->value_stride,
                                 .value_head_stride = t->value_head_stride,
                                 .key_at = key.at,
                                 .value_at = value.at,
                                 .key_scale = key.scale[0],
                                 .value_scale = value.scale[0],
                                 .next_key = key.data,
                                 .next_at = key.at,
                                 .begin = t->begin,
                                 .end = t->end,
                                 .factor = 1,
                                 .head_dim = t->head_dim,
                                 .value_dim = t->value_dim,
                                 .scores = scores,
                                 .sums = sums,
                                 .state = narrow};
    table->kernel->decode(&call);
    REQUIRE(same_bits(narrow, wide, (int64_t)all_rows(t) * (2 + t->value_dim)), "seed %llu, %s",
            (unsigned long long)seed, table->name);
    free(wide);
    free(narrow);
    free(scores);
    free(sums);
    free(key.data);
    free(value.data);
}

static void rows_of_8_bits_anywhere(void **state)
{
    (void)state;
    for_each_call(200, check_cached);
}

/* A row has the same bits whether the rows beside it see the same keys, and are worked with it, or not. */
static void check_alone(const tested_table *table, decode_case *t, uint64_t seed)
{
    choices c = {seed + 2000};
    float *before = take(state_bytes(t)), *after = take(state_bytes(t));
    int kept = (int)choose(&c, 0, t->queries - 1);
    run_heads(table->kernel, t, 0, t->heads, before);
    for (int q = 0; q < t->queries; q++)
        if (q != kept)
            t->begin[q] = t->end[q] = 0;
    run_heads(table->kernel, t, 0, t->heads, after);
    for (int row = kept; row < all_rows(t); row += t->queries) {
        ptrdiff_t at = (ptrdiff_t)row * (2 + t->value_dim);
        REQUIRE(same_bits(before + at, after + at, 2 + t->value_dim), "seed %llu, %s: row %d", (unsigned long long)seed,
                table->name, row);
    }
    free(before);
    free(after);
}

static void rows_together_or_alone(void **state)
{
    (void)state;
    for_each_call(100, check_alone);
}

/* Whatever one query sees and holds, the others keep their bits; keys that a query does not see may be NaN. */
static void check_neighbours(const tested_table *table, decode_case *t, uint64_t seed)
{
    choices c = {seed + 1000};
    float *before = take(state_bytes(t)), *after = take(state_bytes(t));
    int key = (int)choose(&c, 0, t->key_rows - 1);
    run_heads(table->kernel, t, 0, t->heads, before);
    for (int head = 0; head < t->heads; head++) {
        t->key[head * t->key_head_stride + key * t->key_stride] = NAN;
        t->value[head * t->value_head_stride + key * t->value_stride + t->value_dim - 1] = INFINITY;
    }
    bool seen[MOST_QUERIES] = {false};
    for (int q = 0; q < t->queries; q++) {
        seen[q] = key >= t->begin[q] && key < t->end[q];
        if (seen[q] && chance(&c, 2)) { /* see something else instead */
            t->begin[q] = 0;
            t->end[q] = t->key_rows;
        }
    }
    run_heads(table->kernel, t, 0, t->heads, after);
    for (int row = 0; row < all_rows(t); row++) {
        ptrdiff_t at = (ptrdiff_t)row * (2 + t->value_dim);
        bool same = same_bits(before + at, after + at, 2 + t->value_dim);
        REQUIRE(seen[row % t->queries] ? isnan(after[at + 1]) : same, "seed %llu, %s: NaN in key %d, row %d",
                (unsigned long long)seed, table->name, key, row);
    }
    free(before);
    free(after);
}

static void unseen_keys_are_no_ops(void **state)
{
    (void)state;
    for_each_call(100, check_neighbours);
}

/* A block is summed by itself first: 64 ones added one by one to 2^24 would be lost. */
static void sums_do_not_stagnate(void **state)
{
    (void)state;
    int count;
    const tested_table *tables = tested_tables(&count);
    float ones[RA_KEY_BLOCK], zero = 0;
    for (int k = 0; k < RA_KEY_BLOCK; k++)
        ones[k] = 1;
    for (int i = 0; i < count; i++) {
        float begun[3] = {0, 0x1p24f, 0x1p24f}, states[3];
        decode_case t = {.heads = 1,
                         .groups = 1,
                         .queries = 1,
                         .head_dim = 1,
                         .value_dim = 1,
                         .key_rows = RA_KEY_BLOCK,
                         .key_stride = 1,
                         .value_stride = 1,
                         .end = {RA_KEY_BLOCK},
                         .query = &zero,
                         .key = ones,
                         .value = ones,
                         .state = begun};
        run_heads(tables[i].kernel, &t, 0, 1, states);
        assert_true(states[1] == 0x1p24f + 64 && states[2] == 0x1p24f + 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls),           cmocka_unit_test(heads_together_or_one_by_one),
        cmocka_unit_test(halves_are_widened),     cmocka_unit_test(rows_of_8_bits_anywhere),
        cmocka_unit_test(rows_together_or_alone), cmocka_unit_test(unseen_keys_are_no_ops),
        cmocka_unit_test(sums_do_not_stagnate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
