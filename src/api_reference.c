/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle over storages: rows of attention in double precision, by one pass over the keys that they see. Tests hold
 * this against the oracle over tensors, which asks of all keys. Gradients are in api_reference_gradient.c.
 */
#include "base/tensor.h"
#include "oracle/key_pass.h"

#include <math.h>

/*
 * The sums of a row. Linear in its weights: the values; then, if sizes are wanted, their squares and one more.
 * Quadratic, if roundings are: the values, their squares and 1.
 */
typedef struct row_sums {
    double *values, *squares, *size;
    double *twice, *twice_squares, *weights;
} row_sums;

static row_sums sums_at(const ra_plan *p, double *sums)
{
    int64_t dim = p->value_dim;
    double *quadratic = sums + 2 * dim + 1;
    return (row_sums){sums, sums + dim, sums + 2 * dim, quadratic, quadratic + dim, quadratic + 2 * dim};
}

static void add_values(const void *user, const ra_seen_key *key, double *sums)
{
    const ra_plan *p = user;
    for (int64_t d = 0; d < p->value_dim; d++)
        sums[d] += key->weight * key->kept * key->value[d];
}

static void add_sized(const void *user, const ra_seen_key *key, double *sums)
{
    const ra_plan *p = user;
    row_sums s = sums_at(p, sums);
    add_values(user, key, sums);
    for (int64_t d = 0; d < p->value_dim; d++)
        s.squares[d] += key->weight * (key->kept * key->value[d]) * (key->kept * key->value[d]);
    *s.size += key->weight * key->size * key->size;
}

static void add_rounded(const void *user, const ra_seen_key *key, double *sums)
{
    const ra_plan *p = user;
    row_sums s = sums_at(p, sums);
    add_sized(user, key, sums);
    for (int64_t d = 0; d < p->value_dim; d++) {
        double value = key->kept * key->value[d];
        s.twice[d] += key->weight * key->weight * value;
        s.twice_squares[d] += key->weight * key->weight * value * value;
    }
    *s.weights += key->weight * key->weight;
}

static void finish_row(const ra_key_row *row, int64_t dim, const double *sums, double *output, double *lse)
{
    double weight = ra_key_row_weight(row);
    for (int64_t d = 0; d < dim; d++)
        output[d] = row->seen ? sums[d] / weight : 0;
    if (lse)
        *lse = row->seen ? row->max + log(weight) : -INFINITY;
}

/* From sums of squares to deviations from the output, which is finished. */
static void finish_sizes(const ra_key_row *row, const ra_plan *p, double *sums, const double *output, double *spread,
                         double *size)
{
    double weight = ra_key_row_weight(row);
    row_sums s = sums_at(p, sums);
    *size = row->seen ? sqrt(*s.size / weight) : 0;
    for (int64_t d = 0; d < p->value_dim; d++)
        spread[d] = row->seen ? sqrt(fmax(0, s.squares[d] / weight - output[d] * output[d])) : 0;
}

static void finish_roundings(const ra_key_row *row, const ra_plan *p, double *sums, const double *output,
                             double *rounding)
{
    double weight = ra_key_row_weight(row);
    row_sums s = sums_at(p, sums);
    for (int64_t d = 0; d < p->value_dim; d++) {
        double square = s.twice_squares[d] - 2 * output[d] * s.twice[d] + output[d] * output[d] * *s.weights;
        rounding[d] = row->seen ? sqrt(fmax(0, square)) / weight : 0;
    }
}

/* ---- The public functions ------------------------------------------------------------------------------------------
 */

ra_status ra_reference_rows(const ra_plan *p, ra_storage *q, ra_storage *k, ra_storage *v, const ra_row *rows,
                            int64_t count, double *outputs, double *lses)
{
    return ra_reference_rows_sized(p, q, k, v, rows, count, outputs, lses, NULL, NULL);
}

static ra_status check_all(const ra_plan *p, const ra_storage *q, const ra_storage *k, const ra_storage *v,
                           const ra_row *rows, int64_t count, const double *outputs)
{
    if (!p)
        return ra_fail(RA_ERROR_ARGUMENT, "plan is NULL");
    ra_status status = ra_oracle_check(q, "query", p, p->q_len, p->heads, p->head_dim);
    if (!status)
        status = ra_oracle_check(k, "key", p, p->kv_len, p->kv_heads, p->head_dim);
    if (!status)
        status = ra_oracle_check(v, "value", p, p->kv_len, p->kv_heads, p->value_dim);
    return status ? status : ra_rows_check(rows, "reference", count, outputs, p->batch, p->q_len, p->heads);
}

ra_status ra_reference_rows_sized(const ra_plan *p, ra_storage *q, ra_storage *k, ra_storage *v, const ra_row *rows,
                                  int64_t count, double *outputs, double *lses, double *spreads, double *sizes)
{
    return ra_reference_rows_rounded(p, q, k, v, rows, count, outputs, lses, spreads, sizes, NULL);
}

ra_status ra_reference_rows_rounded(const ra_plan *p, ra_storage *q, ra_storage *k, ra_storage *v, const ra_row *rows,
                                    int64_t count, double *outputs, double *lses, double *spreads, double *sizes,
                                    double *roundings)
{
    ra_status status = check_all(p, q, k, v, rows, count, outputs);
    if (!status && !spreads != !sizes)
        status = ra_fail(RA_ERROR_ARGUMENT, "%s is NULL: both are given, or neither", spreads ? "sizes" : "spreads");
    if (!status && roundings && !sizes)
        status = ra_fail(RA_ERROR_ARGUMENT, "sizes is NULL: roundings are given with sizes and spreads");
    if (status || count == 0)
        return status;
    ra_key_pass pass = {.plan = p, .q = q, .k = k, .v = v, .rows = rows, .count = count};
    pass.sized = sizes != NULL;
    pass.linear = sizes ? 2 * (int64_t)p->value_dim + 1 : p->value_dim;
    pass.square = roundings ? 2 * (int64_t)p->value_dim + 1 : 0;
    pass.add = roundings ? add_rounded : sizes ? add_sized : add_values;
    pass.user = p;
    status = ra_key_pass_run(&pass);
    for (int64_t i = 0; i < count && !status; i++) {
        double *output = outputs + i * p->value_dim, *sums = ra_key_pass_sums(&pass, i);
        finish_row(&pass.states[i], p->value_dim, sums, output, lses ? &lses[i] : NULL);
        if (sizes)
            finish_sizes(&pass.states[i], p, sums, output, spreads + i * p->value_dim, &sizes[i]);
        if (roundings)
            finish_roundings(&pass.states[i], p, sums, output, roundings + i * p->value_dim);
    }
    ra_key_pass_free(&pass);
    return status;
}
