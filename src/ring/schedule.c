#include "ring/schedule.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/* ---- Pure functions ---------------------------------------------------------------------------------------------- */

int64_t ra_step_count(const ra_ring_plan *ring)
{
    return ring->options.strategy == RA_STRATEGY_ALLGATHER ? 1 : ring->options.ranks;
}

static int rank_before(const ra_ring_plan *ring, int rank, int64_t steps)
{
    int64_t ranks = ring->options.ranks;
    return (int)(((rank - steps) % ranks + ranks) % ranks);
}

ra_share ra_step_keys(const ra_ring_plan *ring, int rank, int64_t step)
{
    if (ring->options.strategy == RA_STRATEGY_RING)
        return ra_partition_share(&ring->keys, rank_before(ring, rank, step));
    ra_piece part = ra_even_part(ring->keys.length, ra_step_count(ring), step);
    return ra_share_of_range(part.first, part.end);
}

int64_t ra_most_blocks(const ra_ring_plan *ring)
{
    int64_t most = 1;
    for (int rank = 0; rank < ring->options.ranks; rank++) {
        most = ra_max(most, ra_partition_share(&ring->keys, rank).blocks);
        if (rank < ra_step_count(ring))
            most = ra_max(most, ra_step_keys(ring, 0, rank).blocks);
    }
    return most;
}

/* Whether a rank can read anything of `keys` at all, by the ends of what it sees. */
static bool in_reach(const ra_ring_plan *ring, const ra_share *queries, const ra_share *keys)
{
    if (queries->rows == 0 || keys->rows == 0)
        return false;
    const ra_plan *p = ring->plan;
    int64_t first = ra_share_range(queries, 0).first, end = ra_share_range(queries, queries->ranges - 1).end;
    ra_interval seen = ra_pattern_reach(&p->pattern, first + p->offset, end - first);
    return seen.lo < ra_share_range(keys, keys->ranges - 1).end && ra_share_range(keys, 0).first < seen.hi;
}

/* The rows of `keys` that a rank reads. False: none, and the words have not been touched. */
static bool needed(const ra_ring_plan *ring, int rank, const ra_share *keys, uint64_t *words)
{
    bool gathers = ring->options.strategy == RA_STRATEGY_ALLGATHER;
    ra_share queries = ra_partition_share(&ring->queries, rank);
    if (keys->rows == 0 || (!gathers && !in_reach(ring, &queries, keys)))
        return false;
    memset(words, 0, (size_t)keys->blocks * sizeof *words);
    if (gathers)
        ra_mark_range(keys, 0, INT64_MAX, words);
    else
        ra_mark_needed(ring->plan, &queries, keys, words);
    return true;
}

static void clear(uint64_t *words, int64_t blocks)
{
    memset(words, 0, (size_t)blocks * sizeof *words);
}

void ra_step_needed(const ra_ring_plan *ring, int rank, int64_t step, uint64_t *words)
{
    ra_share keys = ra_step_keys(ring, rank, step);
    if (!needed(ring, rank, &keys, words))
        clear(words, keys.blocks);
}

void ra_phase_rows(const ra_ring_plan *ring, int from, int to, int64_t phase, uint64_t *words, uint64_t *scratch)
{
    ra_share keys = ra_step_keys(ring, to, phase);
    if (!needed(ring, to, &keys, words)) {
        clear(words, keys.blocks);
        return;
    }
    if (ring->options.strategy == RA_STRATEGY_RING) {
        /* What a rank in between needs too comes from that one. */
        int owner = rank_before(ring, to, phase);
        for (int rank = rank_before(ring, to, 1); rank != from; rank = rank_before(ring, rank, 1)) {
            bool some = needed(ring, rank, &keys, scratch);
            for (int64_t i = 0; some && i < keys.blocks; i++)
                words[i] &= ~scratch[i];
        }
        if (from == owner)
            return;
        if (!needed(ring, from, &keys, scratch))
            clear(scratch, keys.blocks);
    } else {
        ra_share owned = ra_partition_share(&ring->keys, from);
        clear(scratch, keys.blocks);
        ra_mark_owned(&owned, &keys, scratch);
    }
    for (int64_t i = 0; i < keys.blocks; i++)
        words[i] &= scratch[i];
}

