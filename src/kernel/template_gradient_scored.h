/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of template.h: the gradients of one group of queries and one block of keys with a score stage, in two calls.
 * Between them the caller adds up the gradients of what the stage adds.
 *
 *     1. scores, steps of the stage, d_weights, then
 *        weights   [key][lane] = kept exp2(scores - lse)                          kept: of dropout
 *        d_scores  [key][lane] = exp2(scores - lse) (kept d_weights - delta)
 *        cap_slope [key][lane] = 1 - tanh^2 of a softcap
 *     2. d_scores times scale and cap_slope, then the three products of gradients
 */
#ifndef RA_KERNEL_TEMPLATE_GRADIENT_SCORED_H
#define RA_KERNEL_TEMPLATE_GRADIENT_SCORED_H

#include "kernel/template_gradient.h"
#include "kernel/template_score.h"

/* Scores as a tile has them before its stage. */
INLINE void multiply_scores(const ra_gradient_call *c, int n)
{
    const vec factor = v_set(c->factor);
    for (ptrdiff_t k = c->begin; k < c->end; k++)
        for (int i = 0; i < n; i++) {
            float *at = c->weights + k * LANES + i * WIDTH;
            vec score = v_load(at);
            if (PAIR > 1)
                score = v_mul(score, v_set(c->query_factor));
            v_store(at, v_mul(score, factor));
        }
}

/* What dropout multiplies the weights of key k by. */
INLINE vec kept_of(const ra_score_stage *s, int k, int i)
{
    mask keeps = v_kept(s->row_a + i * WIDTH, s->row_b + i * WIDTH, s->key_a[k], s->key_b[k], s->threshold);
    return v_select(keeps, v_set(s->kept), v_set(0.0f));
}

/* In place: scores -> weights, d_weights -> d_scores. A key that a lane does not see gives exactly 0 everywhere. */
INLINE void scored_weights(const ra_gradient_call *c, hidden by, bool drops, int n)
{
    const vec zero = v_set(0.0f);
    for (int i = 0; i < n; i++) {
        const vec lse = v_load(c->lse + i * WIDTH), rest = v_load(c->lse_rest + i * WIDTH);
        const vec delta = v_load(c->delta + i * WIDTH);
        for (int k = c->begin; k < c->end; k += EXP2_KEYS) {
            ptrdiff_t at = (ptrdiff_t)k * LANES + i * WIDTH;
            vec p[EXP2_KEYS];
            for (int j = 0; j < EXP2_KEYS; j++)
                p[j] = v_sub(v_sub(v_load(c->weights + at + j * LANES), lse), rest);
            exp2_nonpositive(p, EXP2_KEYS);
            for (int j = 0; j < EXP2_KEYS; j++, at += LANES) {
                vec d = v_load(c->d_scores + at), weight = p[j];
                if (drops) {
                    vec kept = kept_of(c->stage, k + j, i);
                    d = v_mul(d, kept);
                    weight = v_mul(weight, kept);
                }
                d = v_mul(p[j], v_sub(d, delta));
                if (by != NOTHING) {
                    mask seen = gradient_sees(c, by, k + j, i);
                    weight = v_select(seen, weight, zero);
                    d = v_select(seen, d, zero);
                    if (c->cap_slope)
                        v_store(c->cap_slope + at, v_select(seen, v_load(c->cap_slope + at), zero));
                }
                v_store(c->weights + at, weight);
                v_store(c->d_scores + at, d);
            }
        }
    }
}

/* From gradients of scores after the stage to those of the products of queries and keys. */
INLINE void scale_scores(const ra_gradient_call *c, int n)
{
    const vec scale = v_set(c->scale);
    for (ptrdiff_t k = c->begin; k < c->end; k++)
        for (int i = 0; i < n; i++) {
            ptrdiff_t at = k * LANES + i * WIDTH;
            vec d = v_mul(v_load(c->d_scores + at), scale);
            if (c->cap_slope)
                d = v_mul(d, v_load(c->cap_slope + at));
            v_store(c->d_scores + at, d);
        }
}

#define SCORED_WEIGHTS(name, n, by)                                                                                    \
    PASS scored_##name(const ra_gradient_call *c)                                                                      \
    {                                                                                                                  \
        scored_weights(c, by, false, n);                                                                               \
    }                                                                                                                  \
    PASS dropped_##name(const ra_gradient_call *c)                                                                     \
    {                                                                                                                  \
        scored_weights(c, by, true, n);                                                                                \
    }

#define SCORED_PASSES(name, n)                                                                                         \
    SCORED_WEIGHTS(plain_##name, n, NOTHING)                                                                           \
    SCORED_WEIGHTS(masked_##name, n, OUTSIDE_RANGE)                                                                    \
    SCORED_WEIGHTS(sifted_##name, n, BITS_NOT_SET)                                                                     \
    PASS multiply_##name(const ra_gradient_call *c)                                                                    \
    {                                                                                                                  \
        multiply_scores(c, n);                                                                                         \
    }                                                                                                                  \
    PASS scale_##name(const ra_gradient_call *c)                                                                       \
    {                                                                                                                  \
        scale_scores(c, n);                                                                                            \
    }                                                                                                                  \
    static void scores_of_##name(const ra_gradient_call *c)                                                            \
    {                                                                                                                  \
        gradient_scores_##name(c);                                                                                     \
        if (PAIR > 1 || c->factor != 1.0f)                                                                             \
            multiply_##name(c);                                                                                        \
        apply_steps(c->stage, c->weights, c->cap_slope, c->begin, c->end, n);                                          \
        gradient_values_##name(c);                                                                                     \
        if (c->stage->kept != 0)                                                                                       \
            (c->seen ? dropped_sifted_##name : c->lo ? dropped_masked_##name : dropped_plain_##name)(c);               \
        else                                                                                                           \
            (c->seen ? scored_sifted_##name : c->lo ? scored_masked_##name : scored_plain_##name)(c);                  \
    }                                                                                                                  \
    static void products_of_##name(const ra_gradient_call *c)                                                          \
    {                                                                                                                  \
        scale_##name(c);                                                                                               \
        ROUND_WEIGHTS(name, c)                                                                                         \
        if (c->d_query)                                                                                                \
            gradient_queries_##name(c);                                                                                \
    }

SCORED_PASSES(whole, VECTORS)
SCORED_PASSES(narrow, VECTORS - 1)

static void gradient_scores(const ra_gradient_call *c)
{
    (c->narrow ? scores_of_narrow : scores_of_whole)(c);
}

static void gradient_products(const ra_gradient_call *c)
{
    (c->narrow ? products_of_narrow : products_of_whole)(c);
    gradient_columns(c);
}

#endif
