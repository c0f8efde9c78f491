/*
 * Ring: at step t rank q works on the chunk of rank q - t.
 *
 *     phase 1            phase 2            phase 3
 *     0 -> 1 -> 2 -> 3   0 -> 1 -> 2 -> 3   ...      every rank passes on to the next what it worked on
 *     ^______________|   ^______________|
 *
 * A row comes from the rank before, if that one reads it too, else from its owner. So a rank passes a chunk on only
 * while it works on it, and holds two chunks at a time, the one that is worked and the one that comes, in slots 0 and 1
 * in turn. Own rows that are wanted after the first phase were given up by then: they are read from their storage once
 * more, into slot 2. Where memory is spared they wait until the step beside the phase is done, and take its slot.
 */
#include "ring/message.h"

#include "base/checked.h"

enum { SLOT_AGAIN = 2 };

static int64_t steps(const ra_pass *pass)
{
    return pass->ring->options.ranks;
}

static ra_share share(const ra_pass *pass, int rank, int64_t step)
{
    return ra_partition_share(ra_pass_moving(pass), ra_rank_before(pass, rank, step));
}

/* First from the rank before, then from the owner of the chunk. */
static bool receive(const ra_pass *pass, int rank, int64_t phase, int64_t *cursor, ra_message *m)
{
    int owner = ra_rank_before(pass, rank, phase), before = ra_rank_before(pass, rank, 1);
    int64_t i = (*cursor)++;
    if (phase == 0 || i > (before != owner))
        return false;
    *m = ra_message_of_rows(pass, i == 0 ? before : owner, rank, phase);
    m->held = m->from == owner ? -1 : phase - 1;
    m->again = m->from == owner && phase > 1;
    return true;
}

/* First to the next rank what was worked on in the step before, then own rows to the rank that works on them. */
static bool send(const ra_pass *pass, int rank, int64_t phase, int64_t *cursor, ra_message *m)
{
    int64_t i = (*cursor)++;
    if (phase == 0 || i > (phase > 1))
        return false;
    *m = ra_message_of_rows(pass, rank, ra_rank_before(pass, rank, i == 0 ? -1 : -phase), phase);
    m->held = i == 0 && phase > 1 ? phase - 1 : -1;
    m->again = i > 0;
    return true;
}

static void rows(const ra_reads *reads, const ra_message *m, const ra_share *on, uint64_t *words, uint64_t *scratch)
{
    const ra_pass *pass = reads->pass;
    int owner = ra_rank_before(pass, m->to, m->phase), before = ra_rank_before(pass, m->to, 1);
    ra_reads_set(reads, m->to, on, words);
    if (before == owner)
        return;
    ra_reads_set(reads, before, on, scratch);
    for (int64_t i = 0; i < ra_reads_share_words(pass, on); i++)
        words[i] &= m->from == owner ? ~scratch[i] : scratch[i];
}

static ra_slot_rows slot_rows(const ra_pass *pass, int rank, const ra_rank_plan *planned)
{
    int64_t own = pass->ring->planes * ra_partition_share(ra_pass_moving(pass), rank).rows;
    int64_t coming = planned->traffic.rows_most;
    int64_t again = ra_min(own, planned->traffic.rows_again);
    int64_t room = planned->sparing ? ra_max(coming, again) : coming;
    bool turns = pass->ring->options.ranks > 2; /* a chunk comes into the slot of the own one */
    return (ra_slot_rows){{ra_max(own, turns ? room : 0), room, planned->sparing ? 0 : again}, 0};
}

static int slot(int64_t step)
{
    return (int)(step % 2);
}

static int slot_again(const ra_rank_plan *planned, int64_t phase)
{
    return planned->sparing ? slot(phase - 1) : SLOT_AGAIN;
}

/* Received from two ranks, passed on, and given again. */
static int64_t runs(const ra_pass *pass, int rank, const ra_rank_plan *planned)
{
    ra_slot_rows slots = slot_rows(pass, rank, planned);
    int64_t most = ra_max(slots.rows[0], slots.rows[1]);
    return 3 * ra_message_runs(pass, most) + ra_message_runs(pass, slots.rows[0]);
}

const ra_strategy_kind ra_strategy_of_ring = {.id = RA_STRATEGY_RING,
                                              .name = "ring",
                                              .steps = steps,
                                              .share = share,
                                              .receive = receive,
                                              .send = send,
                                              .rows = rows,
                                              .slot_rows = slot_rows,
                                              .slot = slot,
                                              .slot_again = slot_again,
                                              .runs = runs,
                                              .own_step = 0,
                                              .traffic = ra_traffic_ring};
