#include "ring/rank.h"

#include "base/checked.h"
#include "base/memory.h"
#include "base/tensor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Storage is read in parts of about this size, with a sign of life in between. */
enum { PART_BYTES = 4 << 20 };

/* ---- Memory --------------------------------------------------------------------------------------------------------
 */
/* Say which rows of which keys a slot holds from now on: those marked in its words. */
void ra_rank_slot_set(ra_rank *e, ra_slot *s, const ra_share *keys)
{
    const ra_plan *p = e->ring->plan;
    const ra_ring_options *o = &e->ring->options;
    int64_t sets = e->sets, heads = p->kv_heads / sets, each = e->ring->sets / sets, first = 0;
    s->keys = *keys;
    for (int64_t set = 0; set < sets; set++) {
        const uint64_t *words = s->words + set * keys->blocks;
        int64_t rows = ra_marked(words, keys->blocks);
        ra_marks_before(words, keys->blocks, s->before + set * keys->blocks);
        s->k[set] = ra_tensor_dense(s->k_memory + first * each * e->ring->k_row_bytes, o->k_dtype, RA_BHSD, p->batch,
                                    rows, heads, p->head_dim);
        s->v[set] = ra_tensor_dense(s->v_memory + first * each * e->ring->v_row_bytes, o->v_dtype, RA_BHSD, p->batch,
                                    rows, heads, p->value_dim);
        first += rows;
    }
}

typedef struct rank_block {
    void **at;
    int64_t bytes;
    const char *what;
    bool travels; /* other ranks may reach into it */
} rank_block;

static void list_blocks(ra_rank *e, rank_block list[RA_SPARE_BLOCKS])
{
    const ra_rank_memory *m = &e->memory;
    const rank_block blocks[RA_SPARE_BLOCKS] = {
        {&e->query, m->query, "queries", false},      {&e->slot_memory, m->slots, "keys and values", true},
        {&e->marks, m->marks, "marks", false},        {&e->segments, m->segments, "messages", true},
        {&e->states, m->states, "row states", false}, {&e->scratch, m->scratch, "scratch", false},
        {&e->output, m->output, "output", false}};
    memcpy(list, blocks, sizeof blocks);
}

/* On the pages of the run before, where there was one. */
static ra_status take_block(ra_rank *e, const rank_block *b, int index)
{
    if (!b->bytes)
        return RA_OK;
    *b->at = e->spare->block[index];
    e->spare->block[index] = NULL;
    return ra_memory_renew(&e->accountant, b->bytes, b->what, b->at, e->spare->bytes[index]);
}

/* What was kept of the run before and is of no use to this one. */
static void release_unwanted(ra_rank *e, const rank_block *blocks)
{
    for (int i = 0; i < RA_SPARE_BLOCKS; i++)
        if (!blocks[i].bytes)
            ra_spare_drop(e->spare, i);
}

ra_status ra_rank_take_memory(ra_rank *e)
{
    rank_block blocks[RA_SPARE_BLOCKS];
    list_blocks(e, blocks);
    if (!e->simulated) /* virtual ranks may share it */
        release_unwanted(e, blocks);
    for (int i = 0; i < RA_SPARE_BLOCKS; i++) {
        ra_status status = take_block(e, &blocks[i], i);
        if (status)
            return status;
    }
    e->sets = e->ring->by_reference ? 1 : e->ring->sets;
    e->slots = calloc((size_t)e->schedule.slots + 1, sizeof *e->slots);
    e->views = calloc(2 * (size_t)e->sets * ((size_t)e->schedule.slots + 1), sizeof *e->views);
    e->peer_k = calloc(2 * (size_t)e->ring->options.ranks, sizeof *e->peer_k);
    e->keys = calloc((size_t)e->schedule.steps, sizeof *e->keys);
    e->run.keys = e->keys;
    if (!e->slots || !e->views || !e->peer_k || !e->keys)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: tables of rank %d", e->rank);
    e->peer_v = e->peer_k + e->ring->options.ranks;
    return RA_OK;
}

/* Everything in its place; no memory is taken after this. */
void ra_rank_divide_memory(ra_rank *e)
{
    const ra_schedule *s = &e->schedule;
    const ra_plan *p = e->ring->plan;
    char *at = e->slot_memory;
    uint64_t *words = e->marks;
    int64_t marks = e->ring->sets * s->slot_blocks;
    for (int i = 0; i < s->slots; i++) {
        e->slots[i].k_memory = at;
        at += ra_memory_rounded(s->slot_rows[i] * e->ring->k_row_bytes);
        e->slots[i].v_memory = at;
        at += ra_memory_rounded(s->slot_rows[i] * e->ring->v_row_bytes);
        e->slots[i].words = words;
        e->slots[i].before = (int64_t *)(words + marks);
        words += 2 * marks;
        e->slots[i].k = e->views + 2 * e->sets * i;
        e->slots[i].v = e->slots[i].k + e->sets;
    }
    e->some = words;
    e->other = e->some + marks;
    e->wanted = e->other + marks;
    e->wanted_phase = -1;
    if (!e->states)
        return;
    int64_t unit_bytes = p->unit_floats * (int64_t)sizeof(float);
    if (e->memory.states > ra_memory_rounded(e->work.units * unit_bytes))
        e->current = (float *)((char *)e->states + e->memory.states / 2);
    for (int64_t unit = 0; unit < e->work.units; unit++) {
        ra_state_clear((float *)e->states + unit * p->unit_floats, e->work.grouping.lanes, p->unit_floats);
        if (e->current)
            ra_state_clear(e->current + unit * p->unit_floats, e->work.grouping.lanes, p->unit_floats);
    }
}

