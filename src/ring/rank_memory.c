/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a rank: see rank_memory.h. */
#include "ring/rank_memory.h"

#include "base/tensor.h"

#include <string.h>

/* The kinds of blocks, in the order in which they are kept for the next run. */
enum { TABLES = 8, BLOCKS };
_Static_assert((int)BLOCKS == (int)RA_SPARE_BLOCKS, "a spare block for each kind");

typedef struct rank_block {
    void **at;
    int64_t bytes;
    const char *what;
    bool travels; /* other ranks may reach into it */
} rank_block;

static void list_blocks(ra_held *h, rank_block list[BLOCKS])
{
    const ra_rank_memory *m = &h->memory;
    const rank_block blocks[] = {{&h->query, m->query, "queries", false},
                                 {&h->slot_memory, m->slots, "keys and values", true},
                                 {&h->marks, m->marks, "marks", false},
                                 {&h->known, m->known, "what ranks read", false},
                                 {&h->segments, m->segments, "messages", true},
                                 {&h->states, m->states, "row states", false},
                                 {&h->scratch, m->scratch, "scratch", false},
                                 {&h->output, m->output, "output", false},
                                 [TABLES] = {&h->tables, m->tables, "tables", true}};
    _Static_assert(sizeof blocks == BLOCKS * sizeof *blocks, "all kinds of blocks");
    memcpy(list, blocks, sizeof blocks);
}

/* Take a block, on the pages of the run before if there are any. */
static ra_status take_block(ra_held *h, const rank_block *b, int index)
{
    if (!b->bytes)
        return RA_OK;
    *b->at = h->spare->block[index];
    h->spare->block[index] = NULL;
    return ra_memory_renew(&h->accountant, b->bytes, b->what, b->at, h->spare->bytes[index]);
}

static ra_status take_blocks(ra_rank *e)
{
    rank_block blocks[BLOCKS];
    ra_status status = RA_OK;
    list_blocks(&e->held, blocks);
    for (int i = 0; i < BLOCKS && !ra_rank_virtual(e); i++) /* virtual ranks may share what is of no use to this one */
        if (!blocks[i].bytes)
            ra_spare_drop(e->held.spare, i);
    for (int i = 0; i < BLOCKS && !status; i++)
        status = take_block(&e->held, &blocks[i], i);
    return status;
}

/* Views of slots, tensors of other ranks, keys. */
static void divide_tables(ra_rank *e)
{
    ra_held *h = &e->held;
    ra_table_sizes sizes = ra_pass_tables(e->pass);
    ra_tensor *views = h->tables;
    memset(h->tables, 0, (size_t)h->memory.tables);
    for (int i = 0; i < (e->pass->along ? RA_SLOTS_MOST : RA_SLOTS); i++)
        for (int role = 0; role < RA_ROLES; role++)
            if (ra_pass_carries(e->pass, role)) {
                h->slots[i].tensors[role] = views;
                views += h->planes;
            }
    h->peers = views;
    h->peer_count = sizes.peers / __builtin_popcount(e->pass->roles);
    e->work.keys = (ra_keys *)(h->peers + sizes.peers);
    e->work.run.keys = e->work.keys;
}

static void divide_slots(ra_rank *e)
{
    ra_held *h = &e->held;
    char *at = h->slot_memory ? h->slot_memory : h->tables; /* rows of no bytes have an address too */
    uint64_t *words = h->marks;
    int64_t marks = e->ring->planes * e->pass->slot_blocks, each = e->ring->planes / h->planes;
    for (int i = 0; i < RA_SLOTS_MOST; i++) {
        ra_slot *s = &h->slots[i];
        s->room = h->memory.slot_rows[i];
        if (!s->room)
            continue;
        for (int role = 0; role < RA_ROLES; role++) {
            if (!(h->memory.slot_roles[i] >> role & 1))
                continue;
            s->memory[role] = at;
            at += ra_memory_rounded(s->room * each * e->pass->row_bytes[role]);
        }
        s->words = words;
        s->before = (int64_t *)(words + marks);
        words += 2 * marks;
    }
    h->some = words;
    h->other = words + marks;
    h->wanted = words + 2 * marks;
    h->stay.words = words + 3 * marks;
}