ra_share ra_held_keys(const ra_ring_plan *ring, int from, int to, int64_t phase)
{
    return ring->options.strategy == RA_STRATEGY_RING ? ra_step_keys(ring, to, phase)
                                                      : ra_partition_share(&ring->keys, from);
}

void ra_phase_held(const ra_ring_plan *ring, int from, int to, int64_t phase, uint64_t *words, uint64_t *scratch)
{
    if (ring->options.strategy == RA_STRATEGY_RING) {
        ra_phase_rows(ring, from, to, phase, words, scratch);
        return;
    }
    ra_share owned = ra_partition_share(&ring->keys, from);
    ra_piece part = ra_even_part(ring->keys.length, ra_step_count(ring), phase);
    if (!needed(ring, to, &owned, words))
        clear(words, owned.blocks);
    clear(scratch, owned.blocks);
    ra_mark_range(&owned, part.first, part.end, scratch);
    for (int64_t i = 0; i < owned.blocks; i++)
        words[i] &= scratch[i];
}

/* ---- A rank's schedule ------------------------------------------------------------------------------------------- */

/* What is at hand while a schedule is made. */
typedef struct maker {
    const ra_ring_plan *ring;
    int rank;
    ra_schedule *schedule;
    int64_t receive_room, send_room;
    int64_t *last_phase; /* [steps + 1]: until which each step's rows are held; the last one: the rank's own */
    int64_t own_last;
    uint64_t *held, *left, *some, *scratch; /* words */
} maker;

static bool add(ra_message **messages, int64_t *count, int64_t *room, ra_message message)
{
    if (*count == *room) {
        int64_t more = 2 * *room + 8;
        ra_message *grown = realloc(*messages, (size_t)more * sizeof *grown);
        if (!grown)
            return false;
        *messages = grown;
        *room = more;
    }
    (*messages)[(*count)++] = message;
    return true;
}

/* Pieces of memory that rows are, where `held` rows are packed one after the other: head by head. */
static int64_t segments_of(const ra_ring_plan *ring, const uint64_t *rows, const uint64_t *held, int64_t blocks)
{
    ra_mark_walk walk = ra_mark_walk_begin(rows, held, blocks);
    ra_mark_run run;
    int64_t runs = 0, all = ra_marked(held, blocks);
    while (ra_mark_walk_next(&walk, &run)) {
        if (run.rows == all)
            return 2; /* keys, values */
        runs++;
    }
    return 2 * runs * ring->plan->batch * ring->plan->kv_heads;
}

/*
 * Ring: for the rows that a rank reads of another's, walk back towards their owner and take each from the first rank
 * that reads it too.
 */
static bool ring_receives(maker *m, int64_t step, const ra_share *keys)
{
    int owner = rank_before(m->ring, m->rank, step);
    memcpy(m->left, m->held, (size_t)keys->blocks * sizeof *m->left);
    int64_t rows = m->schedule->step[step].rows;
    for (int rank = rank_before(m->ring, m->rank, 1); rows > 0; rank = rank_before(m->ring, rank, 1)) {
        if (rank == owner)
            memcpy(m->some, m->left, (size_t)keys->blocks * sizeof *m->some);
        else if (!needed(m->ring, rank, keys, m->some))
            continue;
        for (int64_t i = 0; i < keys->blocks; i++) {
            m->some[i] &= m->left[i];
            m->left[i] &= ~m->some[i];
        }
        int64_t taken = ra_marked(m->some, keys->blocks);
        rows -= taken;
        if (taken && !add(&m->schedule->receives, &m->schedule->receive_count, &m->receive_room,
                          (ra_message){step, rank, 0, segments_of(m->ring, m->some, m->held, keys->blocks)}))
            return false;
    }
    return true;
}

