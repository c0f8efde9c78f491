#include "ring/rank.h"

#include "base/checked.h"
#include "base/memory.h"
#include "base/tensor.h"
#include "ring/greeting.h"

#include <stdlib.h>
#include <string.h>

/* ---- Greeting ------------------------------------------------------------------------------------------------------
 */
ra_gate *ra_rank_gate_of(const ra_rank *e, int rank)
{
    char *shared = e->link.transport->shared;
    return e->ring->by_reference && shared ? (ra_gate *)(shared + (size_t)rank * RA_SHARED_BYTES) : NULL;
}

/* What this rank's keys and values are to be found in. By reference all of them are in one slot, or the caller's. */
void ra_rank_set_own(ra_rank *e)
{
    ra_share keys = ra_partition_share(&e->ring->keys, e->rank);
    for (int part = 0; part < RA_PARTS && e->schedule.own_slot[part] >= 0; part++) {
        ra_slot *own = &e->slots[e->schedule.own_slot[part]];
        ra_share share = ra_part_of(e->ring, &keys, part);
        memset(own->words, 0, (size_t)(e->sets * share.blocks) * sizeof *own->words);
        for (int64_t set = 0; set < e->sets; set++)
            ra_mark_range(&share, 0, INT64_MAX, own->words + set * share.blocks);
        ra_rank_slot_set(e, own, &share);
    }
    if (e->schedule.own_slot[0] >= 0) {
        e->peer_k[e->rank] = *e->slots[e->schedule.own_slot[0]].k;
        e->peer_v[e->rank] = *e->slots[e->schedule.own_slot[0]].v;
    } else if (keys.rows > 0 || e->simulated) {
        e->peer_k[e->rank] = *ra_storage_view(e->tensors->k);
        e->peer_v[e->rank] = *ra_storage_view(e->tensors->v);
    }
}

ra_status ra_rank_greet(ra_rank *e)
{
    int ranks = e->ring->options.ranks;
    ra_greeting *all = calloc((size_t)ranks + 1, sizeof *all);
    if (!all)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: greetings of %d ranks", ranks);
    ra_greeting *mine = all + ranks;
    ra_greeting_fill(mine, e->ring, e->tensors->wants_lse);
    mine->k = e->peer_k[e->rank];
    mine->v = e->peer_v[e->rank];
    mine->step = e->step;
    mine->set = ra_checkpoint_set(e->tensors->checkpoint);
    ra_checkpoint_describe(e->tensors->checkpoint, mine->line[RA_GREETING_FACTS], RA_GREETING_TEXT);
    if (ra_rank_gate_of(e, e->rank))
        atomic_store(&ra_rank_gate_of(e, e->rank)->closed, 0);
    e->link.what = "the greeting";
    e->link.hop = -1;
    ra_status status = ra_link_exchange(&e->link, RA_TAG_GREETING, mine, all, sizeof *all);
    if (!status)
        status = ra_greeting_compare(all, ranks, e->rank);
    for (int rank = 0; rank < ranks && !status; rank++) {
        e->peer_k[rank] = all[rank].k;
        e->peer_v[rank] = all[rank].v;
        e->first = ra_min(e->first, all[rank].step);
    }
    if (!status && e->tensors->checkpoint)
        ra_checkpoint_join(e->tensors->checkpoint, all->set);
    free(all);
    return status;
}

/* ---- Transfers -----------------------------------------------------------------------------------------------------
 */
