/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of the language model by its definition, in double precision and by plain loops: shares no code with it. */
#ifndef TEST_LM_ORACLE_H
#define TEST_LM_ORACLE_H

#include <stdint.h>

/* The size of a model; its parameters are in the order of examples/lm/parameters.c, as doubles. */
typedef struct oracle_model {
    int64_t context, layers, embed, heads;
} oracle_model;

/* The sum of the losses of one sequence in nats. `bytes` are [context + 1]. NAN: no memory. */
double oracle_loss(const oracle_model *model, const double *parameters, const unsigned char *bytes);

#endif
