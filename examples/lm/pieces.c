/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank's tokens are divided into stretches, and these into pieces. */
#include "pieces.h"

#include "products.h"

static lm_run piece_from(const lm_model *m, int64_t first)
{
    lm_run r = {first, 0};
    while (first + r.count < m->stretches && m->cuts[first + r.count + 1] - m->cuts[first] <= LM_PIECE)
        r.count++;
    return r;
}

lm_run lm_first_piece(const lm_model *m)
{
    return piece_from(m, 0);
}

lm_run lm_next_piece(const lm_model *m, lm_run piece)
{
    return piece_from(m, piece.first + piece.count);
}

lm_stretch lm_stretch_at(const lm_model *m, lm_run piece, int64_t index)
{
    int64_t first = m->cuts[piece.first + index];
    return (lm_stretch){first, m->cuts[piece.first + index + 1] - first, first - m->cuts[piece.first]};
}

lm_piece lm_piece_at(const lm_model *m, lm_stretch s)
{
    int64_t embed = m->config.embed, wide = LM_WIDER * embed;
    const lm_piece *p = &m->piece;
    return (lm_piece){p->normed + s.place * embed, p->d_normed + s.place * embed, p->hidden + s.place * wide,
                      p->active + s.place * wide, p->d_hidden + s.place * wide};
}

void lm_add_norms(const lm_model *m, double *gradient)
{
    for (int64_t stretch = 0; stretch < m->stretches; stretch++)
        lm_add_rounded(m->config.embed, m->norm_sums + stretch * m->config.embed, gradient);
}
