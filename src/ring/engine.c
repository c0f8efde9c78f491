#include "ring/engine.h"

#include "base/checked.h"
#include "base/memory.h"
#include "base/tensor.h"
#include "base/threads.h"
#include "exec/exec.h"
#include "ring/greeting.h"
#include "ring/schedule.h"
#include "transport/sim.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Storage is read and written in parts of about this size, with a sign of life in between. */
enum { PART_BYTES = 4 << 20 };

/* Room for keys and values: the marked positions of a share, head by head, one after the other. */
typedef struct slot {
    char *k_memory, *v_memory;
    uint64_t *words;
    int64_t *before;
    ra_share keys;
    ra_tensor k, v;
} slot;

/* Where ranks share memory: who is reading a rank's keys, and whether that may still begin. */
typedef struct gate {
    _Atomic int readers, closed;
} gate;

typedef struct engine {
    const ra_ring_plan *ring;
    const ra_kernel *kernel;
    const ra_tensors *tensors;
    int rank;
    bool simulated;
    ra_link link;
    ra_schedule schedule;
    ra_workload work;
    ra_rank_memory memory;
    ra_accountant accountant;

    slot *slots;
    void *query, *slot_memory, *marks, *segments, *states, *scratch, *output;
    uint64_t *some, *other, *spare; /* marks to work with */
    int64_t segments_used;
    float *current;             /* states of a span after the first; NULL: spans do not matter */
    int64_t span;               /* that is being worked on */
    ra_tensor *peer_k, *peer_v; /* by reference: every rank's keys and values */
    ra_keys *keys;              /* [steps]: those that are worked on */
    ra_tensor q;                /* as the tasks read it */

    ra_run run;
    ra_counts counts;
    int64_t next_receive, next_send; /* messages that have not been started */
    ra_rank_stats *stats;            /* of this rank */
    ra_status status;                /* found by the poll */
    double pairs_before;             /* done in earlier steps, and in earlier simulated ranks */
    double pairs_reported, pairs_total;
} engine;

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static ra_tensor slot_view(const ra_plan *p, char *memory, ra_dtype dtype, int64_t rows, int64_t dim)
{
    return ra_tensor_dense(memory, dtype, RA_BHSD, p->batch, rows, p->kv_heads, dim);
}

/* Say which rows of which keys a slot holds from now on: those marked in its words. */
static void slot_set(engine *e, slot *s, const ra_share *keys)
{
    const ra_plan *p = e->ring->plan;
    int64_t rows = ra_marked(s->words, keys->blocks);
    s->keys = *keys;
    ra_marks_before(s->words, keys->blocks, s->before);
    s->k = slot_view(p, s->k_memory, e->ring->options.k_dtype, rows, p->head_dim);
    s->v = slot_view(p, s->v_memory, e->ring->options.v_dtype, rows, p->value_dim);
}

static ra_status take_memory(engine *e)
{
    const ra_rank_memory *m = &e->memory;
    const struct {
        void **at;
        int64_t bytes;
        const char *what;
    } blocks[] = {{&e->query, m->query, "queries"},      {&e->slot_memory, m->slots, "keys and values"},
                  {&e->marks, m->marks, "marks"},        {&e->segments, m->segments, "messages"},
                  {&e->states, m->states, "row states"}, {&e->scratch, m->scratch, "scratch"},
                  {&e->output, m->output, "output"}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        ra_status status =
            blocks[i].bytes ? ra_memory_take(&e->accountant, blocks[i].bytes, blocks[i].what, blocks[i].at) : RA_OK;
        if (status)
            return status;
    }
    e->slots = calloc((size_t)e->schedule.slots + 1, sizeof *e->slots);
    e->peer_k = calloc(2 * (size_t)e->ring->options.ranks, sizeof *e->peer_k);
    e->keys = calloc((size_t)e->schedule.steps, sizeof *e->keys);
    e->run.keys = e->keys;
    if (!e->slots || !e->peer_k || !e->keys)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: tables of rank %d", e->rank);
    e->peer_v = e->peer_k + e->ring->options.ranks;
    return RA_OK;
}

