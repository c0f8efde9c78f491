/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of arrays of scores over ranks: see rank_arrays.h. */
#include "ring/rank_arrays.h"

#include "base/memory.h"

#include <stdlib.h>

ra_status ra_arrays_make(const ra_ring_plan *ring, ra_arrays **arrays)
{
    ra_accountant nobody = {0}; /* each rank counts them */
    *arrays = NULL;
    if (!ra_arrays_wanted(ring))
        return RA_OK;
    ra_arrays *a = *arrays = calloc(1, sizeof *a);
    if (!a)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: gradients of scores");
    int64_t sums = ra_memory_rounded(ra_arrays_sum_bytes(ring));
    a->bytes = ra_arrays_bytes(ring);
    ra_status status = a->bytes ? ra_memory_take(&nobody, a->bytes, "gradients of scores", &a->memory) : RA_OK;
    if (status)
        return status;
    a->mine = a->memory;
    if (a->bytes > sums) {
        a->arriving = (ra_exact_sum *)((char *)a->memory + sums);
        a->part = (float *)((char *)a->memory + 2 * sums);
    }
    ra_array_sums_begin(&a->sums, ring->plan, a->mine);
    if (ring->options.transport == RA_TRANSPORT_SIM)
        ra_array_sums_clear(ring->plan);
    return RA_OK;
}

void ra_arrays_free(ra_arrays *a)
{
    ra_accountant nobody = {0};
    if (!a || a->stuck)
        return;
    ra_memory_give(&nobody, a->memory, a->bytes);
    free(a);
}

void ra_arrays_rows(ra_rank *e)
{
    const ra_slot *own = &e->held.slots[e->held.own_slot];
    const ra_tensor *stay = e->held.stay.tensors;
    if (!e->arrays)
        return;
    if (e->pass->moving == RA_SIDE_KEYS) {
        if (e->held.stay.share.rows > 0)
            ra_array_sums_rows(&e->arrays->sums, 0, &stay[RA_ROLE_LSE], &stay[RA_ROLE_DELTA]);
        return;
    }
    for (int64_t plane = 0; own->room && plane < e->held.planes; plane++)
        ra_array_sums_rows(&e->arrays->sums, plane * (e->ring->plan->heads / e->held.planes),
                           &own->tensors[RA_ROLE_LSE][plane], &own->tensors[RA_ROLE_DELTA][plane]);
}

/* ---- From rank to rank ------------------------------------------------------------------------------------------- */

ra_status ra_arrays_send(ra_rank *e, int to, void *from, int64_t bytes)
{
    ra_transport *t = e->link.transport;
    e->arrays->segment = (ra_segment){from, bytes};
    e->tally.stats->bytes_sent += bytes;
    ra_status status = t->send(t->state, to, RA_TAG_ARRAYS, &e->arrays->segment, 1);
    return status ? status : ra_link_wait(&e->link);
}

ra_status ra_arrays_receive(ra_rank *e, int from, void *to, int64_t bytes)
{
    ra_transport *t = e->link.transport;
    e->arrays->segment = (ra_segment){to, bytes};
    e->tally.stats->bytes_received += bytes;
    ra_status status = t->receive(t->state, from, RA_TAG_ARRAYS, &e->arrays->segment, 1);
    return status ? status : ra_link_wait(&e->link);
}

/* Sums of real ranks travel up to the last rank, and the total travels back. */
static ra_status move_sums(ra_rank *e)
{
    ra_arrays *a = e->arrays;
    int64_t bytes = ra_arrays_sum_bytes(e->ring), count = bytes / (int64_t)sizeof *a->mine;
    bool first = e->rank == 0, last = e->rank + 1 == e->ring->options.ranks;
    ra_status status = RA_OK;
    if (!first)
        status = ra_arrays_receive(e, e->rank - 1, a->arriving, bytes);
    if (!first && !status)
        ra_exact_merge(a->mine, a->arriving, count);
    ra_exact_carry(a->mine, count);
    if (!status && !last)
        status = ra_arrays_send(e, e->rank + 1, a->mine, bytes);
    if (!status && !last)
        status = ra_arrays_receive(e, e->rank + 1, a->mine, bytes);
    if (!status)
        ra_array_sums_finish(&a->sums); /* in turn: ranks of one process may have the same arrays */
    if (!status && !first)
        status = ra_arrays_send(e, e->rank - 1, a->mine, bytes);
    return status;
}

/* Bytes in each direction between this rank and one neighbour. Rank 0 has one neighbour, so it is what rank 0 sends. */
static int64_t bytes_between(const ra_rank *e, int other)
{
    return other < 0 || other >= e->ring->options.ranks ? 0 : ra_arrays_traffic(e->ring, 0);
}

/* Virtual ranks note what would have travelled; the last of them writes the gradients. */
static void note_sums(ra_rank *e)
{
    e->tally.stats->bytes_received += ra_arrays_traffic(e->ring, e->rank);
    for (int other = e->rank - 1; other <= e->rank + 1; other += 2)
        if (bytes_between(e, other))
            e->tally.ledger[other] += bytes_between(e, other);
    ra_exact_carry(e->arrays->mine, ra_array_sums_lay_out(e->ring->plan).count);
    if (e->rank + 1 == e->ring->options.ranks)
        ra_array_sums_finish(&e->arrays->sums);
}

ra_status ra_arrays_exchange(ra_rank *e)
{
    if (!e->arrays)
        return RA_OK;
    e->link.what = "adding up gradients of scores";
    e->link.hop = -1;
    if (ra_rank_virtual(e)) {
        note_sums(e);
        return RA_OK;
    }
    return ra_arrays_sum_bytes(e->ring) ? move_sums(e) : RA_OK;
}
