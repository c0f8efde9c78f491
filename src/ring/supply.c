/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the supplies with slots share. */
#include "ring/supply.h"

#include "ring/slot.h"

static const ra_slot *slot_of(const ra_rank *e, int64_t step)
{
    return &e->held.slots[e->ring->strategy->slot(step)];
}

int64_t ra_supply_slot_rows(ra_rank *e, int64_t step)
{
    const ra_slot *s = slot_of(e, step);
    return s->room ? s->rows : 0;
}

ra_status ra_supply_enter_slot(ra_rank *e, int64_t step)
{
    *e->work.keys = ra_slot_keys(e, slot_of(e, step));
    return RA_OK;
}

void ra_supply_leave_slot(ra_rank *e)
{
    (void)e;
}
