/* A multi-head layer by its definition, in double precision, with causal or full attention. */
#ifndef TEST_LAYER_ORACLE_H
#define TEST_LAYER_ORACLE_H

#include <ringattn/multihead.h>

/* Parameters in the order of ra_layer_parameters, then x. */
enum { ORACLE_PARTS = 13, ORACLE_X = 12 };

typedef struct oracle {
    ra_layer_options o; /* kv_heads and head_dim are set */
    int causal;
    int64_t count[ORACLE_PARTS]; /* elements; 0: the layer has none */
    double *part[ORACLE_PARTS];
} oracle;

void oracle_count(oracle *oracle);
void oracle_forward(const oracle *oracle, double *y);

#endif