static void give_block(ra_rank *e, const rank_block *b, int index)
{
    if (!e->spare || !*b->at) {
        ra_memory_give(&e->accountant, *b->at, b->bytes);
        return;
    }
    e->spare->block[index] = *b->at;
    e->spare->bytes[index] = b->bytes;
}

/* `all`: false where somebody may still touch what travels. */
void ra_rank_give_memory(ra_rank *e, bool all)
{
    rank_block blocks[RA_SPARE_BLOCKS];
    list_blocks(e, blocks);
    for (int i = 0; i < RA_SPARE_BLOCKS; i++)
        if (all || !blocks[i].travels)
            give_block(e, &blocks[i], i);
    free(e->slots);
    free(e->views);
    free(e->peer_k);
    free(e->keys);
    ra_schedule_free(&e->schedule);
}

/* What it holds is the next rank's from now on. */
void ra_rank_pass_on(ra_rank *e)
{
    rank_block blocks[RA_SPARE_BLOCKS];
    list_blocks(e, blocks);
    for (int i = 0; i < RA_SPARE_BLOCKS; i++)
        if (*blocks[i].at) {
            give_block(e, &blocks[i], i);
            *blocks[i].at = NULL;
        }
}

/* ---- Storage -------------------------------------------------------------------------------------------------------
 */
ra_status ra_rank_poll_link(ra_rank *e)
{
    return e->simulated ? RA_OK : ra_link_poll(&e->link);
}

/* Rows `first` .. of a storage to rows `row` .. of a tensor, all batches; of its heads those from `head` on. */
ra_status ra_rank_read_rows(ra_rank *e, ra_storage *storage, int64_t first, int64_t count, int64_t head,
                            const ra_tensor *into, int64_t row)
{
    int64_t row_bytes = into->heads * into->dim * (int64_t)ra_dtype_size(into->dtype);
    int64_t part = ra_max(1, PART_BYTES / row_bytes);
    ra_status status = RA_OK;
    for (int64_t batch = 0; batch < into->batch; batch++)
        for (int64_t done = 0, rows; done < count && !status; done += rows) {
            rows = ra_min(part, count - done);
            ra_tensor view = *into;
            view.data = (void *)ra_tensor_at(into, batch, row + done, 0, 0);
            view.batch = 1;
            view.seq = rows;
            status = ra_storage_read(storage, batch, first + done, rows, head, &view);
            if (!status)
                status = ra_rank_poll_link(e);
        }
    return status;
}

/* The rows of a share out of a storage; in one that has only this rank's, they begin at `first`. */
static ra_status read_share(ra_rank *e, ra_storage *storage, const ra_share *share, int64_t first, int64_t head,
                            const ra_tensor *into)
{
    ra_status status = RA_OK;
    double start = ra_seconds();
    for (int64_t i = 0; i < share->ranges && !status; i++) {
        ra_range range = ra_share_range(share, i);
        status = ra_rank_read_rows(e, storage, e->tensors->parts ? first + range.row : range.first,
                                   range.end - range.first, head, into, range.row);
    }
    e->stats->seconds_io += ra_seconds() - start;
    return status;
}

ra_status ra_rank_load_queries(ra_rank *e)
{
    const ra_plan *p = e->ring->plan;
    if (e->work.queries.rows == 0)
        return RA_OK;
    e->run.whole = !e->tensors->parts;
    e->q = *ra_storage_view(e->tensors->q);
    if (e->ring->options.lent)
        return RA_OK;
    e->run.whole = false;
    e->q = ra_tensor_dense(e->query, e->ring->options.q_dtype, RA_BHSD, p->batch, e->work.queries.rows, p->heads,
                           p->head_dim);
    return read_share(e, e->tensors->q, &e->work.queries, 0, 0, &e->q);
}

/* The rank's own keys and values into their slot. */
ra_status ra_rank_load_own(ra_rank *e)
{
    ra_share own = ra_partition_share(&e->ring->keys, e->rank);
    ra_status status = RA_OK;
    int64_t row = 0;
    for (int part = 0; part < RA_PARTS && !status && e->schedule.own_slot[part] >= 0; part++) {
        const ra_slot *s = &e->slots[e->schedule.own_slot[part]];
        for (int64_t set = 0; set < e->sets && !status; set++) {
            status = read_share(e, e->tensors->k, &s->keys, row, set, &s->k[set]);
            if (!status)
                status = read_share(e, e->tensors->v, &s->keys, row, set, &s->v[set]);
        }
        row += s->keys.rows;
    }
    assert(status || e->schedule.own_slot[0] < 0 || row == own.rows);
    (void)own;
    return status;
}
