/* Where ranks share memory: others' rows are read only while their owner keeps them. */
#ifndef RA_RING_GATE_H
#define RA_RING_GATE_H

#include "ring/rank.h"

/* Before the greeting: others may come. */
void ra_gate_open(const ra_rank *e);

/* All ranks' gates, while their memory is read. RA_ERROR_PEER: one has stopped; leave all the same. */
ra_status ra_gates_enter(ra_rank *e);
void ra_gates_leave(ra_rank *e);

/* Nobody comes any more, and those that are reading are waited for. */
void ra_gate_close(const ra_rank *e);

#endif
