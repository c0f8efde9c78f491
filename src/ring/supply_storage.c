/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A virtual rank reads the rows of a step from storage, because no other rank runs that could send them. Sums of
 * gradients are kept in the storages of the gradients. A rank reads them with the rows, and writes them when the step
 * is done; so sums that would go home are home already.
 */
#include "ring/slot.h"
#include "ring/supply.h"
#include "ring/wanted.h"

static ra_status receive(ra_rank *e, const ra_message *m, const ra_share *share)
{
    if (m->stored >= 0)
        ra_wanted_add(e, share);
    return RA_OK;
}

static ra_status send(ra_rank *e, const ra_message *m, const ra_share *share)
{
    (void)e, (void)m, (void)share;
    return RA_OK;
}

const ra_supply ra_supply_storage = {
    receive, send, ra_wanted_start, ra_wanted_wait, ra_supply_slot_rows, ra_supply_enter_slot, ra_supply_leave_slot};
