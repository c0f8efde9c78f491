/* Part of template.h: vectors along the head dimension, keys and values read once, in the order of memory. */
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

/* scores[j] = query . row[j] for RA_KEY_UNIT rows, two accumulators each to cover the latency. */
INLINE void dot_rows(const float *query, const float *const row[RA_KEY_UNIT], int dim, float *scores)
{
    vec even[RA_KEY_UNIT], odd[RA_KEY_UNIT];
    for (int j = 0; j < RA_KEY_UNIT; j++)
        even[j] = odd[j] = v_set(0.0f);
    ptrdiff_t d = 0;
    for (; d + 2 * WIDTH <= dim; d += 2 * WIDTH) {
        vec q0 = v_load(query + d), q1 = v_load(query + d + WIDTH);
        for (int j = 0; j < RA_KEY_UNIT; j++) {
            even[j] = v_fma(q0, v_load(row[j] + d), even[j]);
            odd[j] = v_fma(q1, v_load(row[j] + d + WIDTH), odd[j]);
        }
    }
    for (int j = 0; j < RA_KEY_UNIT; j++) {
        float tail = 0.0f;
        for (ptrdiff_t t = d; t < dim; t++)
            tail += query[t] * row[j][t];
        scores[j] = sum_lanes(v_add(even[j], odd[j])) + tail;
    }
}

/* 1. scores[head][row][k] for the keys of a unit that the row sees. */
INLINE void decode_scores(const ra_decode_call *c, int k)
{
    for (int i = 0; i < c->heads * c->rows; i++) {
        int begin = c->begin[i % c->rows % c->queries], end = c->end[i % c->rows % c->queries];
        if (k + RA_KEY_UNIT <= begin || k >= end)
            continue;
        const float *key = c->key + i / c->rows * c->key_head_stride, *row[RA_KEY_UNIT];
        for (int j = 0; j < RA_KEY_UNIT; j++) /* keys that are not seen: any that is, and the score is not kept */
            row[j] = key + (k + j < begin ? begin : k + j < end ? k + j : end - 1) * c->key_stride;
        float s[RA_KEY_UNIT];
        dot_rows(c->query + (ptrdiff_t)i * c->head_dim, row, c->head_dim, s);
        for (int j = 0; j < RA_KEY_UNIT; j++)
            if (k + j >= begin && k + j < end)
                c->scores[(ptrdiff_t)i * RA_KEY_BLOCK + k + j] = s[j] * c->factor;
    }
}

/* 2. scores -> weights of one row; max and sum of its state follow; sums[0] = what rescales the state. */
INLINE void decode_softmax(const ra_decode_call *c, int begin, int end, float *scores, float *sums, float *state)
{
    float old = state[0], max = old;
    for (int k = begin; k < end; k++)
        max = scores[k] > max ? scores[k] : max;
    float reference = max > -INFINITY ? max : 0.0f;
    vec sum = v_set(0.0f);
    for (int k = 0; k < RA_KEY_BLOCK; k += WIDTH) {
        vec p = v_sub(v_load(scores + k), v_set(reference));
        exp2_nonpositive(&p, 1);
        v_store(scores + k, p);
        sum = v_add(sum, p);
    }
    sums[0] = exp2_one(old - reference);
    for (int d = 0; d < c->value_dim; d++)
        sums[1 + d] = 0.0f;
    state[0] = max;
    state[1] = state[1] * sums[0] + sum_lanes(sum);
}

/* sums[d] += weight[j] value[j][d], key after key, for the `keys` keys of a unit. */
INLINE void add_values(const float *weight, const float *value, int64_t stride, int keys, int dim, float *sums)
{
    ptrdiff_t d = 0;
    for (; d + WIDTH <= dim; d += WIDTH) {
        vec a = v_load(sums + d);
        for (int j = 0; j < keys; j++)
            a = v_fma(v_set(weight[j]), v_load(value + j * stride + d), a);
        v_store(sums + d, a);
    }
    for (; d < dim; d++)
        for (int j = 0; j < keys; j++)
            sums[d] += weight[j] * value[j * stride + d];
}

/* 3. sums[head][row] += the values of a unit's keys that the row sees. */
INLINE void decode_values(const ra_decode_call *c, int k)
{
    for (int i = 0; i < c->heads * c->rows; i++) {
        int begin = c->begin[i % c->rows % c->queries], end = c->end[i % c->rows % c->queries];
        int first = k < begin ? begin : k, last = k + RA_KEY_UNIT < end ? k + RA_KEY_UNIT : end;
        const float *weight = c->scores + (ptrdiff_t)i * RA_KEY_BLOCK + first;
        const float *value = c->value + i / c->rows * c->value_head_stride + first * c->value_stride;
        float *sums = c->sums + (ptrdiff_t)i * (1 + c->value_dim) + 1;
        if (last - first == RA_KEY_UNIT)
            add_values(weight, value, c->value_stride, RA_KEY_UNIT, c->value_dim, sums);
        else if (first < last)
            add_values(weight, value, c->value_stride, last - first, c->value_dim, sums);
    }
}

/*
 * Ask for the rows that are read after those being worked. One head alone is a short stretch of keys, then one of
 * values, which the hardware does not foresee; with several heads the stretches are long enough.
 */
INLINE void fetch_unit(const float *rows, int64_t stride, int k, int dim)
{
    for (int j = 0; j < RA_KEY_UNIT; j++)
        fetch_lines(rows + (k + j) * stride, dim);
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

INLINE void decode_rows(const ra_decode_call *c, bool scored)
{
    int all = c->heads * c->rows, begin = RA_KEY_BLOCK, end = 0;
    for (int i = 0; i < c->queries; i++) {
        begin = c->begin[i] < begin ? c->begin[i] / RA_KEY_UNIT * RA_KEY_UNIT : begin;
        end = c->end[i] > end ? c->end[i] : end;
    }
    for (ptrdiff_t i = 0; i < (ptrdiff_t)all * RA_KEY_BLOCK; i++)
        c->scores[i] = -INFINITY;
    for (int k = begin; k < end; k += RA_KEY_UNIT) {
        if (c->heads == 1)
            fetch_unit(c->value, c->value_stride, k, c->value_dim);
        decode_scores(c, k);
    }
    for (int i = 0; i < all; i++) {
        int first = c->begin[i % c->rows % c->queries], last = c->end[i % c->rows % c->queries];
        if (scored)
            decode_steps(c, i, first, last);
        decode_softmax(c, first, last, c->scores + (ptrdiff_t)i * RA_KEY_BLOCK,
                       c->sums + (ptrdiff_t)i * (1 + c->value_dim), c->state + (ptrdiff_t)i * (2 + c->value_dim));
        if (scored && c->stage->kept != 0.0f)
            decode_dropout(c, i);
    }
    for (int k = begin; k < end; k += RA_KEY_UNIT) {
        if (c->heads == 1)
            fetch_unit(c->next_key, c->key_stride, k, c->head_dim);
        decode_values(c, k);
    }
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
