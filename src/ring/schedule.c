#include "ring/schedule.h"

#include "base/checked.h"
#include "ring/row_set.h"

#include <stdlib.h>

/* What is at hand while a schedule is made. */
typedef struct maker {
    const ra_ring_plan *ring;
    int rank;
    ra_schedule *schedule;
    int64_t receive_room, send_room;
    int64_t own_last[RA_PARTS];           /* until which phase the rank's own rows are needed */
    int64_t (*part_rows)[RA_PARTS];       /* [steps]: rows that are held */
    int64_t *met;                         /* [ranks]: the last step in which each was met as an owner, from 1 */
    ra_row_set held, left, some, scratch; /* left: what the rank before reads of a chunk that is given */
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

/*
 * Pieces of memory that rows are, where `held` rows are packed one after the other: for keys and for values, head by
 * head, part by part. All rows of a single part and set are one piece.
 */
static int64_t segments_of(const maker *m, const ra_share *keys)
{
    const ra_ring_plan *ring = m->ring;
    int parts = ra_part_count(ring, keys);
    if (ring->sets == 1 && parts == 1 && ra_set_rows(ring, keys, &m->some) == ra_set_rows(ring, keys, &m->held))
        return 2;
    int64_t runs = 0;
    for (int part = 0; part < parts; part++)
        runs += ra_set_runs(ring, keys, part, &m->some, &m->held);
    return 2 * runs * ring->plan->batch * (ring->plan->kv_heads / ring->sets);
}

static ra_message message_of(maker *m, int64_t phase, int peer, const ra_share *keys, int64_t held)
{
    ra_message message = {.phase = phase, .peer = peer, .held = held, .slot = {-1, -1}};
    message.segments = segments_of(m, keys);
    for (int part = 0; part < ra_part_count(m->ring, keys); part++)
        message.part_rows[part] = ra_set_part_rows(m->ring, keys, part, &m->some);
    return message;
}

/* Ring: what its owner gives of a chunk later than in the first phase, the owner has given up before. */
static bool given_up(const ra_ring_plan *ring, int64_t phase, bool by_owner)
{
    return ring->options.strategy == RA_STRATEGY_RING && !ring->by_reference && by_owner && phase > 1;
}

static bool add_receive(maker *m, int64_t phase, int peer, const ra_share *keys)
{
    if (!ra_set_rows(m->ring, keys, &m->some))
        return true;
    ra_message message = message_of(m, phase, peer, keys, 0);
    message.late = m->ring->sparing && given_up(m->ring, phase, peer == ra_rank_before(m->ring, m->rank, phase));
    return add(&m->schedule->receives, &m->schedule->receive_count, &m->receive_room, message);
}

/* Out of the rows marked in `held`. */
static bool add_send(maker *m, int64_t phase, int peer, const ra_share *keys, int64_t held)
{
    if (!ra_set_rows(m->ring, keys, &m->some))
        return true;
    ra_message message = message_of(m, phase, peer, keys, held);
    bool in_ring = m->ring->options.strategy == RA_STRATEGY_RING;
    message.again = given_up(m->ring, phase, held < 0);
    message.late = m->ring->sparing && message.again;
    for (int part = 0; !in_ring && part < RA_PARTS; part++)
        if (message.part_rows[part])
            m->own_last[part] = ra_max(m->own_last[part], phase);
    return add(&m->schedule->sends, &m->schedule->send_count, &m->send_room, message);
}

/* Ring: what a rank reads of a chunk comes from the rank before it, as far as that one reads it, and from the owner. */
static bool ring_receives(maker *m, int64_t step, const ra_share *keys)
{
    const ra_ring_plan *ring = m->ring;
    int owner = ra_rank_before(ring, m->rank, step), before = ra_rank_before(ring, m->rank, 1);
    if (before == owner || !ra_set_needed(ring, before, keys, &m->scratch)) {
        ra_set_copy(ring, keys, &m->held, &m->some);
        return add_receive(m, step, owner, keys);
    }
    ra_set_both(ring, keys, &m->held, &m->scratch, &m->some);
    if (!add_receive(m, step, before, keys))
        return false;
    ra_set_only(ring, keys, &m->held, &m->scratch, &m->some);
    return add_receive(m, step, owner, keys);
}

/* Ring: a rank that has read a chunk gives the next one what that reads too. */
static bool ring_passes_on(maker *m, int64_t step, const ra_share *keys)
{
    int next = ra_rank_before(m->ring, m->rank, -1);
    if (!ra_set_needed(m->ring, next, keys, &m->some))
        return true;
    ra_set_both(m->ring, keys, &m->some, &m->held, &m->some);
    return add_send(m, step + 1, next, keys, step);
}

/* Ring: an owner gives each rank what the one before that does not read. */
static bool ring_gives(maker *m, const ra_share *keys)
{
    const ra_ring_plan *ring = m->ring;
    bool reads = false; /* whether the last rank does: `left` is what */
    for (int64_t phase = 1; phase < ring->options.ranks; phase++) {
        int rank = ra_rank_before(ring, m->rank, -phase);
        bool before = reads;
        reads = ra_set_needed(ring, rank, keys, &m->scratch);
        if (!reads)
            continue;
        if (before)
            ra_set_only(ring, keys, &m->scratch, &m->left, &m->some);
        else
            ra_set_copy(ring, keys, &m->scratch, &m->some);
        ra_row_set last = m->left;
        m->left = m->scratch;
        m->scratch = last;
        if (!add_send(m, phase, rank, keys, -1))
            return false;
    }
    return true;
}

static void count_parts(maker *m, int64_t step, const ra_share *keys)
{
    for (int part = 0; part < ra_part_count(m->ring, keys); part++) {
        int64_t rows = ra_set_part_rows(m->ring, keys, part, &m->held);
        m->part_rows[step][part] = rows;
        m->schedule->step[step].rows += rows;
    }
}

static bool schedule_ring(maker *m)
{
    for (int64_t step = 0; step < m->schedule->steps; step++) {
        ra_share keys = ra_step_keys(m->ring, m->rank, step);
        if (ra_set_needed(m->ring, m->rank, &keys, &m->held))
            count_parts(m, step, &keys);
        if (step == 0) {
            ra_set_all(m->ring, &keys, &m->held);
            if (!ring_gives(m, &keys))
                return false;
        } else if (m->schedule->step[step].rows > 0) {
            bool last = step + 1 == m->schedule->steps; /* the next rank would be the owner */
            if (!ring_receives(m, step, &keys) || (!last && !ring_passes_on(m, step, &keys)))
                return false;
        }
    }
    return true;
}

/* Rows of a part of the sequence from each of its owners, this rank aside. */
static bool direct_receives(maker *m, int64_t step, const ra_share *keys)
{
    int64_t first = ra_share_range(keys, 0).first, end = ra_share_range(keys, keys->ranges - 1).end;
    for (int64_t at = first; at < end;) {
        ra_owned owned = ra_partition_owner(&m->ring->keys, at);
        at = owned.end;
        bool new = m->met[owned.rank] != step + 1;
        m->met[owned.rank] = step + 1;
        if (!new || owned.rank == m->rank)
            continue;
        ra_set_owned(m->ring, owned.rank, keys, &m->some);
        ra_set_both(m->ring, keys, &m->some, &m->held, &m->some);
        if (!add_receive(m, step, owned.rank, keys))
            return false;
    }
    return true;
}

/* This rank's own rows of a part to everyone who reads them; what it reads itself is copied out of them too. */
static bool direct_sends(maker *m, int64_t step, const ra_share *mine)
{
    const ra_ring_plan *ring = m->ring;
    ra_piece part = ra_even_part(ring->keys.length, m->schedule->steps, step);
    if (!ra_share_rows_between(mine, part.first, part.end))
        return true;
    ra_set_stretch(ring, mine, part.first, part.end, &m->scratch);
    for (int rank = 0; rank < ring->options.ranks; rank++) {
        if (!ra_set_needed(ring, rank, mine, &m->some))
            continue;
        ra_set_both(ring, mine, &m->some, &m->scratch, &m->some);
        int64_t sends = m->schedule->send_count;
        if (!add_send(m, step, rank, mine, -1))
            return false;
        if (rank == m->rank)
            m->schedule->send_count = sends;
    }
    return true;
}

/* Broadcast and all-gather: every owner gives its rows of a part to everyone who reads them. */
static bool schedule_direct(maker *m)
{
    const ra_ring_plan *ring = m->ring;
    for (int64_t step = 0; step < m->schedule->steps; step++) {
        ra_share keys = ra_step_keys(ring, m->rank, step);
        if (!ra_set_needed(ring, m->rank, &keys, &m->held))
            continue;
        count_parts(m, step, &keys);
        if (m->schedule->step[step].rows && !direct_receives(m, step, &keys))
            return false;
    }
    ra_share mine = ra_partition_share(&ring->keys, m->rank);
    ra_set_all(m->ring, &mine, &m->held);
    for (int64_t step = 0; step < m->schedule->steps; step++)
        if (!direct_sends(m, step, &mine))
            return false;
    return true;
}

static int by_phase(const void *a, const void *b)
{
    const ra_message *x = a, *y = b;
    if (x->phase != y->phase)
        return x->phase < y->phase ? -1 : 1;
    return x->late != y->late ? x->late - y->late : (x->peer > y->peer) - (x->peer < y->peer);
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

/* A phase has two halves: in the second, what is late travels, and the step beside it is done. */
static int64_t early(int64_t phase)
{
    return 2 * phase;
}

static int64_t late(int64_t phase)
{
    return 2 * phase + 1;
}

/* Slots while they are given out. */
typedef struct slots {
    ra_schedule *schedule;
    int64_t *busy; /* until which half of a phase each is */
} slots;

/* Whether room for `a` rows suits `rows` better than room for `b`. */
static bool better(int64_t a, int64_t b, int64_t rows)
{
    return a >= rows ? b < rows || a < b : a > b;
}

/* A slot for so many rows, with the halves of phases that are first and last: the smallest free one with room, else the
 * largest, else a new one. */
static int take_slot(slots *s, int64_t rows, int64_t first, int64_t last)
{
    int best = -1;
    int64_t *room = s->schedule->slot_rows;
    if (rows == 0)
        return -1;
    for (int i = 0; i < s->schedule->slots; i++)
        if (s->busy[i] < first && (best < 0 || better(room[i], room[best], rows)))
            best = i;
    if (best < 0)
        best = s->schedule->slots++;
    s->busy[best] = last;
    room[best] = ra_max(room[best], rows);
    return best;
}

/* Slots for own rows that are read once more for the messages of a phase, which begin with *next. */
static void take_slots_again(slots *given, int64_t phase, int64_t *next)
{
    ra_schedule *s = given->schedule;
    for (; *next < s->send_count && s->sends[*next].phase <= phase; ++*next) {
        ra_message *m = &s->sends[*next];
        int64_t half = m->late ? late(phase) : early(phase);
        for (int part = 0; m->again && part < RA_PARTS; part++)
            m->slot[part] = take_slot(given, m->part_rows[part], half, half);
    }
}

/*
 * A step's rows are in slots from the phase in which they come until they have been worked on, one phase later.
 * Whatever is free by then is taken again, so that a rank of a ring holds two chunks at a time, and beside them at most
 * those of its own rows that somebody gets from it just now; of these nothing where memory is spared.
 */
static bool assign_slots(maker *m)
{
    ra_schedule *s = m->schedule;
    const ra_ring_plan *ring = m->ring;
    bool in_ring = ring->options.strategy == RA_STRATEGY_RING;
    size_t most = RA_PARTS * (size_t)(2 * s->steps + 1);
    slots given = {s, calloc(most, sizeof *given.busy)};
    s->slot_rows = calloc(most, sizeof *s->slot_rows);
    if (!given.busy || !s->slot_rows) {
        free(given.busy);
        return false;
    }
    ra_share own = ra_partition_share(&ring->keys, m->rank);
    for (int part = 0; ring->hold_own && part < ra_part_count(ring, &own); part++) {
        int64_t last = ring->by_reference ? INT64_MAX : early(in_ring ? 1 : m->own_last[part]);
        s->own_slot[part] = take_slot(&given, ring->sets * ra_part_of(ring, &own, part).rows, early(-1), last);
    }
    for (int64_t step = 0, next_send = 0; step < s->steps && !ring->by_reference; step++) {
        for (int part = 0; part < RA_PARTS; part++)
            s->step[step].slot[part] = in_ring && step == 0
                                           ? s->own_slot[part]
                                           : take_slot(&given, m->part_rows[step][part], early(step), early(step + 1));
        take_slots_again(&given, step, &next_send);
    }
    free(given.busy);
    return true;
}

ra_status ra_schedule_make(const ra_ring_plan *ring, int rank, ra_schedule *s)
{
    *s = (ra_schedule){.steps = ra_step_count(ring), .own_slot = {-1, -1}};
    int64_t blocks = ra_most_blocks(ring);
    s->slot_blocks = blocks;
    blocks *= ring->sets;
    s->step = calloc((size_t)s->steps, sizeof *s->step);
    maker m = {.ring = ring, .rank = rank, .schedule = s, .own_last = {-1, -1}};
    m.part_rows = calloc((size_t)s->steps, sizeof *m.part_rows);
    m.met = calloc((size_t)ring->options.ranks, sizeof *m.met);
    /* Marks for four sets, unless intervals do. */
    uint64_t *words = ring->reach ? NULL : calloc((size_t)(4 * blocks), sizeof *words);
    bool made = s->step && m.part_rows && m.met && (words || ring->reach);
    for (int64_t i = 0; made && i < s->steps; i++)
        s->step[i].slot[0] = s->step[i].slot[1] = -1;
    if (made && words) {
        m.held.words = words;
        m.left.words = words + blocks;
        m.some.words = words + 2 * blocks;
        m.scratch.words = words + 3 * blocks;
    }
    if (made)
        made = ring->options.strategy == RA_STRATEGY_RING ? schedule_ring(&m) : schedule_direct(&m);
    if (s->receive_count)
        qsort(s->receives, (size_t)s->receive_count, sizeof *s->receives, by_phase);
    if (s->send_count)
        qsort(s->sends, (size_t)s->send_count, sizeof *s->sends, by_phase);
    made = made && assign_slots(&m);
    free(words);
    free(m.met);
    free(m.part_rows);
    if (!made) {
        ra_schedule_free(s);
        return ra_fail(RA_ERROR_MEMORY, "out of memory: the schedule of rank %d", rank);
    }
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
