/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The definition of scores, pair by pair and in double precision, for the oracles. It shares no code with the kernels
 * or with the files that fill their stages.
 */
#include "base/dropout.h"
#include "base/tensor.h"
#include "score/scores.h"

#include <float.h>
#include <math.h>

double ra_score_at(const ra_tensor *t, int64_t batch, int64_t seq, int64_t head, int64_t dim)
{
    return ra_tensor_get(t, t->batch == 1 ? 0 : batch, t->seq == 1 ? 0 : seq, t->heads == 1 ? 0 : head,
                         t->dim == 1 ? 0 : dim);
}

int64_t ra_score_entry(const ra_scores *s, const ra_score_pair *pair)
{
    int64_t entry = pair->key_position - pair->position;
    entry = entry < -s->reach ? -s->reach : entry;
    return (entry > s->reach ? s->reach : entry) + s->reach;
}

static double bias_of(const ra_scores *s, const ra_score_pair *pair)
{
    if (s->bias_source.read) {
        float value = NAN;
        /* The source keeps the failure; the end of the pass asks for it. */
        s->bias_source.read(s->bias_source.file, pair->batch, pair->head, pair->query, 1, pair->key, 1, &value, 1);
        return value;
    }
    return ra_score_at(&s->bias, pair->batch, pair->query, pair->head, pair->key);
}

/* What a term adds to a score. */
static double added(const ra_scores *s, ra_score_kind term, const ra_score_pair *pair)
{
    switch (term) {
    case RA_SCORE_ALIBI:
        return -ra_score_at(&s->slopes, 0, 0, pair->head, 0) * fabs((double)(pair->position - pair->key_position));
    case RA_SCORE_RELATIVE: return ra_score_at(&s->table, 0, 0, pair->head, ra_score_entry(s, pair));
    case RA_SCORE_BIAS: return bias_of(s, pair);
    default: return 0;
    }
}

/*
 * Scores that float32 does not hold in base 2: those above count as infinite, and finite ones below as the lowest that
 * it does hold, as the public header says. Returns the derivative.
 */
static double hold(double *score)
{
    bool below = *score<RA_SCORE_LOWEST && * score> - INFINITY;
    *score = below ? RA_SCORE_LOWEST : *score > -RA_SCORE_LOWEST ? INFINITY : *score;
    return below ? 0 : 1;
}

/* A step of the score: what the term makes of it. Returns the derivative of that. */
static double apply(const ra_scores *s, ra_score_kind term, const ra_score_pair *pair, double *score)
{
    if (term != RA_SCORE_SOFTCAP) {
        *score += added(s, term, pair);
        return hold(score);
    }
    double root = cosh(*score / s->cap);
    *score = s->cap * tanh(*score / s->cap);
    return 1 / (root * root);
}

double ra_score_of_pair(const ra_scores *s, const ra_score_pair *pair, double score, double *slope,
                        double changed[RA_SCORE_KINDS])
{
    double whole = 1; /* the derivative by the scaled score */
    for (int i = 0; s && i < s->count; i++) {
        double factor = apply(s, s->terms[i], pair, &score);
        whole *= factor;
        for (int before = 0; changed && before < i; before++)
            changed[before] *= factor;
        if (changed)
            changed[i] = s->terms[i] == RA_SCORE_SOFTCAP ? 1 : factor;
    }
    if (slope)
        *slope = whole;
    return score;
}

double ra_score_size_of_pair(const ra_scores *s, const ra_score_pair *pair, double score, double size)
{
    const double tanh_error = 8; /* of a tanh in float32, relative, in units of 2^-24: more than 4e-7 */
    for (int i = 0; s && i < s->count; i++) {
        double before = score, factor = apply(s, s->terms[i], pair, &score);
        if (s->terms[i] == RA_SCORE_SOFTCAP)
            size = (factor > 0 ? factor * size : 0) + tanh_error * fabs(score);
        else
            size += fabs(score - before) + fabs(score);
    }
    return size;
}

bool ra_score_has_sinks(const ra_scores *s)
{
    return s && s->sinks.data;
}

double ra_score_sink(const ra_scores *s, int64_t head)
{
    return ra_score_at(&s->sinks, 0, 0, head, 0);
}

double ra_score_kept(const ra_scores *s, const ra_score_pair *pair)
{
    if (!s || s->dropout == 0)
        return 1;
    ra_draw_key row = ra_draw_row(s->seed, pair->batch, pair->head, pair->position);
    ra_draw_key column = ra_draw_column(s->seed, pair->key_position);
    return ra_draw(row, column) < ra_draw_threshold(s->dropout) ? 0 : 1 / (1 - s->dropout);
}
