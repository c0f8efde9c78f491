/*
 * Logits and the loss, piece by piece. The losses of tokens are summed as integers, multiples of 2^-32: the sum does
 * not depend on the order of tokens, nor on who has them.
 */
#include "pieces.h"
#include "products.h"

#include <math.h>
#include <string.h>

static const double UNIT = 1.0 / 4294967296.0, MOST = 1000; /* of a token: more than this has failed */

/* The loss of a token; its logits become the gradient by them, times `scale`. */
static double token_loss(float *logits, unsigned char next, float scale)
{
    float most = logits[0];
    double sum = 0;
    for (int i = 1; i < LM_BYTES; i++)
        most = logits[i] > most ? logits[i] : most;
    double loss = (double)most - logits[next];
    for (int i = 0; i < LM_BYTES; i++) {
        logits[i] = expf(logits[i] - most);
        sum += logits[i];
    }
    float share = (float)(scale / sum);
    for (int i = 0; i < LM_BYTES; i++)
        logits[i] *= share;
    logits[next] -= scale;
    return loss + log(sum);
}

static void loss_backward(lm_model *m, int64_t count, const float *x, float *d)
{
    int64_t embed = m->config.embed;
    const lm_piece *p = &m->piece;
    lm_add_gradient(m->threads, LM_BYTES, embed, count, p->hidden, p->normed, m->gradients);
    lm_rows_by_columns(m->threads, count, embed, LM_BYTES, p->hidden, m->parameters, p->d_normed);
    lm_norm_backward(m->threads, count, embed, x, lm_last_norm(&m->config, m->parameters), p->d_normed, d,
                     lm_last_norm(&m->config, m->gradients), p->sums);
}

double lm_loss(lm_model *m, const float *x, const unsigned char *next, bool train)
{
    int64_t embed = m->config.embed, all = m->config.context * m->config.batch, total = 0, failed = 0;
    float scale = 1 / (float)all, *logits = m->piece.hidden;
    for (int64_t first = 0; first < m->tokens; first += LM_PIECE) {
        int64_t count = m->tokens - first < LM_PIECE ? m->tokens - first : LM_PIECE;
        lm_norm(m->threads, count, embed, x + first * embed, lm_last_norm(&m->config, m->parameters), m->piece.normed);
        lm_rows_by_rows(m->threads, count, LM_BYTES, embed, m->piece.normed, m->parameters, 0, logits);
#pragma omp parallel for num_threads(m->threads) reduction(+ : total, failed)
        for (int64_t t = 0; t < count; t++) {
            double loss = token_loss(logits + t * LM_BYTES, next[first + t], scale);
            if (loss < MOST)
                total += llround(loss / UNIT);
            else
                failed++;
        }
        if (train)
            loss_backward(m, count, x + first * embed, m->d + first * embed);
    }
    double begin = lm_clock();
    total = lm_world_sum_integer(m->world, total);
    failed = lm_world_sum_integer(m->world, failed);
    m->times.wait += lm_clock() - begin;
    return failed ? NAN : (double)total * UNIT / (double)all;
}