/* Ring: walk on from a rank with the rows that it has, and give each to the first rank that reads it too. */
static bool ring_sends(maker *m, int64_t step, const ra_share *keys, int64_t *last)
{
    memcpy(m->left, m->held, (size_t)keys->blocks * sizeof *m->left);
    int64_t rows = ra_marked(m->left, keys->blocks);
    for (int64_t phase = step + 1; phase < m->ring->options.ranks && rows > 0; phase++) {
        int rank = rank_before(m->ring, m->rank, step - phase);
        if (!needed(m->ring, rank, keys, m->some))
            continue;
        for (int64_t i = 0; i < keys->blocks; i++) {
            m->some[i] &= m->left[i];
            m->left[i] &= ~m->some[i];
        }
        int64_t given = ra_marked(m->some, keys->blocks);
        rows -= given;
        if (!given)
            continue;
        *last = phase;
        if (!add(&m->schedule->sends, &m->schedule->send_count, &m->send_room,
                 (ra_message){phase, rank, step ? step : -1, segments_of(m->ring, m->some, m->held, keys->blocks)}))
            return false;
    }
    return true;
}

static void all_rows(const ra_share *keys, uint64_t *words)
{
    clear(words, keys->blocks);
    ra_mark_range(keys, 0, INT64_MAX, words);
}

static bool schedule_ring(maker *m)
{
    for (int64_t step = 0; step < m->schedule->steps; step++) {
        ra_share keys = ra_step_keys(m->ring, m->rank, step);
        if (needed(m->ring, m->rank, &keys, m->held))
            m->schedule->step[step].rows = ra_marked(m->held, keys.blocks);
        if (step == 0)
            all_rows(&keys, m->held);
        else if (m->schedule->step[step].rows == 0)
            continue;
        else if (!ring_receives(m, step, &keys))
            return false;
        if (!ring_sends(m, step, &keys, step ? &m->last_phase[step] : &m->own_last))
            return false;
    }
    return true;
}

/* Broadcast and all-gather: every owner gives its rows of a part to everyone who reads them. */
static bool schedule_direct(maker *m)
{
    const ra_ring_plan *ring = m->ring;
    ra_share mine = ra_partition_share(&ring->keys, m->rank);
    for (int64_t step = 0; step < m->schedule->steps; step++) {
        ra_share keys = ra_step_keys(ring, m->rank, step);
        if (!needed(ring, m->rank, &keys, m->held))
            clear(m->held, keys.blocks);
        m->schedule->step[step].rows = ra_marked(m->held, keys.blocks);
        for (int rank = 0; rank < ring->options.ranks; rank++) {
            ra_phase_rows(ring, rank, m->rank, step, m->some, m->scratch);
            bool comes = ra_marked(m->some, keys.blocks) > 0;
            if (rank == m->rank) { /* copied out of its own rows */
                m->own_last = comes ? step : m->own_last;
                continue;
            }
            if (comes && !add(&m->schedule->receives, &m->schedule->receive_count, &m->receive_room,
                              (ra_message){step, rank, 0, segments_of(ring, m->some, m->held, keys.blocks)}))
                return false;
            /* The other way round, out of this rank's own rows. */
            ra_phase_held(ring, m->rank, rank, step, m->some, m->scratch);
            if (!ra_marked(m->some, mine.blocks))
                continue;
            m->own_last = step;
            all_rows(&mine, m->left);
            if (!add(&m->schedule->sends, &m->schedule->send_count, &m->send_room,
                     (ra_message){step, rank, -1, segments_of(ring, m->some, m->left, mine.blocks)}))
                return false;
        }
    }
    return true;
}

static int by_phase(const void *a, const void *b)
{
    const ra_message *x = a, *y = b;
    return x->phase != y->phase ? (x->phase > y->phase) - (x->phase < y->phase)
                                : (x->peer > y->peer) - (x->peer < y->peer);
}

