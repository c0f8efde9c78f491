/*
 * A virtual rank reads the rows of a step from storage: nobody is there to send them. Sums of gradients are kept in the
 * storage of these gradients. A rank reads them with the rows, and writes them when the step is done; so what would go
 * home to their owner is there.
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
