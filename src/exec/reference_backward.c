/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradients of attention in double precision, by the definition, one query row after the other. A row asks of every
 * key whether it is seen, makes its softmax in two passes, and adds what it gives to the gradients of its keys and
 * values:
 *
 *     p = softmax(s), s = scale q . k        output = sum p v        delta = d_output . output - d_lse
 *     d_s = p (d_output . v - delta)         d_v += p d_output       d_k += scale d_s q       d_q += scale d_s k
 *
 * With scores, s = f(scale q . k), and d_k and d_q take d_s times the derivative of f. Dropout multiplies v and the p
 * of d_v by 0 or 1 / (1 - P). A sink is one more score, with a value of 0. docs/MATH.md derives these lines. Nothing
 * here is shared with the planner, the kernels or the executor.
 */
#include "exec/reference_backward.h"

#include "base/checked.h"
#include "base/tensor.h"
#include "exec/reference_scores.h"
#include "plan/batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct backward {
    const ra_plan *plan;
    const ra_tensor *q, *k, *v, *d_output, *d_lse;
    double *d_q, *d_k, *d_v;

    /* One block of memory: the keys of one batch and key/value head, and one query row. */
    double *keys;            /* [kv_len][head_dim], owned: the block begins here */
    double *values;          /* [kv_len][value_dim] */
    double *times, *weights; /* [kv_len]: how often a key is seen, and its scores, then its weights */
    double *query;           /* [head_dim] */
    double *d_row, *output;  /* [value_dim]: of d_output, and the row's own output */
    double sink;             /* of the row: its logit, then its weight; without sinks -infinity, then 0 */
    ra_score_sums sums;
} backward;

static ra_status backward_take(backward *b)
{
    const ra_plan *p = b->plan;
    int64_t head_dim = p->head_dim, value_dim = p->value_dim, count, bytes;
    bool fits = ra_mul_ok(p->kv_len, head_dim + value_dim + 2, &count) &&
                ra_add_ok(count, head_dim + 2 * value_dim, &count) && ra_mul_ok(count, (int64_t)sizeof(double), &bytes);
    b->keys = fits ? malloc((size_t)bytes) : NULL;
    if (!b->keys)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld keys and values of the reference", (long long)p->kv_len);
    b->values = b->keys + p->kv_len * head_dim;
    b->times = b->values + p->kv_len * value_dim;
    b->weights = b->times + p->kv_len;
    b->query = b->weights + p->kv_len;
    b->d_row = b->query + head_dim;
    b->output = b->d_row + value_dim;
    return RA_OK;
}

static void widen(const ra_tensor *t, int64_t batch, int64_t seq, int64_t head, double *row)
{
    for (int64_t d = 0; d < t->dim; d++)
        row[d] = ra_tensor_get(t, batch, seq, head, d);
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(double factor, const double *from, int64_t count, double *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] += factor * from[i];
}

/* ---- One query row -------------------------------------------------------------------------------------------------
 */

/* The row that is worked on. */
typedef struct row {
    int64_t batch, head, query;
} row;

static ra_score_pair pair_of(const ra_plan *p, const row *r, int64_t key)
{
    int64_t position = ra_plan_position(p, r->query + ra_plan_offset(p, r->batch));
    return (ra_score_pair){r->batch, r->head, position, ra_plan_key_position(p, key), r->query, key};
}

/* The scaled product of the row with a key. */
static double product_of(const backward *b, int64_t key)
{
    return b->plan->scale * dot(b->query, b->keys + key * b->plan->head_dim, b->plan->head_dim);
}

/* times[], the scores of the keys that are seen, in weights[], and the sink; false: there is nothing of this. */
static bool score_keys(backward *b, const row *r)
{
    const ra_plan *p = b->plan;
    bool any = ra_score_has_sinks(p->scores);
    b->sink = any ? ra_score_sink(p->scores, r->head) : -INFINITY;
    for (int64_t j = 0; j < p->kv_len; j++) {
        b->times[j] = ra_plan_sees(p, r->batch, r->head, r->query, j);
        if (b->times[j] == 0)
            continue;
        ra_score_pair pair = pair_of(p, r, j);
        b->weights[j] = ra_score_of_pair(p->scores, &pair, product_of(b, j), NULL, NULL);
        any = true;
    }
    return any;
}

/* From scores to weights that add up to 1, the sink's among them. Where softmax has no meaning all of them are NaN:
 * +inf or NaN among the scores, or nothing but -inf. Those of the lowest scores are 0, also by themselves. */
static void weigh_keys(backward *b)
{
    int64_t keys = b->plan->kv_len;
    double max = b->sink;
    for (int64_t j = 0; j < keys; j++)
        if (b->times[j] > 0 && b->weights[j] > max)
            max = b->weights[j];
    double sum = b->sink = b->sink == -INFINITY ? 0 : exp(b->sink - max);
    for (int64_t j = 0; j < keys; j++)
        if (b->times[j] > 0) {
            b->weights[j] = b->weights[j] == RA_SCORE_LOWEST ? 0 : b->times[j] * exp(b->weights[j] - max);
            sum += b->weights[j];
        }
    if (max == RA_SCORE_LOWEST)
        sum = 1;
    if (max == INFINITY || max == -INFINITY)
        sum = NAN;
    b->sink /= sum;
    for (int64_t j = 0; j < keys; j++)
        if (b->times[j] > 0)
            b->weights[j] /= sum;
}

