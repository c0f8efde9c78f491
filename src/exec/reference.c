/*
 * One row of attention in double precision, by the definition: every key is asked whether it is seen, the softmax takes
 * two passes. Nothing here is shared with the planner, the kernels or the executor.
 */
#include "exec/reference.h"

#include "base/tensor.h"

#include <math.h>
#include <stdlib.h>

/*
 * scores[j] = scale q . k[j] for the keys that are seen, times[j] how often they are; returns how many are, counted
 * with their multiplicity.
 */
static int64_t score_keys(const ra_plan *p, const ra_tensor *q, const ra_tensor *k, int64_t batch, int64_t head,
                          int64_t query, double *scores, int *times)
{
    int64_t seen = 0, kv_head = head / p->group_heads;
    for (int64_t j = 0; j < p->kv_len; j++) {
        times[j] = ra_pattern_sees(&p->pattern, head, query + p->offset, j);
        if (!times[j])
            continue;
        double dot = 0;
        for (int64_t d = 0; d < p->head_dim; d++)
            dot += ra_tensor_get(q, batch, query, head, d) * ra_tensor_get(k, batch, j, kv_head, d);
        scores[j] = p->scale * dot;
        seen += times[j];
    }
    return seen;
}

/* Whether softmax has no meaning here: +inf or NaN among the scores, or nothing but -inf. */
static bool hopeless(double max, double sum)
{
    return max == INFINITY || max == -INFINITY || sum != sum;
}

ra_status ra_reference_compute(const ra_plan *p, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                               int64_t batch, int64_t head, int64_t query, double *output, double *lse)
{
    double *scores = malloc((size_t)(p->kv_len + 1) * (sizeof *scores + sizeof(int))); /* of no keys: not of 0 bytes */
    if (!scores)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld scores of the reference", (long long)p->kv_len);
    int *times = (int *)(scores + p->kv_len);
    int64_t kv_head = head / p->group_heads, seen = score_keys(p, q, k, batch, head, query, scores, times);
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < p->kv_len; j++)
        if (times[j] && scores[j] > max)
            max = scores[j];
    for (int64_t d = 0; d < p->value_dim; d++)
        output[d] = 0;
    for (int64_t j = 0; j < p->kv_len; j++) {
        if (!times[j])
            continue;
        double weight = times[j] * exp(scores[j] - max);
        sum += weight;
        for (int64_t d = 0; d < p->value_dim; d++)
            output[d] += weight * ra_tensor_get(v, batch, j, kv_head, d);
    }
    free(scores);
    if (seen && hopeless(max, sum))
        sum = NAN;
    for (int64_t d = 0; seen && d < p->value_dim; d++)
        output[d] /= sum;
    if (lse)
        *lse = seen ? max + log(sum) : -INFINITY;
    return RA_OK;
}
