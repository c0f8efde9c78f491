/*
 * The transport of a virtual rank: nobody is at the other end. What a rank receives is read from where the sender would
 * have read it, and what it sends goes nowhere.
 */
#ifndef RA_TRANSPORT_SIM_H
#define RA_TRANSPORT_SIM_H

#include "ringattn/transport.h"

/* Fills the segments of a message that `rank` receives from `from`: a read from storage. */
typedef ra_status (*ra_sim_source)(void *user, int rank, int from, int tag, const ra_segment *segments, int64_t count);

/* `transport` is the caller's, who ends it with its close(). */
ra_status ra_sim_open(int rank, int ranks, ra_sim_source source, void *user, ra_transport *transport);

#endif
