/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every transport has to do, told once: scenarios that are run on all ranks at the same time, over whatever
 * transport a harness opens for them.
 */
#ifndef TRANSPORT_SCENARIO_H
#define TRANSPORT_SCENARIO_H

#include "ringattn/transport.h"
#include "support/faulty.h"

#include <stdbool.h>

typedef struct scenario scenario;
typedef struct peer peer;

/* What runs the ranks. Ranks can wake each other without their transports; the simulation, which has no others, skips
 * both. */
typedef struct harness {
    void (*tell)(peer *me, int to);
    bool (*is_told)(peer *me); /* once for each tell; does not wait */
} harness;

struct peer {
    const scenario *scenario;
    const harness *harness;
    void *user; /* the harness's */
    ra_transport transport;
    bool open;
    char failure[512]; /* what went wrong; empty: nothing */
    struct block *memory;
};

struct scenario {
    const char *name;
    bool (*run)(peer *me); /* false: me->failure says why */
    int ranks;             /* at least so many */
    bool real;             /* not for the simulation, where nobody is at the other end */
    int64_t sent, expected;
    /* Which of `ranks` has made the bytes of the n-th message from a rank; NULL: the sender */
    int (*maker)(int from, int64_t n, int ranks);
    fault fault; /* of rank 0's transport */
};

extern const scenario scenarios[], fault_scenarios[];
extern const int scenario_count, fault_scenario_count;

/* Opened by the harness, closed here; memory that a failed MPI transport may still use is kept on request. */
bool play(peer *me);
void free_memory(peer *me, bool keep);

/* Byte `index` of the n-th message with `tag` that `maker` made for `to` (for all, if to < 0). */
unsigned char byte_of(int maker, int to, int tag, int64_t n, int64_t index);

#endif
