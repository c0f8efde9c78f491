/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass of a backward run on one rank. The rows that stay are in memory as a whole, with float32 sums of their
 * gradients; the rows that travel come into slots, step by step, as in a forward pass. See rank_gradients.h.
 */
#include "ring/rank_gradients.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/tensor.h"
#include "exec/gradient.h"
#include "ring/rank_arrays.h"
#include "ring/slot.h"

#include <string.h>

/* ---- What stays -------------------------------------------------------------------------------------------------- */

/* The place in storage of a range of the rows that stay. */
static int64_t storage_row(const ra_rank *e, ra_range range)
{
    return e->tensors->parts ? range.row : range.first;
}

static ra_status load_role(ra_rank *e, ra_role role)
{
    const ra_stay *stay = &e->held.stay;
    const ra_tensor *into = &stay->tensors[role];
    ra_status status = RA_OK;
    for (int64_t i = 0; i < stay->share.ranges && !status; i++) {
        ra_range range = ra_share_range(&stay->share, i);
        int64_t first = storage_row(e, range), rows = range.end - range.first;
        if (role == RA_ROLE_DELTA)
            status = ra_slot_find_delta(e, first, rows, 0, &stay->tensors[RA_ROLE_OUTPUT_GRADIENTS], into, range.row);
        else
            status = ra_slot_read_rows(e, ra_slot_storage(e, role), first, rows, 0, into, range.row);
    }
    return status;
}

/* Virtual ranks keep sums in the storages of gradients. Before the first of them works these are zeros, ... */
static ra_status clear_storage(ra_rank *e, ra_role role)
{
    ra_storage *storage = ra_slot_storage(e, role);
    const ra_tensor *all = ra_storage_view(storage);
    int64_t most = ra_max(1, e->held.memory.output / (all->heads * all->dim * (int64_t)sizeof(float)));
    ra_status status = RA_OK;
    memset(e->held.output, 0, (size_t)e->held.memory.output);
    for (int64_t batch = 0; batch < all->batch; batch++)
        for (int64_t row = 0, rows; row < all->seq && !status; row += rows) {
            rows = ra_min(most, all->seq - row);
            ra_tensor zeros = ra_tensor_dense(e->held.output, RA_F32, RA_BSHD, 1, rows, all->heads, all->dim);
            status = ra_storage_write(storage, batch, row, rows, &zeros);
            if (!status)
                status = ra_link_poll(&e->link);
        }
    return status;
}

/* ... and each begins with the sums of its own rows that the ranks before it have made. */
static ra_status load_home(ra_rank *e)
{
    const ra_slot *home = &e->held.slots[RA_SLOT_HOME];
    ra_status status = RA_OK;
    for (int role = 0; role < RA_ROLES && !status && e->rank == 0; role++)
        if (e->pass->along >> role & 1)
            status = clear_storage(e, role);
    if (!status && e->ring->strategy->sums == RA_SUMS_ALONG && home->room)
        status = ra_slot_read(e, home, e->pass->along, home->words, home->share.blocks);
    return status;
}

ra_status ra_gradients_load(ra_rank *e)
{
    ra_status status = RA_OK;
    double start = ra_seconds();
    if (e->pass->along && ra_rank_virtual(e))
        status = load_home(e);
    for (int role = 0; role < RA_ROLES && !status; role++)
        if (e->pass->stays >> role & 1)
            status = load_role(e, role);
    e->tally.stats->seconds_io += ra_seconds() - start;
    return status;
}

/* ---- A step ------------------------------------------------------------------------------------------------------ */

/* The sums of a role of the rows that stay; NULL: they are not wanted. */
static const ra_tensor *sums_of(const ra_rank *e, ra_role role)
{
    return e->pass->sums >> role & 1 ? &e->held.stay.tensors[role] : NULL;
}

