/* SPDX-License-Identifier: Apache-2.0 */
/* Part of template.h: one group of queries against one block of keys. */
#ifndef RA_KERNEL_TEMPLATE_TILE_H
#define RA_KERNEL_TEMPLATE_TILE_H

#include "kernel/template_exp2.h"
#include "kernel/template_packing.h"
#include "kernel/template_pairs.h"
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

/* What the sums over values are multiplied by: those that were there, and with PAIR 2 those of this block. */
enum { FACTORS = PAIR };

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
INLINE int last_chunk(int words)
{
    return words <= DOT_WHOLE ? 0 : (words - 1) / DOT_CHUNK * DOT_CHUNK;
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
    const int words = WORDS(c->head_dim), d = last_chunk(words);
    for (int i = 0; i < n; i++)
        top[i] = v_set(-INFINITY);
    for (int k = c->begin; k < c->end; k += RA_KEY_UNIT) {
        fetch_burst(c->fetch_key);
        if (staged)
            fetch_burst(c->stage->fetch);
        const float *key = c->key + k * c->key_stride + d;
        float *scores = c->scores + (ptrdiff_t)k * LANES;
        vec s[RA_KEY_UNIT][VECTORS];
        score_chunk(c->query + (ptrdiff_t)d * LANES, key, c->key_stride, words - d, LANES, n, s);
        if (d > 0)
            add_block(scores, n, s);
        if (PAIR > 1)
            for (int j = 0; j < RA_KEY_UNIT; j++)
                for (int i = 0; i < n; i++)
                    s[j][i] = v_mul(s[j][i], v_set(c->query_factor));
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

/*
 * How weights are stored for the second product: as they are, or with pairs
 *
 *     ROUNDED   [pair of keys][lane]
 *     SPLIT     [pair of keys][rounded, what rounding has left over][lane]
 */
typedef enum weights { AS_THEY_ARE, ROUNDED, SPLIT } weights;

/* Where the weights of key k and vector i are. */
INLINE float *weights_at(const ra_tile_call *c, weights how, int k, int i)
{
    return c->scores + (ptrdiff_t)(how == ROUNDED ? k / PAIR : k) * LANES + i * WIDTH;
}

/* Weights of EXP2_KEYS keys; `rounded` sums what is stored. Returns where the next ones go. */
INLINE float *store_weights(float *to, const vec p[EXP2_KEYS], weights how, vec *rounded)
{
#if PAIR > 1
    for (int j = 0; how != AS_THEY_ARE && j < EXP2_KEYS; j += PAIR, to += LANES) {
        vec pair = v_pairs(p[j], p[j + 1]);
        v_store(to, pair);
        v_accumulate(rounded, pair, ones());
        if (how == SPLIT) {
            vec rest = v_pairs(v_sub(p[j], v_even(pair)), v_sub(p[j + 1], v_odd(pair)));
            to += LANES;
            v_store(to, rest);
            v_accumulate(rounded, rest, ones());
        }
    }
    if (how != AS_THEY_ARE)
        return to;
#endif
    (void)how;
    (void)rounded;
    for (int j = 0; j < EXP2_KEYS; j++)
        v_store(to + j * LANES, p[j]);
    return to + (ptrdiff_t)EXP2_KEYS * LANES;
}

/*
 * 2. scores -> weights exp2(score - max) in place; max and sum of the state follow, factors[0] rescales what was there.
 * Weights that are rounded for the second product have another sum: factors[1] makes up for that.
 */
INLINE void tile_softmax(const ra_tile_call *c, int n, weights how, const vec top[VECTORS],
                         vec factors[FACTORS][VECTORS])
{
    vec minus_reference[VECTORS], sum[VECTORS];
    for (int i = 0; i < n; i++) {
        vec old = v_load(c->state + i * WIDTH), max = v_max(top[i], old);
        vec reference = finite_or_zero(max);
        factors[0][i] = v_sub(old, reference);
        minus_reference[i] = v_sub(v_set(0.0f), reference); /* to be added: a load folds into an addition */
        v_store(c->state + i * WIDTH, max);
        sum[i] = v_set(0.0f);
        exp2_nonpositive(&factors[0][i], 1);
    }
    /* Vector after vector: there are registers for the constants and one maximum and sum, not for those of all. */
    for (int i = 0; i < n; i++) {
        const float *at = c->scores + (ptrdiff_t)c->begin * LANES + i * WIDTH;
        const float *end = c->scores + (ptrdiff_t)c->end * LANES;
        float *to = weights_at(c, how, c->begin, i);
        vec rounded = v_set(0.0f);
        for (; at < end; at += EXP2_KEYS * LANES) {
            vec p[EXP2_KEYS];
            for (int j = 0; j < EXP2_KEYS; j++)
                p[j] = v_add(minus_reference[i], v_load(at + j * LANES));
            exp2_nonpositive(p, EXP2_KEYS);
            to = store_weights(to, p, how, &rounded);
            for (int j = 0; j < EXP2_KEYS; j++)
                sum[i] = v_add(sum[i], p[j]);
        }
#if PAIR > 1
        factors[1][i] = made_up_for(sum[i], rounded);
#endif
    }
    for (int i = 0; i < n; i++) {
        float *at = c->state + LANES + i * WIDTH;
        v_store(at, v_fma(v_load(at), factors[0][i], sum[i]));
    }
}

#if PAIR > 1
/* Weights that dropout has changed, rounded in place. */
INLINE void tile_round(const ra_tile_call *c, int n, weights how, vec factors[FACTORS][VECTORS])
{
    for (int i = 0; i < n; i++) {
        vec sum = v_set(0.0f), rounded = v_set(0.0f);
        float *to = weights_at(c, how, c->begin, i);
        for (int k = c->begin; k < c->end; k += EXP2_KEYS) {
            vec p[EXP2_KEYS];
            for (int j = 0; j < EXP2_KEYS; j++) {
                p[j] = v_load(weights_at(c, AS_THEY_ARE, k + j, i));
                sum = v_add(sum, p[j]);
            }
            to = store_weights(to, p, how, &rounded);
        }
        factors[1][i] = made_up_for(sum, rounded);
    }
}
#endif

/* The lanes that see key k. */
INLINE mask lanes_unhidden(const ra_tile_call *c, int k, int i)
{
    if (PAIR > 1 && !c->seen && !c->lo)
        return v_bits(0xffff);
    return lanes_that_see(c, c->seen ? BITS_NOT_SET : OUTSIDE_RANGE, k, i);
}

/* add_product for lanes that see key k alone, or of a pair each for itself: 0 * Inf would not be 0. */
INLINE void add_guarded(const ra_tile_call *c, int k, const float *weight, const float *b, bool first, int n,
                        vec block[4][VECTORS])
{
    for (int i = 0; i < n; i++) {
        mask seen = lanes_unhidden(c, k, i);
        vec x = v_load(weight + i * WIDTH);
        for (int j = 0; j < 4; j++) {
            vec old = first ? v_set(0.0f) : block[j][i];
#if PAIR > 1
            v_accumulate(&old, v_keep(v_set(b[j]), seen, lanes_unhidden(c, k + 1, i)), x);
            block[j][i] = old;
#else
            block[j][i] = v_select(seen, v_fma(v_set(b[j]), x, old), old);
#endif
        }
    }
}

/* Zeros in place of values that are not finite: those have met the rounded weights already, and 0 * Inf is not 0. */
INLINE const float *finite_values(const float *values, float finite[RA_PANEL])
{
#if PAIR > 1
    for (int i = 0; i < RA_PANEL; i++) {
        uint32_t pair, lower = 0x7f80U, upper = 0x7f800000U;
        memcpy(&pair, values + i, sizeof pair);
        pair &= ((pair & lower) == lower ? 0 : 0xffffU) | ((pair & upper) == upper ? 0 : 0xffff0000U);
        memcpy(finite + i, &pair, sizeof pair);
    }
    return finite;
#else
    (void)finite;
    return values;
#endif
}

/*
 * The keys of a unit from k on against four value columns; the first unit begins the sums. What rounding has left over
 * of a weight meets the same values.
 */
INLINE void value_steps(const ra_tile_call *c, bool guarded, weights how, int k, const float *panel, bool first, int n,
                        vec block[4][VECTORS])
{
    enum { ROWS = RA_KEY_UNIT / PAIR };
    const int parts = how == SPLIT ? 2 : 1;
    const float *weight = c->scores + (ptrdiff_t)(k / PAIR * parts) * LANES,
                *b = panel + (ptrdiff_t)(k / PAIR) * RA_PANEL;
    WRITE_OUT
    for (int u = 0; u < ROWS * parts; u++) {
        const float *values = b + u / parts * RA_PANEL;
        float finite[RA_PANEL];
        if (guarded && u % parts)
            values = finite_values(values, finite);
        if (guarded)
            add_guarded(c, k + u / parts * PAIR, weight + u * LANES, values, first && u == 0, n, block);
        else
            add_product(weight + u * LANES, values, 1, first && u == 0, n, block);
    }
}

/*
 * 3. acc[column][lane] = factors[0] acc + sum_k value[k][column] weight[k][lane], four columns at a time; with pairs
 * the sum times factors[1].
 */
INLINE void tile_values(const ra_tile_call *c, bool guarded, weights how, int n, vec factors[FACTORS][VECTORS])
{
    float *acc = c->state + 2 * LANES;
    const float *panel = c->value;
    for (int column = 0; column < c->value_dim; column += RA_PANEL) {
        fetch_burst(c->fetch_value);
        vec a[RA_PANEL][VECTORS];
        value_steps(c, guarded, how, c->begin, panel, true, n, a);
        for (int k = c->begin + RA_KEY_UNIT; k < c->end; k += RA_KEY_UNIT)
            value_steps(c, guarded, how, k, panel, false, n, a);
        for (int j = 0; j < RA_PANEL; j++, acc += LANES)
            for (int i = 0; i < n; i++) {
                vec added = PAIR > 1 ? v_mul(a[j][i], factors[FACTORS - 1][i]) : a[j][i];
                v_store(acc + i * WIDTH, v_fma(v_load(acc + i * WIDTH), factors[0][i], added));
            }
        panel += RA_KEY_BLOCK / PAIR * RA_PANEL;
    }
}

/* With dropout weights are rounded after it. Where they are split, passes are others. */
#if PAIR > 1
#define USUAL_WEIGHTS ROUNDED
#define ROUNDING_PASSES(name, n)                                                                                       \
    PASS softmax_whole_##name(const ra_tile_call *c, const vec top[VECTORS], vec factors[FACTORS][VECTORS])            \
    {                                                                                                                  \
        tile_softmax(c, n, AS_THEY_ARE, top, factors);                                                                 \
    }                                                                                                                  \
    PASS softmax_split_##name(const ra_tile_call *c, const vec top[VECTORS], vec factors[FACTORS][VECTORS])            \
    {                                                                                                                  \
        tile_softmax(c, n, SPLIT, top, factors);                                                                       \
    }                                                                                                                  \
    PASS round_##name(const ra_tile_call *c, vec factors[FACTORS][VECTORS])                                            \
    {                                                                                                                  \
        tile_round(c, n, ROUNDED, factors);                                                                            \
    }                                                                                                                  \
    PASS split_##name(const ra_tile_call *c, vec factors[FACTORS][VECTORS])                                            \
    {                                                                                                                  \
        tile_round(c, n, SPLIT, factors);                                                                              \
    }                                                                                                                  \
    PASS values_split_##name(const ra_tile_call *c, vec factors[FACTORS][VECTORS])                                     \
    {                                                                                                                  \
        tile_values(c, false, SPLIT, n, factors);                                                                      \
    }                                                                                                                  \
    PASS values_split_guarded_##name(const ra_tile_call *c, vec factors[FACTORS][VECTORS])                             \
    {                                                                                                                  \
        tile_values(c, true, SPLIT, n, factors);                                                                       \
    }
#define SOFTMAX(name) (c->split ? softmax_split_##name : softmax_##name)(c, top, factors)
#define SOFTMAX_AND_DROP(name, n)                                                                                      \
    softmax_whole_##name(c, top, factors);                                                                             \
    drop_weights(c->stage, c->scores, c->begin, c->end, n);                                                            \
    (c->split ? split_##name : round_##name)(c, factors)
#define VALUES(name, guarded)                                                                                          \
    (c->split    ? c->guard ? values_split_guarded_##name : values_split_##name                                        \
     : (guarded) ? values_guarded_##name                                                                               \
                 : values_plain_##name)(c, factors)
#else
#define USUAL_WEIGHTS AS_THEY_ARE
#define ROUNDING_PASSES(name, n)
#define SOFTMAX(name) softmax_##name(c, top, factors)
#define SOFTMAX_AND_DROP(name, n)                                                                                      \
    softmax_##name(c, top, factors);                                                                                   \
    drop_weights(c->stage, c->scores, c->begin, c->end, n)
#define VALUES(name, guarded) ((guarded) ? values_guarded_##name : values_plain_##name)(c, factors)
#endif

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
    PASS softmax_##name(const ra_tile_call *c, const vec top[VECTORS], vec factors[FACTORS][VECTORS])                  \
    {                                                                                                                  \
        tile_softmax(c, n, USUAL_WEIGHTS, top, factors);                                                               \
    }                                                                                                                  \
    PASS values_plain_##name(const ra_tile_call *c, vec factors[FACTORS][VECTORS])                                     \
    {                                                                                                                  \
        tile_values(c, false, USUAL_WEIGHTS, n, factors);                                                              \
    }                                                                                                                  \
    PASS values_guarded_##name(const ra_tile_call *c, vec factors[FACTORS][VECTORS])                                   \
    {                                                                                                                  \
        tile_values(c, true, USUAL_WEIGHTS, n, factors);                                                               \
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
    ROUNDING_PASSES(name, n)                                                                                           \
    static void tile_##name(const ra_tile_call *c)                                                                     \
    {                                                                                                                  \
        vec top[VECTORS], factors[FACTORS][VECTORS];                                                                   \
        for (int d = 0; d < last_chunk(WORDS(c->head_dim)); d += DOT_CHUNK)                                            \
            chunk_##name(c, d);                                                                                        \
        (c->seen ? scores_sifted_##name : c->lo ? scores_masked_##name : scores_plain_##name)(c, top);                 \
        SOFTMAX(name);                                                                                                 \
        VALUES(name, (c->lo || c->seen) && c->guard);                                                                  \
    }                                                                                                                  \
    static void tile_scored_##name(const ra_tile_call *c)                                                              \
    {                                                                                                                  \
        vec top[VECTORS], factors[FACTORS][VECTORS];                                                                   \
        for (int d = 0; d < last_chunk(WORDS(c->head_dim)); d += DOT_CHUNK)                                            \
            chunk_##name(c, d);                                                                                        \
        scores_staged_##name(c, top);                                                                                  \
        apply_steps(c->stage, c->scores, NULL, c->begin, c->end, n);                                                   \
        (c->seen ? hide_sifted_##name : c->lo ? hide_masked_##name : hide_plain_##name)(c, top);                       \
        if (c->stage->kept != 0.0f) {                                                                                  \
            SOFTMAX_AND_DROP(name, n);                                                                                 \
        } else {                                                                                                       \
            SOFTMAX(name);                                                                                             \
        }                                                                                                              \
        VALUES(name, (c->lo || c->seen) && c->guard);                                                                  \
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
