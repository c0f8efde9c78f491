/* SPDX-License-Identifier: Apache-2.0 */
/* The greeting: see rank_greet.h. */
#include "ring/rank_greet.h"

#include "base/checked.h"
#include "ring/gate.h"
#include "ring/greeting.h"

#include <stdlib.h>

/* The addresses of this rank's keys and values, for ranks that read them in place. */
static ra_tensor place_of(const ra_rank *e, ra_role role)
{
    return e->held.peer_count ? e->held.peers[role * e->held.peer_count + e->rank] : (ra_tensor){0};
}

static void fill(const ra_rank *e, ra_greeting *mine)
{
    /* The kernel depends on the output, of which a rank without rows has none. */
    bool known = e->tensors->output || !e->ring->options.lent || e->pass->gradient;
    ra_greeting_fill(mine, e->ring, known ? e->kernel : NULL, e->tensors->wants_lse);
    mine->k = place_of(e, RA_ROLE_KEYS);
    mine->v = place_of(e, RA_ROLE_VALUES);
    mine->step = e->at.step;
    mine->sparing = e->planned->sparing;
    mine->set = ra_checkpoint_set(e->tensors->checkpoint);
    ra_checkpoint_describe(e->tensors->checkpoint, mine->line[RA_GREETING_FACTS], RA_GREETING_TEXT);
}

/* Read the greetings of the other ranks. */
static void take_in(ra_rank *e, const ra_greeting *all)
{
    int64_t peers = e->held.peer_count;
    for (int rank = 0; rank < e->ring->options.ranks; rank++) {
        if (peers) {
            e->held.peers[RA_ROLE_KEYS * peers + rank] = all[rank].k;
            e->held.peers[RA_ROLE_VALUES * peers + rank] = all[rank].v;
        }
        e->at.first = ra_min(e->at.first, all[rank].step);
        e->flight.sparing[rank] = all[rank].sparing;
    }
    if (e->tensors->checkpoint)
        ra_checkpoint_join(e->tensors->checkpoint, all->set);
}

ra_status ra_rank_greet(ra_rank *e)
{
    int ranks = e->ring->options.ranks;
    ra_greeting *all = calloc((size_t)ranks + 1, sizeof *all);
    if (!all)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: greetings of %d ranks", ranks);
    fill(e, all + ranks);
    ra_gate_open(e);
    e->link.what = "the greeting";
    e->link.hop = -1;
    const ra_tensors *t = e->tensors;
    ra_storage *const outputs[RA_GREETING_OUTPUTS] = {t->output, t->lse, t->d_output, t->d_lse};
    ra_status status = t->parts ? RA_OK : ra_greeting_inputs(all + ranks, t->q, t->k, t->v);
    if (!status && !t->parts && e->pass->gradient)
        status = ra_greeting_outputs(all + ranks, outputs);
    if (!status)
        status = ra_link_exchange(&e->link, RA_TAG_GREETING, all + ranks, all, sizeof *all);
    if (!status)
        status = ra_greeting_compare(all, ranks, e->rank);
    if (!status)
        take_in(e, all);
    free(all);
    return status;
}