/* Sums that go along with the rows in a slot; those of own rows are at home. NULL: there are none. */
static const ra_tensor *sums_along(const ra_rank *e, const ra_slot *slot, ra_role role)
{
    bool own = slot == &e->held.slots[e->held.own_slot] && e->at.step == e->ring->strategy->own_step;
    if (!(e->pass->along >> role & 1))
        return NULL;
    return own ? e->held.slots[RA_SLOT_HOME].tensors[role] : slot->tensors[role];
}

/* Keys travel: they come in a slot, and queries stay. */
static void set_keys(const ra_rank *e, const ra_slot *slot, ra_gradient_run *run)
{
    const ra_stay *stay = &e->held.stay;
    const ra_tensor *t = stay->tensors;
    run->queries = (ra_query_rows){.share = stay->share,
                                   .q = &t[RA_ROLE_QUERIES],
                                   .d_output = &t[RA_ROLE_OUTPUT_GRADIENTS],
                                   .lse = &t[RA_ROLE_LSE],
                                   .delta = &t[RA_ROLE_DELTA],
                                   .d_q = sums_of(e, RA_ROLE_QUERY_SUMS)};
    run->keys = (ra_key_rows){.keys = ra_slot_keys(e, slot),
                              .d_k = sums_along(e, slot, RA_ROLE_KEY_SUMS),
                              .d_v = sums_along(e, slot, RA_ROLE_VALUE_SUMS)};
}

/* Queries travel: they come in a slot, and keys stay. */
static void set_queries(const ra_rank *e, const ra_slot *slot, ra_gradient_run *run)
{
    const ra_stay *stay = &e->held.stay;
    run->queries = (ra_query_rows){.share = slot->share,
                                   .q = slot->tensors[RA_ROLE_QUERIES],
                                   .d_output = slot->tensors[RA_ROLE_OUTPUT_GRADIENTS],
                                   .lse = slot->tensors[RA_ROLE_LSE],
                                   .delta = slot->tensors[RA_ROLE_DELTA],
                                   .d_q = sums_along(e, slot, RA_ROLE_QUERY_SUMS),
                                   .words = slot->words,
                                   .before = slot->before,
                                   .head_words = e->held.planes > 1 ? slot->share.blocks : 0};
    run->keys = (ra_key_rows){.keys = {.share = stay->share,
                                       .k = &stay->tensors[RA_ROLE_KEYS],
                                       .v = &stay->tensors[RA_ROLE_VALUES],
                                       .words = stay->words,
                                       .before = stay->before},
                              .d_k = sums_of(e, RA_ROLE_KEY_SUMS),
                              .d_v = sums_of(e, RA_ROLE_VALUE_SUMS)};
}

/* Lay out the tasks of a step, within the scratch that was planned. */
static ra_status lay_out(ra_rank *e, const ra_share *queries, ra_workload *work)
{
    const ra_plan *p = e->ring->plan;
    ra_workload_lay_out_gradient(work, p, *queries, e->ring->threads);
    work->scratch_bytes = ra_gradient_scratch_bytes(p, work);
    if (work->threads * work->scratch_bytes <= e->held.memory.scratch)
        return RA_OK;
    return ra_fail(RA_ERROR_INTERNAL, "rank %d: %lld bytes of scratch where %lld were planned", e->rank,
                   (long long)(work->threads * work->scratch_bytes), (long long)e->held.memory.scratch);
}

static ra_status run_tasks(ra_rank *e, const ra_slot *slot)
{
    ra_workload work;
    double before = e->tally.counts.pairs_visible;
    ra_gradient_run run = {.plan = e->ring->plan,
                           .work = &work,
                           .kernel = e->kernel,
                           .poll = e->work.run.poll,
                           .poll_user = e->work.run.poll_user,
                           .array_sums = e->arrays ? &e->arrays->sums : NULL,
                           .counts = &e->tally.counts};
    (e->pass->moving == RA_SIDE_KEYS ? set_keys : set_queries)(e, slot, &run);
    ra_status status = lay_out(e, &run.queries.share, &work);
    if (status)
        return status;
    if (!ra_gradient_tasks(&run, e->held.scratch))
        return e->status ? e->status
                         : ra_fail(RA_ERROR_CANCELLED, "rank %d: cancelled by the progress callback", e->rank);
    e->tally.pairs_before += e->tally.counts.pairs_visible - before;
    return RA_OK;
}