/* One tensor for each of some roles of the rows that stay, one after the other. */
static void divide_roles(ra_rank *e, unsigned roles, char *at)
{
    ra_stay *stay = &e->held.stay;
    for (int role = 0; role < RA_ROLES; role++) {
        if (!(roles >> role & 1))
            continue;
        ra_role_shape shape = ra_role_shape_of(e->ring, role);
        stay->tensors[role] =
            ra_tensor_dense(at, shape.dtype, RA_BHSD, e->ring->plan->batch, stay->share.rows, shape.heads, shape.dim);
        if (at) /* no rows have no memory */
            at += ra_memory_rounded(stay->share.rows * e->ring->planes * e->pass->row_bytes[role]);
    }
}

/* The rows that stay, in a pass for gradients, and their sums, which are zero. */
static void divide_stay(ra_rank *e)
{
    ra_held *h = &e->held;
    ra_stay *stay = &h->stay;
    stay->share = ra_partition_share(ra_pass_staying(e->pass), e->rank);
    stay->before = (int64_t *)(stay->words + stay->share.blocks);
    memset(stay->words, 0, (size_t)stay->share.blocks * sizeof *stay->words);
    ra_mark_range(&stay->share, 0, INT64_MAX, stay->words);
    ra_marks_before(stay->words, stay->share.blocks, stay->before);
    divide_roles(e, e->pass->stays, h->query);
    divide_roles(e, e->pass->sums, h->states);
    if (h->states)
        memset(h->states, 0, (size_t)h->memory.states);
    for (int role = 0; role < RA_ROLES; role++)
        if (e->pass->along >> role & 1 && h->slots[RA_SLOT_HOME].room)
            memset(h->slots[RA_SLOT_HOME].memory[role], 0,
                   (size_t)(h->slots[RA_SLOT_HOME].room * e->pass->row_bytes[role]));
}

static void clear_states(ra_rank *e)
{
    const ra_plan *p = e->ring->plan;
    const ra_workload *w = &e->work.load;
    char *states = e->held.states;
    if (!states)
        return;
    if (ra_ring_has_spans(e->ring))
        e->work.current = (float *)(states + e->held.memory.states / 2);
    for (int64_t unit = 0; unit < w->units; unit++) {
        ra_state_clear((float *)states + unit * p->unit_floats, w->grouping.lanes, p->unit_floats);
        if (e->work.current)
            ra_state_clear(e->work.current + unit * p->unit_floats, w->grouping.lanes, p->unit_floats);
    }
}

ra_status ra_rank_take_memory(ra_rank *e)
{
    ra_held *h = &e->held;
    h->accountant.bytes += h->memory.plan;
    h->planes = e->ring->in_place ? 1 : e->ring->planes;
    ra_status status = take_blocks(e);
    if (status)
        return status;
    divide_tables(e);
    divide_slots(e);
    if (e->pass->gradient)
        divide_stay(e);
    else
        clear_states(e);
    ra_reads_find(&h->reads, e->pass, e->rank, ra_rank_virtual(e) ? 2 : RA_KNOWN_MOST, h->known);
    return RA_OK;
}

static void keep_block(ra_held *h, const rank_block *b, int index)
{
    h->spare->block[index] = *b->at;
    h->spare->bytes[index] = b->bytes;
}

void ra_rank_give_memory(ra_rank *e, bool all)
{
    ra_held *h = &e->held;
    rank_block blocks[BLOCKS];
    list_blocks(h, blocks);
    for (int i = 0; i < BLOCKS; i++) {
        if (!*blocks[i].at || (!all && blocks[i].travels))
            continue;
        if (h->spare && !h->spare->block[i])
            keep_block(h, &blocks[i], i);
        else
            ra_memory_give(&h->accountant, *blocks[i].at, blocks[i].bytes);
        *blocks[i].at = NULL;
    }
}

void ra_rank_pass_on(ra_rank *e)
{
    rank_block blocks[BLOCKS];
    list_blocks(&e->held, blocks);
    for (int i = 0; i < TABLES; i++)
        if (*blocks[i].at) {
            keep_block(&e->held, &blocks[i], i);
            *blocks[i].at = NULL;
        }
}
