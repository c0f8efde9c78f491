/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows are read where they lie. Virtual ranks read the caller's tensors. Ranks that are threads read each other's
 * memory: their messages are empty and say that the rows may be read, and a gate in memory that they share keeps an
 * owner from leaving while others read.
 */
#include "ring/gate.h"
#include "ring/supply.h"

static ra_status receive(ra_rank *e, const ra_message *m, const ra_share *share)
{
    ra_transport *t = e->link.transport;
    (void)share;
    return t ? t->receive(t->state, m->from, ra_phase_tag(m->phase), NULL, 0) : RA_OK;
}

static ra_status send(ra_rank *e, const ra_message *m, const ra_share *share)
{
    ra_transport *t = e->link.transport;
    (void)share;
    return t ? t->send(t->state, m->to, ra_phase_tag(m->phase), NULL, 0) : RA_OK;
}

static ra_status begun(ra_rank *e)
{
    (void)e;
    return RA_OK;
}

static ra_status wait_phase(ra_rank *e)
{
    return ra_link_wait(&e->link);
}

static int64_t rows(ra_rank *e, int64_t step)
{
    ra_share keys = e->ring->strategy->share(e->pass, e->rank, step);
    ra_reads_set(&e->held.reads, e->rank, &keys, e->held.some);
    return ra_marked(e->held.some, ra_reads_share_words(e->pass, &keys));
}

static ra_status enter(ra_rank *e, int64_t step)
{
    ra_held *h = &e->held;
    *e->work.keys = (ra_keys){.share = e->ring->strategy->share(e->pass, e->rank, step),
                              .k = h->peers + RA_ROLE_KEYS * h->peer_count,
                              .v = h->peers + RA_ROLE_VALUES * h->peer_count,
                              .owners = e->link.transport ? &e->ring->keys : NULL};
    return ra_gates_enter(e);
}

const ra_supply ra_supply_memory = {receive, send, begun, wait_phase, rows, enter, ra_gates_leave};