ra_status ra_gradients_step(ra_rank *e, int64_t step)
{
    const ra_slot *slot = &e->held.slots[e->ring->strategy->slot(step)];
    ra_status status = RA_OK;
    if (e->held.stay.share.rows > 0 && slot->room > 0 && slot->rows > 0 && e->ring->plan->batch > 0) {
        double start = ra_seconds();
        status = run_tasks(e, slot);
        e->tally.stats->seconds_compute += ra_seconds() - start;
    }
    return status;
}

/* The sums of own rows, where they go along with rows, stay at home until the end. */
ra_status ra_gradients_keep(ra_rank *e, int64_t step)
{
    if (!e->pass->along || !ra_rank_virtual(e) || step == e->ring->strategy->own_step)
        return RA_OK;
    return ra_slot_write_sums(e, &e->held.slots[e->ring->strategy->slot(step)]);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

/* The sums of a role of the rank's own rows: one tensor, or one for each plane of heads. */
typedef struct own_sums {
    const ra_tensor *tensors;
    int64_t planes;
    const ra_share *share;
} own_sums;

static own_sums sums_at_end(const ra_rank *e, ra_role role)
{
    const ra_slot *home = &e->held.slots[RA_SLOT_HOME];
    if (e->pass->along >> role & 1)
        return (own_sums){home->tensors[role], e->held.planes, &home->share};
    return (own_sums){&e->held.stay.tensors[role], 1, &e->held.stay.share};
}

/* Round rows of the sums of one batch, from `row` on, and write them to a storage, from `at` on. */
static ra_status write_part(ra_rank *e, ra_storage *storage, const own_sums *sums, int64_t batch, int64_t row,
                            int64_t rows, int64_t at)
{
    int64_t heads = sums->tensors->heads;
    ra_tensor rounded = ra_tensor_dense(e->held.output, ra_storage_view(storage)->dtype, RA_BSHD, 1, rows,
                                        sums->planes * heads, sums->tensors->dim);
    for (int64_t plane = 0; plane < sums->planes; plane++) {
        ra_tensor part = sums->tensors[plane];
        part.data = (void *)ra_tensor_at(&sums->tensors[plane], 0, row, 0, 0);
        part.seq = rows;
        ra_gradient_round(&part, batch, 0, &rounded, 0, plane * heads, heads);
    }
    ra_status status = ra_storage_write(storage, batch, at, rows, &rounded);
    return status ? status : ra_link_poll(&e->link);
}

static ra_status write_range(ra_rank *e, ra_role role, const own_sums *sums, ra_range range)
{
    const ra_tensor *t = sums->tensors;
    int64_t most = ra_max(1, e->held.memory.output / (sums->planes * t->heads * t->dim * (int64_t)sizeof(float)));
    ra_status status = RA_OK;
    for (int64_t batch = 0; batch < t->batch; batch++)
        for (int64_t done = 0, rows = range.end - range.first; done < rows && !status; done += most)
            status = write_part(e, ra_slot_storage(e, role), sums, batch, range.row + done, ra_min(most, rows - done),
                                storage_row(e, range) + done);
    return status;
}

ra_status ra_gradients_write(ra_rank *e)
{
    ra_status status = RA_OK;
    double start = ra_seconds();
    bool kept = ra_rank_virtual(e) && e->ring->strategy->sums == RA_SUMS_GATHERED; /* in their storage already */
    for (int role = 0; role < RA_ROLES; role++) {
        if (!((e->pass->sums | (kept ? 0 : e->pass->along)) >> role & 1))
            continue;
        const own_sums sums = sums_at_end(e, role);
        for (int64_t i = 0; i < sums.share->ranges && !status; i++)
            status = write_range(e, role, &sums, ra_share_range(sums.share, i));
    }
    e->tally.stats->seconds_io += ra_seconds() - start;
    return status;
}
