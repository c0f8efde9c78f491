/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other ranks send the rows of a step. In a continued run, rows that had travelled before are not sent again: they are
 * read from storage, as a virtual rank does.
 */
#include "base/clock.h"
#include "ring/slot.h"
#include "ring/supply.h"
#include "ring/wanted.h"

static bool travelled_before(const ra_rank *e, int64_t phase)
{
    return e->at.first > 0 && phase == e->at.first;
}

/* The segments of a message; there may be none. */
static const ra_segment *segments_from(const ra_rank *e, int64_t first)
{
    return e->flight.segments > first ? (const ra_segment *)e->held.segments + first : NULL;
}

static ra_status receive(ra_rank *e, const ra_message *m, const ra_share *share)
{
    ra_transport *t = e->link.transport;
    if (travelled_before(e, m->phase)) {
        ra_wanted_add(e, share);
        return RA_OK;
    }
    int64_t first = e->flight.segments;
    int slot = m->stored < 0 ? (int)RA_SLOT_HOME : e->ring->strategy->slot(m->stored);
    ra_status status = RA_OK;
    if (m->delivery == RA_ADD) {
        slot = RA_SLOT_ARRIVED;
        status = ra_slot_set(e, slot, share, e->held.some, share->blocks);
        e->flight.to_add = true;
    }
    if (!status)
        status = ra_slot_add_segments(e, &e->held.slots[slot], m, e->held.some);
    return status ? status
                  : t->receive(t->state, m->from, ra_phase_tag(m->phase), segments_from(e, first),
                               e->flight.segments - first);
}

/* Own rows that were given up and are needed again. */
static ra_status read_again(ra_rank *e, int slot, const ra_share *share)
{
    double start = ra_seconds();
    ra_status status = ra_slot_set(e, slot, share, e->held.some, share->blocks);
    if (!status)
        status = ra_slot_read(e, &e->held.slots[slot], e->pass->roles, e->held.some, share->blocks);
    e->tally.stats->seconds_io += ra_seconds() - start;
    return status;
}

static int slot_of(const ra_rank *e, const ra_message *m)
{
    if (m->roles & e->pass->along && m->held < 0)
        return RA_SLOT_HOME;
    if (m->again)
        return e->ring->strategy->slot_again(e->planned, m->phase);
    return m->held < 0 ? e->held.own_slot : e->ring->strategy->slot(m->held);
}

static ra_status send(ra_rank *e, const ra_message *m, const ra_share *share)
{
    ra_transport *t = e->link.transport;
    if (travelled_before(e, m->phase))
        return RA_OK;
    int64_t first = e->flight.segments;
    int slot = slot_of(e, m);
    ra_status status = m->again ? read_again(e, slot, share) : RA_OK;
    if (!status)
        status = ra_slot_add_segments(e, &e->held.slots[slot], m, e->held.some);
    return status
               ? status
               : t->send(t->state, m->to, ra_phase_tag(m->phase), segments_from(e, first), e->flight.segments - first);
}

static ra_status wait_phase(ra_rank *e)
{
    return ra_link_wait(&e->link);
}

const ra_supply ra_supply_messages = {
    receive, send, ra_wanted_start, wait_phase, ra_supply_slot_rows, ra_supply_enter_slot, ra_supply_leave_slot};
