/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle of gradients over storages: sampled rows in double precision. A row of the gradient by queries takes one
 * pass over the keys that it sees, with a softmax of its own (oracle/key_pass.c). A row of the gradients by keys and
 * values takes one pass over the queries that see it, with their given log-sum-exps (oracle/query_pass.c). What the
 * softmax takes off comes from the given output in both. Rounding of gradients is measured along the way; docs/MATH.md
 * derives how.
 */
#include "base/tensor.h"
#include "oracle/key_pass.h"
#include "oracle/query_pass.h"
#include "oracle/rounding.h"

#include <math.h>
#include <stdlib.h>

typedef struct inputs {
    ra_storage *q, *k, *v, *output, *lse, *d_output, *d_lse;
} inputs;

/* ---- Rows of the gradient by queries -------------------------------------------------------------------------------
 */

/* What the rows have of their own. */
typedef struct query_rows {
    const ra_plan *plan;
    bool sized;
    double *d_outputs;              /* [count][value_dim]; owned, and the others lie behind it */
    double *lses, *d_lses, *deltas; /* [count] */
} query_rows;

/* The sums of a row. Those of sizes are there if they are wanted. */
typedef struct query_sums {
    double *least;      /* [head_dim], constant: errors of terms, squared, without their weights */
    double *gradient;   /* [head_dim], linear */
    double *key;        /* [head_dim], linear: the mean key */
    double *score_size; /* linear: squares of what scores are summed up from */
    double *d_size;     /* linear: squares of what gradients of weights are summed up from */
    double *errors;     /* [head_dim], square: errors of terms, squared */
} query_sums;

static query_sums sums_at(const query_rows *r, double *sums)
{
    int64_t dim = r->plan->head_dim;
    if (!r->sized)
        return (query_sums){.gradient = sums};
    return (query_sums){sums, sums + dim, sums + 2 * dim, sums + 3 * dim, sums + 3 * dim + 1, sums + 3 * dim + 2};
}

static void add_key_sizes(const query_rows *r, const ra_seen_key *key, double d_weight, const query_sums *s)
{
    const ra_plan *p = r->plan;
    double d_size = key->kept * ra_oracle_dot_size(r->d_outputs + key->row * p->value_dim, key->value, p->value_dim);
    double error = ra_score_square(ra_weight_square(key->size, r->lses[key->row]), d_weight, d_size);
    error = ra_slope_square(error, d_weight, key->slope);
    *s->score_size += key->weight * key->size * key->size;
    *s->d_size += key->weight * d_size * d_size;
    for (int64_t d = 0; d < p->head_dim; d++) {
        double square = key->key[d] * key->key[d];
        s->key[d] += key->weight * key->slope * key->key[d];
        s->least[d] += ra_least_square(error) * square;
        s->errors[d] += key->weight * key->weight * error * square;
    }
}

static void add_key(const void *user, const ra_seen_key *key, double *sums)
{
    const query_rows *r = user;
    const ra_plan *p = r->plan;
    query_sums s = sums_at(r, sums);
    double d_weight = ra_oracle_dot(r->d_outputs + key->row * p->value_dim, key->value, p->value_dim);
    d_weight = key->kept * d_weight - r->deltas[key->row];
    for (int64_t d = 0; d < p->head_dim; d++)
        s.gradient[d] += key->weight * d_weight * key->slope * key->key[d];
    if (r->sized)
        add_key_sizes(r, key, d_weight, &s);
}

/* What an element's rounding grows with. Errors of the log-sum-exp and of delta are the same in all terms of a row. */
static double query_size(const query_rows *r, int64_t row, double weight, const query_sums *s, int64_t d)
{
    double scale = r->plan->scale, gradient = scale * s->gradient[d] / weight, key = scale * s->key[d] / weight;
    double whole = ra_weight_square(sqrt(*s->score_size / weight), r->lses[row]);
    double delta = sqrt(*s->d_size / weight) + fabs(r->d_lses[row]);
    double terms = scale * scale * (s->errors[d] / (weight * weight) + s->least[d]);
    return sqrt(gradient * gradient * whole + delta * delta * key * key + terms);
}

static void finish_query_row(const query_rows *r, const ra_key_pass *pass, int64_t row, double *gradient, double *size)
{
    const ra_key_row *state = &pass->states[row];
    query_sums s = sums_at(r, ra_key_pass_sums(pass, row));
    double weight = ra_key_row_weight(state), largest = 0;
    for (int64_t d = 0; d < r->plan->head_dim; d++) {
        gradient[d] = state->seen ? r->plan->scale * s.gradient[d] / weight : 0;
        if (size && state->seen)
            largest = fmax(largest, query_size(r, row, weight, &s, d));
    }
    if (size)
        *size = largest;
}

