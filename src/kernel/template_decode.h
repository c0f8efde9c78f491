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

INLINE int64_t element_size(ra_dtype dtype)
{
    return dtype == RA_F32 ? 4 : 2;
}

INLINE vec load_wide(const void *from, int64_t at, ra_dtype dtype)
{
    if (dtype == RA_F32)
        return v_load((const float *)from + at);
    return dtype == RA_F16 ? v_load_f16((const uint16_t *)from + at) : v_load_bf16((const uint16_t *)from + at);
}

INLINE float load_wide_one(const void *from, int64_t at, ra_dtype dtype)
{
    if (dtype == RA_F32)
        return ((const float *)from)[at];
    return dtype == RA_F16 ? ra_f16_to_f32(((const uint16_t *)from)[at]) : ra_bf16_to_f32(((const uint16_t *)from)[at]);
}

/*
 * Rows that are read after those being worked, asked for line by line beside them: values while the keys of a block are
 * worked, the keys of the next block while its values are. A burst of lines would wait for itself. Rows need not exist.
 */
typedef struct row_fetch {
    const char *rows;     /* NULL: nothing is asked for */
    int64_t stride, size; /* of a row and of an element, in bytes */
} row_fetch;

INLINE row_fetch fetch_of(const void *rows, int64_t stride, int64_t head_at, int k, ra_dtype dtype)
{
    int64_t size = element_size(dtype);
    return (row_fetch){(const char *)rows + (head_at + k * stride) * size, stride * size, size};
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

/* Keys k .. k + DECODE_UNIT - 1 for `rows` rows from row i on, which see all of them. */
INLINE void score_unit(const ra_decode_call *c, int i, int rows, int k, int64_t head_at, ra_dtype dtype, bool ask)
{
    const int keys = WIDTH / rows;
    for (int first = k; first < k + DECODE_UNIT; first += keys) {
        float sums[WIDTH];
        int64_t at[WIDTH];
        for (int j = 0; j < keys; j++)
            at[j] = head_at + (first + j) * c->key_stride;
        row_fetch fetch = {NULL, 0, 0};
        if (ask)
            fetch = fetch_of(c->value, c->value_stride, i / c->rows * c->value_head_stride, first, c->value_dtype);
        dot_pairs(c, c->query + (ptrdiff_t)i * c->head_dim, at, rows, dtype, fetch, sums);
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < keys; j++)
                c->scores[(ptrdiff_t)(i + r) * RA_KEY_BLOCK + first + j] = sums[r * keys + j] * c->factor;
    }
}

/* The same for one row that sees some of the keys. Others are not touched: one that it sees stands in for them. */
INLINE void score_some(const ra_decode_call *c, int i, int k, int64_t head_at, ra_dtype dtype)
{
    int begin = c->begin[i % c->rows % c->queries], end = c->end[i % c->rows % c->queries];
    begin = begin > k ? begin : k;
    end = end < k + DECODE_UNIT ? end : k + DECODE_UNIT;
    for (int first = begin; first < end; first += WIDTH) {
        float sums[WIDTH];
        int64_t at[WIDTH];
        for (int j = 0; j < WIDTH; j++)
            at[j] = head_at + (first + j < end ? first + j : first) * c->key_stride;
        dot_pairs(c, c->query + (ptrdiff_t)i * c->head_dim, at, 1, dtype, (row_fetch){NULL, 0, 0}, sums);
        for (int j = 0; j < WIDTH && first + j < end; j++)
            c->scores[(ptrdiff_t)i * RA_KEY_BLOCK + first + j] = sums[j] * c->factor;
    }
}

