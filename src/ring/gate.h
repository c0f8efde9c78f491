/* SPDX-License-Identifier: Apache-2.0 */
/* Gates, for ranks that share memory: rows of another rank are read only while their owner keeps them. */
#ifndef RA_RING_GATE_H
#define RA_RING_GATE_H

#include "ring/rank.h"

/* Open the gate, before the greeting: others may read. */
void ra_gate_open(const ra_rank *e);

/* Enter the gates of all ranks, to read their memory. RA_ERROR_PEER: one has stopped. Leave also after a failure. */
ra_status ra_gates_enter(ra_rank *e);
void ra_gates_leave(ra_rank *e);

/* Close the gate and wait for the ranks that are still reading. */
void ra_gate_close(const ra_rank *e);

#endif