/* What the softmax takes off the gradient of each of the row's weights. */
static double delta_of(backward *b, const row *r, double d_lse)
{
    const ra_plan *p = b->plan;
    memset(b->output, 0, (size_t)p->value_dim * sizeof *b->output);
    for (int64_t j = 0; j < p->kv_len; j++) {
        if (b->times[j] == 0)
            continue;
        ra_score_pair pair = pair_of(p, r, j);
        double kept = b->weights[j] * ra_score_kept(p->scores, &pair);
        add_scaled(kept, b->values + j * p->value_dim, p->value_dim, b->output);
    }
    return dot(b->d_row, b->output, p->value_dim) - d_lse;
}

/* Adds to the rows of key j in d_k and d_v, to the row d_q, and to the gradients of score arrays. */
static void add_key(backward *b, const row *r, int64_t j, double delta, double *d_q)
{
    const ra_plan *p = b->plan;
    const double *key = b->keys + j * p->head_dim, *value = b->values + j * p->value_dim;
    int64_t at = (r->batch * p->kv_len + j) * p->kv_heads + r->head / p->group_heads;
    ra_score_pair pair = pair_of(p, r, j);
    double kept = ra_score_kept(p->scores, &pair), slope;
    double d_score = b->weights[j] * (kept * dot(b->d_row, value, p->value_dim) - delta);
    ra_score_of_pair(p->scores, &pair, product_of(b, j), &slope, NULL);
    double d_product = p->scale * d_score * slope;
    if (d_q)
        add_scaled(d_product, key, p->head_dim, d_q);
    if (b->d_k)
        add_scaled(d_product, b->query, p->head_dim, b->d_k + at * p->head_dim);
    if (b->d_v)
        add_scaled(b->weights[j] * kept, b->d_row, p->value_dim, b->d_v + at * p->value_dim);
    ra_score_sums_add(&b->sums, &pair, product_of(b, j), d_score);
}

static void work_row(backward *b, const row *r)
{
    const ra_plan *p = b->plan;
    int64_t at = (r->batch * p->q_len + r->query) * p->heads + r->head;
    widen(b->q, r->batch, r->query, r->head, b->query);
    if (!score_keys(b, r))
        return;
    widen(b->d_output, r->batch, r->query, r->head, b->d_row);
    weigh_keys(b);
    double d_lse = b->d_lse ? ra_tensor_get(b->d_lse, r->batch, r->query, r->head, 0) : 0;
    double delta = delta_of(b, r, d_lse);
    for (int64_t j = 0; j < p->kv_len; j++)
        if (b->times[j] > 0)
            add_key(b, r, j, delta, b->d_q ? b->d_q + at * p->head_dim : NULL);
    ra_score_sums_add_sink(&b->sums, r->head, -b->sink * delta);
}

/* ---- All rows ------------------------------------------------------------------------------------------------------
 */

static void clear(double *gradient, int64_t rows, int64_t dim)
{
    for (int64_t i = 0; gradient && i < rows * dim; i++)
        gradient[i] = 0;
}

static void work_head(backward *b, int64_t batch, int64_t kv_head)
{
    const ra_plan *p = b->plan;
    for (int64_t j = 0; j < p->kv_len; j++) {
        widen(b->k, batch, j, kv_head, b->keys + j * p->head_dim);
        widen(b->v, batch, j, kv_head, b->values + j * p->value_dim);
    }
    for (int64_t head = kv_head * p->group_heads; head < (kv_head + 1) * p->group_heads; head++)
        for (int64_t query = 0; query < p->q_len; query++)
            work_row(b, &(row){batch, head, query});
}

ra_status ra_reference_gradients(const ra_plan *p, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                                 const ra_tensor *d_output, const ra_tensor *d_lse, double *d_q, double *d_k,
                                 double *d_v)
{
    backward b = {.plan = p, .q = q, .k = k, .v = v, .d_output = d_output, .d_lse = d_lse};
    b.d_q = d_q, b.d_k = d_k, b.d_v = d_v;
    clear(d_q, p->batch * p->q_len * p->heads, p->head_dim);
    clear(d_k, p->batch * p->kv_len * p->kv_heads, p->head_dim);
    clear(d_v, p->batch * p->kv_len * p->kv_heads, p->value_dim);
    ra_status status = backward_take(&b);
    if (!status)
        status = ra_score_sums_take(&b.sums, p->scores);
    for (int64_t batch = 0; batch < p->batch && !status; batch++)
        for (int64_t head = 0; head < p->kv_heads; head++)
            work_head(&b, batch, head);
    if (!status)
        status = ra_scores_failed(p->scores);
    if (!status)
        ra_score_sums_put(&b.sums);
    ra_score_sums_free(&b.sums);
    free(b.keys);
    return status;
}
