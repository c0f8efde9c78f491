/* A communicator: a transport, or the fact that all ranks are simulated. */
#ifndef RA_TRANSPORT_COMM_H
#define RA_TRANSPORT_COMM_H

#include "base/memory.h"
#include "ringattn/transport.h"

#include <stdbool.h>

struct ra_comm {
    ra_transport transport; /* simulated: only its ranks count, and its functions are NULL */
    bool simulated;
    bool broken;    /* a run on it has failed: it can only be freed */
    ra_spare spare; /* what its last run held: to take the same again would cost a run of MPI some percent */
};

#endif
