/* SPDX-License-Identifier: Apache-2.0 */
/* A multi-head layer by its definition, in double precision, with any pattern and some terms of scores. */
#ifndef TEST_LAYER_ORACLE_H
#define TEST_LAYER_ORACLE_H

#include <ringattn/multihead.h>

/* Parameters in the order of ra_layer_parameters, then x, then arrays of scores. */
enum { ORACLE_PARTS = 16, ORACLE_X = 12, ORACLE_SLOPES = 13, ORACLE_SINKS = 14, ORACLE_BIAS = 15 };

/* The scores of a layer that has them: slopes and sinks of each head, a bias [rows, rows] that all heads share. */
#define ORACLE_SCORES "softcap:3+alibi+bias+sinks"

typedef struct oracle {
    ra_layer_options o; /* kv_heads and head_dim are set */
    int causal;
    const ra_plan *plan;         /* NULL, or one that says which keys are seen, and how often, instead of `causal` */
    int scored;                  /* whether it has ORACLE_SCORES */
    int64_t count[ORACLE_PARTS]; /* elements; 0: the layer has none */
    double *part[ORACLE_PARTS];
} oracle;

void oracle_count(oracle *oracle);
void oracle_forward(const oracle *oracle, double *y);

#endif
