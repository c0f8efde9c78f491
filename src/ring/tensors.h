/* The tensors of a run. */
#ifndef RA_RING_TENSORS_H
#define RA_RING_TENSORS_H

#include "io/storage.h"

/* `parts`: they hold a rank's own rows; else the whole sequence. */
typedef struct ra_tensors {
    ra_storage *q, *k, *v, *output, *lse; /* lse may be NULL */
    bool parts;
    bool wants_lse;            /* also on a rank without rows */
    ra_checkpoint *checkpoint; /* NULL: the run is not saved */
} ra_tensors;

#endif
