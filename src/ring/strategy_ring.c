/* SPDX-License-Identifier: Apache-2.0 */
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
 *
 * In a pass for gradients, sums of a row's gradient go along with it. There is one sum of a row, and it is always in
 * one place: with the rank that works on the row, or at home with its owner. It goes on to the next rank, if that one
 * reads the row, else back to the owner, from where a later rank gets it together with the row. So each row is added to
 * by one rank after the other, in the order of the ring, and nothing has to be added up afterwards.
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

/* After the last step the sums of all chunks go back to their owners. */
static int64_t phases(const ra_pass *pass)
{
    return steps(pass) + (pass->along && steps(pass) > 1);
}

/* Rows from the rank before, or from the owner of the chunk. */
static ra_message rows_from(const ra_pass *pass, int rank, int64_t phase, bool from_owner)
{
    int owner = ra_rank_before(pass, rank, phase), before = ra_rank_before(pass, rank, 1);
    ra_message m = ra_message_of_rows(pass, from_owner ? owner : before, rank, phase);
    m.held = m.from == owner ? -1 : phase - 1;
    m.again = m.from == owner && phase > 1;
    return m;
}

/*
 * The messages of a phase to a rank, by number: sums of own rows that come back; then from the rank before, and from
 * the owner of the chunk, sums and rows. False: there is no such message.
 */
enum { HOME, SUMS_BEFORE, SUMS_OWNER, ROWS_BEFORE, ROWS_OWNER, MESSAGES };

static bool message_to(const ra_pass *pass, int rank, int64_t phase, int64_t number, ra_message *m)
{
    bool sums = number < ROWS_BEFORE, from_owner = number == SUMS_OWNER || number == ROWS_OWNER;
    if (sums && !pass->along)
        return false;
    if (number == HOME) {
        *m = ra_message_home(pass, ra_rank_before(pass, rank, 1 - phase), rank, phase);
        return phase > 1;
    }
    if (phase >= steps(pass) || (from_owner && phase == 1)) /* the rank before is the owner */
        return false;
    *m = rows_from(pass, rank, phase, from_owner);
    if (sums)
        *m = ra_message_of_sums(pass, m);
    return true;
}

static bool receive(const ra_pass *pass, int rank, int64_t phase, int64_t *cursor, ra_message *m)
{
    while (phase > 0 && *cursor < MESSAGES)
        if (message_to(pass, rank, phase, (*cursor)++, m))
            return true;
    return false;
}

/*
 * The same messages, by who sends them: what was worked on in the step before goes to its owner and to the next rank,
 * own rows go to the rank that works on them. Sums come first: rows that are read again may take the place of theirs.
 */
static bool send(const ra_pass *pass, int rank, int64_t phase, int64_t *cursor, ra_message *m)
{
    while (phase > 0 && *cursor < MESSAGES) {
        int64_t number = (*cursor)++;
        bool own = number == SUMS_OWNER || number == ROWS_OWNER;
        int to = ra_rank_before(pass, rank, number == HOME ? phase - 1 : own ? -phase : -1);
        if (message_to(pass, to, phase, number, m))
            return true;
    }
    return false;
}

/* What goes back is what the next rank does not read; the owner itself is not asked. */
static void rows_home(const ra_reads *reads, const ra_message *m, const ra_share *on, uint64_t *words,
                      uint64_t *scratch)
{
    int next = ra_rank_before(reads->pass, m->from, -1);
    ra_reads_set(reads, m->from, on, words);
    if (next == m->to)
        return;
    ra_reads_set(reads, next, on, scratch);
    for (int64_t i = 0; i < ra_reads_share_words(reads->pass, on); i++)
        words[i] &= ~scratch[i];
}

static void rows(const ra_reads *reads, const ra_message *m, const ra_share *on, uint64_t *words, uint64_t *scratch)
{
    const ra_pass *pass = reads->pass;
    int owner = ra_rank_before(pass, m->to, m->phase), before = ra_rank_before(pass, m->to, 1);
    if (m->stored < 0) {
        rows_home(reads, m, on, words, scratch);
        return;
    }
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
    unsigned all = pass->roles | pass->along;
    return (ra_slot_rows){
        .rows = {ra_max(own, turns ? room : 0), room, planned->sparing ? 0 : again, pass->along ? own : 0},
        .roles = {turns ? all : pass->roles, all, pass->roles, pass->along}};
}

static int slot(int64_t step)
{
    return (int)(step % 2);
}

static int slot_again(const ra_rank_plan *planned, int64_t phase)
{
    return planned->sparing ? slot(phase - 1) : SLOT_AGAIN;
}

/* Rows are received from two ranks, passed on, and own rows are given again. */
static int64_t runs(const ra_pass *pass, int rank, const ra_rank_plan *planned)
{
    ra_slot_rows slots = slot_rows(pass, rank, planned);
    int64_t most = ra_max(slots.rows[0], slots.rows[1]);
    /* Sums also go back to their owners, and come back from others. */
    int64_t back = pass->along ? 2 * ra_message_runs(pass, most) : 0;
    return 3 * ra_message_runs(pass, most) + ra_message_runs(pass, slots.rows[0]) + back;
}

const ra_strategy_kind ra_strategy_of_ring = {.id = RA_STRATEGY_RING,
                                              .name = "ring",
                                              .steps = steps,
                                              .phases = phases,
                                              .share = share,
                                              .receive = receive,
                                              .send = send,
                                              .rows = rows,
                                              .slot_rows = slot_rows,
                                              .slot = slot,
                                              .slot_again = slot_again,
                                              .runs = runs,
                                              .own_step = 0,
                                              .sums = RA_SUMS_ALONG,
                                              .traffic = ra_traffic_ring};
