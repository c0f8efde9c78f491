/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a phase that are read from storage: see wanted.h. */
#include "ring/wanted.h"

#include "base/clock.h"
#include "ring/rank_behind.h"
#include "ring/slot.h"

#include <string.h>

void ra_wanted_add(ra_rank *e, const ra_share *share)
{
    int64_t words = e->held.planes * share->blocks;
    if (e->flight.wanted_phase < 0)
        memset(e->held.wanted, 0, (size_t)words * sizeof *e->held.wanted);
    e->flight.wanted_phase = e->flight.phase;
    for (int64_t i = 0; i < words; i++)
        e->held.wanted[i] |= e->held.some[i];
}

static ra_status read_wanted(void *user)
{
    ra_rank *e = user;
    double start = ra_seconds();
    const ra_slot *slot = &e->held.slots[e->ring->strategy->slot(e->flight.wanted_phase)];
    unsigned roles = e->pass->roles | (ra_rank_virtual(e) ? e->pass->along : 0);
    ra_status status = ra_slot_read(e, slot, roles, e->held.wanted, slot->share.blocks);
    e->flight.seconds_behind = ra_seconds() - start;
    return status;
}

ra_status ra_wanted_start(ra_rank *e)
{
    return e->flight.wanted_phase < 0 ? RA_OK : ra_rank_start_behind(e, read_wanted);
}

ra_status ra_wanted_wait(ra_rank *e)
{
    const double interval = 0.1;
    double start = ra_seconds();
    ra_status status = RA_OK;
    while (e->flight.behind && !status && !ra_background_ends_within(e->flight.behind, interval))
        status = ra_link_ask(&e->link);
    if (!status)
        return ra_rank_wait_behind(e);
    ra_rank_give_up_behind(e);
    e->link.waited += ra_seconds() - start;
    return status;
}
