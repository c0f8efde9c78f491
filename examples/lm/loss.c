/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logits and the loss, piece by piece. The losses of tokens are summed as integers, multiples of 2^-32: the sum does
 * not depend on the order of tokens, nor on who has them.
 */
#include "pieces.h"
#include "products.h"

#include <math.h>
#include <string.h>

static const double UNIT = 1.0 / 4294967296.0, MOST = 1000; /* of a token: more than this has failed */

enum { LANES = 16 }; /* so many maxima and sums, which the processor computes at the same time */

LM_VECTORS static float maximum(const float *logits)
{
    float most[LANES];
    for (int i = 0; i < LANES; i++)
        most[i] = logits[i];
    for (int i = LANES; i < LM_BYTES; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            most[lane] = logits[i + lane] > most[lane] ? logits[i + lane] : most[lane];
    for (int lane = 1; lane < LANES; lane++)
        most[0] = most[lane] > most[0] ? most[lane] : most[0];
    return most[0];
}

LM_VECTORS static double sum_of(const float *values)
{
    double sums[LANES] = {0}, sum = 0;
    for (int i = 0; i < LM_BYTES; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += values[i + lane];
    for (int lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

/* The loss of a token; its logits become the gradient by them, times `scale`. */
static double token_loss(float *logits, unsigned char next, float scale)
{
    float most = maximum(logits);
    double loss = (double)most - logits[next];
    for (int i = 0; i < LM_BYTES; i++)
        logits[i] = expf(logits[i] - most);
    double sum = sum_of(logits);
    float share = (float)(scale / sum);
    for (int i = 0; i < LM_BYTES; i++)
        logits[i] *= share;
    logits[next] -= scale;
    return loss + log(sum);
}

/* Sums of a stretch; its logits become gradients if it is trained. */
typedef struct score {
    int64_t total, failed;
} score;

static score stretch_loss(const lm_model *m, lm_stretch s, const float *x, const unsigned char *next)
{
    int64_t embed = m->config.embed;
    float scale = 1 / (float)(m->config.context * m->config.batch), *logits = m->piece.hidden + s.place * LM_BYTES;
    float *normed = lm_piece_at(m, s).normed;
    score sums = {0, 0};
    lm_norm(s.count, embed, x + s.first * embed, m->parameters + lm_last_norm(&m->config), normed);
    lm_rows_by_rows(s.count, LM_BYTES, embed, normed, m->parameters, 0, logits);
    for (int64_t t = 0; t < s.count; t++) {
        double loss = token_loss(logits + t * LM_BYTES, next[s.first + t], scale);
        if (loss < MOST)
            sums.total += llround(loss / UNIT);
        else
            sums.failed++;
    }
    return sums;
}

static void stretch_backward(const lm_model *m, lm_stretch s, const float *x, float *norm_sums)
{
    int64_t embed = m->config.embed;
    float *d = m->d + s.first * embed, *d_normed = lm_piece_at(m, s).d_normed;
    memset(d, 0, (size_t)(s.count * embed) * sizeof(float));
    lm_rows_by_columns(s.count, embed, LM_BYTES, m->piece.hidden + s.place * LM_BYTES, m->parameters, d_normed);
    lm_norm_backward(s.count, embed, x + s.first * embed, m->parameters + lm_last_norm(&m->config), d_normed, d,
                     norm_sums);
}

static score piece_loss(lm_model *m, lm_run r, const float *x, const unsigned char *next, bool train)
{
    int64_t total = 0, failed = 0, embed = m->config.embed;
#pragma omp parallel for num_threads(m->threads) schedule(dynamic) reduction(+ : total, failed)
    for (int64_t i = 0; i < r.count; i++) {
        lm_stretch s = lm_stretch_at(m, r, i);
        score sums = stretch_loss(m, s, x, next);
        total += sums.total, failed += sums.failed;
        if (train)
            stretch_backward(m, s, x, m->norm_sums + (r.first + i) * embed);
    }
    const lm_weight embedding = {LM_BYTES, embed, m->piece.hidden, m->piece.normed, m->gradients};
    if (train)
        lm_add_gradients(m->threads, m->cuts + r.first, r.count, &embedding, 1);
    return (score){total, failed};
}

double lm_loss(lm_model *m, const float *x, const unsigned char *next, bool train)
{
    int64_t all = m->config.context * m->config.batch, total = 0, failed = 0;
    for (lm_run r = lm_first_piece(m); r.count; r = lm_next_piece(m, r)) {
        score sums = piece_loss(m, r, x, next, train);
        total += sums.total, failed += sums.failed;
    }
    if (train)
        lm_add_norms(m, m->gradients + lm_last_norm(&m->config));
    double begin = lm_clock();
    total = lm_world_sum_integer(m->world, total);
    failed = lm_world_sum_integer(m->world, failed);
    m->times.wait += lm_clock() - begin;
    return failed ? NAN : (double)total * UNIT / (double)all;
}
