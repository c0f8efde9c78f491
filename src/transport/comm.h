/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator: a transport, or a flag that all ranks are simulated. */
#ifndef RA_TRANSPORT_COMM_H
#define RA_TRANSPORT_COMM_H

#include "base/memory.h"
#include "ringattn/transport.h"

#include <stdbool.h>

struct ra_comm {
    ra_transport transport; /* if simulated: only `ranks` is used, and the functions are NULL */
    bool simulated;
    bool broken;    /* a run on it has failed: it can only be freed */
    ra_spare spare; /* memory of the last run: to take it anew would cost an MPI run some percent */
};

#endif
