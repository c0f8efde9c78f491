/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a run. */
#ifndef RA_RING_TENSORS_H
#define RA_RING_TENSORS_H

#include "io/storage.h"

/* `parts`: they hold a rank's own rows; else the whole sequence. */
typedef struct ra_tensors {
    ra_storage *q, *k, *v, *output, *lse; /* lse may be NULL in a forward pass */
    bool parts;
    bool wants_lse;                                 /* also on a rank without rows */
    ra_checkpoint *checkpoint;                      /* NULL: the run is not saved */
    ra_storage *d_output, *d_lse, *d_q, *d_k, *d_v; /* of a backward pass; d_lse and gradients may be NULL */
} ra_tensors;

#endif