static ra_status read_query_rows(query_rows *r, const inputs *in, const ra_row *rows, int64_t count)
{
    int64_t dim = r->plan->value_dim;
    double *output = ra_oracle_array(dim, 2, sizeof *output); /* and, behind it, a row as a storage has it */
    r->d_outputs = ra_oracle_array(count, dim + 3, sizeof *r->d_outputs);
    r->lses = r->d_outputs ? r->d_outputs + count * dim : NULL;
    r->d_lses = r->d_outputs ? r->lses + count : NULL;
    r->deltas = r->d_outputs ? r->d_lses + count : NULL;
    ra_status status = RA_OK;
    if (!output || !r->d_outputs)
        status = ra_fail(RA_ERROR_MEMORY, "out of memory: %lld rows of the reference", (long long)count);
    for (int64_t i = 0; i < count && !status; i++) {
        double *elements = output + dim, *d_output = r->d_outputs + i * dim;
        status = ra_oracle_read(in->output, rows[i], 1, 1, elements, output);
        if (!status)
            status = ra_oracle_read(in->d_output, rows[i], 1, 1, elements, d_output);
        if (!status)
            status = ra_oracle_read(in->lse, rows[i], 1, 1, elements, &r->lses[i]);
        if (!status && in->d_lse)
            status = ra_oracle_read(in->d_lse, rows[i], 1, 1, elements, &r->d_lses[i]);
        r->deltas[i] = ra_oracle_dot(d_output, output, dim) - r->d_lses[i];
    }
    free(output);
    return status;
}

static ra_status query_gradient(const ra_plan *p, const inputs *in, const ra_row *rows, int64_t count,
                                double *gradients, double *sizes)
{
    query_rows own = {.plan = p, .sized = sizes != NULL};
    ra_key_pass pass = {.plan = p, .q = in->q, .k = in->k, .v = in->v, .rows = rows, .count = count};
    pass.sized = own.sized;
    pass.constant = own.sized ? p->head_dim : 0;
    pass.linear = own.sized ? 2 * (int64_t)p->head_dim + 2 : p->head_dim;
    pass.square = pass.constant;
    pass.add = add_key;
    pass.user = &own;
    ra_status status = read_query_rows(&own, in, rows, count);
    if (!status)
        status = ra_key_pass_run(&pass);
    for (int64_t i = 0; i < count && !status; i++)
        finish_query_row(&own, &pass, i, gradients + i * p->head_dim, sizes ? &sizes[i] : NULL);
    ra_key_pass_free(&pass);
    free(own.d_outputs);
    return status;
}

/* ---- Rows of the gradients by keys and values ----------------------------------------------------------------------
 */

static ra_status key_gradient(const ra_plan *p, const inputs *in, bool values, const ra_row *rows, int64_t count,
                              double *gradients, double *sizes)
{
    ra_query_pass pass = {.plan = p, .q = in->q, .k = in->k, .v = in->v, .output = in->output, .lse = in->lse};
    pass.d_output = in->d_output, pass.d_lse = in->d_lse;
    pass.values = values, pass.sized = sizes != NULL, pass.rows = rows, pass.count = count;
    int64_t dim = values ? p->value_dim : p->head_dim;
    ra_status status = ra_query_pass_run(&pass);
    for (int64_t i = 0; i < count && !status; i++) {
        double largest = 0;
        for (int64_t at = i * dim; at < (i + 1) * dim; at++) {
            gradients[at] = pass.sums[at];
            if (sizes)
                largest = fmax(largest, sqrt(pass.sums[at] * pass.sums[at] + pass.squares[at]));
        }
        if (sizes)
            sizes[i] = largest;
    }
    ra_query_pass_free(&pass);
    return status;
}

/* ---- The public function -------------------------------------------------------------------------------------------
 */

static ra_status check_inputs(const ra_plan *p, const inputs *in)
{
    ra_status status = ra_oracle_check(in->q, "query", p, p->q_len, p->heads, p->head_dim);
    if (!status)
        status = ra_oracle_check(in->k, "key", p, p->kv_len, p->kv_heads, p->head_dim);
    if (!status)
        status = ra_oracle_check(in->v, "value", p, p->kv_len, p->kv_heads, p->value_dim);
    if (!status)
        status = ra_oracle_check(in->output, "output", p, p->q_len, p->heads, p->value_dim);
    if (!status)
        status = ra_oracle_check(in->lse, "lse", p, p->q_len, p->heads, 1);
    if (!status)
        status = ra_oracle_check(in->d_output, "d_output", p, p->q_len, p->heads, p->value_dim);
    if (!status && in->d_lse)
        status = ra_oracle_check(in->d_lse, "d_lse", p, p->q_len, p->heads, 1);
    return status;
}

ra_status ra_reference_gradient_rows(const ra_plan *p, ra_storage *q, ra_storage *k, ra_storage *v, ra_storage *output,
                                     ra_storage *lse, ra_storage *d_output, ra_storage *d_lse, ra_gradient gradient,
                                     const ra_row *rows, int64_t count, double *gradients, double *sizes)
{
    const inputs in = {q, k, v, output, lse, d_output, d_lse};
    bool of_query = gradient == RA_GRADIENT_QUERY;
    if (!p)
        return ra_fail(RA_ERROR_ARGUMENT, "plan is NULL");
    if (gradient < RA_GRADIENT_QUERY || gradient > RA_GRADIENT_VALUE)
        return ra_fail(RA_ERROR_ARGUMENT, "gradient %d: no such gradient", (int)gradient);
    ra_status status = check_inputs(p, &in);
    if (!status)
        status = ra_rows_check(rows, "reference", count, gradients, p->batch, of_query ? p->q_len : p->kv_len,
                               of_query ? p->heads : p->kv_heads);
    if (status || count == 0)
        return status;
    if (of_query)
        return query_gradient(p, &in, rows, count, gradients, sizes);
    return key_gradient(p, &in, gradient == RA_GRADIENT_VALUE, rows, count, gradients, sizes);
}
