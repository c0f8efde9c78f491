/* SPDX-License-Identifier: Apache-2.0 */
/* Part of template.h: one group of queries against one block of keys. */
#ifndef RA_KERNEL_TEMPLATE_TILE_H
#define RA_KERNEL_TEMPLATE_TILE_H

#include "kernel/template_exp2.h"
#include "kernel/template_packing.h"
#include "kernel/template_score.h"

/* Ask for the next few lines of rows that come later. */
INLINE void fetch_burst(ra_fetch *f)
{
    for (int i = 0; i < f->burst && f->rows > 0; i++) {
        __builtin_prefetch(f->row + f->at, 0, 2);
        f->at += LINE_FLOATS * (int)sizeof(float);
        if (f->at >= f->bytes) {
            f->at = 0;
            f->row += f->stride;
            f->rows--;
        }
    }
}

/*
 * In what follows `n` is how many vectors of a group are worked: all, or all but the last where that has no rows.
 *
 * block[j][lane] (+)= column[lane] * b[j * stride]: the whole arithmetic of both products. The first product of a sum
 * is a plain one: to clear the sums and then store them costs a cycle more for each.
 */
INLINE void add_product(const float *column, const float *b, ptrdiff_t stride, bool first, int n, vec block[4][VECTORS])
{
    const float *const at[4] = {b, b + stride, b + 2 * stride, b + 3 * stride};
    vec x[VECTORS];
    for (int i = 0; i < n; i++)
        x[i] = v_load(column + i * WIDTH);
    for (int j = 0; j < 4; j++) {
        vec broadcast = v_set(*at[j]);
        for (int i = 0; i < n; i++)
            if (first)
                v_begin(&block[j][i], broadcast, x[i]);
            else
                v_accumulate(&block[j][i], broadcast, x[i]);
    }
    /* Loads stay in their step: moved ahead, they need registers that the accumulators have. */
    __asm__ volatile("" ::: "memory");
}

/* block[j][lane] to and from memory, [4][LANES]. */
INLINE void store_block(float *to, int n, vec block[4][VECTORS])
{
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < n; i++)
            v_store(to + j * LANES + i * WIDTH, block[j][i]);
}

INLINE void add_block(const float *from, int n, vec block[4][VECTORS])
{
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < n; i++)
            block[j][i] = v_add(v_load(from + j * LANES + i * WIDTH), block[j][i]);
}

/* UNROLL steps of a dot product, the first of which may begin it. */
INLINE void score_steps(const float *column, const float *key, ptrdiff_t stride, bool first, ptrdiff_t width, int n,
                        vec block[4][VECTORS])
{
    WRITE_OUT
    for (int u = 0; u < UNROLL; u++)
        add_product(column + u * width, key + u, stride, first && u == 0, n, block);
}

/*
 * block[j][lane] = sum of key[j * stride + d] query[d][lane] over d < dim, where query[d] begins `width` floats after
 * query[d - 1]. One pointer and the stride lead to all four keys: with a pointer for each, compilers run out of
 * registers between the loops.
 */
INLINE void score_chunk(const float *column, const float *key, ptrdiff_t stride, ptrdiff_t dim, ptrdiff_t width, int n,
                        vec block[4][VECTORS])
{
    const float *end = key + dim;
    if (dim >= UNROLL) {
        score_steps(column, key, stride, true, width, n, block);
        key += UNROLL;
        column += UNROLL * width;
    } else {
        add_product(column, key, stride, true, n, block);
        key++;
        column += width;
    }
    for (; key + UNROLL <= end; key += UNROLL, column += UNROLL * width)
        score_steps(column, key, stride, false, width, n, block);
    for (; key < end; key++, column += width)
        add_product(column, key, stride, false, n, block);
}

/* How keys are hidden from lanes. */
typedef enum hidden { NOTHING, OUTSIDE_RANGE, BITS_NOT_SET } hidden;

/* The lanes of vector i that see key k. */
INLINE mask lanes_that_see(const ra_tile_call *c, hidden by, int k, int i)
{
    if (by == BITS_NOT_SET)
        return v_bits((uint32_t)(c->seen[k] >> (i * WIDTH)));
    return v_in_range(k, c->lo + i * WIDTH, c->hi + i * WIDTH);
}

