/* SPDX-License-Identifier: Apache-2.0 */
/* One rank from its beginning to its end: see rank_run.h. */
#include "ring/rank_run.h"

#include "base/clock.h"
#include "base/tensor.h"
#include "base/threads.h"
#include "ring/rank_arrays.h"
#include "ring/rank_bias.h"
#include "ring/rank_gradients.h"
#include "ring/rank_greet.h"
#include "ring/rank_memory.h"
#include "ring/rank_phase.h"
#include "ring/rank_results.h"
#include "ring/rank_save.h"
#include "ring/rank_tiles.h"
#include "ring/slot.h"
#include "ring/supply.h"
#include "score/scores.h"

ra_rank ra_rank_make(const ra_pass *pass, const ra_kernel *kernel, const ra_tensors *tensors, int rank,
                     ra_rank_stats *stats)
{
    const ra_ring_plan *ring = pass->ring;
    bool simulated = ring->options.transport == RA_TRANSPORT_SIM;
    return (ra_rank){.ring = ring,
                     .pass = pass,
                     .planned = ra_pass_planned(pass, rank),
                     .kernel = kernel,
                     .tensors = tensors,
                     .supply = ring->in_place ? &ra_supply_memory
                               : simulated    ? &ra_supply_storage
                                              : &ra_supply_messages,
                     .rank = rank,
                     .steps = ring->strategy->steps(pass),
                     .phases = ring->strategy->phases(pass),
                     .tally = {.stats = stats}};
}

/* What this rank's keys and values are to be found in: in its slot, or in the caller's memory. */
static ra_status set_own(ra_rank *e)
{
    ra_held *h = &e->held;
    ra_share own = ra_partition_share(ra_pass_moving(e->pass), e->rank);
    bool alone = ra_rank_virtual(e);
    ra_status status = RA_OK;
    h->own_slot = 0;
    if (e->ring->hold_own)
        status = ra_slot_set_all(e, h->own_slot, &own);
    if (!status && e->pass->along)
        status = ra_slot_set_all(e, RA_SLOT_HOME, &own);
    for (int role = 0; role <= RA_ROLE_VALUES && h->peer_count && !status; role++) {
        ra_tensor *mine = &h->peers[role * h->peer_count + (alone ? 0 : e->rank)];
        if (h->slots[h->own_slot].room)
            *mine = *h->slots[h->own_slot].tensors[role];
        else if (!e->ring->hold_own && (own.rows > 0 || alone))
            *mine = *ra_storage_view(ra_slot_storage(e, role));
    }
    return status;
}

static void set_run(ra_rank *e)
{
    e->work.run = (ra_run){.plan = e->ring->plan, .work = &e->work.load, .kernel = e->kernel, .q = &e->work.q};
    e->work.run.spans = 1;
    e->work.run.key_sets = 1;
    e->work.run.resume = true;
    e->work.run.poll = ra_rank_poll;
    e->work.run.poll_user = e;
    e->work.run.counts = &e->tally.counts;
}

ra_status ra_rank_prepare(ra_rank *e)
{
    const ra_tensors *t = e->tensors;
    enum { STORAGES = 10 };
    const ra_storage *const storages[STORAGES] = {t->q,        t->k,     t->v,   t->output, t->lse,
                                                  t->d_output, t->d_lse, t->d_q, t->d_k,    t->d_v};
    if (e->pass->gradient)
        e->work.load.threads = e->ring->threads;
    else
        ra_ring_workload(e->ring, e->rank, &e->work.load);
    e->held.memory = ra_pass_memory(e->pass, e->rank, e->planned);
    for (int i = 0; i < STORAGES; i++)
        e->held.accountant.bytes += storages[i] ? ra_storage_bytes(storages[i]) : 0;
    if (e->arrays)
        e->held.accountant.bytes += ra_arrays_bytes(e->ring);
    set_run(e);
    ra_status status = ra_rank_take_memory(e);
    if (!status)
        status = ra_threads_try(e->work.load.threads);
    return status ? status : set_own(e);
}

/* The rows of a share out of a storage, which has only this rank's rows or all. */
static ra_status read_share(ra_rank *e, ra_storage *storage, const ra_share *share, const ra_tensor *into)
{
    ra_status status = RA_OK;
    double start = ra_seconds();
    for (int64_t i = 0; i < share->ranges && !status; i++) {
        ra_range range = ra_share_range(share, i);
        status = ra_slot_read_rows(e, storage, e->tensors->parts ? range.row : range.first, range.end - range.first, 0,
                                   into, range.row);
    }
    e->tally.stats->seconds_io += ra_seconds() - start;
    return status;
}

ra_status ra_rank_load_queries(ra_rank *e)
{
    const ra_plan *p = e->ring->plan;
    const ra_share *queries = &e->work.load.queries;
    if (queries->rows == 0)
        return RA_OK;
    e->work.run.whole = !e->tensors->parts;
    e->work.q = *ra_storage_view(e->tensors->q);
    if (e->ring->options.lent)
        return RA_OK;
    e->work.run.whole = false;
    e->work.q = ra_tensor_dense(e->held.query, e->ring->options.q_dtype, RA_BHSD, p->batch, queries->rows, p->heads,
                                p->head_dim);
    return read_share(e, e->tensors->q, queries, &e->work.q);
}

/* The rank's own rows of those that travel into their slot; not where they have been worked on already and are given
 * up. */
static ra_status load_own(ra_rank *e)
{
    const ra_slot *s = &e->held.slots[e->held.own_slot];
    int64_t own_step = e->ring->strategy->own_step;
    ra_status status = RA_OK;
    if (!e->ring->hold_own || !s->room || (own_step >= 0 && own_step < e->at.first))
        return RA_OK;
    double start = ra_seconds();
    status = ra_slot_read(e, s, e->pass->roles, s->words, s->share.blocks);
    e->tally.stats->seconds_io += ra_seconds() - start;
    return status;
}

ra_status ra_rank_run(ra_rank *e, double started, const ra_point *point)
{
    ra_status status = ra_rank_prepare(e);
    if (!status)
        ra_rank_begin(e, point);
    if (!status && !ra_rank_virtual(e))
        status = ra_rank_greet(e);
    if (!status && e->tensors->checkpoint)
        status = ra_rank_go_on(e, point);
    if (!status && e->tally.ledger)
        ra_rank_note_phases(e, e->at.first);
    e->link.what = "reading its own rows";
    e->link.hop = -1;
    if (!status)
        status = (e->pass->gradient ? ra_gradients_load : ra_rank_load_queries)(e);
    if (!status)
        status = load_own(e);
    if (!status) {
        ra_arrays_rows(e);
        ra_bias_clear(e);
    }
    if (!status)
        status = ra_rank_run_steps(e);
    if (!status)
        status = ra_scores_failed(e->ring->plan->scores);
    if (!status)
        status = (e->pass->gradient ? ra_gradients_write : ra_rank_write_results)(e);
    if (!status)
        status = ra_arrays_exchange(e);
    if (!status)
        status = ra_bias_exchange(e);
    if (status)
        return status;
    ra_rank_fill_stats(e, started);
    return ra_rank_prove(e);
}
