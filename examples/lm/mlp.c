/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MLP of a block: w_down relu(w_up norm(x))^2. A thread takes a stretch of tokens through all of it. The backward
 * pass computes the hidden values again, and goes piece by piece: the gradients of weights need all stretches of a
 * piece.
 */
#include "pieces.h"
#include "products.h"

#include <math.h>

/* relu(x)^2 = x (x + |x|) / 2, without a branch. */
LM_VECTORS static void activate(int64_t count, const float *hidden, float *active)
{
    for (int64_t i = 0; i < count; i++)
        active[i] = 0.5F * hidden[i] * (hidden[i] + fabsf(hidden[i]));
}

/* d *= 2 relu(hidden) */
LM_VECTORS static void activate_backward(int64_t count, const float *hidden, float *d)
{
    for (int64_t i = 0; i < count; i++)
        d[i] *= hidden[i] + fabsf(hidden[i]);
}

/* to += values, and a copy of it */
LM_VECTORS static void add(int64_t count, const float *values, float *to, float *copy)
{
    for (int64_t i = 0; i < count; i++)
        copy[i] = to[i] += values[i];
}

/* out = w_up norm(x) */
static void go_up(const lm_model *m, const lm_block *b, int64_t count, const float *x, float *normed, float *out)
{
    int64_t embed = m->config.embed;
    lm_norm(count, embed, x, m->parameters + b->norm_mlp, normed);
    lm_rows_by_rows(count, LM_WIDER * embed, embed, normed, m->parameters + b->w_up, 0, out);
}

void lm_mlp(lm_model *m, int64_t layer, const float *before, float *x, float *next)
{
    int64_t embed = m->config.embed, wide = LM_WIDER * embed;
    lm_block b = lm_block_at(&m->config, layer);
    for (lm_run r = lm_first_piece(m); r.count; r = lm_next_piece(m, r))
#pragma omp parallel for num_threads(m->threads) schedule(dynamic)
        for (int64_t i = 0; i < r.count; i++) {
            lm_stretch s = lm_stretch_at(m, r, i);
            int64_t first = s.first * embed, values = s.count * embed;
            lm_piece at = lm_piece_at(m, s);
            add(values, before + first, x + first, next + first);
            go_up(m, &b, s.count, x + first, at.normed, at.hidden);
            activate(s.count * wide, at.hidden, at.active);
            lm_rows_by_rows(s.count, embed, wide, at.active, m->parameters + b.w_down, 1, next + first);
        }
}

/* Up to the gradient by the hidden values before relu. */
static void stretch_backward(const lm_model *m, const lm_block *b, int64_t count, const float *x, const float *d,
                             lm_piece at)
{
    int64_t embed = m->config.embed, wide = LM_WIDER * embed;
    go_up(m, b, count, x, at.normed, at.hidden);
    activate(count * wide, at.hidden, at.active);
    lm_rows_by_columns(count, wide, embed, d, m->parameters + b->w_down, at.d_hidden);
    activate_backward(count * wide, at.hidden, at.d_hidden);
    lm_rows_by_columns(count, embed, wide, at.d_hidden, m->parameters + b->w_up, at.d_normed);
}

static void piece_backward(lm_model *m, const lm_block *b, lm_run r, const float *x)
{
    int64_t embed = m->config.embed, wide = LM_WIDER * embed;
    const lm_piece *p = &m->piece;
#pragma omp parallel for num_threads(m->threads) schedule(dynamic)
    for (int64_t i = 0; i < r.count; i++) {
        lm_stretch s = lm_stretch_at(m, r, i);
        stretch_backward(m, b, s.count, x + s.first * embed, m->d + s.first * embed, lm_piece_at(m, s));
    }
    const lm_weight weights[] = {
        {embed, wide, m->d + m->cuts[r.first] * embed, p->active, m->gradients + b->w_down},
        {wide, embed, p->d_hidden, p->normed, m->gradients + b->w_up},
    };
    lm_add_gradients(m->threads, m->cuts + r.first, r.count, weights, 2);
#pragma omp parallel for num_threads(m->threads) schedule(dynamic)
    for (int64_t i = 0; i < r.count; i++) {
        lm_stretch s = lm_stretch_at(m, r, i);
        lm_norm_backward(s.count, embed, x + s.first * embed, m->parameters + b->norm_mlp, lm_piece_at(m, s).d_normed,
                         m->d + s.first * embed, m->norm_sums + (r.first + i) * embed);
    }
}

void lm_mlp_backward(lm_model *m, int64_t layer, const float *x)
{
    lm_block b = lm_block_at(&m->config, layer);
    for (lm_run r = lm_first_piece(m); r.count; r = lm_next_piece(m, r))
        piece_backward(m, &b, r, x);
    lm_add_norms(m, m->gradients + b.norm_mlp);
}
