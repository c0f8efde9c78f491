/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels compute, in double precision. See model.h. */
#include "model.h"

#include "base/blocking.h"
#include "support/unit.h"

#include <math.h>
#include <stdlib.h>

void *take(size_t bytes)
{
    void *memory = malloc(bytes);
    assert_non_null(memory);
    return memory;
}

void fill_normal(choices *c, float *values, int64_t count, float size)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = choose_normal(c) * size;
}

void choose_state(choices *c, int columns, float *state)
{
    bool empty = chance(c, 4);
    state[0] = empty ? -INFINITY : 3 * choose_normal(c);
    state[1] = empty ? 0 : 1 + fabsf(choose_normal(c)) * 20;
    for (int d = 0; d < columns; d++)
        state[2 + d] = empty ? 0 : state[1] * choose_normal(c);
}

static void rescale(double *state, int columns, double max)
{
    double factor = state[1] == 0 ? 0 : exp2(state[0] - max);
    state[0] = max;
    for (int i = 1; i < 2 + columns; i++)
        state[i] *= factor;
}

void model_see(double *state, int columns, double score, const float *value)
{
    if (score > state[0])
        rescale(state, columns, score);
    double weight = exp2(score - state[0]);
    state[1] += weight;
    for (int d = 0; d < columns; d++)
        state[2 + d] += weight * value[d];
}

void model_merge(double *into, const double *from, int columns)
{
    if (from[1] == 0)
        return;
    rescale(into, columns, fmax(into[0], from[0]));
    double factor = exp2(from[0] - into[0]);
    for (int i = 1; i < 2 + columns; i++)
        into[i] += factor * from[i];
}

void widen_state(const float *state, int columns, double *wide)
{
    for (int i = 0; i < 2 + columns; i++)
        wide[i] = state[i];
}

double state_distance(const double *a, const double *b, int columns)
{
    if (a[1] == 0 && b[1] == 0)
        return a[0] == b[0] ? 0 : (double)INFINITY;
    double distance = fabs(a[0] + log2(a[1]) - b[0] - log2(b[1]));
    for (int d = 0; d < columns; d++)
        distance = fmax(distance, fabs(a[2 + d] / a[1] - b[2 + d] / b[1]));
    return isnan(distance) ? (double)INFINITY : distance;
}

row_mask choose_mask(choices *c, hiding hiding, int keys)
{
    row_mask mask = {0, keys, 0};
    if (hiding == BY_RANGE) {
        mask.lo = (int32_t)choose(c, 0, RA_KEY_BLOCK);
        mask.hi = (int32_t)choose(c, 0, keys);
    }
    /* Half of the keys, a quarter, runs of them, one, all or none; never one that is not there. */
    uint64_t any = choose_bits(c), few = any & choose_bits(c);
    const uint64_t kinds[] = {any, few, UINT64_MAX << choose(c, 0, 63), UINT64_C(1) << choose(c, 0, 63), UINT64_MAX, 0};
    uint64_t there = keys == RA_KEY_BLOCK ? UINT64_MAX : (UINT64_C(1) << keys) - 1;
    mask.bits = kinds[choose(c, 0, 5)] & there;
    return mask;
}

/* sums += factor * row, where the parts of the factor are of some size. */
static void add_row(model_sum *sums, model_sum factor, const float *row, int columns)
{
    for (int i = 0; i < columns; i++) {
        sums[i].value += factor.value * row[i];
        sums[i].size += factor.size * fabs((double)row[i]);
    }
}

static double model_cap(const model_pair *p, double score, double *slope)
{
    double t = tanh(score / p->cap);
    *slope = 1 - t * t;
    return p->cap * t;
}

double model_score(const model_pair *p, double *slope)
{
    double score = model_dot(p->query, p->key, p->head_dim) * p->score_factor, ours = 1;
    if (p->scored && p->cap_first && p->cap != 0)
        score = model_cap(p, score, &ours);
    score += p->scored ? p->added : 0;
    if (p->scored && !p->cap_first && p->cap != 0)
        score = model_cap(p, score, &ours);
    if (slope)
        *slope = ours;
    return score;
}

model_sum model_d_score(const model_pair *p)
{
    double weight = exp2(model_score(p, NULL) - p->lse), d_weight = 0, d_weight_size = 0;
    double factor = p->scored ? p->kept : p->scale;
    for (int i = 0; i < p->value_dim; i++) {
        d_weight += (double)p->d_output[i] * p->value[i];
        d_weight_size += fabs((double)p->d_output[i] * p->value[i]);
    }
    return (model_sum){weight * (factor * d_weight - p->delta),
                       weight * (fabs(factor) * d_weight_size + fabs(p->delta))};
}

void model_gradient(const model_pair *p, model_sum *d_query, model_sum *d_key, model_sum *d_value)
{
    double slope, weight = exp2(model_score(p, &slope) - p->lse) * p->kept;
    model_sum d_score = model_d_score(p);
    if (p->scored) {
        d_score.value *= p->scale * slope;
        d_score.size *= fabs(p->scale);
    }
    add_row(d_query, d_score, p->key, p->head_dim);
    add_row(d_key, d_score, p->query, p->head_dim);
    add_row(d_value, (model_sum){weight, weight}, p->d_output, p->value_dim);
}
