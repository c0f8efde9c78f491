/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of slopes, tables, biases and sinks, pair by pair and by the definition. See reference_scores.h. */
#include "exec/reference_scores.h"

#include "base/checked.h"

#include <math.h>
#include <stdlib.h>

/* The view of an array's gradient, or NULL. */
static const ra_tensor *gradient_of(const ra_scores *s, int array)
{
    return s ? (const ra_tensor *const[]){s->d_slopes, s->d_table, s->d_bias, s->d_sinks}[array] : NULL;
}

ra_status ra_score_sums_take(ra_score_sums *sums, const ra_scores *scores)
{
    *sums = (ra_score_sums){.scores = scores};
    for (int i = 0; i < RA_SCORE_ARRAYS; i++) {
        const ra_tensor *t = gradient_of(scores, i);
        if (!t)
            continue;
        int64_t count = t->batch * t->heads * t->seq * t->dim;
        sums->of[i] = calloc((size_t)ra_max(1, count), sizeof(double));
        if (!sums->of[i])
            return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld sums of the reference", (long long)count);
    }
    return RA_OK;
}

void ra_score_sums_free(ra_score_sums *sums)
{
    for (int i = 0; i < RA_SCORE_ARRAYS; i++)
        free(sums->of[i]);
}

/* The place of an element among the sums, where sizes of 1 stand for all indices. */
static double *sum_at(const ra_score_sums *sums, int array, int64_t batch, int64_t seq, int64_t head, int64_t dim)
{
    const ra_tensor *t = gradient_of(sums->scores, array);
    int64_t at = t->batch == 1 ? 0 : batch;
    at = at * t->heads + (t->heads == 1 ? 0 : head);
    at = at * t->seq + (t->seq == 1 ? 0 : seq);
    return sums->of[array] + at * t->dim + (t->dim == 1 ? 0 : dim);
}

static void add_term(const ra_score_sums *sums, ra_score_kind term, const ra_score_pair *p, double d)
{
    double distance = fabs((double)(p->position - p->key_position));
    if (term == RA_SCORE_ALIBI && sums->of[RA_SCORE_SLOPES])
        *sum_at(sums, RA_SCORE_SLOPES, 0, 0, p->head, 0) -= d * distance;
    if (term == RA_SCORE_RELATIVE && sums->of[RA_SCORE_TABLE])
        *sum_at(sums, RA_SCORE_TABLE, 0, 0, p->head, ra_score_entry(sums->scores, p)) += d;
    if (term == RA_SCORE_BIAS && sums->of[RA_SCORE_BIASES])
        *sum_at(sums, RA_SCORE_BIASES, p->batch, p->query, p->head, p->key) += d;
}

void ra_score_sums_add(const ra_score_sums *sums, const ra_score_pair *pair, double product, double d_score)
{
    double changed[RA_SCORE_KINDS] = {0};
    if (!sums->scores)
        return;
    ra_score_of_pair(sums->scores, pair, product, NULL, changed);
    for (int i = 0; i < sums->scores->count; i++)
        add_term(sums, sums->scores->terms[i], pair, d_score * changed[i]);
}

void ra_score_sums_add_sink(const ra_score_sums *sums, int64_t head, double d_sink)
{
    if (sums->of[RA_SCORE_SINKS])
        *sum_at(sums, RA_SCORE_SINKS, 0, 0, head, 0) += d_sink;
}

static void put(const ra_tensor *t, const double *sums)
{
    for (int64_t batch = 0; batch < t->batch; batch++)
        for (int64_t head = 0; head < t->heads; head++)
            for (int64_t seq = 0; seq < t->seq; seq++)
                for (int64_t dim = 0; dim < t->dim; dim++)
                    ra_tensor_set(t, batch, seq, head, dim, *sums++);
}

void ra_score_sums_put(const ra_score_sums *sums)
{
    for (int i = 0; i < RA_SCORE_ARRAYS; i++)
        if (sums->of[i])
            put(gradient_of(sums->scores, i), sums->of[i]);
}