/* Everything in its place; no memory is taken after this. */
static void divide_memory(engine *e)
{
    const ra_schedule *s = &e->schedule;
    const ra_plan *p = e->ring->plan;
    char *at = e->slot_memory;
    uint64_t *words = e->marks;
    for (int i = 0; i < s->slots; i++) {
        e->slots[i].k_memory = at;
        at += ra_memory_rounded(s->slot_rows[i] * e->ring->k_row_bytes);
        e->slots[i].v_memory = at;
        at += ra_memory_rounded(s->slot_rows[i] * e->ring->v_row_bytes);
        e->slots[i].words = words;
        e->slots[i].before = (int64_t *)(words + s->slot_blocks);
        words += 2 * s->slot_blocks;
    }
    e->some = words;
    e->other = e->some + s->slot_blocks;
    e->spare = e->other + s->slot_blocks;
    if (!e->states)
        return;
    int64_t unit_bytes = p->unit_floats * (int64_t)sizeof(float);
    if (e->memory.states > ra_memory_rounded(e->work.units * unit_bytes))
        e->current = (float *)((char *)e->states + e->memory.states / 2);
    for (int64_t unit = 0; unit < e->work.units; unit++) {
        ra_state_clear((float *)e->states + unit * p->unit_floats, e->work.lanes, p->unit_floats);
        if (e->current)
            ra_state_clear(e->current + unit * p->unit_floats, e->work.lanes, p->unit_floats);
    }
}

/* `all`: false where somebody may still touch what travels. */
static void give_memory(engine *e, bool all)
{
    const ra_rank_memory *m = &e->memory;
    if (all) {
        ra_memory_give(&e->accountant, e->slot_memory, m->slots);
        ra_memory_give(&e->accountant, e->segments, m->segments);
    }
    ra_memory_give(&e->accountant, e->query, m->query);
    ra_memory_give(&e->accountant, e->marks, m->marks);
    ra_memory_give(&e->accountant, e->states, m->states);
    ra_memory_give(&e->accountant, e->scratch, m->scratch);
    ra_memory_give(&e->accountant, e->output, m->output);
    free(e->slots);
    free(e->peer_k);
    free(e->keys);
    ra_schedule_free(&e->schedule);
}

/* ---- Storage ----------------------------------------------------------------------------------------------------- */

static ra_status poll_link(engine *e)
{
    return e->simulated ? RA_OK : ra_link_poll(&e->link);
}

/* Rows `first` .. of a storage to rows `row` .. of a tensor, all batches. */
static ra_status read_rows(engine *e, ra_storage *storage, int64_t first, int64_t count, const ra_tensor *into,
                           int64_t row)
{
    double start = ra_seconds();
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
            status = ra_storage_read(storage, batch, first + done, rows, &view);
            if (!status)
                status = poll_link(e);
        }
    e->stats->seconds_io += ra_seconds() - start;
    return status;
}

/* The rows of a share out of a storage; in one that has only this rank's, they begin at `first`. */
static ra_status read_share(engine *e, ra_storage *storage, const ra_share *share, int64_t first, const ra_tensor *into)
{
    ra_status status = RA_OK;
    for (int64_t i = 0; i < share->ranges && !status; i++) {
        ra_range range = ra_share_range(share, i);
        status = read_rows(e, storage, e->tensors->parts ? first + range.row : range.first, range.end - range.first,
                           into, range.row);
    }
    return status;
}

static ra_status load_queries(engine *e)
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
    return read_share(e, e->tensors->q, &e->work.queries, 0, &e->q);
}

/* The rank's own keys and values into their slot. */
static ra_status load_own(engine *e)
{
    ra_share own = ra_partition_share(&e->ring->keys, e->rank);
    ra_status status = RA_OK;
    int64_t row = 0;
    for (int part = 0; part < RA_PARTS && !status && e->schedule.own_slot[part] >= 0; part++) {
        const slot *s = &e->slots[e->schedule.own_slot[part]];
        status = read_share(e, e->tensors->k, &s->keys, row, &s->k);
        if (!status)
            status = read_share(e, e->tensors->v, &s->keys, row, &s->v);
        row += s->keys.rows;
    }
    assert(status || e->schedule.own_slot[0] < 0 || row == own.rows);
    (void)own;
    return status;
}

/* ---- Greeting ---------------------------------------------------------------------------------------------------- */

static gate *gate_of(const engine *e, int rank)
{
    char *shared = e->link.transport->shared;
    return e->ring->by_reference && shared ? (gate *)(shared + (size_t)rank * RA_SHARED_BYTES) : NULL;
}

/* What this rank's keys and values are to be found in. By reference all of them are in one slot, or the caller's. */
static void set_own(engine *e)
{
    ra_share keys = ra_partition_share(&e->ring->keys, e->rank);
    for (int part = 0; part < RA_PARTS && e->schedule.own_slot[part] >= 0; part++) {
        slot *own = &e->slots[e->schedule.own_slot[part]];
        ra_share share = ra_part_of(e->ring, &keys, part);
        memset(own->words, 0, (size_t)share.blocks * sizeof *own->words);
        ra_mark_range(&share, 0, INT64_MAX, own->words);
        slot_set(e, own, &share);
    }
    if (e->schedule.own_slot[0] >= 0) {
        e->peer_k[e->rank] = e->slots[e->schedule.own_slot[0]].k;
        e->peer_v[e->rank] = e->slots[e->schedule.own_slot[0]].v;
    } else if (keys.rows > 0 || e->simulated) {
        e->peer_k[e->rank] = *ra_storage_view(e->tensors->k);
        e->peer_v[e->rank] = *ra_storage_view(e->tensors->v);
    }
}

