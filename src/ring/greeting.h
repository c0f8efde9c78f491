/* What ranks tell each other before the first hop: whether they are about to do the same thing. */
#ifndef RA_RING_GREETING_H
#define RA_RING_GREETING_H

#include "ring/ring_plan.h"

/* What the run is of; and one line on what it goes on from. */
enum { RA_GREETING_FACTS = 20, RA_GREETING_LINES, RA_GREETING_TEXT = 96 };

/* Lines "name: value"; and, where ranks share memory, where their keys and values are. */
typedef struct ra_greeting {
    char line[RA_GREETING_LINES][RA_GREETING_TEXT];
    ra_tensor k, v;
    int64_t step;    /* that the rank goes on with */
    int64_t sparing; /* 1: it gives away rows late that it has given up */
    uint64_t set;    /* the number of its checkpoint */
} ra_greeting;

/* The facts. */
void ra_greeting_fill(ra_greeting *greeting, const ra_ring_plan *ring, bool lse);

/* RA_ERROR_ARGUMENT naming the first rank whose greeting differs from this rank's, and what differs. */
ra_status ra_greeting_compare(const ra_greeting *all, int ranks, int mine);

#endif
