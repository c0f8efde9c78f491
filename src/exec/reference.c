/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of attention in double precision, by the definition: every key is asked whether it is seen, the softmax takes
 * two passes. Nothing here is shared with the planner, the kernels or the executor.
 */
#include "exec/reference.h"

#include "base/tensor.h"
#include "plan/batch.h"
#include "score/scores.h"

#include <math.h>
#include <stdlib.h>

static ra_score_pair pair_of(const ra_plan *p, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    int64_t position = ra_plan_position(p, query + ra_plan_offset(p, batch));
    return (ra_score_pair){batch, head, position, ra_plan_key_position(p, key), query, key};
}

/* An element of the key or value of key j, in whatever way the cache has it. */
static double element(const ra_cache *cache, const ra_tensor *t, const ra_tensor *scale, int64_t batch, int64_t j,
                      int64_t head, int64_t d)
{
    if (cache->page_table) {
        batch = (int64_t)ra_tensor_get(cache->page_table, batch, 0, 0, j / t->seq);
        j %= t->seq;
    }
    double x = ra_tensor_get(t, batch, j, head, d);
    return scale ? x * ra_tensor_get(scale, batch, j, head, 0) : x;
}

/*
 * scores[j] of the keys that are seen, after all terms, and times[j], how often they are; returns how many are, counted
 * with their multiplicity.
 */
static int64_t score_keys(const ra_plan *p, const ra_tensor *q, const ra_cache *cache, int64_t batch, int64_t head,
                          int64_t query, double *scores, int *times)
{
    int64_t seen = 0, kv_head = head / p->group_heads;
    for (int64_t j = 0; j < p->kv_len; j++) {
        times[j] = ra_plan_sees(p, batch, head, query, j);
        if (!times[j])
            continue;
        double dot = 0;
        for (int64_t d = 0; d < p->head_dim; d++)
            dot += ra_tensor_get(q, batch, query, head, d) *
                   element(cache, cache->k, cache->k_scale, batch, j, kv_head, d);
        ra_score_pair pair = pair_of(p, batch, head, query, j);
        scores[j] = ra_score_of_pair(p->scores, &pair, p->scale * dot, NULL, NULL);
        seen += times[j];
    }
    return seen;
}

/* Whether softmax has no meaning here: +inf or NaN among the scores, or nothing but -inf. */
static bool hopeless(double max, double sum)
{
    return max == INFINITY || max == -INFINITY || sum != sum;
}

/* Sums up the weights, and the values with those that dropout keeps. */
static double sum_up(const ra_plan *p, const ra_cache *cache, int64_t batch, int64_t head, int64_t query,
                     const double *scores, const int *times, double max, double *output)
{
    double sum = 0;
    for (int64_t d = 0; d < p->value_dim; d++)
        output[d] = 0;
    for (int64_t j = 0; j < p->kv_len; j++) {
        if (!times[j])
            continue;
        ra_score_pair pair = pair_of(p, batch, head, query, j);
        double weight = times[j] * exp(scores[j] - max), kept = weight * ra_score_kept(p->scores, &pair);
        sum += weight;
        for (int64_t d = 0; d < p->value_dim; d++)
            output[d] += kept * element(cache, cache->v, cache->v_scale, batch, j, head / p->group_heads, d);
    }
    return sum;
}

ra_status ra_reference_compute(const ra_plan *p, const ra_tensor *q, const ra_cache *cache, int64_t batch, int64_t head,
                               int64_t query, double *output, double *lse)
{
    double *scores = malloc((size_t)(p->kv_len + 1) * (sizeof *scores + sizeof(int))); /* of no keys: not of 0 bytes */
    if (!scores)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld scores of the reference", (long long)p->kv_len);
    int *times = (int *)(scores + p->kv_len);
    bool sink = ra_score_has_sinks(p->scores);
    bool any = score_keys(p, q, cache, batch, head, query, scores, times) > 0 || sink;
    double max = sink ? ra_score_sink(p->scores, head) : -INFINITY;
    for (int64_t j = 0; j < p->kv_len; j++)
        if (times[j] && scores[j] > max)
            max = scores[j];
    double sum = sum_up(p, cache, batch, head, query, scores, times, max, output);
    free(scores);
    if (sink)
        sum += exp(ra_score_sink(p->scores, head) - max);
    if (any && hopeless(max, sum))
        sum = NAN;
    for (int64_t d = 0; any && d < p->value_dim; d++)
        output[d] /= sum;
    if (lse)
        *lse = any ? max + log(sum) : -INFINITY;
    return ra_scores_failed(p->scores);
}