/*
 * 1. scores[k][lane] = sum_d key[k][d] query[d][lane]. A head dimension of several chunks has a pass for each, so that
 * one chunk of the queries stays in the first-level cache for all keys: this is the pass of any but the last.
 */
INLINE void tile_chunk(const ra_tile_call *c, int d, int n)
{
    for (int k = c->begin; k < c->end; k += RA_KEY_UNIT) {
        float *scores = c->scores + (ptrdiff_t)k * LANES;
        vec s[RA_KEY_UNIT][VECTORS];
        score_chunk(c->query + (ptrdiff_t)d * LANES, c->key + k * c->key_stride + d, c->key_stride, DOT_CHUNK, LANES, n,
                    s);
        if (d > 0)
            add_block(scores, n, s);
        store_block(scores, n, s);
    }
}

/* Where the last chunk begins. */
INLINE int last_chunk(int head_dim)
{
    return head_dim <= DOT_WHOLE ? 0 : (head_dim - 1) / DOT_CHUNK * DOT_CHUNK;
}

/* One vector of scores for key k: masked with -inf; top = the maximum so far. */
INLINE vec hide_score(const ra_tile_call *c, hidden by, int k, int i, vec score, vec *top)
{
    if (by != NOTHING)
        score = v_select(lanes_that_see(c, by, k, i), score, v_set(-INFINITY));
    *top = v_max(score, *top); /* a NaN is left out here and comes back through exp2 */
    return score;
}

/*
 * The pass of the last chunk, or of the only one. Then scores are masked and top[] becomes the maximum over the keys,
 * unless something comes in between: `staged`.
 */
INLINE void tile_scores(const ra_tile_call *c, hidden by, bool staged, int n, vec top[VECTORS])
{
    const int d = last_chunk(c->head_dim);
    for (int i = 0; i < n; i++)
        top[i] = v_set(-INFINITY);
    for (int k = c->begin; k < c->end; k += RA_KEY_UNIT) {
        fetch_burst(c->fetch_key);
        if (staged)
            fetch_burst(c->stage->fetch);
        const float *key = c->key + k * c->key_stride + d;
        float *scores = c->scores + (ptrdiff_t)k * LANES;
        vec s[RA_KEY_UNIT][VECTORS];
        score_chunk(c->query + (ptrdiff_t)d * LANES, key, c->key_stride, c->head_dim - d, LANES, n, s);
        if (d > 0)
            add_block(scores, n, s);
        if (c->factor != 1.0f)
            for (int j = 0; j < RA_KEY_UNIT; j++)
                for (int i = 0; i < n; i++)
                    s[j][i] = v_mul(s[j][i], v_set(c->factor));
        for (int j = 0; j < RA_KEY_UNIT && !staged; j++)
            for (int i = 0; i < n; i++)
                s[j][i] = hide_score(c, by, k + j, i, s[j][i], &top[i]);
        store_block(scores, n, s);
    }
}

/* Masks scores that a stage has changed, and finds their maximum. */
INLINE void tile_hide(const ra_tile_call *c, hidden by, int n, vec top[VECTORS])
{
    for (int i = 0; i < n; i++) {
        vec most = v_set(-INFINITY);
        for (int k = c->begin; k < c->end; k++) {
            float *at = c->scores + (ptrdiff_t)k * LANES + i * WIDTH;
            vec score = hide_score(c, by, k, i, v_load(at), &most);
            if (by != NOTHING)
                v_store(at, score);
        }
        top[i] = most;
    }
}