static ra_status greet(engine *e)
{
    int ranks = e->ring->options.ranks;
    ra_greeting *all = calloc((size_t)ranks + 1, sizeof *all);
    if (!all)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: greetings of %d ranks", ranks);
    ra_greeting *mine = all + ranks;
    ra_greeting_fill(mine, e->ring, e->tensors->wants_lse);
    mine->k = e->peer_k[e->rank];
    mine->v = e->peer_v[e->rank];
    if (gate_of(e, e->rank))
        atomic_store(&gate_of(e, e->rank)->closed, 0);
    e->link.what = "the greeting";
    e->link.hop = -1;
    ra_status status = ra_link_exchange(&e->link, RA_TAG_GREETING, mine, all, sizeof *all);
    if (!status)
        status = ra_greeting_compare(all, ranks, e->rank);
    for (int rank = 0; rank < ranks && !status; rank++) {
        e->peer_k[rank] = all[rank].k;
        e->peer_v[rank] = all[rank].v;
    }
    free(all);
    return status;
}

/* ---- Transfers --------------------------------------------------------------------------------------------------- */

/* Add the memory of some rows of a tensor in a slot, of one head or, where they are all there is, of all heads. */
static bool add_rows(engine *e, const slot *s, const ra_tensor *t, int64_t head, const uint64_t *rows, bool only)
{
    ra_segment *segments = e->segments;
    int64_t row_bytes = t->dim * (int64_t)ra_dtype_size(t->dtype);
    ra_mark_walk walk = ra_mark_walk_begin(rows, s->words, s->keys.blocks);
    ra_mark_run run;
    while (ra_mark_walk_next(&walk, &run)) {
        bool everything = only && run.rows == t->seq;
        segments[e->segments_used++] = (ra_segment){(char *)t->data + (head * t->seq + run.row) * row_bytes,
                                                    (everything ? t->batch * t->heads : 1) * run.rows * row_bytes};
        if (everything)
            return true;
    }
    return false;
}

/*
 * The memory of rows that are marked in the words of a share: keys then values, head by head, in the order of
 * positions, so that both sides of a message agree whatever slots they have it in.
 */
static void add_segments(engine *e, const ra_share *keys, const int part_slots[RA_PARTS], const uint64_t *rows)
{
    const ra_plan *p = e->ring->plan;
    int parts = ra_part_count(e->ring, keys);
    for (int values = 0; values < 2; values++) {
        bool done = false;
        for (int64_t head = 0; head < p->batch * p->kv_heads && !done; head++) {
            const uint64_t *part_rows = rows;
            for (int part = 0; part < parts; part++) {
                /* A slot whose part has nothing to do with the message may hold something else by now. */
                int64_t blocks = ra_part_of(e->ring, keys, part).blocks;
                if (ra_marked(part_rows, blocks)) {
                    const slot *s = &e->slots[part_slots[part]];
                    done = add_rows(e, s, values ? &s->v : &s->k, head, part_rows, parts == 1);
                }
                part_rows += blocks;
            }
        }
    }
}

/* Where a position is in the storage of keys and values. */
static int64_t storage_row(const engine *e, int64_t position)
{
    if (!e->tensors->parts)
        return position;
    ra_share own = ra_partition_share(&e->ring->keys, e->rank);
    return ra_share_rows_below(&own, position);
}

/* Rows of the storage into a slot. */
static ra_status read_marked(engine *e, const slot *s, const uint64_t *rows)
{
    /* A slot's row is counted among all of its marks, the storage's among positions. */
    ra_position_walk walk = {&s->keys, rows, 0, 0, 0};
    ra_position_run run;
    ra_status status = RA_OK;
    while (!status && ra_position_walk_next(&walk, &run)) {
        int64_t i = ra_share_find(&s->keys, run.position);
        ra_range range = ra_share_range(&s->keys, i);
        int64_t index = range.block + run.position / RA_KEY_BLOCK - range.first / RA_KEY_BLOCK;
        uint64_t below = (UINT64_C(1) << (run.position % RA_KEY_BLOCK)) - 1;
        int64_t row = s->before[index] + __builtin_popcountll(s->words[index] & below);
        status = read_rows(e, e->tensors->k, storage_row(e, run.position), run.rows, &s->k, row);
        if (!status)
            status = read_rows(e, e->tensors->v, storage_row(e, run.position), run.rows, &s->v, row);
    }
    return status;
}

