/* SPDX-License-Identifier: Apache-2.0 */
/* A plain float32 backward pass. See naive_backward.h. */
#include "support/naive_backward.h"

#include "support/unit.h"

#include <math.h>
#include <stdlib.h>

typedef struct naive {
    const gradients *g;
    mistake m;
    const ra_plan *plan;
    float scale;
    float *d[D_INPUTS];
    float *weights; /* [kv_len] */
    float *output;  /* [value_dim] */
    uint8_t *times; /* [kv_len] */
} naive;

const char *mistake_name(mistake m)
{
    static const char *const names[MISTAKES] = {"no mistake",    "without delta",    "scale twice",
                                                "without scale", "last head alone",  "local positions",
                                                "rows twice",    "shared gradients", "without d_lse"};
    return names[m];
}

static float dot(const float *a, const float *b, int64_t count)
{
    float sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(float factor, const float *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] += factor * from[i];
}

/* One row of a query head, of the tensors of queries. */
typedef struct row {
    int64_t at, kv_head, first_key; /* its place among all rows; its head of keys; the first key of its batch */
    const float *query, *d_output;
    float d_lse;
} row;

static const float *key_of(const naive *n, const row *r, int64_t j)
{
    const ra_problem *p = &n->g->s.problem;
    return (const float *)n->g->s.memory[SAMPLE_KEY] + ((r->first_key + j) * p->kv_heads + r->kv_head) * p->head_dim;
}

static const float *value_of(const naive *n, const row *r, int64_t j)
{
    const ra_problem *p = &n->g->s.problem;
    return (const float *)n->g->s.memory[SAMPLE_VALUE] + ((r->first_key + j) * p->kv_heads + r->kv_head) * p->value_dim;
}

/* The weights and the output of a row: a forward pass gives output and log-sum-exp, and weights are made from that. */
static void softmax(naive *n, const row *r)
{
    const ra_problem *p = &n->g->s.problem;
    float max = -INFINITY, sum = 0;
    for (int64_t d = 0; d < p->value_dim; d++)
        n->output[d] = 0;
    for (int64_t j = 0; j < p->kv_len; j++)
        if (n->times[j]) {
            n->weights[j] = n->scale * dot(r->query, key_of(n, r, j), p->head_dim);
            max = fmaxf(max, n->weights[j]);
        }
    for (int64_t j = 0; j < p->kv_len; j++)
        if (n->times[j]) {
            float weight = (float)n->times[j] * expf(n->weights[j] - max);
            sum += weight;
            add_scaled(weight, value_of(n, r, j), p->value_dim, n->output);
        }
    float lse = max + logf(sum);
    for (int64_t d = 0; d < p->value_dim; d++)
        n->output[d] = sum > 0 ? n->output[d] / sum : 0;
    for (int64_t j = 0; j < p->kv_len; j++)
        if (n->times[j])
            n->weights[j] = (float)n->times[j] * expf(n->weights[j] - lse);
}

/* Query heads that share a key/value head: the last one overwrites what the others gave. */
static bool left_out(const naive *n, int64_t head)
{
    int64_t group = n->g->s.problem.heads / n->g->s.problem.kv_heads;
    return n->m == LAST_HEAD_ALONE && head % group != group - 1;
}

static void add_row(naive *n, const row *r)
{
    const ra_problem *p = &n->g->s.problem;
    float delta = dot(r->d_output, n->output, p->value_dim) - (n->m == WITHOUT_D_LSE ? 0 : r->d_lse);
    float factor = n->m == SCALE_TWICE ? n->scale * n->scale : n->m == WITHOUT_SCALE ? 1 : n->scale;
    if (n->m == WITHOUT_DELTA)
        delta = 0;
    for (int64_t j = 0; j < p->kv_len; j++) {
        if (!n->times[j])
            continue;
        int64_t key = (r->first_key + j) * p->kv_heads + r->kv_head;
        float d_score = factor * n->weights[j] * (dot(r->d_output, value_of(n, r, j), p->value_dim) - delta);
        float *d_v = n->d[n->m == SHARED_GRADIENTS && p->value_dim == p->head_dim ? D_KEY : D_VALUE];
        add_scaled(d_score, key_of(n, r, j), p->head_dim, n->d[D_QUERY] + r->at * p->head_dim);
        if (left_out(n, r->at % p->heads))
            continue;
        add_scaled(d_score, r->query, p->head_dim, n->d[D_KEY] + key * p->head_dim);
        add_scaled(n->weights[j], r->d_output, p->value_dim, d_v + key * p->value_dim);
    }
}

static void work_row(naive *n, int64_t batch, int64_t query, int64_t head)
{
    const ra_problem *p = &n->g->s.problem;
    const gradients *g = n->g;
    int64_t at = (batch * p->q_len + query) * p->heads + head, group = p->heads / p->kv_heads;
    row r = {.at = at, .kv_head = head / group, .first_key = batch * p->kv_len};
    r.query = (const float *)g->s.memory[SAMPLE_QUERY] + at * p->head_dim;
    r.d_output = (const float *)g->d[D_OUTPUT].memory + at * p->value_dim;
    r.d_lse = g->with_lse ? ((const float *)g->d[D_LSE].memory)[at] : 0;
    assert_int_equal(ra_plan_visible(n->plan, head, query, 0, p->kv_len, n->times), RA_OK);
    for (int64_t j = 0; n->m == LOCAL_POSITIONS && j < p->kv_len; j++)
        n->times[j] = j <= query; /* causal, from the first key on */
    softmax(n, &r);
    add_row(n, &r);
    if (n->m == ROWS_TWICE && query >= p->q_len - p->q_len / 4)
        add_row(n, &r);
}

void naive_backward(const gradients *g, mistake m, float *d[D_INPUTS])
{
    const ra_problem *p = &g->s.problem;
    naive n = {.g = g, .m = m, .plan = sample_plan(&g->s, RA_KERNEL_GENERIC, 1)};
    n.scale = (float)(p->scale == RA_SCALE_DEFAULT ? 1 / sqrt((double)p->head_dim) : p->scale);
    n.weights = calloc((size_t)p->kv_len + 1, sizeof *n.weights);
    n.output = calloc((size_t)p->value_dim, sizeof *n.output);
    n.times = calloc((size_t)p->kv_len + 1, 1);
    for (int i = 0; i < D_INPUTS; i++)
        assert_non_null(n.d[i] = calloc(g->d[i].bytes + 1, 1));
    assert_true(n.weights && n.output && n.times);
    for (int64_t i = 0; i < p->batch * p->q_len * p->heads; i++)
        work_row(&n, i / p->heads / p->q_len, i / p->heads % p->q_len, i % p->heads);
    for (int i = 0; i < D_INPUTS; i++)
        d[i] = n.d[i];
    free(n.weights);
    free(n.output);
    free(n.times);
    ra_plan_free((ra_plan *)n.plan);
}

void naive_errors(const gradients *g, double errors[D_INPUTS])
{
    float *d[D_INPUTS];
    naive_backward(g, NO_MISTAKE, d);
    for (int i = 0; i < D_INPUTS; i++) {
        errors[i] = gradients_error_of(g, i, d[i]);
        free(d[i]);
    }
}
