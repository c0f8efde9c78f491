/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of template.h: few queries. Vectors along the head dimension; keys and values are read once, where they lie and
 * in the order of memory, and the rows that share a key/value head share what is read.
 */
#ifndef RA_KERNEL_TEMPLATE_DECODE_H
#define RA_KERNEL_TEMPLATE_DECODE_H

#include "kernel/template_exp2.h"
#include "kernel/template_packing.h"
#include "kernel/template_score.h"

INLINE float sum_lanes(vec v)
{
    float lane[WIDTH];
    v_store(lane, v);
    for (int half = WIDTH / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* Vectors of sums that stay in registers beside what is multiplied. */
#define DECODE_SUMS (VECTORS * RA_PANEL & ~7)

/* Keys whose scores, and later values, are worked for all rows before the next ones are. */
enum { DECODE_UNIT = 16 };

/* ---- Keys and values where they lie ------------------------------------------------------------------------------ */

INLINE vec load_wide(const void *from, int64_t at, ra_dtype dtype)
{
    if (dtype == RA_F32)
        return v_load((const float *)from + at);
    if (dtype == RA_I8)
        return v_load_i8((const int8_t *)from + at);
    return dtype == RA_F16 ? v_load_f16((const uint16_t *)from + at) : v_load_bf16((const uint16_t *)from + at);
}

INLINE float load_wide_one(const void *from, int64_t at, ra_dtype dtype)
{
    if (dtype == RA_F32)
        return ((const float *)from)[at];
    if (dtype == RA_I8)
        return ((const int8_t *)from)[at];
    return dtype == RA_F16 ? ra_f16_to_f32(((const uint16_t *)from)[at]) : ra_bf16_to_f32(((const uint16_t *)from)[at]);
}

/* Where row k of a head is: in the pages of a cache, or a stride behind the one before it. */
INLINE int64_t place_of(const int64_t *at, int64_t stride, int k)
{
    return at ? at[k] : k * stride;
}

/*
 * Rows that are read after those being worked, asked for line by line beside them: values while the keys of a block are
 * worked, the keys of the next block while its values are. A burst of lines would wait for itself. Rows need not exist.
 */
typedef struct row_fetch {
    const char *rows;     /* NULL: nothing is asked for */
    int64_t stride, size; /* of a row and of an element, in bytes */
} row_fetch;

INLINE row_fetch fetch_of(const void *rows, int64_t stride, int64_t at, ra_dtype dtype)
{
    int64_t size = element_size(dtype);
    return (row_fetch){(const char *)rows + at * size, stride * size, size};
}

INLINE void fetch_part(const row_fetch *f, int row, ptrdiff_t column)
{
    if (f->rows)
        __builtin_prefetch(f->rows + row * f->stride + column * f->size, 0, 2);
}

/* ---- Scores ------------------------------------------------------------------------------------------------------ */

/*
 * sums[r * keys + j] = query r . key at[j], for rows * keys = WIDTH pairs. A pair has a sum of its own, so that its
 * bits do not depend on the pairs beside it.
 */
INLINE void dot_pairs(const ra_decode_call *c, const float *query, const int64_t *at, int rows, ra_dtype dtype,
                      row_fetch fetch, float sums[WIDTH])
{
    const int keys = WIDTH / rows;
    const ptrdiff_t dim = c->head_dim;
    vec a[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        a[i] = v_set(0.0f);
    ptrdiff_t d = 0;
    for (; d + WIDTH <= dim; d += WIDTH)
        for (int j = 0; j < keys; j++) {
            vec key = load_wide(c->key, at[j] + d, dtype);
            fetch_part(&fetch, j, d);
            for (int r = 0; r < rows; r++)
                a[r * keys + j] = v_fma(v_load(query + r * dim + d), key, a[r * keys + j]);
        }
    v_store(sums, v_sums(a));
    for (int i = 0; i < WIDTH && d < dim; i++) {
        float tail = 0.0f;
        for (ptrdiff_t t = d; t < dim; t++)
            tail += query[i / keys * dim + t] * load_wide_one(c->key, at[i % keys] + t, dtype);
        sums[i] += tail;
    }
}

/* Keys first <= k < last. */
typedef struct key_range {
    int first, last;
} key_range;

/* What a range has of the unit from k on. */
INLINE key_range of_unit(key_range range, int k)
{
    return (key_range){range.first > k ? range.first : k, range.last < k + DECODE_UNIT ? range.last : k + DECODE_UNIT};
}

/* Keys of a range for `rows` rows from row i on. Others are not touched: the last one stands in for them. */
INLINE void score_keys(const ra_decode_call *c, int i, int rows, key_range of, ra_dtype dtype, bool ask)
{
    const int keys = WIDTH / rows, head = i / c->rows;
    const float *scale = dtype == RA_I8 ? c->key_scale + (ptrdiff_t)head * RA_KEY_BLOCK : NULL;
    for (int first = of.first; first < of.last; first += keys) {
        int here = of.last - first < keys ? of.last - first : keys;
        float sums[WIDTH];
        int64_t at[WIDTH];
        for (int j = 0; j < keys; j++)
            at[j] = head * c->key_head_stride + place_of(c->key_at, c->key_stride, first + (j < here ? j : here - 1));
        row_fetch fetch = {NULL, 0, 0};
        if (ask)
            fetch =
                fetch_of(c->value, c->value_stride,
                         head * c->value_head_stride + place_of(c->value_at, c->value_stride, first), c->value_dtype);
        dot_pairs(c, c->query + (ptrdiff_t)i * c->head_dim, at, rows, dtype, fetch, sums);
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < here; j++)
                c->scores[(ptrdiff_t)(i + r) * RA_KEY_BLOCK + first + j] =
                    sums[r * keys + j] * (dtype == RA_I8 ? c->factor * scale[first + j] : c->factor);
    }
}

/* The keys of the unit from k on that a row sees. */
INLINE key_range seen_of_unit(const ra_decode_call *c, int i, int k)
{
    int begin = c->begin[i % c->rows % c->queries], end = c->end[i % c->rows % c->queries];
    return of_unit((key_range){begin, end}, k);
}

/*
 * 1. scores[head][row][k] for the keys of a unit that the row sees. If all rows see the same, `common` says what, and
 * they are worked together; else it is empty.
 */
INLINE void decode_scores(const ra_decode_call *c, int k, key_range common, ra_dtype dtype)
{
    bool together = common.first < common.last;
    for (int head = 0; head < c->heads; head++) {
        int i = head * c->rows, end = i + c->rows;
        if (together && c->rows >= 4) {
            score_keys(c, i, 4, common, dtype, true);
            i += 4;
        }
        for (; together && i + 4 <= end; i += 4)
            score_keys(c, i, 4, common, dtype, false);
        for (; together && i + 2 <= end; i += 2)
            score_keys(c, i, 2, common, dtype, true);
        for (; i < end; i++)
            score_keys(c, i, 1, together ? common : seen_of_unit(c, i, k), dtype, true);
    }
}

/* ---- Weights ----------------------------------------------------------------------------------------------------- */

/* 2. scores -> weights of one row; max and sum of its state follow; sums[0] = what rescales the state. */
INLINE void decode_softmax(const ra_decode_call *c, float *scores, float *sums, float *state)
{
    float old = state[0], max = old, lane[WIDTH];
    vec most = v_set(old), sum = v_set(0.0f);
    for (int k = 0; k < RA_KEY_BLOCK; k += WIDTH)
        most = v_max(v_load(scores + k), most);
    v_store(lane, most);
    for (int i = 0; i < WIDTH; i++)
        max = lane[i] > max ? lane[i] : max;
    float reference = max > -INFINITY ? max : 0.0f;
    for (int k = 0; k < RA_KEY_BLOCK; k += EXP2_KEYS * WIDTH) {
        vec p[EXP2_KEYS];
        for (int i = 0; i < EXP2_KEYS; i++)
            p[i] = v_sub(v_load(scores + k + i * WIDTH), v_set(reference));
        exp2_nonpositive(p, EXP2_KEYS);
        for (int i = 0; i < EXP2_KEYS; i++) {
            v_store(scores + k + i * WIDTH, p[i]);
            sum = v_add(sum, p[i]);
        }
    }
    sums[0] = exp2_one(old - reference);
    for (int d = 0; d < c->value_dim; d++)
        sums[1 + d] = 0.0f;
    state[0] = max;
    state[1] = state[1] * sums[0] + sum_lanes(sum);
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/*
 * sums[r][column] += weight[r][j] value[j][column], key after key, for `vectors` vectors of columns from d on and
 * `rows` rows, which lie RA_KEY_BLOCK weights and 1 + value_dim sums apart.
 */
INLINE void add_to_columns(const ra_decode_call *c, const float *weight, int64_t at, ptrdiff_t d, int keys, int rows,
                           int vectors, ra_dtype dtype, const row_fetch *fetch, float *sums)
{
    const ptrdiff_t row_sums = 1 + c->value_dim;
    vec a[DECODE_SUMS];
    for (int i = 0; i < rows * vectors; i++)
        a[i] = v_load(sums + i / vectors * row_sums + d + i % vectors * WIDTH);
    for (int j = 0; j < keys; j++) {
        vec value[DECODE_SUMS];
        for (int i = 0; i < vectors; i++) {
            value[i] = load_wide(c->value, at + j * c->value_stride + d + (ptrdiff_t)i * WIDTH, dtype);
            fetch_part(fetch, j, d + (ptrdiff_t)i * WIDTH);
        }
        for (int r = 0; r < rows; r++) {
            vec w = v_set(weight[r * RA_KEY_BLOCK + j]);
            for (int i = 0; i < vectors; i++)
                a[r * vectors + i] = v_fma(w, value[i], a[r * vectors + i]);
        }
    }
    for (int i = 0; i < rows * vectors; i++)
        v_store(sums + i / vectors * row_sums + d + i % vectors * WIDTH, a[i]);
}

/* All columns of keys that lie one behind the other, for `rows` rows from row i on. */
INLINE void add_run(const ra_decode_call *c, int i, int rows, key_range of, ra_dtype dtype, bool ask)
{
    const int most = rows > 1 ? DECODE_SUMS / rows : 8, head = i / c->rows, keys = of.last - of.first;
    const ptrdiff_t dim = c->value_dim;
    const float *weight = c->scores + (ptrdiff_t)i * RA_KEY_BLOCK + of.first;
    float *sums = c->sums + i * (1 + dim) + 1;
    int64_t at = head * c->value_head_stride + place_of(c->value_at, c->value_stride, of.first);
    ptrdiff_t d = 0;
    row_fetch fetch = {NULL, 0, 0};
    if (ask)
        fetch = fetch_of(c->next_key, c->key_stride,
                         head * c->key_head_stride + place_of(c->next_at, c->key_stride, of.first), c->key_dtype);
    for (; d + most * WIDTH <= dim; d += most * WIDTH)
        add_to_columns(c, weight, at, d, keys, rows, most, dtype, &fetch, sums);
    for (; d + most / 2 * WIDTH <= dim; d += most / 2 * WIDTH)
        add_to_columns(c, weight, at, d, keys, rows, most / 2, dtype, &fetch, sums);
    for (; d + WIDTH <= dim; d += WIDTH)
        add_to_columns(c, weight, at, d, keys, rows, 1, dtype, &fetch, sums);
    for (; d < dim; d++)
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < keys; j++)
                sums[r * (1 + dim) + d] +=
                    weight[r * RA_KEY_BLOCK + j] * load_wide_one(c->value, at + d + j * c->value_stride, dtype);
}

/* The end of the values from `first` on, up to `last`, that lie one behind the other. */
INLINE int run_end(const ra_decode_call *c, int first, int last)
{
    if (!c->value_at)
        return last;
    int end = first + 1;
    while (end < last && c->value_at[end] - c->value_at[end - 1] == c->value_stride)
        end++;
    return end;
}

/* All columns of the keys of a range, for `rows` rows from row i on. */
INLINE void add_values(const ra_decode_call *c, int i, int rows, key_range of, ra_dtype dtype, bool ask)
{
    for (int k = of.first, end; k < of.last; k = end) {
        end = run_end(c, k, of.last);
        add_run(c, i, rows, (key_range){k, end}, dtype, ask);
    }
}

/* 3. sums[head][row] += the values of a unit's keys that the row sees; `common` as in decode_scores. */
INLINE void decode_values(const ra_decode_call *c, int k, key_range common, ra_dtype dtype)
{
    bool together = common.first < common.last;
    for (int head = 0; head < c->heads; head++) {
        int i = head * c->rows, end = i + c->rows;
        if (together && c->rows >= 4) {
            add_values(c, i, 4, common, dtype, true);
            i += 4;
        }
        for (; together && i + 4 <= end; i += 4)
            add_values(c, i, 4, common, dtype, false);
        for (; together && i + 2 <= end; i += 2)
            add_values(c, i, 2, common, dtype, true);
        for (; i < end; i++) {
            key_range seen = together ? common : seen_of_unit(c, i, k);
            if (seen.first < seen.last)
                add_values(c, i, 1, seen, dtype, true);
        }
    }
}

/* ---- A block ----------------------------------------------------------------------------------------------------- */

/* A function of each dtype for each pass: compilers keep the sums of one inner loop in registers. */
#define DECODE_PASS(PASS, DTYPE)                                                                                       \
    static __attribute__((noinline)) void PASS##_##DTYPE(const ra_decode_call *c, int k, key_range common)             \
    {                                                                                                                  \
        PASS(c, k, common, RA_##DTYPE);                                                                                \
    }
DECODE_PASS(decode_scores, F32)
DECODE_PASS(decode_scores, F16)
DECODE_PASS(decode_scores, BF16)
DECODE_PASS(decode_scores, I8)
DECODE_PASS(decode_values, F32)
DECODE_PASS(decode_values, F16)
DECODE_PASS(decode_values, BF16)
DECODE_PASS(decode_values, I8)
#undef DECODE_PASS

INLINE void decode_scores_of(const ra_decode_call *c, int k, key_range common)
{
    (c->key_dtype == RA_F32   ? decode_scores_F32
     : c->key_dtype == RA_F16 ? decode_scores_F16
     : c->key_dtype == RA_I8  ? decode_scores_I8
                              : decode_scores_BF16)(c, k, common);
}

INLINE void decode_values_of(const ra_decode_call *c, int k, key_range common)
{
    (c->value_dtype == RA_F32   ? decode_values_F32
     : c->value_dtype == RA_F16 ? decode_values_F16
     : c->value_dtype == RA_I8  ? decode_values_I8
                                : decode_values_BF16)(c, k, common);
}

/* The steps of a stage for row i, over all keys of the block; those that are not seen are hidden again. */
INLINE void decode_steps(const ra_decode_call *c, int i, int begin, int end)
{
    float *scores = c->scores + (ptrdiff_t)i * RA_KEY_BLOCK;
    for (int step = 0; step < c->stage->count; step++) {
        const ra_score_step *s = &c->stage->step[step];
        for (int k = 0; k < RA_KEY_BLOCK; k += WIDTH) {
            vec score = v_load(scores + k);
            if (s->op == RA_STEP_SOFTCAP)
                score = softcap(score, v_set(s->cap), v_set(1.0f / s->cap), NULL);
            else
                score = v_add(score, v_load(s->add + (ptrdiff_t)i * RA_KEY_BLOCK + k));
            v_store(scores + k, score);
        }
    }
    for (int k = 0; k < RA_KEY_BLOCK; k++)
        scores[k] = k >= begin && k < end ? scores[k] : -INFINITY;
}

INLINE void decode_dropout(const ra_decode_call *c, int i)
{
    const ra_score_stage *s = c->stage;
    float *weights = c->scores + (ptrdiff_t)i * RA_KEY_BLOCK;
    for (int k = 0; k < RA_KEY_BLOCK; k += WIDTH) {
        mask keeps = v_kept(s->key_a + k, s->key_b + k, s->row_a[i], s->row_b[i], s->threshold);
        v_store(weights + k, v_mul(v_load(weights + k), v_select(keeps, v_set(s->kept), v_set(0.0f))));
    }
}

/* Values of 8 bits are multiplied by their scales in the weights of row i. Those of keys that it does not see may be
 * anything. */
INLINE void decode_value_scales(const ra_decode_call *c, int i)
{
    const float *scale = c->value_scale + (ptrdiff_t)(i / c->rows) * RA_KEY_BLOCK;
    float *weights = c->scores + (ptrdiff_t)i * RA_KEY_BLOCK;
    for (int k = 0; k < RA_KEY_BLOCK; k += WIDTH)
        v_store(weights + k, v_mul(v_load(weights + k), v_load(scale + k)));
}

/* What some query sees of a block, and what all queries see. */
typedef struct decode_range {
    key_range some, all;
} decode_range;

INLINE decode_range range_of(const ra_decode_call *c)
{
    decode_range r = {{RA_KEY_BLOCK, 0}, {0, RA_KEY_BLOCK}};
    for (int i = 0; i < c->queries; i++) {
        r.some.first = c->begin[i] < r.some.first ? c->begin[i] : r.some.first;
        r.some.last = c->end[i] > r.some.last ? c->end[i] : r.some.last;
        r.all.first = c->begin[i] > r.all.first ? c->begin[i] : r.all.first;
        r.all.last = c->end[i] < r.all.last ? c->end[i] : r.all.last;
    }
    return r;
}

/* What every query sees of the unit from k on, if all see the same of it; else nothing. */
INLINE key_range common_of(const decode_range *r, int k)
{
    key_range some = of_unit(r->some, k), all = of_unit(r->all, k);
    return some.first == all.first && some.last == all.last ? all : (key_range){0, 0};
}

INLINE void decode_rows(const ra_decode_call *c, bool scored)
{
    int all = c->heads * c->rows;
    decode_range r = range_of(c);
    for (ptrdiff_t i = 0; i < (ptrdiff_t)all * RA_KEY_BLOCK; i++)
        c->scores[i] = -INFINITY;
    int first = r.some.first / DECODE_UNIT * DECODE_UNIT, last = r.some.last;
    for (int k = first; k < last; k += DECODE_UNIT)
        decode_scores_of(c, k, common_of(&r, k));
    for (int i = 0; i < all; i++) {
        if (scored)
            decode_steps(c, i, c->begin[i % c->rows % c->queries], c->end[i % c->rows % c->queries]);
        decode_softmax(c, c->scores + (ptrdiff_t)i * RA_KEY_BLOCK, c->sums + (ptrdiff_t)i * (1 + c->value_dim),
                       c->state + (ptrdiff_t)i * (2 + c->value_dim));
        if (scored && c->stage->kept != 0.0f)
            decode_dropout(c, i);
        if (c->value_scale)
            decode_value_scales(c, i);
    }
    for (int k = first; k < last; k += DECODE_UNIT)
        decode_values_of(c, k, common_of(&r, k));
    for (int i = 0; i < all; i++) {
        const float *sums = c->sums + (ptrdiff_t)i * (1 + c->value_dim);
        float *state = c->state + (ptrdiff_t)i * (2 + c->value_dim);
        for (int d = 0; d < c->value_dim; d++)
            state[2 + d] = state[2 + d] * sums[0] + sums[1 + d];
    }
}

static void decode(const ra_decode_call *c)
{
    decode_rows(c, false);
}

static void decode_scored(const ra_decode_call *c)
{
    decode_rows(c, true);
}

#endif