/* What a virtual rank receives: the rows that are marked in `some`, into the slots of the phase that is being started.
 */
static ra_status simulated_source(void *user, int rank, int from, int tag, const ra_segment *segments, int64_t count)
{
    engine *e = user;
    (void)rank, (void)from, (void)tag, (void)segments, (void)count;
    if (e->ring->by_reference)
        return RA_OK;
    ra_share keys = ra_step_keys(e->ring, e->rank, e->link.hop);
    const uint64_t *rows = e->some;
    ra_status status = RA_OK;
    for (int part = 0; part < ra_part_count(e->ring, &keys) && !status; part++) {
        int number = e->schedule.step[e->link.hop].slot[part];
        if (number >= 0)
            status = read_marked(e, &e->slots[number], rows);
        rows += ra_part_of(e->ring, &keys, part).blocks;
    }
    return status;
}

static void copy_rows(const ra_tensor *from, int64_t from_row, const ra_tensor *to, int64_t to_row, int64_t rows)
{
    int64_t bytes = to->dim * (int64_t)ra_dtype_size(to->dtype);
    for (int64_t head = 0; head < to->batch * to->heads; head++)
        memcpy((char *)to->data + (head * to->seq + to_row) * bytes,
               (const char *)from->data + (head * from->seq + from_row) * bytes, (size_t)(rows * bytes));
}

/* Own rows of a part of the sequence, which need no transport: range by range out of their slots. */
static void copy_own(engine *e, slot *into, const uint64_t *rows)
{
    ra_share own = ra_partition_share(&e->ring->keys, e->rank);
    ra_position_walk walk = {&into->keys, rows, 0, 0, 0};
    ra_position_run run;
    while (ra_position_walk_next(&walk, &run))
        for (int64_t at = run.position, end = at + run.rows, count; at < end; at += count) {
            int64_t i = ra_share_find(&own, at);
            ra_range range = ra_share_range(&own, i);
            bool in_parts = ra_part_count(e->ring, &own) == own.ranges;
            const slot *from = &e->slots[e->schedule.own_slot[in_parts ? i : 0]];
            int64_t block = at / RA_KEY_BLOCK - into->keys.whole.first / RA_KEY_BLOCK;
            uint64_t below = (UINT64_C(1) << (at % RA_KEY_BLOCK)) - 1;
            int64_t row = into->before[block] + __builtin_popcountll(into->words[block] & below);
            int64_t own_row = (in_parts ? 0 : range.row) + at - range.first;
            count = ra_min(end, range.end) - at;
            copy_rows(&from->k, own_row, &into->k, row, count);
            copy_rows(&from->v, own_row, &into->v, row, count);
        }
}

/* Phases come in order, so a tag may come again. */
static int phase_tag(int64_t phase)
{
    return RA_TAG_PHASE + (int)(phase % RA_TAG_PHASES);
}

/* By reference there are none: the message itself says that the rows may be read. */
static const ra_segment *segments_from(const engine *e, int64_t first)
{
    return e->segments_used > first ? (const ra_segment *)e->segments + first : NULL;
}

static ra_status start_receive(engine *e, const ra_message *m)
{
    ra_transport *t = e->link.transport;
    ra_share keys = ra_step_keys(e->ring, e->rank, m->phase);
    ra_phase_rows(e->ring, m->peer, e->rank, m->phase, e->some, e->other);
    int64_t first = e->segments_used;
    if (!e->ring->by_reference)
        add_segments(e, &keys, e->schedule.step[m->phase].slot, e->some);
    e->stats->bytes_received += ra_marked(e->some, keys.blocks) * (e->ring->k_row_bytes + e->ring->v_row_bytes);
    return t->receive(t->state, m->peer, phase_tag(m->phase), segments_from(e, first), e->segments_used - first);
}

/* The marks of a share to its parts' slots, which hold those rows from now on. */
static void set_slots(engine *e, const ra_share *keys, const int part_slots[RA_PARTS], const uint64_t *words)
{
    for (int part = 0; part < ra_part_count(e->ring, keys); part++) {
        ra_share share = ra_part_of(e->ring, keys, part);
        if (part_slots[part] >= 0) {
            slot *s = &e->slots[part_slots[part]];
            memcpy(s->words, words, (size_t)share.blocks * sizeof *words);
            slot_set(e, s, &share);
        }
        words += share.blocks;
    }
}

