/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the rows of a step come from: one interface; the supply of a rank is chosen once a run.
 *
 *     supply_messages.c  other ranks send them, into slots
 *     supply_storage.c   a virtual rank reads them from where the sender would have read them, into slots
 *     supply_memory.c    they are read where they lie: in other ranks' memory, or in the caller's
 */
#ifndef RA_RING_SUPPLY_H
#define RA_RING_SUPPLY_H

#include "ring/rank.h"

typedef struct ra_supply {
    /* Begin a message whose rows are marked in held.some, on `share`. */
    ra_status (*receive)(ra_rank *e, const ra_message *message, const ra_share *share);
    ra_status (*send)(ra_rank *e, const ra_message *message, const ra_share *share);
    /* Called when all messages of the phase have been begun. */
    ra_status (*begun)(ra_rank *e);
    /* Wait until the rows of the phase are here. */
    ra_status (*wait)(ra_rank *e);
    /* The rows of a step that are worked on. */
    int64_t (*rows)(ra_rank *e, int64_t step);
    /* Put the keys of a step into work.keys, where they stay while its tiles run. */
    ra_status (*enter)(ra_rank *e, int64_t step);
    void (*leave)(ra_rank *e);
} ra_supply;

/* Rows that are in the slot of a step, and its keys: for supplies that use slots. */
int64_t ra_supply_slot_rows(ra_rank *e, int64_t step);
ra_status ra_supply_enter_slot(ra_rank *e, int64_t step);
void ra_supply_leave_slot(ra_rank *e);

extern const ra_supply ra_supply_messages, ra_supply_storage, ra_supply_memory;

#endif
