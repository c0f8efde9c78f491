/* The MLP of a block: w_down relu(w_up norm(x))^2, piece by piece. Its backward pass computes the hidden values again.
 */
#include "pieces.h"
#include "products.h"

#include <string.h>

static int64_t piece_count(const lm_model *m, int64_t first)
{
    return m->tokens - first < LM_PIECE ? m->tokens - first : LM_PIECE;
}

/* hidden = relu(w_up norm(x)), active = hidden^2. */
static void activate(const lm_model *m, const lm_block *b, int64_t count, const float *x)
{
    int64_t embed = m->config.embed, wide = LM_WIDER * embed;
    const lm_piece *p = &m->piece;
    lm_norm(m->threads, count, embed, x, b->norm_mlp, p->normed);
    lm_rows_by_rows(m->threads, count, wide, embed, p->normed, b->w_up, 0, p->hidden);
#pragma omp parallel for num_threads(m->threads)
    for (int64_t i = 0; i < count * wide; i++) {
        float h = p->hidden[i] > 0 ? p->hidden[i] : 0;
        p->hidden[i] = h;
        p->active[i] = h * h;
    }
}

void lm_mlp(lm_model *m, int64_t layer, const float *x, float *next)
{
    int64_t embed = m->config.embed;
    lm_block b = lm_block_at(&m->config, m->parameters, layer);
    for (int64_t first = 0; first < m->tokens; first += LM_PIECE) {
        int64_t count = piece_count(m, first);
        activate(m, &b, count, x + first * embed);
        memcpy(next + first * embed, x + first * embed, (size_t)(count * embed) * sizeof(float));
        lm_rows_by_rows(m->threads, count, embed, LM_WIDER * embed, m->piece.active, b.w_down, 1, next + first * embed);
    }
}

static void piece_backward(const lm_model *m, const lm_block *b, const lm_block *g, int64_t count, const float *x,
                           float *d)
{
    int64_t embed = m->config.embed, wide = LM_WIDER * embed;
    const lm_piece *p = &m->piece;
    activate(m, b, count, x);
    lm_rows_by_columns(m->threads, count, wide, embed, d, b->w_down, p->d_hidden);
    lm_add_gradient(m->threads, embed, wide, count, d, p->active, g->w_down);
#pragma omp parallel for num_threads(m->threads)
    for (int64_t i = 0; i < count * wide; i++)
        p->d_hidden[i] *= 2 * p->hidden[i];
    lm_add_gradient(m->threads, wide, embed, count, p->d_hidden, p->normed, g->w_up);
    lm_rows_by_columns(m->threads, count, embed, wide, p->d_hidden, b->w_up, p->d_normed);
    lm_norm_backward(m->threads, count, embed, x, b->norm_mlp, p->d_normed, d, g->norm_mlp, p->sums);
}

void lm_mlp_backward(lm_model *m, int64_t layer, const float *x)
{
    int64_t embed = m->config.embed;
    lm_block b = lm_block_at(&m->config, m->parameters, layer), g = lm_block_at(&m->config, m->gradients, layer);
    for (int64_t first = 0; first < m->tokens; first += LM_PIECE)
        piece_backward(m, &b, &g, piece_count(m, first), x + first * embed, m->d + first * embed);
}
