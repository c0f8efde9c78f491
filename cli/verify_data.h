/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One problem of `ringattn verify`: its tensors in both layouts with the same contents, and what the oracle says of the
 * results and the gradients.
 */
#ifndef CLI_VERIFY_DATA_H
#define CLI_VERIFY_DATA_H

#include "gradient_files.h"

typedef struct verify_case {
    bool quick;                   /* part of --quick */
    const char *pattern, *scores; /* scores: NULL, or terms; arrays of both are made up */
    int64_t batch, q_len, kv_len, heads, kv_heads, head_dim, value_dim;
} verify_case;

/* Gradients are of a forward pass that the oracle has run: GIVEN_OUTPUT and GIVEN_LSE are its results, rounded. */
enum {
    VERIFY_QUERY,
    VERIFY_KEY,
    VERIFY_VALUE,
    VERIFY_OUTPUT_GRADIENT,
    VERIFY_LSE_GRADIENT,
    VERIFY_INPUTS,
    VERIFY_GIVEN_OUTPUT = VERIFY_INPUTS,
    VERIFY_GIVEN_LSE,
    VERIFY_OUTPUT,
    VERIFY_LSE,
    VERIFY_GRADIENTS, /* three of them, by ra_gradient */
    VERIFY_TENSORS = VERIFY_GRADIENTS + GRADIENTS,
    VERIFY_LAYOUTS = 2
};

/* Rows of a result, all of them, in the order of a [batch, seq, heads, dim] tensor; with what their tolerances follow.
 */
typedef struct verify_rows {
    int64_t count, dim;
    ra_row *rows;                /* [count] */
    double *values;              /* [count][dim] */
    double *spreads, *roundings; /* [count][dim]; none of gradients */
    double *lses, *sizes;        /* [count]; no log-sum-exps of gradients */
} verify_rows;

/* Arrays for the terms of scores, of all that the case has. */
enum { VERIFY_TABLE, VERIFY_BIAS, VERIFY_SINKS, VERIFY_MASK, VERIFY_LENGTHS, VERIFY_ARRAYS };

typedef struct verify_data {
    ra_tensor arrays[VERIFY_ARRAYS];
    ra_score_arrays score_arrays; /* views of those that the scores use: data must stay where it is */
    ra_tensor tensors[VERIFY_LAYOUTS][VERIFY_TENSORS];
    verify_rows forward;
    verify_rows gradients[GRADIENTS];
} verify_data;

/* false: there is no memory. Free it in any case. */
bool verify_data_make(verify_data *data, const verify_case *verified, ra_dtype dtype);
void verify_data_free(verify_data *data);

ra_status verify_plan(const verify_data *data, const verify_case *verified, ra_kernel_id kernel, ra_plan **plan);

/* Ask the oracle. */
ra_status verify_data_reference(verify_data *data, const verify_case *verified);

#endif