/* 2. scores -> weights exp2(score - max) in place; max and sum of the state follow, alpha[] rescales what was there. */
INLINE void tile_softmax(const ra_tile_call *c, int n, const vec top[VECTORS], vec alpha[VECTORS])
{
    vec minus_reference[VECTORS], sum[VECTORS];
    for (int i = 0; i < n; i++) {
        vec old = v_load(c->state + i * WIDTH), max = v_max(top[i], old);
        vec reference = finite_or_zero(max);
        alpha[i] = v_sub(old, reference);
        minus_reference[i] = v_sub(v_set(0.0f), reference); /* to be added: a load folds into an addition */
        v_store(c->state + i * WIDTH, max);
        sum[i] = v_set(0.0f);
        exp2_nonpositive(&alpha[i], 1);
    }
    /* Vector after vector: there are registers for the constants and one maximum and sum, not for those of all. */
    for (int i = 0; i < n; i++) {
        float *at = c->scores + (ptrdiff_t)c->begin * LANES + i * WIDTH;
        const float *end = c->scores + (ptrdiff_t)c->end * LANES;
        for (; at < end; at += EXP2_KEYS * LANES) {
            vec p[EXP2_KEYS];
            for (int j = 0; j < EXP2_KEYS; j++)
                p[j] = v_add(minus_reference[i], v_load(at + j * LANES));
            exp2_nonpositive(p, EXP2_KEYS);
            for (int j = 0; j < EXP2_KEYS; j++) {
                v_store(at + j * LANES, p[j]);
                sum[i] = v_add(sum[i], p[j]);
            }
        }
    }
    for (int i = 0; i < n; i++) {
        float *at = c->state + LANES + i * WIDTH;
        v_store(at, v_fma(v_load(at), alpha[i], sum[i]));
    }
}

/* add_product for lanes that see key k alone: 0 * Inf would not be 0. */
INLINE void add_guarded(const ra_tile_call *c, int k, const float *weight, const float *b, bool first, int n,
                        vec block[4][VECTORS])
{
    for (int i = 0; i < n; i++) {
        mask seen = lanes_that_see(c, c->seen ? BITS_NOT_SET : OUTSIDE_RANGE, k, i);
        vec x = v_load(weight + i * WIDTH);
        for (int j = 0; j < 4; j++) {
            vec old = first ? v_set(0.0f) : block[j][i];
            block[j][i] = v_select(seen, v_fma(v_set(b[j]), x, old), old);
        }
    }
}

/* The keys of a unit from k on against four value columns; the first unit begins the sums. */
INLINE void value_steps(const ra_tile_call *c, bool guarded, int k, const float *panel, bool first, int n,
                        vec block[4][VECTORS])
{
    const float *weight = c->scores + (ptrdiff_t)k * LANES, *b = panel + (ptrdiff_t)k * RA_PANEL;
    WRITE_OUT
    for (int u = 0; u < RA_KEY_UNIT; u++) {
        if (guarded)
            add_guarded(c, k + u, weight + u * LANES, b + u * RA_PANEL, first && u == 0, n, block);
        else
            add_product(weight + u * LANES, b + u * RA_PANEL, 1, first && u == 0, n, block);
    }
}

/* 3. acc[column][lane] = alpha acc + sum_k value[k][column] weight[k][lane], four columns at a time. */
INLINE void tile_values(const ra_tile_call *c, bool guarded, int n, const vec alpha[VECTORS])
{
    float *acc = c->state + 2 * LANES;
    const float *panel = c->value;
    for (int column = 0; column < c->value_dim; column += RA_PANEL) {
        fetch_burst(c->fetch_value);
        vec a[RA_PANEL][VECTORS];
        value_steps(c, guarded, c->begin, panel, true, n, a);
        for (int k = c->begin + RA_KEY_UNIT; k < c->end; k += RA_KEY_UNIT)
            value_steps(c, guarded, k, panel, false, n, a);
        for (int j = 0; j < RA_PANEL; j++, acc += LANES)
            for (int i = 0; i < n; i++)
                v_store(acc + i * WIDTH, v_fma(v_load(acc + i * WIDTH), alpha[i], a[j][i]));
        panel += RA_KEY_BLOCK * RA_PANEL;
    }
}

/*
 * The passes as functions of their own: compilers give the accumulators registers in one inner loop, not in six at
 * once.
 */
#define PASS static __attribute__((noinline)) void

