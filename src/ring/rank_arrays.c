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
    a->bytes = ra_arrays_bytes(ring);
    ra_status status = a->bytes ? ra_memory_take(&nobody, a->bytes, "gradients of scores", &a->memory) : RA_OK;
    if (status)
        return status;
    ra_array_sums_begin(&a->sums, ring->plan, a->memory);
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

/* All sums to or from a neighbour. */
static ra_status move(ra_rank *e, bool send, int neighbour, ra_exact_sum *sums)
{
    ra_transport *t = e->link.transport;
    ra_arrays *a = e->arrays;
    int64_t bytes = ra_arrays_message(e->ring);
    a->segment = (ra_segment){sums, bytes};
    *(send ? &e->tally.stats->bytes_sent : &e->tally.stats->bytes_received) += bytes;
    ra_status status = (send ? t->send : t->receive)(t->state, neighbour, RA_TAG_ARRAYS, &a->segment, 1);
    return status ? status : ra_link_wait(&e->link);
}

/* Sums of real ranks: up to the last one, and the total back. */
static ra_status move_sums(ra_rank *e)
{
    ra_exact_sum *mine = e->arrays->memory;
    int64_t count = ra_array_sums_lay_out(e->ring->plan).count;
    bool first = e->rank == 0, last = e->rank + 1 == e->ring->options.ranks;
    ra_status status = RA_OK;
    if (!first) {
        status = move(e, false, e->rank - 1, mine + count);
        ra_exact_merge(mine, mine + count, status ? 0 : count);
    }
    ra_exact_carry(mine, count);
    if (!status && !last)
        status = move(e, true, e->rank + 1, mine);
    if (!status && !last)
        status = move(e, false, e->rank + 1, mine);
    if (!status)
        ra_array_sums_finish(&e->arrays->sums); /* in turn: ranks of one process may have the same arrays */
    if (!status && !first)
        status = move(e, true, e->rank - 1, mine);
    return status;
}

/* Virtual ranks note what would have travelled; the last of them writes the gradients. */
static void note_sums(ra_rank *e)
{
    int64_t bytes = ra_arrays_message(e->ring), messages = ra_arrays_messages(e->ring, e->rank);
    e->tally.stats->bytes_received += messages * bytes;
    if (e->rank > 0)
        e->tally.ledger[e->rank - 1] += bytes;
    if (e->rank + 1 < e->ring->options.ranks)
        e->tally.ledger[e->rank + 1] += bytes;
    else
        ra_array_sums_finish(&e->arrays->sums);
    ra_exact_carry(e->arrays->memory, ra_array_sums_lay_out(e->ring->plan).count);
}

ra_status ra_arrays_exchange(ra_rank *e)
{
    if (!e->arrays)
        return RA_OK;
    e->link.what = "adding up gradients of scores";
    e->link.hop = -1;
    if (!ra_rank_virtual(e))
        return move_sums(e);
    note_sums(e);
    return RA_OK;
}
