/* SPDX-License-Identifier: Apache-2.0 */
/* A gate keeps an owner of rows from leaving while others read them. See gate.h. */
#include "ring/gate.h"

#include <time.h>

/* The number of ranks that read this rank's keys, and whether further ones may begin. */
typedef struct gate {
    _Atomic int readers, closed;
} gate;
_Static_assert(sizeof(gate) <= RA_SHARED_BYTES / 2, "the other half of a rank's share is the link's");

/* NULL: there is none. */
static gate *gate_of(const ra_rank *e, int rank)
{
    char *shared = e->ring->in_place && e->link.transport ? e->link.transport->shared : NULL;
    return shared ? (gate *)(shared + (size_t)rank * RA_SHARED_BYTES) : NULL;
}

void ra_gate_open(const ra_rank *e)
{
    gate *mine = gate_of(e, e->rank);
    if (mine)
        atomic_store(&mine->closed, 0);
}

ra_status ra_gates_enter(ra_rank *e)
{
    int closed = -1;
    for (int rank = 0; rank < e->ring->options.ranks && gate_of(e, rank); rank++) {
        atomic_fetch_add(&gate_of(e, rank)->readers, 1);
        if (closed < 0 && atomic_load(&gate_of(e, rank)->closed))
            closed = rank;
    }
    return closed < 0 ? RA_OK : ra_fail(RA_ERROR_PEER, "rank %d: rank %d has stopped", e->rank, closed);
}

void ra_gates_leave(ra_rank *e)
{
    for (int rank = 0; rank < e->ring->options.ranks && gate_of(e, rank); rank++)
        atomic_fetch_sub(&gate_of(e, rank)->readers, 1);
}

void ra_gate_close(const ra_rank *e)
{
    const struct timespec moment = {0, 50000};
    gate *mine = gate_of(e, e->rank);
    if (!mine)
        return;
    atomic_store(&mine->closed, 1);
    while (atomic_load(&mine->readers) > 0)
        nanosleep(&moment, NULL);
}