#define PASSES(name, n)                                                                                                \
    PASS chunk_##name(const ra_tile_call *c, int d)                                                                    \
    {                                                                                                                  \
        tile_chunk(c, d, n);                                                                                           \
    }                                                                                                                  \
    PASS scores_plain_##name(const ra_tile_call *c, vec top[VECTORS])                                                  \
    {                                                                                                                  \
        tile_scores(c, NOTHING, false, n, top);                                                                        \
    }                                                                                                                  \
    PASS scores_masked_##name(const ra_tile_call *c, vec top[VECTORS])                                                 \
    {                                                                                                                  \
        tile_scores(c, OUTSIDE_RANGE, false, n, top);                                                                  \
    }                                                                                                                  \
    PASS scores_sifted_##name(const ra_tile_call *c, vec top[VECTORS])                                                 \
    {                                                                                                                  \
        tile_scores(c, BITS_NOT_SET, false, n, top);                                                                   \
    }                                                                                                                  \
    PASS softmax_##name(const ra_tile_call *c, const vec top[VECTORS], vec alpha[VECTORS])                             \
    {                                                                                                                  \
        tile_softmax(c, n, top, alpha);                                                                                \
    }                                                                                                                  \
    PASS values_plain_##name(const ra_tile_call *c, const vec alpha[VECTORS])                                          \
    {                                                                                                                  \
        tile_values(c, false, n, alpha);                                                                               \
    }                                                                                                                  \
    PASS values_guarded_##name(const ra_tile_call *c, const vec alpha[VECTORS])                                        \
    {                                                                                                                  \
        tile_values(c, true, n, alpha);                                                                                \
    }                                                                                                                  \
    PASS scores_staged_##name(const ra_tile_call *c, vec top[VECTORS])                                                 \
    {                                                                                                                  \
        tile_scores(c, NOTHING, true, n, top);                                                                         \
    }                                                                                                                  \
    PASS hide_plain_##name(const ra_tile_call *c, vec top[VECTORS])                                                    \
    {                                                                                                                  \
        tile_hide(c, NOTHING, n, top);                                                                                 \
    }                                                                                                                  \
    PASS hide_masked_##name(const ra_tile_call *c, vec top[VECTORS])                                                   \
    {                                                                                                                  \
        tile_hide(c, OUTSIDE_RANGE, n, top);                                                                           \
    }                                                                                                                  \
    PASS hide_sifted_##name(const ra_tile_call *c, vec top[VECTORS])                                                   \
    {                                                                                                                  \
        tile_hide(c, BITS_NOT_SET, n, top);                                                                            \
    }                                                                                                                  \
    static void tile_##name(const ra_tile_call *c)                                                                     \
    {                                                                                                                  \
        vec top[VECTORS], alpha[VECTORS];                                                                              \
        for (int d = 0; d < last_chunk(c->head_dim); d += DOT_CHUNK)                                                   \
            chunk_##name(c, d);                                                                                        \
        (c->seen ? scores_sifted_##name : c->lo ? scores_masked_##name : scores_plain_##name)(c, top);                 \
        softmax_##name(c, top, alpha);                                                                                 \
        ((c->lo || c->seen) && c->guard ? values_guarded_##name : values_plain_##name)(c, alpha);                      \
    }                                                                                                                  \
    static void tile_scored_##name(const ra_tile_call *c)                                                              \
    {                                                                                                                  \
        vec top[VECTORS], alpha[VECTORS];                                                                              \
        for (int d = 0; d < last_chunk(c->head_dim); d += DOT_CHUNK)                                                   \
            chunk_##name(c, d);                                                                                        \
        scores_staged_##name(c, top);                                                                                  \
        apply_steps(c->stage, c->scores, NULL, c->begin, c->end, n);                                                   \
        (c->seen ? hide_sifted_##name : c->lo ? hide_masked_##name : hide_plain_##name)(c, top);                       \
        softmax_##name(c, top, alpha);                                                                                 \
        if (c->stage->kept != 0.0f)                                                                                    \
            drop_weights(c->stage, c->scores, c->begin, c->end, n);                                                    \
        ((c->lo || c->seen) && c->guard ? values_guarded_##name : values_plain_##name)(c, alpha);                      \
    }

PASSES(whole, VECTORS)
PASSES(narrow, VECTORS - 1)

static void tile(const ra_tile_call *c)
{
    if (c->narrow)
        tile_narrow(c);
    else
        tile_whole(c);
}

static void tile_scored(const ra_tile_call *c)
{
    if (c->narrow)
        tile_scored_narrow(c);
    else
        tile_scored_whole(c);
}

#endif
