/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the gradients by keys or by values while queries pass by, a block at a time: the queries of all heads that
 * share the key/value head of a row. The weight of a pair comes from the log-sum-exp of the query, and what the softmax
 * takes off its gradient from the output. Each key asks of every query whether it is seen, by the definition; only
 * blocks of queries whose hull, which is the planner's, leaves out the key are passed over.
 */
#ifndef RA_ORACLE_QUERY_PASS_H
#define RA_ORACLE_QUERY_PASS_H

#include "oracle/rows.h"

typedef struct ra_query_pass {
    /* Set by the caller. */
    const ra_plan *plan;
    ra_storage *q, *k, *v, *output, *lse, *d_output, *d_lse; /* d_lse may be NULL */
    bool values;                                             /* rows of d_v; else of d_k */
    bool sized;                                              /* squares are wanted */
    const ra_row *rows;
    int64_t count;

    /* What there is afterwards, [count][dim of the gradient]. */
    double *sums;    /* the gradient */
    double *squares; /* of the errors of its terms (rounding.h); NULL: not wanted */

    int64_t block_queries;
    double *row_keys, *row_values;       /* [count][head_dim], [count][value_dim] */
    double *queries;                     /* [block_queries][heads of a block][head_dim] */
    double *outputs, *d_outputs;         /* [block_queries][heads of a block][value_dim] */
    double *lses, *deltas, *delta_sizes; /* [block_queries][heads of a block] */
    void *elements;                      /* a block as the storages have it */
    uint8_t *times;                      /* [count][block_queries][group_heads]: how often a query sees a row's key */
    double done, total;                  /* pairs */
} ra_query_pass;

/* Free it with ra_query_pass_free, also after a failure. */
ra_status ra_query_pass_run(ra_query_pass *pass);
void ra_query_pass_free(ra_query_pass *pass);

#endif