/* Own rows that were given up and are wanted now; nobody is there to want them of a virtual rank. */
static ra_status read_again(engine *e, const ra_share *keys, const ra_message *m)
{
    ra_status status = RA_OK;
    set_slots(e, keys, m->slot, e->some);
    for (int part = 0; part < RA_PARTS && !status && !e->simulated; part++)
        if (m->slot[part] >= 0) {
            const slot *s = &e->slots[m->slot[part]];
            status = read_marked(e, s, s->words);
        }
    return status;
}

static ra_status start_send(engine *e, const ra_message *m)
{
    ra_transport *t = e->link.transport;
    ra_share keys = ra_held_keys(e->ring, e->rank, m->peer, m->phase);
    ra_phase_held(e->ring, e->rank, m->peer, m->phase, e->some, e->other);
    const int *from = m->held >= 0 ? e->schedule.step[m->held].slot : m->again ? m->slot : e->schedule.own_slot;
    int64_t first = e->segments_used;
    ra_status status = m->again ? read_again(e, &keys, m) : RA_OK;
    if (status)
        return status;
    if (!e->ring->by_reference)
        add_segments(e, &keys, from, e->some);
    e->stats->bytes_sent += ra_marked(e->some, keys.blocks) * (e->ring->k_row_bytes + e->ring->v_row_bytes);
    return t->send(t->state, m->peer, phase_tag(m->phase), segments_from(e, first), e->segments_used - first);
}

/* Make room for what travels in a phase, then start it: receives first. */
static ra_status start_phase(engine *e, int64_t phase)
{
    const ra_schedule *s = &e->schedule;
    bool ring = e->ring->options.strategy == RA_STRATEGY_RING;
    ra_status status = RA_OK;
    e->segments_used = 0;
    e->link.what = "hop";
    e->link.hop = phase;
    if (!e->ring->by_reference && !(ring && phase == 0)) {
        ra_share keys = ra_step_keys(e->ring, e->rank, phase);
        ra_step_needed(e->ring, e->rank, phase, e->some);
        set_slots(e, &keys, s->step[phase].slot, e->some);
    }
    int64_t came = 0;
    for (; e->next_receive < s->receive_count && s->receives[e->next_receive].phase == phase && !status; came++)
        status = start_receive(e, &s->receives[e->next_receive++]);
    /* A chunk that comes from several ranks is one hop; an all-gather has every rank's in one phase. */
    e->stats->hops += e->ring->options.strategy == RA_STRATEGY_ALLGATHER ? came : came > 0;
    for (; e->next_send < s->send_count && s->sends[e->next_send].phase == phase && !status;)
        status = start_send(e, &s->sends[e->next_send++]);
    if (!status && !ring && s->step[phase].slot[0] >= 0) {
        ra_phase_rows(e->ring, e->rank, e->rank, phase, e->some, e->other);
        copy_own(e, &e->slots[s->step[phase].slot[0]], e->some);
    }
    return status;
}

