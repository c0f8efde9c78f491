/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of a run: see rank_phase.h. */
#include "ring/rank_phase.h"

#include "ring/slot.h"
#include "ring/supply.h"

#include <string.h>

/* Rows of a message into held.some, marked on `share`; returns their bytes. */
static int64_t find_rows(ra_rank *e, const ra_message *m, const ra_share *share)
{
    ra_message_rows(&e->held.reads, m, share, e->held.some, e->held.other);
    return ra_message_bytes(e->pass, m, ra_marked(e->held.some, ra_reads_share_words(e->pass, share)));
}

/*
 * Where memory is spared, own rows that were given up travel when the step beside the phase is done: they are read into
 * its slot. So do sums of gradients, which that step adds to; a virtual rank has finished with them. No deadlock: a
 * late message may wait for others of its phase, and these never wait for a late one.
 */
static bool is_late(const ra_rank *e, const ra_message *m)
{
    return (m->late && !ra_rank_virtual(e)) ||
           (m->again && e->flight.sparing && e->flight.sparing[m->from] && m->phase > e->at.first);
}

/* Receives that are late, or those that are not. */
static ra_status start_receives(ra_rank *e, bool late, int64_t *came)
{
    const ra_strategy_kind *s = e->ring->strategy;
    ra_message m;
    ra_status status = RA_OK;
    int64_t phase = e->flight.phase;
    for (int64_t cursor = 0; !status && s->receive(e->pass, e->rank, phase, &cursor, &m);) {
        if (is_late(e, &m) != late) {
            e->flight.late = true;
            continue;
        }
        ra_share share = ra_message_share(e->pass, &m);
        int64_t bytes = find_rows(e, &m, &share);
        if (!bytes)
            continue;
        *came += (m.roles & e->pass->along) == 0; /* sums go along with rows, or back: that is no hop */
        if (phase >= e->tally.counted)
            e->tally.stats->bytes_received += bytes;
        if (e->tally.ledger)
            e->tally.ledger[m.from] += bytes;
        status = e->supply->receive(e, &m, &share);
    }
    return status;
}

/* What a virtual rank sends, those note that get it. */
static ra_status start_sends(ra_rank *e, bool late)
{
    const ra_strategy_kind *s = e->ring->strategy;
    ra_message m;
    ra_status status = RA_OK;
    int64_t phase = e->flight.phase;
    for (int64_t cursor = 0; !status && !e->tally.ledger && s->send(e->pass, e->rank, phase, &cursor, &m);) {
        if (is_late(e, &m) != late) {
            e->flight.late = true;
            continue;
        }
        ra_share share = ra_message_held(e->pass, &m);
        int64_t bytes = find_rows(e, &m, &share);
        if (!bytes)
            continue;
        if (phase >= e->tally.counted)
            e->tally.stats->bytes_sent += bytes;
        status = e->supply->send(e, &m, &share);
    }
    return status;
}

/* A chunk that comes from several ranks is one hop, unless every message is. */
static void count_hops(ra_rank *e, int64_t came, int64_t before)
{
    bool each = e->ring->strategy->hop_a_message;
    if (e->flight.phase >= e->tally.counted)
        e->tally.stats->hops += each ? came : came > 0 && before == 0;
}

/* Whether this rank has sums of its own, which are gathered after the last step. */
static bool gathers_sums(const ra_rank *e)
{
    return e->pass->along && e->ring->strategy->sums == RA_SUMS_GATHERED && !ra_rank_virtual(e);
}

/* They begin with nothing. */
static void clear_sums(const ra_rank *e, const ra_slot *s)
{
    for (int role = 0; role < RA_ROLES && gathers_sums(e); role++)
        if (e->pass->along >> role & 1 && s->room)
            memset(s->memory[role], 0, (size_t)(s->rows * e->pass->row_bytes[role]));
}

/* Room for the rows of a step, unless they are read in place or are the rank's own, which are there. */
static ra_status make_room(ra_rank *e, int64_t phase)
{
    ra_status status;
    const ra_strategy_kind *s = e->ring->strategy;
    if (e->ring->in_place || phase == s->own_step || phase >= e->steps)
        return RA_OK;
    ra_share share = s->share(e->pass, e->rank, phase);
    ra_reads_set(&e->held.reads, e->rank, &share, e->held.some);
    status = ra_slot_set(e, s->slot(phase), &share, e->held.some, share.blocks);
    if (!status)
        clear_sums(e, &e->held.slots[s->slot(phase)]);
    return status;
}

/* Own rows of a step whose keys are not a rank's own: out of their slot. A virtual rank reads their sums. */
static ra_status copy_own(ra_rank *e, int64_t phase)
{
    const ra_strategy_kind *s = e->ring->strategy;
    if (e->ring->in_place || s->own_step >= 0 || phase >= e->steps || e->held.slots[e->held.own_slot].room == 0)
        return RA_OK;
    const ra_slot *into = &e->held.slots[s->slot(phase)];
    const ra_message mine = ra_message_of_rows(e->pass, e->rank, e->rank, phase);
    if (!find_rows(e, &mine, &into->share))
        return RA_OK;
    ra_slot_copy_own(e, into, e->held.some);
    bool read = e->pass->along && ra_rank_virtual(e);
    return read ? ra_slot_read(e, into, e->pass->along, e->held.some, into->share.blocks) : RA_OK;
}

ra_status ra_rank_start_phase(ra_rank *e, int64_t phase)
{
    const ra_rank_stats *stats = e->tally.stats;
    int64_t came = 0;
    e->flight.segments = 0;
    e->flight.phase = phase;
    e->flight.late = e->flight.to_add = false;
    e->tally.passed[phase % 2] = (ra_passed){stats->hops, stats->bytes_sent, stats->bytes_received};
    e->link.what = "hop";
    e->link.hop = phase;
    ra_status status = make_room(e, phase);
    if (!status)
        status = start_receives(e, false, &came);
    count_hops(e, came, 0);
    e->flight.came = came;
    if (!status)
        status = start_sends(e, false);
    if (!status)
        status = copy_own(e, phase);
    return status ? status : e->supply->begun(e);
}

ra_status ra_rank_wait_phase(ra_rank *e)
{
    int64_t came = 0;
    ra_status status = e->supply->wait(e);
    if (status || !e->flight.late)
        return status;
    status = start_receives(e, true, &came);
    count_hops(e, came, e->flight.came);
    if (!status)
        status = start_sends(e, true);
    if (!status)
        status = e->supply->wait(e);
    const ra_slot *arrived = &e->held.slots[RA_SLOT_ARRIVED];
    if (!status && e->flight.to_add)
        ra_slot_add_home(e, arrived, arrived->words);
    return status;
}

/* The sums of own rows that this rank has made itself: as if it had sent them. */
void ra_rank_add_own_sums(ra_rank *e, int64_t step)
{
    const ra_slot *from = &e->held.slots[e->ring->strategy->slot(step)];
    const ra_message mine = ra_message_of_rows(e->pass, e->rank, e->rank, step);
    if (gathers_sums(e) && from->room && find_rows(e, &mine, &from->share))
        ra_slot_add_home(e, from, e->held.some);
}

void ra_rank_note_phases(ra_rank *e, int64_t end)
{
    ra_message m;
    for (int64_t phase = 0; phase < end; phase++)
        for (int64_t cursor = 0; e->ring->strategy->receive(e->pass, e->rank, phase, &cursor, &m);) {
            ra_share share = ra_message_share(e->pass, &m);
            e->tally.ledger[m.from] += find_rows(e, &m, &share);
        }
}
