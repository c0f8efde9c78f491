/*
 * Broadcast and all-gather: every owner gives its rows of a part of the sequence to everyone who reads them. Broadcast
 * has as many steps as ranks, each with an even part of the sequence; all-gather has one step, with everything, and
 * gives all rows to all ranks. A rank keeps its own rows in slot 0, and has the rows of a step in slots 1 and 2 in
 * turn.
 */
#include "ring/message.h"

#include "base/checked.h"

static int64_t steps_of_broadcast(const ra_ring_plan *ring)
{
    return ring->options.ranks;
}

static int64_t steps_of_allgather(const ra_ring_plan *ring)
{
    (void)ring;
    return 1;
}

static ra_piece part_of(const ra_ring_plan *ring, int64_t step)
{
    return ra_even_part(ring->keys.length, ring->strategy->steps(ring), step);
}

static ra_share keys(const ra_ring_plan *ring, int rank, int64_t step)
{
    (void)rank;
    ra_piece part = part_of(ring, step);
    return ra_share_of_range(part.first, part.end);
}

/* The next owner of rows of a part of the sequence, each once; -1: there are no more. */
static int next_owner(const ra_ring_plan *ring, const ra_piece *part, int64_t *cursor)
{
    const ra_partition *p = &ring->keys;
    if (part->first >= part->end)
        return -1;
    if (p->stripes) {
        int64_t first = part->first / RA_KEY_BLOCK, blocks = (part->end - 1) / RA_KEY_BLOCK - first + 1;
        int64_t i = (*cursor)++;
        return i < ra_min(blocks, p->stripes) ? (int)((first + i) % p->stripes) : -1;
    }
    int64_t first = ra_partition_find(p, part->first), i = first + *cursor;
    for (; i < p->part_count && p->parts[i].first < part->end; i++) {
        ra_share share = ra_partition_share(p, p->parts[i].rank);
        bool met = i > first && ra_share_rows_between(&share, part->first, p->parts[i].first) > 0;
        if (!met) {
            *cursor = i + 1 - first;
            return p->parts[i].rank;
        }
    }
    return -1;
}

static bool receive(const ra_ring_plan *ring, int rank, int64_t phase, int64_t *cursor, ra_message *m)
{
    ra_piece part = part_of(ring, phase);
    int owner = next_owner(ring, &part, cursor);
    if (owner == rank)
        owner = next_owner(ring, &part, cursor);
    if (owner < 0)
        return false;
    *m = ra_message_of_rows(ring, owner, rank, phase);
    return true;
}

static bool send(const ra_ring_plan *ring, int rank, int64_t phase, int64_t *cursor, ra_message *m)
{
    ra_piece part = part_of(ring, phase);
    ra_share own = ra_partition_share(&ring->keys, rank);
    if (*cursor == rank)
        ++*cursor;
    if (*cursor >= ring->options.ranks || !ra_share_rows_between(&own, part.first, part.end))
        return false;
    *m = ra_message_of_rows(ring, rank, (int)(*cursor)++, phase);
    return true;
}

/* What the receiver reads of the sender's rows of the part. */
static void rows(const ra_reads *reads, const ra_message *m, const ra_share *on, uint64_t *words, uint64_t *scratch)
{
    const ra_ring_plan *ring = reads->ring;
    ra_share owned = ra_partition_share(&ring->keys, m->from);
    ra_piece part = part_of(ring, m->phase);
    ra_reads_set(reads, m->to, on, words);
    for (int64_t plane = 0; plane < ring->planes; plane++)
        ra_mark_shared(&owned, part.first, part.end, on, scratch + plane * on->blocks);
    for (int64_t i = 0; i < ra_reads_share_words(ring, on); i++)
        words[i] &= scratch[i];
}

static ra_slot_rows slot_rows(const ra_ring_plan *ring, int rank, const ra_rank_plan *planned)
{
    int64_t own = ring->planes * ra_partition_share(&ring->keys, rank).rows;
    int64_t part = ring->planes * keys(ring, rank, 0).rows; /* no part is larger than the first */
    int64_t room = ra_min(part, own + planned->traffic.rows_most);
    return (ra_slot_rows){{own, room, ring->strategy->steps(ring) > 1 ? room : 0}, 0};
}

static int slot(int64_t step)
{
    return 1 + (int)(step % 2);
}

/* Own rows are never given up. */
static int slot_again(const ra_rank_plan *planned, int64_t phase)
{
    (void)planned, (void)phase;
    return -1;
}

/* A part comes from each owner that has ranges in it, and own rows go to everyone. */
static int64_t runs(const ra_ring_plan *ring, int rank, const ra_rank_plan *planned)
{
    ra_slot_rows slots = slot_rows(ring, rank, planned);
    /* Parts of an order are whole blocks; the caller's own may be smaller. */
    int64_t cuts = ring->own_split ? ring->keys.part_count + ring->slot_blocks : ring->slot_blocks + 1;
    int64_t received = ra_min(slots.rows[1], ra_message_runs(ring, slots.rows[1]) + ring->planes * cuts);
    int64_t sent = (ring->options.ranks - 1) * ra_message_runs(ring, slots.rows[0]);
    return received + ra_min(sent, planned->traffic.rows_sent);
}

const ra_strategy_kind ra_strategy_of_broadcast = {.id = RA_STRATEGY_BROADCAST,
                                                   .name = "broadcast",
                                                   .steps = steps_of_broadcast,
                                                   .keys = keys,
                                                   .receive = receive,
                                                   .send = send,
                                                   .rows = rows,
                                                   .slot_rows = slot_rows,
                                                   .slot = slot,
                                                   .slot_again = slot_again,
                                                   .runs = runs,
                                                   .own_step = -1,
                                                   .has_spans = true,
                                                   .traffic = ra_traffic_broadcast};

const ra_strategy_kind ra_strategy_of_allgather = {.id = RA_STRATEGY_ALLGATHER,
                                                   .name = "allgather",
                                                   .steps = steps_of_allgather,
                                                   .keys = keys,
                                                   .receive = receive,
                                                   .send = send,
                                                   .rows = rows,
                                                   .slot_rows = slot_rows,
                                                   .slot = slot,
                                                   .slot_again = slot_again,
                                                   .runs = runs,
                                                   .own_step = -1,
                                                   .reads_everything = true,
                                                   .has_spans = true,
                                                   .hop_a_message = true,
                                                   .traffic = ra_traffic_allgather};