/* 1. scores[head][row][k] for the keys of a unit that the row sees; `all`: every row sees every key. */
INLINE void decode_scores(const ra_decode_call *c, int k, bool all, ra_dtype dtype)
{
    for (int head = 0; head < c->heads; head++) {
        int64_t head_at = head * c->key_head_stride;
        int i = head * c->rows, end = i + c->rows;
        if (all && c->rows >= 4)
            score_unit(c, i, 4, k, head_at, dtype, true), i += 4;
        else if (all && c->rows == 1)
            score_unit(c, i, 1, k, head_at, dtype, true), i++;
        for (; all && i + 4 <= end; i += 4)
            score_unit(c, i, 4, k, head_at, dtype, false);
        for (; all && i + 2 <= end; i += 2)
            score_unit(c, i, 2, k, head_at, dtype, true);
        for (; all && i < end; i++)
            score_unit(c, i, 1, k, head_at, dtype, true);
        for (; i < end; i++)
            score_some(c, i, k, head_at, dtype);
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
 * sums[r][column] += weight[r][j] value[j][column], key after key, for `vectors` vectors of columns and `rows` rows
 * that lie RA_KEY_BLOCK weights and 1 + value_dim sums apart.
 */
INLINE void add_to_columns(const ra_decode_call *c, const float *weight, int64_t at, int keys, int rows, int vectors,
                           ra_dtype dtype, row_fetch fetch, float *sums)
{
    const ptrdiff_t row_sums = 1 + c->value_dim;
    vec a[DECODE_SUMS];
    for (int i = 0; i < rows * vectors; i++)
        a[i] = v_load(sums + i / vectors * row_sums + i % vectors * WIDTH);
    for (int j = 0; j < keys; j++) {
        vec value[DECODE_SUMS];
        for (int i = 0; i < vectors; i++) {
            value[i] = load_wide(c->value, at + j * c->value_stride + (ptrdiff_t)i * WIDTH, dtype);
            fetch_part(&fetch, j, (ptrdiff_t)i * WIDTH);
        }
        for (int r = 0; r < rows; r++) {
            vec w = v_set(weight[r * RA_KEY_BLOCK + j]);
            for (int i = 0; i < vectors; i++)
                a[r * vectors + i] = v_fma(w, value[i], a[r * vectors + i]);
        }
    }
    for (int i = 0; i < rows * vectors; i++)
        v_store(sums + i / vectors * row_sums + i % vectors * WIDTH, a[i]);
}

/* All columns of keys k .. k + keys - 1, for `rows` rows from row i on. */
INLINE void add_values(const ra_decode_call *c, int i, int rows, int k, int keys, int64_t head_at, ra_dtype dtype,
                       bool ask)
{
    row_fetch fetch = {NULL, 0, 0};
    if (ask)
        fetch = fetch_of(c->next_key, c->key_stride, i / c->rows * c->key_head_stride, k, c->key_dtype);
    const int vectors = rows > 1 ? DECODE_SUMS / rows : 8;
    const ptrdiff_t dim = c->value_dim;
    const float *weight = c->scores + (ptrdiff_t)i * RA_KEY_BLOCK + k;
    float *sums = c->sums + i * (1 + dim) + 1;
    int64_t at = head_at + k * c->value_stride;
    ptrdiff_t d = 0;
    for (; d + vectors * WIDTH <= dim; d += vectors * WIDTH, fetch.rows += vectors * WIDTH * fetch.size)
        add_to_columns(c, weight, at + d, keys, rows, vectors, dtype, fetch, sums + d);
    for (; d + WIDTH <= dim; d += WIDTH, fetch.rows += WIDTH * fetch.size)
        add_to_columns(c, weight, at + d, keys, rows, 1, dtype, fetch, sums + d);
    for (; d < dim; d++)
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < keys; j++)
                sums[r * (1 + dim) + d] +=
                    weight[r * RA_KEY_BLOCK + j] * load_wide_one(c->value, at + d + j * c->value_stride, dtype);
}

/* 3. sums[head][row] += the values of a unit's keys that the row sees. */
INLINE void decode_values(const ra_decode_call *c, int k, bool all, ra_dtype dtype)
{
    for (int head = 0; head < c->heads; head++) {
        int64_t head_at = head * c->value_head_stride;
        int i = head * c->rows, end = i + c->rows;
        if (all && c->rows >= 4)
            add_values(c, i, 4, k, DECODE_UNIT, head_at, dtype, true), i += 4;
        else if (all && c->rows == 1)
            add_values(c, i, 1, k, DECODE_UNIT, head_at, dtype, true), i++;
        for (; all && i + 4 <= end; i += 4)
            add_values(c, i, 4, k, DECODE_UNIT, head_at, dtype, false);
        for (; all && i + 2 <= end; i += 2)
            add_values(c, i, 2, k, DECODE_UNIT, head_at, dtype, true);
        for (; all && i < end; i++)
            add_values(c, i, 1, k, DECODE_UNIT, head_at, dtype, true);
        for (; i < end; i++) {
            int first = c->begin[i % c->rows % c->queries], last = c->end[i % c->rows % c->queries];
            first = first > k ? first : k;
            last = last < k + DECODE_UNIT ? last : k + DECODE_UNIT;
            if (first < last)
                add_values(c, i, 1, first, last - first, head_at, dtype, false);
        }
    }
}

/* ---- A block ----------------------------------------------------------------------------------------------------- */

/* A function of each dtype for each pass: compilers keep the sums of one inner loop in registers. */
#define DECODE_PASS(PASS, DTYPE)                                                                                       \
    static __attribute__((noinline)) void PASS##_##DTYPE(const ra_decode_call *c, int k, bool all)                     \
    {                                                                                                                  \
        PASS(c, k, all, RA_##DTYPE);                                                                                   \
    }
DECODE_PASS(decode_scores, F32)
DECODE_PASS(decode_scores, F16)
DECODE_PASS(decode_scores, BF16)
DECODE_PASS(decode_values, F32)
DECODE_PASS(decode_values, F16)
DECODE_PASS(decode_values, BF16)
#undef DECODE_PASS

INLINE void decode_scores_of(const ra_decode_call *c, int k, bool all)
{
    (c->key_dtype == RA_F32   ? decode_scores_F32
     : c->key_dtype == RA_F16 ? decode_scores_F16
                              : decode_scores_BF16)(c, k, all);
}

INLINE void decode_values_of(const ra_decode_call *c, int k, bool all)
{
    (c->value_dtype == RA_F32   ? decode_values_F32
     : c->value_dtype == RA_F16 ? decode_values_F16
                                : decode_values_BF16)(c, k, all);
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

/* What the queries see of a block: units from `begin` to `end`; from `all_begin` to `all_end` every query sees all. */
typedef struct decode_range {
    int begin, end, all_begin, all_end;
} decode_range;

INLINE decode_range range_of(const ra_decode_call *c)
{
    decode_range r = {RA_KEY_BLOCK, 0, 0, RA_KEY_BLOCK};
    for (int i = 0; i < c->queries; i++) {
        r.begin = c->begin[i] < r.begin ? c->begin[i] / DECODE_UNIT * DECODE_UNIT : r.begin;
        r.end = c->end[i] > r.end ? c->end[i] : r.end;
        r.all_begin = c->begin[i] > r.all_begin ? c->begin[i] : r.all_begin;
        r.all_end = c->end[i] < r.all_end ? c->end[i] : r.all_end;
    }
    return r;
}

INLINE bool all_see(const decode_range *r, int k)
{
    return k >= r->all_begin && k + DECODE_UNIT <= r->all_end;
}

INLINE void decode_rows(const ra_decode_call *c, bool scored)
{
    int all = c->heads * c->rows;
    decode_range r = range_of(c);
    for (ptrdiff_t i = 0; i < (ptrdiff_t)all * RA_KEY_BLOCK; i++)
        c->scores[i] = -INFINITY;
    for (int k = r.begin; k < r.end; k += DECODE_UNIT)
        decode_scores_of(c, k, all_see(&r, k));
    for (int i = 0; i < all; i++) {
        if (scored)
            decode_steps(c, i, c->begin[i % c->rows % c->queries], c->end[i % c->rows % c->queries]);
        decode_softmax(c, c->scores + (ptrdiff_t)i * RA_KEY_BLOCK, c->sums + (ptrdiff_t)i * (1 + c->value_dim),
                       c->state + (ptrdiff_t)i * (2 + c->value_dim));
        if (scored && c->stage->kept != 0.0f)
            decode_dropout(c, i);
    }
    for (int k = r.begin; k < r.end; k += DECODE_UNIT)
        decode_values_of(c, k, all_see(&r, k));
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
