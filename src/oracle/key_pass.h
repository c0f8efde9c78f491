/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Query rows while keys and values pass by, a block at a time. Each row asks of every key whether it is seen, by the
 * definition, and keeps its maximum score, its sum of weights and whatever else is summed up; when the maximum rises
 * the sums are scaled. Only keys outside a row's hull, which is the planner's, are not asked about: of a long sequence
 * most rows see little. Nothing else is shared with the planner, the kernels or the executor.
 */
#ifndef RA_ORACLE_KEY_PASS_H
#define RA_ORACLE_KEY_PASS_H

#include "oracle/rows.h"

/* A key that a row sees. Weights are times * exp(score - max), with the largest score of the row so far. */
typedef struct ra_seen_key {
    int64_t row;
    double weight;
    double kept;  /* what dropout multiplies the weight by: 1 without dropout */
    double slope; /* the derivative of the score by the scaled product of query and key: 1 without score terms */
    double size;  /* what the score is summed up from, without signs; of passes that are `sized` */
    const double *query, *key, *value;
} ra_seen_key;

typedef struct ra_key_row {
    ra_interval hull;
    double max, sum; /* the largest score; the sum of the weights: a sink is one of them */
    bool seen;       /* some key was, or there is a sink */
} ra_key_row;

typedef struct ra_key_pass {
    /* Set by the caller. */
    const ra_plan *plan;
    ra_storage *q, *k, *v;
    const ra_row *rows;
    int64_t count;
    bool sized; /* sizes of scores are wanted */
    /* Of each row: sums that do not depend on weights, that are linear in them, and that are quadratic. In this order.
     */
    int64_t constant, linear, square;
    /* Adds a key to the sums of its row. */
    void (*add)(const void *user, const ra_seen_key *key, double *sums);
    const void *user;

    /* What there is afterwards. */
    ra_key_row *states; /* [count] */
    double *sums;       /* [count][constant + linear + square] */

    int64_t block_keys;
    double *queries;    /* [count][head_dim] */
    double *keys;       /* [block_keys][heads of a block][head_dim] */
    double *values;     /* [block_keys][heads of a block][value_dim] */
    void *elements;     /* a block as the storages have it */
    uint8_t *times;     /* [count][block_keys]: how often a row sees a key */
    double done, total; /* pairs */
} ra_key_pass;

/* Free it with ra_key_pass_free, also after a failure. */
ra_status ra_key_pass_run(ra_key_pass *pass);
void ra_key_pass_free(ra_key_pass *pass);

double *ra_key_pass_sums(const ra_key_pass *pass, int64_t row);

/* The sum of a row's weights; NaN where softmax has no meaning: +inf or NaN among the scores, or nothing but -inf. */
double ra_key_row_weight(const ra_key_row *row);

#endif