static void count_segments(ra_schedule *s)
{
    for (int64_t phase = 0, r = 0, w = 0; phase < s->steps; phase++) {
        int64_t segments = 0;
        for (; r < s->receive_count && s->receives[r].phase == phase; r++)
            segments += s->receives[r].segments;
        for (; w < s->send_count && s->sends[w].phase == phase; w++)
            segments += s->sends[w].segments;
        s->most_segments = ra_max(s->most_segments, segments);
    }
}

/*
 * Slots: a step's rows are in one from the phase in which they come until they have been worked on and passed on.
 * Whatever is free by then is taken again, so that a rank of a ring holds two chunks at a time.
 */
static bool assign_slots(maker *m)
{
    ra_schedule *s = m->schedule;
    bool ring = m->ring->options.strategy == RA_STRATEGY_RING;
    int64_t *busy = calloc((size_t)s->steps + 1, sizeof *busy); /* until which phase each slot is */
    s->slot_rows = calloc((size_t)s->steps + 1, sizeof *s->slot_rows);
    if (!busy || !s->slot_rows) {
        free(busy);
        return false;
    }
    int64_t own = ra_partition_share(&m->ring->keys, m->rank).rows;
    if (m->ring->hold_own && own > 0) {
        s->own_slot = s->slots++;
        s->slot_rows[s->own_slot] = own;
        busy[s->own_slot] = m->ring->by_reference ? INT64_MAX : ra_max(ring ? 1 : -1, m->own_last);
    }
    for (int64_t step = 0; step < s->steps && !m->ring->by_reference; step++) {
        if (ring && step == 0) {
            s->step[0].slot = s->own_slot;
            continue;
        }
        if (s->step[step].rows == 0)
            continue;
        int best = -1;
        for (int i = 0; i < s->slots; i++)
            if (busy[i] < step && (best < 0 || s->slot_rows[i] > s->slot_rows[best]))
                best = i;
        if (best < 0)
            best = s->slots++;
        busy[best] = ra_max(step + 1, m->last_phase[step]);
        s->slot_rows[best] = ra_max(s->slot_rows[best], s->step[step].rows);
        s->step[step].slot = best;
    }
    free(busy);
    return true;
}

ra_status ra_schedule_make(const ra_ring_plan *ring, int rank, ra_schedule *s)
{
    *s = (ra_schedule){.steps = ra_step_count(ring), .own_slot = -1};
    int64_t blocks = ra_most_blocks(ring);
    s->slot_blocks = blocks;
    s->step = calloc((size_t)s->steps, sizeof *s->step);
    maker m = {.ring = ring, .rank = rank, .schedule = s, .own_last = -1};
    m.last_phase = calloc((size_t)s->steps, sizeof *m.last_phase);
    m.held = calloc((size_t)(4 * blocks), sizeof *m.held);
    bool made = s->step && m.last_phase && m.held;
    for (int64_t i = 0; made && i < s->steps; i++)
        s->step[i].slot = -1;
    if (made) {
        m.left = m.held + blocks;
        m.some = m.left + blocks;
        m.scratch = m.some + blocks;
        made =
            (ring->options.strategy == RA_STRATEGY_RING ? schedule_ring(&m) : schedule_direct(&m)) && assign_slots(&m);
    }
    free(m.held);
    free(m.last_phase);
    if (!made) {
        ra_schedule_free(s);
        return ra_fail(RA_ERROR_MEMORY, "out of memory: the schedule of rank %d", rank);
    }
    if (s->receive_count)
        qsort(s->receives, (size_t)s->receive_count, sizeof *s->receives, by_phase);
    if (s->send_count)
        qsort(s->sends, (size_t)s->send_count, sizeof *s->sends, by_phase);
    count_segments(s);
    return RA_OK;
}

void ra_schedule_free(ra_schedule *s)
{
    free(s->step);
    free(s->receives);
    free(s->sends);
    free(s->slot_rows);
    *s = (ra_schedule){0};
}
