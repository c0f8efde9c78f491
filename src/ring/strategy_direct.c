/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcast and all-gather: every owner gives its rows of a part of the sequence to everyone who reads them. Broadcast
 * has as many steps as ranks, each with an even part of the sequence; all-gather has one step, with everything, and
 * gives all rows to all ranks. A rank keeps its own rows in slot 0, and has the rows of a step in slots 1 and 2 in
 * turn.
 *
 * In a pass of all-gather for gradients, a rank has sums of all rows beside them. After the step they go to the owners
 * of the rows, who add them up: in phase t rank q gives rank q - t the sums of the rows that it read.
 */
#include "ring/message.h"

#include "base/checked.h"

static int64_t steps_of_broadcast(const ra_pass *pass)
{
    return pass->ring->options.ranks;
}

static int64_t steps_of_allgather(const ra_pass *pass)
{
    (void)pass;
    return 1;
}

static int64_t phases_of_allgather(const ra_pass *pass)
{
    return pass->along ? ra_max(1, pass->ring->options.ranks) : 1;
}

static ra_piece part_of(const ra_pass *pass, int64_t step)
{
    return ra_even_part(ra_pass_moving(pass)->length, pass->ring->strategy->steps(pass), step);
}

static ra_share share(const ra_pass *pass, int rank, int64_t step)
{
    (void)rank;
    ra_piece part = part_of(pass, step);
    return ra_share_of_range(part.first, part.end);
}

/* The next owner of rows of a part of the sequence, each once; -1: there are no more. */
static int next_owner(const ra_pass *pass, const ra_piece *part, int64_t *cursor)
{
    const ra_partition *p = ra_pass_moving(pass);
    if (part->first >= part->end)
        return -1;
    if (p->stripes) {
        int64_t first = part->first / RA_KEY_BLOCK, blocks = (part->end - 1) / RA_KEY_BLOCK - first + 1;
        int64_t i = (*cursor)++;
        return i < ra_min(blocks, p->stripes) ? (int)((first + i) % p->stripes) : -1;
    }
    int64_t first = ra_partition_find(p, part->first), i = first + *cursor;
    for (; i < p->part_count && p->parts[i].first < part->end; i++) {
        ra_share owned = ra_partition_share(p, p->parts[i].rank);
        bool met = i > first && ra_share_rows_between(&owned, part->first, p->parts[i].first) > 0;
        if (!met) {
            *cursor = i + 1 - first;
            return p->parts[i].rank;
        }
    }
    return -1;
}

static bool after_steps(const ra_pass *pass, int64_t phase)
{
    return phase >= pass->ring->strategy->steps(pass);
}

/* The one message of sums of a phase, out of the slot of the last step. */
static bool sums(const ra_pass *pass, int from, int to, int64_t phase, int64_t *cursor, ra_message *m)
{
    *m = ra_message_home(pass, from, to, phase);
    m->held = pass->ring->strategy->steps(pass) - 1;
    m->delivery = RA_ADD;
    return (*cursor)++ == 0;
}

static bool receive(const ra_pass *pass, int rank, int64_t phase, int64_t *cursor, ra_message *m)
{
    if (after_steps(pass, phase))
        return sums(pass, ra_rank_before(pass, rank, -phase), rank, phase, cursor, m);
    ra_piece part = part_of(pass, phase);
    int owner = next_owner(pass, &part, cursor);
    if (owner == rank)
        owner = next_owner(pass, &part, cursor);
    if (owner < 0)
        return false;
    *m = ra_message_of_rows(pass, owner, rank, phase);
    return true;
}

static bool send(const ra_pass *pass, int rank, int64_t phase, int64_t *cursor, ra_message *m)
{
    if (after_steps(pass, phase))
        return sums(pass, rank, ra_rank_before(pass, rank, phase), phase, cursor, m);
    ra_piece part = part_of(pass, phase);
    ra_share own = ra_partition_share(ra_pass_moving(pass), rank);
    if (*cursor == rank)
        ++*cursor;
    if (*cursor >= pass->ring->options.ranks || !ra_share_rows_between(&own, part.first, part.end))
        return false;
    *m = ra_message_of_rows(pass, rank, (int)(*cursor)++, phase);
    return true;
}

/* Mark the sender's rows of the part that the receiver reads; for sums, the receiver's rows that the sender read. */
static void rows(const ra_reads *reads, const ra_message *m, const ra_share *on, uint64_t *words, uint64_t *scratch)
{
    const ra_pass *pass = reads->pass;
    bool of_sums = m->stored < 0;
    ra_share owned = ra_partition_share(ra_pass_moving(pass), of_sums ? m->to : m->from);
    ra_piece part = part_of(pass, of_sums ? m->held : m->phase);
    if (of_sums)
        ra_reads_set_needed(reads, m->from, on, words);
    else
        ra_reads_set(reads, m->to, on, words);
    for (int64_t plane = 0; plane < pass->ring->planes; plane++)
        ra_mark_shared(&owned, part.first, part.end, on, scratch + plane * on->blocks);
    for (int64_t i = 0; i < ra_reads_share_words(pass, on); i++)
        words[i] &= scratch[i];
}

static ra_slot_rows slot_rows(const ra_pass *pass, int rank, const ra_rank_plan *planned)
{
    int64_t own = pass->ring->planes * ra_partition_share(ra_pass_moving(pass), rank).rows;
    int64_t part = pass->ring->planes * share(pass, rank, 0).rows; /* no part is larger than the first */
    int64_t room = ra_min(part, own + planned->traffic.rows_most);
    bool turns = pass->ring->strategy->steps(pass) > 1, others = pass->along && pass->ring->options.ranks > 1;
    return (ra_slot_rows){.rows = {own, room, turns ? room : 0, pass->along ? own : 0, others ? own : 0},
                          .roles = {pass->roles, pass->roles | pass->along, pass->roles, pass->along, pass->along}};
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
static int64_t runs(const ra_pass *pass, int rank, const ra_rank_plan *planned)
{
    ra_slot_rows slots = slot_rows(pass, rank, planned);
    /* Parts of an order are whole blocks; the caller's own may be smaller. */
    int64_t cuts = pass->ring->own_split ? ra_pass_moving(pass)->part_count + pass->slot_blocks : pass->slot_blocks + 1;
    int64_t received = ra_min(slots.rows[1], ra_message_runs(pass, slots.rows[1]) + pass->ring->planes * cuts);
    int64_t sent = (pass->ring->options.ranks - 1) * ra_message_runs(pass, slots.rows[0]);
    /* Sums of the rows that were needed go to one rank, and come from one. */
    int64_t needed = ra_message_runs(pass, pass->ring->planes * pass->chunk_rows) + pass->ring->planes * cuts;
    return ra_max(received + ra_min(sent, planned->traffic.rows_sent), pass->along ? 2 * needed : 0);
}

const ra_strategy_kind ra_strategy_of_broadcast = {.id = RA_STRATEGY_BROADCAST,
                                                   .name = "broadcast",
                                                   .steps = steps_of_broadcast,
                                                   .phases = steps_of_broadcast,
                                                   .share = share,
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
                                                   .phases = phases_of_allgather,
                                                   .share = share,
                                                   .receive = receive,
                                                   .send = send,
                                                   .rows = rows,
                                                   .slot_rows = slot_rows,
                                                   .slot = slot,
                                                   .slot_again = slot_again,
                                                   .runs = runs,
                                                   .own_step = -1,
                                                   .sums = RA_SUMS_GATHERED,
                                                   .reads_everything = true,
                                                   .has_spans = true,
                                                   .hop_a_message = true,
                                                   .traffic = ra_traffic_allgather};