/* Add the memory of some rows of a set in a slot, of one head or, where they are all there is, of all heads. */
static bool add_rows(ra_rank *e, const ra_slot *s, int64_t set, bool values, int64_t head, const uint64_t *rows,
                     bool only)
{
    const ra_tensor *t = values ? &s->v[set] : &s->k[set];
    ra_segment *segments = e->segments;
    int64_t row_bytes = t->dim * (int64_t)ra_dtype_size(t->dtype);
    ra_mark_walk walk = ra_mark_walk_begin(rows, s->words + set * s->keys.blocks, s->keys.blocks);
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

/* The rows of one set: head by head, part by part. */
static void add_set(ra_rank *e, const ra_share *keys, const int part_slots[RA_PARTS], int64_t set, bool values,
                    const uint64_t *rows)
{
    const ra_plan *p = e->ring->plan;
    int parts = ra_part_count(e->ring, keys);
    bool done = false, only = parts == 1 && e->sets == 1;
    for (int64_t head = 0; head < p->batch * (p->kv_heads / e->sets) && !done; head++)
        for (int part = 0; part < parts; part++) {
            /* A slot whose part has nothing to do with the message may hold something else by now. */
            const uint64_t *part_rows = rows + ra_part_block(e->ring, keys, part);
            if (ra_marked(part_rows, ra_part_of(e->ring, keys, part).blocks))
                done = add_rows(e, &e->slots[part_slots[part]], set, values, head, part_rows, only);
        }
}

/*
 * The memory of rows that are marked in the words of a share: keys then values, head by head, in the order of
 * positions, so that both sides of a message agree whatever slots they have it in.
 */
static void add_segments(ra_rank *e, const ra_share *keys, const int part_slots[RA_PARTS], const uint64_t *rows)
{
    for (int values = 0; values < 2; values++)
        for (int64_t set = 0; set < e->sets; set++)
            add_set(e, keys, part_slots, set, values, rows + set * keys->blocks);
}

/* Where a position is in the storage of keys and values. */
static int64_t storage_row(const ra_rank *e, int64_t position)
{
    if (!e->tensors->parts)
        return position;
    ra_share own = ra_partition_share(&e->ring->keys, e->rank);
    return ra_share_rows_below(&own, position);
}

/* Rows of the storage that are marked into a slot, of one set. */
static ra_status read_set(ra_rank *e, const ra_slot *s, int64_t set, const uint64_t *rows)
{
    /* A slot's row is counted among all of its marks, the storage's among positions. */
    ra_position_walk walk = {&s->keys, rows, 0, 0, 0};
    ra_position_run run;
    ra_status status = RA_OK;
    const uint64_t *words = s->words + set * s->keys.blocks;
    const int64_t *before = s->before + set * s->keys.blocks;
    while (!status && ra_position_walk_next(&walk, &run)) {
        int64_t i = ra_share_find(&s->keys, run.position);
        ra_range range = ra_share_range(&s->keys, i);
        int64_t index = range.block + run.position / RA_KEY_BLOCK - range.first / RA_KEY_BLOCK;
        uint64_t below = (UINT64_C(1) << (run.position % RA_KEY_BLOCK)) - 1;
        int64_t row = before[index] + __builtin_popcountll(words[index] & below);
        int64_t from = storage_row(e, run.position);
        status = ra_rank_read_rows(e, e->tensors->k, from, run.rows, set, &s->k[set], row);
        if (!status)
            status = ra_rank_read_rows(e, e->tensors->v, from, run.rows, set, &s->v[set], row);
    }
    return status;
}

/* The same of all sets, whose marks are `stride` words apart. */
static ra_status read_marked(ra_rank *e, const ra_slot *s, const uint64_t *rows, int64_t stride)
{
    ra_status status = RA_OK;
    for (int64_t set = 0; set < e->sets && !status; set++)
        status = read_set(e, s, set, rows + set * stride);
    return status;
}

/* Where a run goes on nobody sends what has travelled before: it is read from storage, as by a virtual rank. */
static bool travelled_before(const ra_rank *e, int64_t phase)
{
    return !e->simulated && e->first > 0 && phase == e->first;
}

/*
 * What is received without a message: the rows that are marked in `some`, into the slots of the phase that is being
 * started. They are read when all of the phase's are known.
 */
static void want(ra_rank *e)
{
    int64_t words = e->sets * ra_step_keys(e->ring, e->rank, e->link.hop).blocks;
    if (e->wanted_phase < 0)
        memset(e->wanted, 0, (size_t)words * sizeof *e->wanted);
    e->wanted_phase = e->link.hop;
    for (int64_t i = 0; i < words; i++)
        e->wanted[i] |= e->some[i];
}

ra_status ra_rank_simulated_source(void *user, int rank, int from, int tag, const ra_segment *segments, int64_t count)
{
    ra_rank *e = user;
    (void)rank, (void)from, (void)tag, (void)segments, (void)count;
    if (!e->ring->by_reference)
        want(e);
    return RA_OK;
}

/* Reads the rows that are wanted of a phase. */
static ra_status read_wanted(void *user)
{
    ra_rank *e = user;
    double start = ra_seconds();
    ra_share keys = ra_step_keys(e->ring, e->rank, e->wanted_phase);
    ra_status status = RA_OK;
    for (int part = 0; part < ra_part_count(e->ring, &keys) && !status; part++) {
        int number = e->schedule.step[e->wanted_phase].slot[part];
        if (number >= 0)
            status = read_marked(e, &e->slots[number], e->wanted + ra_part_block(e->ring, &keys, part), keys.blocks);
    }
    e->seconds_behind = ra_seconds() - start;
    return status;
}

/* Behind, or at once where a run goes on. */
static ra_status start_reading(ra_rank *e)
{
    if (e->behind) {
        ra_background_start(e->behind, read_wanted, e);
        return RA_OK;
    }
    ra_status status = read_wanted(e);
    e->stats->seconds_io += e->seconds_behind;
    e->seconds_behind = 0;
    e->wanted_phase = -1;
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
static void copy_own(ra_rank *e, const ra_slot *into, int64_t set, const uint64_t *rows)
{
    ra_share own = ra_partition_share(&e->ring->keys, e->rank);
    ra_position_walk walk = {&into->keys, rows, 0, 0, 0};
    ra_position_run run;
    const uint64_t *words = into->words + set * into->keys.blocks;
    const int64_t *before = into->before + set * into->keys.blocks;
    while (ra_position_walk_next(&walk, &run))
        for (int64_t at = run.position, end = at + run.rows, count; at < end; at += count) {
            int64_t i = ra_share_find(&own, at);
            ra_range range = ra_share_range(&own, i);
            bool in_parts = ra_part_count(e->ring, &own) == own.ranges;
            const ra_slot *from = &e->slots[e->schedule.own_slot[in_parts ? i : 0]];
            int64_t block = at / RA_KEY_BLOCK - into->keys.whole.first / RA_KEY_BLOCK;
            uint64_t below = (UINT64_C(1) << (at % RA_KEY_BLOCK)) - 1;
            int64_t row = before[block] + __builtin_popcountll(words[block] & below);
            int64_t own_row = (in_parts ? 0 : range.row) + at - range.first;
            count = ra_min(end, range.end) - at;
            copy_rows(&from->k[set], own_row, &into->k[set], row, count);
            copy_rows(&from->v[set], own_row, &into->v[set], row, count);
        }
}

/* Phases come in order, so a tag may come again. */
static int phase_tag(int64_t phase)
{
    return RA_TAG_PHASE + (int)(phase % RA_TAG_PHASES);
}

/* Of a virtual rank nothing travels; by reference the message itself says that the rows may be read. */
static bool has_segments(const ra_rank *e)
{
    return !e->ring->by_reference && !e->simulated;
}

/* Of the rows of a message, which are marked in `some`. */
static int64_t bytes_of(const ra_rank *e, const ra_share *keys, int64_t phase)
{
    if (phase < e->counted)
        return 0;
    return ra_marked(e->some, e->ring->sets * keys->blocks) * (e->ring->k_row_bytes + e->ring->v_row_bytes);
}

/* Those of a message; there may be none. */
static const ra_segment *segments_from(const ra_rank *e, int64_t first)
{
    return e->segments_used > first ? (const ra_segment *)e->segments + first : NULL;
}

static ra_status start_receive(ra_rank *e, const ra_message *m)
{
    ra_transport *t = e->link.transport;
    ra_share keys = ra_step_keys(e->ring, e->rank, m->phase);
    ra_phase_rows(e->ring, m->peer, e->rank, m->phase, e->some, e->other);
    e->stats->bytes_received += bytes_of(e, &keys, m->phase);
    if (travelled_before(e, m->phase)) {
        want(e);
        return RA_OK;
    }
    int64_t first = e->segments_used;
    if (has_segments(e))
        add_segments(e, &keys, e->schedule.step[m->phase].slot, e->some);
    return t->receive(t->state, m->peer, phase_tag(m->phase), segments_from(e, first), e->segments_used - first);
}

/* The marks of a share to its parts' slots, which hold those rows from now on. */
static void set_slots(ra_rank *e, const ra_share *keys, const int part_slots[RA_PARTS], const uint64_t *words)
{
    for (int part = 0; part < ra_part_count(e->ring, keys); part++) {
        ra_share share = ra_part_of(e->ring, keys, part);
        if (part_slots[part] >= 0) {
            ra_slot *s = &e->slots[part_slots[part]];
            for (int64_t set = 0; set < e->sets; set++)
                memcpy(s->words + set * share.blocks, words + set * keys->blocks + ra_part_block(e->ring, keys, part),
                       (size_t)share.blocks * sizeof *words);
            ra_rank_slot_set(e, s, &share);
        }
    }
}

/* Own rows that were given up and are wanted now; nobody is there to want them of a virtual rank. */
static ra_status read_again(ra_rank *e, const ra_share *keys, const ra_message *m)
{
    ra_status status = RA_OK;
    double start = ra_seconds();
    if (e->simulated)
        return RA_OK;
    set_slots(e, keys, m->slot, e->some);
    for (int part = 0; part < RA_PARTS && !status; part++)
        if (m->slot[part] >= 0) {
            const ra_slot *s = &e->slots[m->slot[part]];
            status = read_marked(e, s, s->words, s->keys.blocks);
        }
    e->stats->seconds_io += ra_seconds() - start;
    return status;
}

static ra_status start_send(ra_rank *e, const ra_message *m)
{
    ra_transport *t = e->link.transport;
    ra_share keys = ra_held_keys(e->ring, e->rank, m->peer, m->phase);
    ra_phase_held(e->ring, e->rank, m->peer, m->phase, e->some, e->other);
    e->stats->bytes_sent += bytes_of(e, &keys, m->phase);
    if (travelled_before(e, m->phase))
        return RA_OK;
    const int *from = m->held >= 0 ? e->schedule.step[m->held].slot : m->again ? m->slot : e->schedule.own_slot;
    int64_t first = e->segments_used;
    ra_status status = m->again ? read_again(e, &keys, m) : RA_OK;
    if (status)
        return status;
    if (has_segments(e))
        add_segments(e, &keys, from, e->some);
    return t->send(t->state, m->peer, phase_tag(m->phase), segments_from(e, first), e->segments_used - first);
}

/* Of late messages, what is read from storage need not wait for others. */
static bool is_due(const ra_rank *e, const ra_message *m, bool late)
{
    return m->phase == e->phase && (late || !m->late || e->simulated || travelled_before(e, m->phase));
}

/* Those of the phase that are due, in their order: receives first. */
static ra_status start_messages(ra_rank *e, bool late)
{
    const ra_schedule *s = &e->schedule;
    ra_status status = RA_OK;
    while (!status && e->next_receive < s->receive_count && is_due(e, &s->receives[e->next_receive], late))
        status = start_receive(e, &s->receives[e->next_receive++]);
    while (!status && e->next_send < s->send_count && is_due(e, &s->sends[e->next_send], late))
        status = start_send(e, &s->sends[e->next_send++]);
    return status;
}

/* A chunk that comes from several ranks is one hop; an all-gather has every rank's in one phase. */
static int64_t hops_of(const ra_rank *e, int64_t phase)
{
    int64_t came = 0;
    for (int64_t i = e->next_receive; i < e->schedule.receive_count && e->schedule.receives[i].phase == phase; i++)
        came++;
    return e->ring->options.strategy == RA_STRATEGY_ALLGATHER ? came : came > 0;
}

/* Make room for what travels in a phase, then start it. */
ra_status ra_rank_start_phase(ra_rank *e, int64_t phase)
{
    const ra_schedule *s = &e->schedule;
    bool ring = e->ring->options.strategy == RA_STRATEGY_RING;
    e->segments_used = 0;
    e->phase = phase;
    e->passed[phase % 2] = (ra_passed){e->stats->hops, e->stats->bytes_sent, e->stats->bytes_received};
    e->link.what = "hop";
    e->link.hop = phase;
    if (!e->ring->by_reference && !(ring && phase == 0)) {
        ra_share keys = ra_step_keys(e->ring, e->rank, phase);
        ra_step_needed(e->ring, e->rank, phase, e->some);
        set_slots(e, &keys, s->step[phase].slot, e->some);
    }
    if (phase >= e->counted)
        e->stats->hops += hops_of(e, phase);
    ra_status status = start_messages(e, false);
    if (!status && !ring && s->step[phase].slot[0] >= 0) {
        const ra_slot *into = &e->slots[s->step[phase].slot[0]];
        ra_phase_rows(e->ring, e->rank, e->rank, phase, e->some, e->other);
        for (int64_t set = 0; set < e->sets; set++)
            copy_own(e, into, set, e->some + set * into->keys.blocks);
    }
    if (!status && e->wanted_phase >= 0)
        status = start_reading(e);
    return status;
}

ra_status ra_rank_wait_behind(ra_rank *e)
{
    double start = ra_seconds();
    ra_status status = ra_background_wait(e->behind);
    e->link.waited += ra_seconds() - start;
    e->stats->seconds_io += e->seconds_behind;
    e->seconds_behind = 0;
    e->wanted_phase = -1;
    return status;
}

/* Messages of the phase that have not been started. */
static bool has_late(const ra_rank *e)
{
    const ra_schedule *s = &e->schedule;
    return (e->next_receive < s->receive_count && s->receives[e->next_receive].phase == e->phase) ||
           (e->next_send < s->send_count && s->sends[e->next_send].phase == e->phase);
}

/* What is late goes into memory that the step beside the phase worked on, and that was passed on in it. */
ra_status ra_rank_wait_phase(ra_rank *e)
{
    if (e->simulated)
        return e->behind ? ra_rank_wait_behind(e) : RA_OK;
    ra_status status = ra_link_wait(&e->link);
    if (status || !has_late(e))
        return status;
    status = start_messages(e, true);
    return status ? status : ra_link_wait(&e->link);
}