static ra_status wait_phase(engine *e)
{
    return e->simulated ? RA_OK : ra_link_wait(&e->link);
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

static int poll(void *user, double pairs)
{
    engine *e = user;
    const ra_plan *p = e->ring->plan;
    double done = e->pairs_before + pairs;
    e->status = poll_link(e);
    if (e->status || !p->progress || done <= e->pairs_reported)
        return e->status != RA_OK;
    e->pairs_reported = done;
    return p->progress(p->progress_user, done, e->pairs_total);
}

static ra_status run_tiles(engine *e, ra_interval within, float *states)
{
    double before = e->counts.pairs_visible;
    e->run.within = within;
    e->run.states = states;
    if (!ra_run_tasks(&e->run, e->scratch, &e->counts))
        return e->status ? e->status
                         : ra_fail(RA_ERROR_CANCELLED, "rank %d: cancelled by the progress callback", e->rank);
    e->pairs_before += e->counts.pairs_visible - before;
    return RA_OK;
}

/* A span is complete: into the states of those before it. */
static void merge_span(engine *e)
{
    if (e->current && e->span > 0)
        ra_run_merge(&e->run, e->states, e->current);
}

/* The keys that are here, span by span where the spans of a run in one piece are reproduced. */
static ra_status run_spans(engine *e, const ra_share *keys)
{
    const ra_plan *p = e->ring->plan;
    int64_t first = ra_share_range(keys, 0).first, end = ra_share_range(keys, keys->ranges - 1).end;
    if (!e->current)
        return run_tiles(e, (ra_interval){first, end}, e->states);
    ra_status status = RA_OK;
    for (int64_t span = first / p->span_keys; span * p->span_keys < end && !status; span++) {
        if (span != e->span)
            merge_span(e);
        e->span = span;
        ra_interval within = {ra_max(first, span * p->span_keys), ra_min(end, (span + 1) * p->span_keys)};
        status = run_tiles(e, within, span ? e->current : e->states);
    }
    return status;
}

/* Others' memory is read only while its owner keeps it. */
static ra_status enter_gates(engine *e, int *entered)
{
    for (int rank = 0; rank < e->ring->options.ranks; rank++) {
        gate *g = gate_of(e, rank);
        if (!g)
            return RA_OK;
        atomic_fetch_add(&g->readers, 1);
        *entered = rank + 1;
        if (atomic_load(&g->closed))
            return ra_fail(RA_ERROR_PEER, "rank %d: rank %d has stopped", e->rank, rank);
    }
    return RA_OK;
}

static void leave_gates(engine *e, int entered)
{
    for (int rank = 0; rank < entered; rank++)
        atomic_fetch_sub(&gate_of(e, rank)->readers, 1);
}

static void close_gate(engine *e)
{
    const struct timespec moment = {0, 50000};
    gate *mine = e->simulated ? NULL : gate_of(e, e->rank);
    if (!mine)
        return;
    atomic_store(&mine->closed, 1);
    while (atomic_load(&mine->readers) > 0)
        nanosleep(&moment, NULL);
}

/* By reference: where the keys lie, in the caller's memory or in every rank's own. */
static void set_in_place(engine *e, int64_t step, ra_keys *keys)
{
    *keys = (ra_keys){.share = ra_step_keys(e->ring, e->rank, step)};
    keys->k = e->simulated ? e->peer_k + e->rank : e->peer_k;
    keys->v = e->simulated ? e->peer_v + e->rank : e->peer_v;
    keys->owners = e->simulated ? NULL : &e->ring->keys;
}

static ra_status compute_in_place(engine *e, int64_t step)
{
    int entered = 0;
    set_in_place(e, step, e->keys);
    ra_status status = e->simulated ? RA_OK : enter_gates(e, &entered);
    if (!status)
        status = run_spans(e, &e->keys->share);
    leave_gates(e, entered);
    return status;
}

static ra_status compute_in_slots(engine *e, const ra_step *s)
{
    ra_status status = RA_OK;
    for (int part = 0; part < RA_PARTS && !status; part++) {
        if (s->slot[part] < 0)
            continue;
        const slot *here = &e->slots[s->slot[part]];
        *e->keys = (ra_keys){here->keys, &here->k, &here->v, NULL, here->words, here->before};
        status = run_spans(e, &here->keys);
    }
    return status;
}

static ra_status compute(engine *e, int64_t step)
{
    const ra_step *s = &e->schedule.step[step];
    if (s->rows == 0 || e->work.groups == 0)
        return RA_OK;
    double start = ra_seconds();
    ra_status status = e->ring->by_reference ? compute_in_place(e, step) : compute_in_slots(e, s);
    e->stats->seconds_compute += ra_seconds() - start;
    return status;
}

/* Where results go when they are in the caller's memory. */
static void set_output(engine *e)
{
    e->run.whole_output = !e->tensors->parts;
    e->run.output = ra_storage_view(e->tensors->output);
    e->run.lse = e->tensors->lse ? ra_storage_view(e->tensors->lse) : NULL;
}

/* All steps of a virtual rank, whose tasks finish their rows themselves. */
static ra_status run_at_once(engine *e)
{
    ra_status status = RA_OK;
    double start = ra_seconds();
    e->run.key_sets = 0;
    for (int64_t step = 0; step < e->schedule.steps && !status; step++) {
        status = start_phase(e, step);
        if (e->schedule.step[step].rows)
            set_in_place(e, step, &e->keys[e->run.key_sets++]);
    }
    if (status || e->work.groups == 0)
        return status;
    set_output(e);
    e->run.resume = false;
    status = run_tiles(e, (ra_interval){0, e->ring->keys.length}, NULL);
    e->stats->seconds_compute += ra_seconds() - start;
    return status;
}

static ra_status run_steps(engine *e)
{
    if (ra_ring_at_once(e->ring))
        return run_at_once(e);
    ra_status status = start_phase(e, 0);
    if (!status)
        status = wait_phase(e);
    for (int64_t step = 0; step < e->schedule.steps && !status; step++) {
        if (step + 1 < e->schedule.steps)
            status = start_phase(e, step + 1);
        if (!status)
            status = compute(e, step);
        if (!status && step + 1 < e->schedule.steps)
            status = wait_phase(e);
    }
    merge_span(e);
    return status;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

/* Groups first .. first + count - 1, which lie together, through the output memory into storage. */
static ra_status write_groups(engine *e, int64_t first, int64_t count)
{
    const ra_plan *p = e->ring->plan;
    ra_group head = ra_group_at(&e->work.queries, e->work.lanes, first);
    ra_group tail = ra_group_at(&e->work.queries, e->work.lanes, first + count - 1);
    int64_t rows = tail.row + tail.rows - head.row, at = e->tensors->parts ? head.row : head.query;
    ra_dtype dtype = ra_storage_view(e->tensors->output)->dtype;
    ra_tensor output = ra_tensor_dense(e->output, dtype, RA_BSHD, p->batch, rows, p->heads, p->value_dim);
    ra_tensor lse =
        ra_tensor_dense((char *)e->output + e->memory.output_lse, RA_F32, RA_BHSD, p->batch, rows, p->heads, 1);
    e->run.output = &output;
    e->run.lse = e->tensors->lse ? &lse : NULL;
    e->run.output_first = head.row;
    double start = ra_seconds();
    ra_run_finish(&e->run, first, count);
    double finished = ra_seconds();
    ra_status status = RA_OK;
    for (int64_t batch = 0; batch < p->batch && !status; batch++) {
        ra_tensor part = output, lse_part = lse;
        part.data = (void *)ra_tensor_at(&output, batch, 0, 0, 0);
        lse_part.data = (void *)ra_tensor_at(&lse, batch, 0, 0, 0);
        part.batch = lse_part.batch = 1;
        status = ra_storage_write(e->tensors->output, batch, at, rows, &part);
        if (!status && e->tensors->lse)
            status = ra_storage_write(e->tensors->lse, batch, at, rows, &lse_part);
    }
    e->stats->seconds_compute += finished - start;
    e->stats->seconds_io += ra_seconds() - finished;
    return status ? status : poll_link(e);
}

static ra_status write_results(engine *e)
{
    if (e->work.groups == 0 || ra_ring_at_once(e->ring))
        return RA_OK;
    e->run.states = e->states;
    if (e->ring->options.lent) {
        double start = ra_seconds();
        set_output(e);
        ra_run_finish(&e->run, 0, e->work.groups);
        e->stats->seconds_compute += ra_seconds() - start;
        return RA_OK;
    }
    ra_status status = RA_OK;
    int64_t group = 0, most = e->memory.output_rows / e->work.lanes;
    for (int64_t i = 0; i < e->work.queries.ranges && !status; i++) {
        ra_range range = ra_share_range(&e->work.queries, i);
        int64_t end = group + ra_ceil_div(range.end - range.first, e->work.lanes);
        for (int64_t count; group < end && !status; group += count) {
            count = ra_min(most, end - group);
            status = write_groups(e, group, count);
        }
    }
    return status;
}

/* A run proves itself: what was counted on the way is what the plan counted without the schedule. */
static ra_status prove(engine *e)
{
    const ra_rank_info *plan = &e->ring->ranks[e->rank];
    ra_rank_stats *s = e->stats;
    if (s->hops == plan->hops && s->bytes_sent == plan->bytes_sent && s->bytes_received == plan->bytes_received &&
        s->pairs_visible == plan->pairs_visible && s->peak_bytes <= plan->peak_bytes)
        return RA_OK;
    return ra_fail(
        RA_ERROR_INTERNAL,
        "rank %d: the run differs from its plan: hops %lld of %lld, bytes sent %lld of %lld, received %lld of "
        "%lld, visible pairs %.0f of %.0f, peak bytes %lld of %lld",
        e->rank, (long long)s->hops, (long long)plan->hops, (long long)s->bytes_sent, (long long)plan->bytes_sent,
        (long long)s->bytes_received, (long long)plan->bytes_received, s->pairs_visible, plan->pairs_visible,
        (long long)s->peak_bytes, (long long)plan->peak_bytes);
}

static void fill_stats(engine *e, double started)
{
    const ra_rank_info *plan = &e->ring->ranks[e->rank];
    ra_rank_stats *s = e->stats;
    s->rank = e->rank;
    s->threads = e->counts.threads ? e->counts.threads : e->work.threads;
    s->kernel = e->kernel->id;
    s->q_rows = plan->q_rows;
    s->kv_rows = plan->kv_rows;
    s->steps = e->schedule.steps;
    s->pairs_visible = e->counts.pairs_visible;
    s->pairs_worked = e->counts.pairs_worked;
    s->seconds_wait = e->link.waited;
    s->seconds_total = ra_seconds() - started;
    s->planned_peak_bytes = plan->peak_bytes;
    s->peak_bytes = e->accountant.peak;
    s->rss_peak_bytes = ra_memory_resident_peak();
    s->lent_bytes = plan->lent_bytes;
}

/* ---- Ranks ------------------------------------------------------------------------------------------------------- */

static ra_status prepare(engine *e)
{
    const ra_tensors *t = e->tensors;
    enum { STORAGES = 5 };
    const ra_storage *const storages[STORAGES] = {t->q, t->k, t->v, t->output, t->lse};
    ra_status status = ra_schedule_make(e->ring, e->rank, &e->schedule);
    if (status)
        return status;
    ra_ring_workload(e->ring, e->rank, &e->work);
    e->memory = ra_ring_memory(e->ring, e->rank, &e->schedule, &e->work);
    for (int i = 0; i < STORAGES; i++)
        e->accountant.bytes += storages[i] ? ra_storage_bytes(storages[i]) : 0;
    e->run = (ra_run){.plan = e->ring->plan, .work = &e->work, .kernel = e->kernel, .q = &e->q};
    e->run.spans = 1;
    e->run.key_sets = 1;
    e->run.resume = true;
    e->run.poll = poll;
    e->run.poll_user = e;
    status = take_memory(e);
    if (!status)
        status = ra_threads_try(e->work.threads);
    if (!status) {
        divide_memory(e);
        set_own(e);
    }
    return status;
}

static ra_status run_rank(engine *e, double started)
{
    ra_status status = prepare(e);
    if (!status && !e->simulated)
        status = greet(e);
    if (!status)
        status = load_queries(e);
    if (!status)
        status = load_own(e);
    if (!status)
        status = run_steps(e);
    if (!status)
        status = write_results(e);
    if (status)
        return status;
    fill_stats(e, started);
    return prove(e);
}

/* Everybody's statistics to everybody: a rank that gets here has succeeded. */
static ra_status agree(engine *e, ra_rank_stats *all)
{
    e->link.what = "the end of the run";
    e->link.hop = -1;
    return ra_link_exchange(&e->link, RA_TAG_AGREEMENT, e->stats, all, sizeof *all);
}

static ra_status run_real(const ra_ring_plan *ring, engine *e, ra_comm *comm, ra_rank_stats *stats)
{
    double started = ra_seconds();
    ra_rank_stats mine = RA_RANK_STATS_INIT;
    e->rank = comm->transport.rank;
    e->stats = &mine;
    e->pairs_total = ring->ranks[e->rank].pairs_visible;
    e->link = (ra_link){.transport = &comm->transport,
                        .broken = &comm->broken,
                        .timeout = ring->options.timeout,
                        .what = "the start",
                        .hop = -1};
    ra_rank_stats *all = calloc((size_t)ring->options.ranks, sizeof *all);
    ra_status status = all ? run_rank(e, started) : ra_fail(RA_ERROR_MEMORY, "out of memory: statistics");
    if (!status)
        status = agree(e, all);
    bool given_up = !status || ra_link_fail(&e->link, status);
    close_gate(e);
    give_memory(e, given_up);
    if (!status && stats)
        memcpy(stats, all, (size_t)ring->options.ranks * sizeof *all);
    free(all);
    return status;
}

/* Virtual ranks, one after the other. */
static ra_status run_simulated(const ra_ring_plan *ring, engine *template, ra_rank_stats *stats)
{
    ra_status status = RA_OK;
    double pairs = 0, reported = 0;
    for (int rank = 0; rank < ring->options.ranks && !status; rank++) {
        double started = ra_seconds();
        engine e = *template;
        ra_transport transport;
        ra_rank_stats own = RA_RANK_STATS_INIT;
        bool broken = false;
        e.rank = rank;
        e.simulated = true;
        e.stats = &own;
        e.pairs_before = pairs;
        e.pairs_reported = reported;
        e.pairs_total = ring->plan->all.pairs_visible;
        status = ra_sim_open(rank, ring->options.ranks, simulated_source, &e, &transport);
        if (status)
            return status;
        e.link = (ra_link){.transport = &transport, .broken = &broken, .timeout = ring->options.timeout};
        status = run_rank(&e, started);
        pairs = e.pairs_before;
        reported = e.pairs_reported;
        transport.close(transport.state);
        give_memory(&e, true);
        if (!status && stats)
            stats[rank] = own;
    }
    const ra_plan *p = ring->plan;
    if (!status && p->progress && reported < p->all.pairs_visible)
        p->progress(p->progress_user, p->all.pairs_visible, p->all.pairs_visible);
    return status;
}

ra_status ra_ring_execute(const ra_ring_plan *ring, const ra_kernel *kernel, ra_comm *comm, const ra_tensors *tensors,
                          ra_rank_stats *stats)
{
    engine e = {.ring = ring, .kernel = kernel, .tensors = tensors};
    return comm->simulated ? run_simulated(ring, &e, stats) : run_real(ring, &e, comm, stats);
}
