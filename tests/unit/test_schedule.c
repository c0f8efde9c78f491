/*
 * Schedules as pure functions, against a table that says for every row and rank who needs it and where it comes from.
 * The table is made from the pattern and the partitions only.
 */
#include "ring/schedule.h"
#include "shares.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LENGTH = 5000, MOST_RANKS = 64, MOST_SETS = 3, STRATEGIES = 3, ORDERS = 3, SEEN_EXHAUSTIVELY = 300 };
enum { NOBODY = -1 };

/* A ring, and what must be true of it. */
typedef struct scene {
    char text[512]; /* for messages */
    const ra_ring_plan *ring;
    ra_strategy strategy;
    int ranks;
    int64_t q_len, kv_len, steps, sets;
    int owner[MOST_LENGTH]; /* of each key row */
    int part[MOST_LENGTH];  /* of the sequence, when it is cut into as many as there are steps */
    uint8_t needs[MOST_SETS][MOST_RANKS][MOST_LENGTH]; /* whether a query of the set's heads on the rank sees the key */
    int8_t source[MOST_SETS][MOST_RANKS][MOST_LENGTH]; /* who gives the key row to the rank; NOBODY */
    ra_schedule schedules[MOST_RANKS];
    uint8_t sends[MOST_RANKS][MOST_RANKS][MOST_RANKS]; /* [phase][from][to]: messages */
    int64_t rows_sent[MOST_RANKS], rows_received[MOST_RANKS], hops[MOST_RANKS];
    uint64_t *words, *scratch;
    uint8_t counts[MOST_SETS][MOST_LENGTH], others[MOST_SETS][MOST_LENGTH];
} scene;

#define SCENE_REQUIRE(s, condition) REQUIRE(condition, "%s: not %s", (s)->text, #condition)
#define RANK_REQUIRE(s, rank, at, condition)                                                                           \
    REQUIRE(condition, "%s: rank %d, at %lld: not %s", (s)->text, (int)(rank), (long long)(at), #condition)

/* ---- The table --------------------------------------------------------------------------------------------------- */

static void fill_owners(scene *s)
{
    for (int rank = 0; rank < s->ranks; rank++) {
        ra_share share = ra_partition_share(&s->ring->keys, rank);
        for (int64_t i = 0; i < share.ranges; i++) {
            ra_range range = ra_share_range(&share, i);
            for (int64_t at = range.first; at < range.end; at++)
                s->owner[at] = rank;
        }
    }
}

static void fill_parts(scene *s)
{
    for (int step = 0; step < s->steps; step++) {
        ra_piece part = ra_even_part(s->kv_len, s->steps, step);
        for (int64_t at = part.first; at < part.end; at++)
            s->part[at] = step;
    }
}

/*
 * By the definition of the pattern, with all query heads of a set; long sequences of intervals by these, which are
 * tested elsewhere.
 */
static void add_needs_of_query(const scene *s, int64_t set, int64_t position, uint8_t *needs)
{
    const ra_pattern *pattern = &s->ring->plan->pattern;
    int64_t heads = s->ring->plan->heads / s->sets;
    if (s->kv_len <= SEEN_EXHAUSTIVELY || !ra_pattern_is_interval(pattern)) {
        for (int64_t key = 0; key < s->kv_len; key++)
            for (int64_t head = set * heads; head < (set + 1) * heads && !needs[key]; head++)
                needs[key] = ra_pattern_sees(pattern, head, position, key) > 0;
        return;
    }
    ra_interval seen = ra_pattern_interval(pattern, position);
    if (seen.lo < seen.hi)
        memset(needs + seen.lo, 1, (size_t)(seen.hi - seen.lo));
}

static void fill_needs_of_rank(scene *s, int64_t set, int rank)
{
    uint8_t *needs = s->needs[set][rank];
    ra_share share = ra_partition_share(&s->ring->queries, rank);
    memset(needs, s->strategy == RA_STRATEGY_ALLGATHER, (size_t)s->kv_len);
    for (int64_t i = 0; i < share.ranges && s->strategy != RA_STRATEGY_ALLGATHER; i++) {
        ra_range range = ra_share_range(&share, i);
        for (int64_t query = range.first; query < range.end; query++)
            add_needs_of_query(s, set, query + s->ring->plan->offset, needs);
    }
}

/* Whether a rank needs a key row for any head. */
static bool needs_any(const scene *s, int rank, int64_t key)
{
    bool any = false;
    for (int64_t set = 0; set < s->sets; set++)
        any |= s->needs[set][rank][key];
    return any;
}

/* In a ring a row comes from the rank before, if that one needs it too, else from its owner. */
static int source_of(const scene *s, int64_t set, int rank, int64_t key)
{
    if (!s->needs[set][rank][key] || s->owner[key] == rank)
        return NOBODY;
    int before = (rank + s->ranks - 1) % s->ranks;
    return s->strategy == RA_STRATEGY_RING && s->needs[set][before][key] ? before : s->owner[key];
}

/* Marks of all sets on a share, into counts[set][position]; -1 when some are beside it. */
static int64_t count_sets(const scene *s, const ra_share *share, const uint64_t *words,
                          uint8_t counts[MOST_SETS][MOST_LENGTH])
{
    int64_t rows = 0;
    for (int64_t set = 0; set < s->sets; set++) {
        memset(counts[set], 0, (size_t)s->kv_len);
        int64_t marks = count_marks(share, words + set * share->blocks, counts[set]);
        if (marks < 0)
            return -1;
        rows += marks;
    }
    return rows;
}

static void scene_make(scene *s, const ra_ring_plan *ring)
{
    s->ring = ring;
    s->strategy = ring->options.strategy;
    s->ranks = ring->options.ranks;
    s->q_len = ring->plan->q_len;
    s->kv_len = ring->plan->kv_len;
    s->steps = ra_step_count(ring);
    s->sets = ring->sets;
    SCENE_REQUIRE(s, s->ranks <= MOST_RANKS && s->kv_len <= MOST_LENGTH && s->q_len <= MOST_LENGTH);
    SCENE_REQUIRE(s, s->sets <= MOST_SETS && (s->sets == 1 || s->sets == ring->plan->kv_heads));
    SCENE_REQUIRE(s, s->steps == (s->strategy == RA_STRATEGY_ALLGATHER ? 1 : s->ranks));
    fill_owners(s);
    fill_parts(s);
    for (int64_t i = 0; i < s->sets * s->ranks; i++)
        fill_needs_of_rank(s, i / s->ranks, (int)(i % s->ranks));
    for (int64_t i = 0; i < s->sets * s->ranks; i++)
        for (int64_t key = 0; key < s->kv_len; key++)
            s->source[i / s->ranks][i % s->ranks][key] = (int8_t)source_of(s, i / s->ranks, (int)(i % s->ranks), key);
    for (int rank = 0; rank < s->ranks; rank++)
        SCENE_REQUIRE(s, ra_schedule_make(ring, rank, &s->schedules[rank]) == RA_OK);
    memset(s->sends, 0, sizeof s->sends);
    memset(s->rows_sent, 0, sizeof s->rows_sent);
    memset(s->rows_received, 0, sizeof s->rows_received);
    memset(s->hops, 0, sizeof s->hops);
    /* Exactly the room that is said to be enough, so that the sanitizers see any more. */
    size_t room = (size_t)(s->sets * ra_most_blocks(ring)) * sizeof *s->words;
    s->words = malloc(room);
    s->scratch = malloc(room);
    assert_true(s->words && s->scratch);
    memset(s->words, 0xff, room);
}

static void scene_free(scene *s)
{
    for (int rank = 0; rank < s->ranks; rank++)
        ra_schedule_free(&s->schedules[rank]);
    free(s->words);
    free(s->scratch);
}

/* The owner of the keys that a rank of a ring works on at a step. */
static int chunk_owner(const scene *s, int rank, int64_t step)
{
    return (int)((rank + s->ranks - step % s->ranks) % s->ranks);
}

/* Keys with of[key] == value. */
typedef struct chosen {
    const int *of;
    int value;
} chosen;

static chosen keys_of_step(const scene *s, int rank, int64_t step)
{
    return s->strategy == RA_STRATEGY_RING ? (chosen){s->owner, chunk_owner(s, rank, step)}
                                           : (chosen){s->part, (int)step};
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

/* The rows of a step are those of its keys that the rank needs; over all steps each comes once. */
static void require_steps(scene *s, int rank)
{
    memset(s->others, 0, sizeof s->others);
    for (int64_t step = 0; step < s->steps; step++) {
        ra_share keys = ra_step_keys(s->ring, rank, step);
        ra_step_needed(s->ring, rank, step, s->words);
        int64_t rows = count_sets(s, &keys, s->words, s->counts), expected = 0, of_step = 0;
        const chosen those = keys_of_step(s, rank, step);
        for (int64_t key = 0; key < s->kv_len; key++) {
            bool here = those.of[key] == those.value;
            of_step += here;
            for (int64_t set = 0; set < s->sets; set++) {
                expected += here && s->needs[set][rank][key];
                RANK_REQUIRE(s, rank, key, s->counts[set][key] == (here && s->needs[set][rank][key]));
                s->others[set][key] = (uint8_t)(s->others[set][key] + s->counts[set][key]);
            }
        }
        RANK_REQUIRE(s, rank, step, rows == expected && keys.rows == of_step);
        RANK_REQUIRE(s, rank, step, s->schedules[rank].step[step].rows == rows);
        RANK_REQUIRE(s, rank, step, keys.blocks <= ra_most_blocks(s->ring));
    }
    for (int64_t set = 0; set < s->sets; set++)
        for (int64_t key = 0; key < s->kv_len; key++)
            RANK_REQUIRE(s, rank, key, s->others[set][key] == s->needs[set][rank][key]);
    RANK_REQUIRE(s, rank, 0, s->schedules[rank].steps == s->steps);
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

/* Whether all rows of a set are held, or those that a rank needs. */
enum { ALL_ROWS = -1 };

/* Runs of rows with counts[key] among the rows of a share that are held, range by range. */
static int64_t runs_of_set(const scene *s, const ra_share *held, int64_t set, int needed_by, int64_t *all)
{
    int64_t runs = 0;
    bool running = false, in_parts = ra_part_count(s->ring, held) == held->ranges;
    for (int64_t i = 0; i < held->ranges; i++) {
        ra_range range = ra_share_range(held, i);
        running = running && !in_parts;
        for (int64_t key = range.first; key < range.end; key++) {
            if (needed_by != ALL_ROWS && !s->needs[set][needed_by][key])
                continue;
            ++*all;
            runs += s->counts[set][key] && !running;
            running = s->counts[set][key];
        }
    }
    return runs;
}

/* Pieces of memory of rows among those that are held: of keys and of values, in each batch and head. */
static int64_t segments_of(const scene *s, const ra_share *held, int needed_by, int64_t rows)
{
    int64_t runs = 0, all = 0;
    for (int64_t set = 0; set < s->sets; set++)
        runs += runs_of_set(s, held, set, needed_by, &all);
    if (s->sets == 1 && ra_part_count(s->ring, held) == 1 && rows == all)
        return 2;
    return 2 * runs * s->ring->plan->batch * (s->ring->plan->kv_heads / s->sets);
}

/* A message has just the rows that the table takes from that sender, and they are new. */
static void require_receive(scene *s, int rank, const ra_message *m)
{
    ra_share keys = ra_step_keys(s->ring, rank, m->phase);
    ra_phase_rows(s->ring, m->peer, rank, m->phase, s->words, s->scratch);
    int64_t rows = count_sets(s, &keys, s->words, s->counts);
    RANK_REQUIRE(s, rank, m->phase, rows > 0 && m->peer != rank && m->peer >= 0 && m->peer < s->ranks);
    const chosen those = keys_of_step(s, rank, m->phase);
    for (int64_t set = 0; set < s->sets; set++)
        for (int64_t key = 0; key < s->kv_len; key++) {
            bool comes = s->source[set][rank][key] == m->peer && those.of[key] == those.value;
            RANK_REQUIRE(s, rank, key, s->counts[set][key] == comes);
            RANK_REQUIRE(s, rank, key, !comes || s->needs[set][rank][key]);
            RANK_REQUIRE(s, rank, key, !comes || s->owner[key] == m->peer || s->needs[set][m->peer][key]);
        }
    RANK_REQUIRE(s, rank, m->phase, m->segments == segments_of(s, &keys, rank, rows));
    s->rows_received[rank] += rows;
}

/* How a message is noted by its sender: late ones are late on both sides. */
enum { SENT = 1, SENT_LATE = 5, RECEIVED = 2 };

static int noted(const ra_message *m)
{
    return m->late ? SENT_LATE : SENT;
}

/* Late is what its owner has given up before, where memory is spared. */
static bool should_be_late(const scene *s, int owner, int to, int64_t phase)
{
    return s->ring->sparing && !s->ring->by_reference && s->strategy == RA_STRATEGY_RING && phase > 1 &&
           (owner + phase) % s->ranks == to;
}

static void require_receives(scene *s, int rank)
{
    const ra_schedule *schedule = &s->schedules[rank];
    for (int64_t i = 0; i < schedule->receive_count; i++) {
        const ra_message *m = &schedule->receives[i], *before = i ? m - 1 : NULL;
        RANK_REQUIRE(s, rank, m->phase, m->phase >= 0 && m->phase < s->steps);
        RANK_REQUIRE(s, rank, m->phase,
                     !before || before->phase < m->phase ||
                         (before->phase == m->phase &&
                          (before->late < m->late || (before->late == m->late && before->peer < m->peer))));
        RANK_REQUIRE(s, rank, m->phase, m->late == should_be_late(s, m->peer, rank, m->phase));
        require_receive(s, rank, m);
        RANK_REQUIRE(s, rank, m->phase, s->sends[m->phase][m->peer][rank] == noted(m));
        s->hops[rank] += s->strategy == RA_STRATEGY_ALLGATHER || !before || before->phase != m->phase;
        s->sends[m->phase][m->peer][rank] = RECEIVED;
    }
    int64_t foreign = 0;
    for (int64_t set = 0; set < s->sets; set++)
        for (int64_t key = 0; key < s->kv_len; key++)
            foreign += s->source[set][rank][key] != NOBODY;
    RANK_REQUIRE(s, rank, 0, s->rows_received[rank] == foreign);
}

/* What is sent is what the other side takes, and the sender has it by then. */
static void require_send(scene *s, int rank, const ra_message *m)
{
    ra_share taken = ra_step_keys(s->ring, m->peer, m->phase), held = ra_held_keys(s->ring, rank, m->peer, m->phase);
    ra_phase_rows(s->ring, rank, m->peer, m->phase, s->words, s->scratch);
    int64_t rows = count_sets(s, &taken, s->words, s->others);
    ra_phase_held(s->ring, rank, m->peer, m->phase, s->words, s->scratch);
    RANK_REQUIRE(s, rank, m->phase, rows > 0 && count_sets(s, &held, s->words, s->counts) == rows);
    for (int64_t set = 0; set < s->sets; set++)
        RANK_REQUIRE(s, rank, m->phase, memcmp(s->counts[set], s->others[set], (size_t)s->kv_len) == 0);
    bool own = m->held == -1;
    RANK_REQUIRE(s, rank, m->phase, own || (m->held > 0 && m->held < m->phase && s->strategy == RA_STRATEGY_RING));
    const chosen those = own ? (chosen){s->owner, rank} : keys_of_step(s, rank, m->held);
    for (int64_t set = 0; set < s->sets; set++)
        for (int64_t key = 0; key < s->kv_len; key++)
            RANK_REQUIRE(s, rank, key,
                         !s->counts[set][key] || (those.of[key] == those.value && (own || s->needs[set][rank][key])));
    RANK_REQUIRE(s, rank, m->phase, m->segments == segments_of(s, &held, own ? ALL_ROWS : rank, rows));
    s->rows_sent[rank] += rows;
}

static void require_sends(scene *s, int rank)
{
    const ra_schedule *schedule = &s->schedules[rank];
    for (int64_t i = 0; i < schedule->send_count; i++) {
        const ra_message *m = &schedule->sends[i];
        RANK_REQUIRE(s, rank, m->phase, m->phase >= 0 && m->phase < s->steps && m->peer >= 0 && m->peer < s->ranks);
        RANK_REQUIRE(s, rank, m->phase,
                     m->peer != rank &&
                         (i == 0 || m[-1].phase < m->phase || (m[-1].phase == m->phase && m[-1].late <= m->late)));
        s->sends[m->phase][rank][m->peer] += noted(m);
        require_send(s, rank, m);
    }
}

static int64_t phase_segments(const ra_message *messages, int64_t count, int64_t phase)
{
    int64_t segments = 0;
    for (int64_t i = 0; i < count; i++)
        segments += messages[i].phase == phase ? messages[i].segments : 0;
    return segments;
}

static void require_most_segments(const scene *s, int rank)
{
    const ra_schedule *schedule = &s->schedules[rank];
    int64_t most = 0;
    for (int64_t phase = 0; phase < s->steps; phase++) {
        int64_t segments = phase_segments(schedule->receives, schedule->receive_count, phase) +
                           phase_segments(schedule->sends, schedule->send_count, phase);
        most = segments > most ? segments : most;
    }
    RANK_REQUIRE(s, rank, 0, schedule->most_segments == most);
}

/* Every send has been received, and the traffic that the plan counts in its own way is the same. */
static void require_traffic(const scene *s)
{
    ra_traffic traffic[MOST_RANKS];
    for (int64_t phase = 0; phase < s->steps; phase++)
        for (int from = 0; from < s->ranks; from++)
            for (int to = 0; to < s->ranks; to++)
                RANK_REQUIRE(s, from, phase, !s->sends[phase][from][to] || s->sends[phase][from][to] == RECEIVED);
    SCENE_REQUIRE(s,
                  !ra_traffic_count(s->ring->plan, s->sets, &s->ring->queries, &s->ring->keys, s->strategy, traffic));
    int64_t row_bytes = s->ring->k_row_bytes + s->ring->v_row_bytes;
    for (int rank = 0; rank < s->ranks; rank++) {
        const ra_rank_info *info = &s->ring->ranks[rank];
        RANK_REQUIRE(s, rank, traffic[rank].rows_sent, traffic[rank].rows_sent == s->rows_sent[rank]);
        RANK_REQUIRE(s, rank, traffic[rank].rows_received, traffic[rank].rows_received == s->rows_received[rank]);
        RANK_REQUIRE(s, rank, traffic[rank].hops, traffic[rank].hops == s->hops[rank]);
        RANK_REQUIRE(s, rank, info->hops, info->hops == s->hops[rank]);
        RANK_REQUIRE(s, rank, info->bytes_sent, info->bytes_sent == s->rows_sent[rank] * row_bytes);
        RANK_REQUIRE(s, rank, info->bytes_received, info->bytes_received == s->rows_received[rank] * row_bytes);
    }
}

/* ---- Slots ------------------------------------------------------------------------------------------------------- */

/* Halves of phases in which a slot is taken, both included: in the second half of one, late messages travel. */
typedef struct use {
    int slot;
    int64_t from, to, rows;
} use;

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Rows of a rank's step that it reads, of all sets, in a part of their share. */
static int64_t rows_of_part(const scene *s, int rank, const ra_share *keys, int part)
{
    ra_share share = ra_part_of(s->ring, keys, part);
    int64_t rows = 0;
    for (int64_t i = 0; i < share.ranges; i++) {
        ra_range range = ra_share_range(&share, i);
        for (int64_t set = 0; set < s->sets; set++)
            for (int64_t key = range.first; key < range.end; key++)
                rows += s->needs[set][rank][key];
    }
    return rows;
}

/* A rank's own rows: there from the start; worked at step 0 of a ring, else copied and sent when their part is due. */
static int64_t list_own_uses(const scene *s, int rank, use *uses)
{
    const ra_schedule *schedule = &s->schedules[rank];
    ra_share own = ra_partition_share(&s->ring->keys, rank);
    int parts = ra_part_count(s->ring, &own);
    for (int part = 0; part < parts; part++) {
        ra_share share = ra_part_of(s->ring, &own, part);
        int64_t last = s->strategy == RA_STRATEGY_RING ? 1 : -1;
        for (int64_t key = 0; key < s->kv_len && s->strategy != RA_STRATEGY_RING; key++)
            for (int reader = 0; reader < s->ranks; reader++)
                if (needs_any(s, reader, key) &&
                    ra_share_rows_below(&share, key + 1) > ra_share_rows_below(&share, key))
                    last = later(last, s->part[key]);
        uses[part] = (use){schedule->own_slot[part], -2, 2 * last, s->sets * share.rows};
    }
    for (int part = parts; part < RA_PARTS; part++)
        RANK_REQUIRE(s, rank, part, schedule->own_slot[part] == -1);
    return parts;
}

/* Own rows that a rank of a ring gives away after the first phase are read again, for that phase alone. */
static int64_t list_uses_again(const scene *s, int rank, use *uses)
{
    const ra_schedule *schedule = &s->schedules[rank];
    int64_t count = 0;
    for (int64_t i = 0; i < schedule->send_count; i++) {
        const ra_message *m = &schedule->sends[i];
        RANK_REQUIRE(s, rank, m->phase, m->again == (s->strategy == RA_STRATEGY_RING && m->held < 0 && m->phase > 1));
        for (int part = 0; m->again && part < RA_PARTS; part++)
            if (m->part_rows[part])
                uses[count++] =
                    (use){m->slot[part], 2 * m->phase + m->late, 2 * m->phase + m->late, m->part_rows[part]};
            else
                RANK_REQUIRE(s, rank, m->phase, m->slot[part] == -1);
    }
    return count;
}

/* All uses of slots by a rank whose chunks are copied. */
static int64_t list_uses(const scene *s, int rank, use *uses)
{
    const ra_schedule *schedule = &s->schedules[rank];
    int64_t count = list_own_uses(s, rank, uses);
    for (int64_t step = 0; step < s->steps; step++) {
        const ra_step *here = &schedule->step[step];
        ra_share keys = ra_step_keys(s->ring, rank, step);
        for (int part = 0; part < RA_PARTS; part++) {
            if (s->strategy == RA_STRATEGY_RING && step == 0) {
                RANK_REQUIRE(s, rank, step, here->slot[part] == schedule->own_slot[part]);
                continue;
            }
            int64_t rows = part < ra_part_count(s->ring, &keys) ? rows_of_part(s, rank, &keys, part) : 0;
            RANK_REQUIRE(s, rank, step, rows ? here->slot[part] >= 0 : here->slot[part] == -1);
            if (rows) /* it is passed on only while it is worked on */
                uses[count++] = (use){here->slot[part], 2 * step, 2 * (step + 1), rows};
        }
    }
    return count + list_uses_again(s, rank, uses + count);
}

static void require_slots(const scene *s, int rank)
{
    const ra_schedule *schedule = &s->schedules[rank];
    use uses[3 * RA_PARTS * (MOST_RANKS + 1)];
    bool used[3 * RA_PARTS * (MOST_RANKS + 1)] = {false};
    int64_t count = list_uses(s, rank, uses);
    for (int64_t i = 0; i < count; i++) {
        RANK_REQUIRE(s, rank, i, uses[i].slot >= 0 && uses[i].slot < schedule->slots);
        RANK_REQUIRE(s, rank, i, uses[i].rows <= schedule->slot_rows[uses[i].slot]);
        used[uses[i].slot] = true;
        for (int64_t j = 0; j < i; j++)
            RANK_REQUIRE(s, rank, i,
                         uses[i].slot != uses[j].slot || uses[i].from > uses[j].to || uses[j].from > uses[i].to);
    }
    for (int i = 0; i < schedule->slots; i++)
        RANK_REQUIRE(s, rank, i, used[i]);
    RANK_REQUIRE(s, rank, 0, schedule->slot_blocks >= ra_most_blocks(s->ring));
}

/* By reference there are no slots but one for rows that were read from storage. */
static void require_no_slots(const scene *s, int rank)
{
    const ra_schedule *schedule = &s->schedules[rank];
    bool own = !s->ring->options.lent && ra_partition_share(&s->ring->keys, rank).rows > 0;
    RANK_REQUIRE(s, rank, 0, schedule->slots == own && schedule->own_slot[0] == (own ? 0 : -1));
    RANK_REQUIRE(s, rank, 0, schedule->own_slot[1] == -1);
    for (int64_t step = 0; step < s->steps; step++)
        RANK_REQUIRE(s, rank, step, schedule->step[step].slot[0] < 0 && schedule->step[step].slot[1] < 0);
}

static bool is_full(const ra_ring_plan *ring)
{
    return ring->plan->pattern.count == 1 && ring->plan->pattern.terms[0].kind == &ra_term_full;
}

/* Full attention in a ring where everybody has rows, and any where memory is spared: two chunks, no more. */
static void require_two_slots(const scene *s, int rank)
{
    for (int i = 0; i < s->ranks; i++)
        if (!s->ring->ranks[i].q_rows || !s->ring->ranks[i].kv_rows)
            return;
    int64_t rows = 0, most = 0;
    for (int i = 0; i < s->schedules[rank].slots; i++)
        rows += s->schedules[rank].slot_rows[i];
    for (int i = 0; i < s->ranks; i++)
        most = later(most, s->ring->ranks[i].kv_rows);
    bool whole_chunks = s->ring->sparing && s->ring->options.order == RA_ORDER_CONTIGUOUS && !s->ring->own_split;
    if (s->strategy == RA_STRATEGY_RING && s->ranks >= 3 && (is_full(s->ring) || whole_chunks))
        RANK_REQUIRE(s, rank, rows, rows <= 2 * s->sets * (most + RA_KEY_BLOCK)); /* ranges differ by a block */
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

static void require_all(scene *s, const ra_ring_plan *ring)
{
    scene_make(s, ring);
    for (int rank = 0; rank < s->ranks; rank++) {
        require_steps(s, rank);
        require_sends(s, rank);
        require_most_segments(s, rank);
        if (ring->by_reference) {
            require_no_slots(s, rank);
        } else {
            require_slots(s, rank);
            require_two_slots(s, rank);
        }
    }
    for (int rank = 0; rank < s->ranks; rank++)
        require_receives(s, rank);
    require_traffic(s);
    scene_free(s);
}

static void describe(scene *s, const ra_problem *p, const ra_ring_options *o, uint64_t seed)
{
    snprintf(s->text, sizeof s->text, "seed %llu, %lld queries, %lld keys, \"%.200s\", %d ranks, %s, %s%s, %s, lent %d",
             (unsigned long long)seed, (long long)p->q_len, (long long)p->kv_len, p->pattern, o->ranks,
             ra_strategy_name(o->strategy), ra_order_name(o->order), o->q_pieces || o->kv_pieces ? " or pieces" : "",
             ra_transport_name(o->transport), o->lent);
}

static void check(scene *s, const ra_problem *problem, const ra_ring_options *options, uint64_t seed)
{
    ra_options run = RA_OPTIONS_INIT;
    ra_ring_plan *ring;
    run.threads = 1;
    describe(s, problem, options, seed);
    REQUIRE(!ra_ring_plan_create(problem, &run, options, &ring), "%s: %s", s->text, ra_last_message());
    require_all(s, ring);
    static int turn;
    if (options->strategy == RA_STRATEGY_RING && turn++ % 3 == 0) {
        free(ring->ranks);
        ring->sparing = true;
        REQUIRE(!ra_ring_plan_fill(ring), "%s: %s", s->text, ra_last_message());
        strncat(s->text, ", sparing", sizeof s->text - strlen(s->text) - 1);
        require_all(s, ring);
    }
    ra_ring_plan_free(ring);
}

static const char *const patterns[] = {"full",
                                       "causal",
                                       "window:40,7",
                                       "window:0",
                                       "window:300,0",
                                       "window:0,100",
                                       "causal+window:130,0",
                                       "documents",
                                       "dilated:48/1,300/5",
                                       "dilated:64/2,1000/4:mode=union+causal",
                                       "dilated:150/1,400/3,70/7:mode=grouped",
                                       "blocks:50:local=1:random=1+window:300",
                                       "blocks:64:global=1:stride=3+causal"};
enum { PATTERNS = sizeof patterns / sizeof *patterns, INTERVAL_PATTERNS = 8, SPARSE_LENGTH = 520 };

/* "documents" means a few of them that fit the length. */
static const char *pattern_for(const char *name, int64_t length, char *text, size_t size)
{
    if (strcmp(name, "documents") != 0)
        return name;
    if (length < 4)
        snprintf(text, size, "documents:%lld", (long long)length);
    else
        snprintf(text, size, "causal+documents:%lld,%lld,1,%lld", (long long)(length / 3), (long long)(length / 4),
                 (long long)(length - length / 3 - length / 4 - 1));
    return text;
}

/* The ways in which a rank may hold keys. */
static void set_way(ra_ring_options *options, int way)
{
    options->transport = way < 2 ? RA_TRANSPORT_MPI : way == 2 ? RA_TRANSPORT_SIM : RA_TRANSPORT_THREADS;
    options->lent = way == 1 || way == 4;
}

/* Every strategy, order and pattern for some ranks and lengths; of `few` combinations one. */
static void sweep(scene *s, int ranks, int64_t q_len, int64_t kv_len, int few)
{
    static int turn;
    for (int strategy = 0; strategy < STRATEGIES; strategy++)
        for (int order = 0; order < ORDERS; order++)
            for (int pattern = 0; pattern < PATTERNS; pattern++) {
                ra_problem problem = RA_PROBLEM_INIT;
                ra_ring_options options = RA_RING_OPTIONS_INIT;
                char text[128];
                if (turn++ % few)
                    continue;
                /* Who needs what is found pair by pair there. */
                if (pattern >= INTERVAL_PATTERNS && (q_len > SPARSE_LENGTH || kv_len > SPARSE_LENGTH))
                    continue;
                problem.q_len = q_len, problem.kv_len = kv_len;
                problem.heads = 4, problem.kv_heads = 2, problem.head_dim = 8;
                problem.pattern = pattern_for(patterns[pattern], kv_len, text, sizeof text);
                options.ranks = ranks;
                options.strategy = (ra_strategy)strategy;
                options.order = (ra_order)order;
                set_way(&options, turn / few % 5);
                check(s, &problem, &options, 0);
            }
}

static scene *new_scene(void)
{
    scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    return s;
}

static void few_ranks(void **state)
{
    (void)state;
    scene *s = new_scene();
    for (int ranks = 1; ranks <= 9; ranks++) {
        const int64_t lengths[] = {1, 70, 64 * ranks - 1, 64 * ranks, 64 * ranks + 1, 128 * ranks + 65, 1000};
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            sweep(s, ranks, lengths[i], lengths[i], stride(7));
        sweep(s, ranks, 1, 500, stride(11));
        sweep(s, ranks, 130, 700, stride(11));
        sweep(s, ranks, 500, 130, stride(11));
    }
    free(s);
}

/* As many as the tests go to: every number of ranks, and of the rest of the axes some, or with RINGATTN_SLOW all. */
static void many_ranks(void **state)
{
    (void)state;
    scene *s = new_scene();
    for (int ranks = 10; ranks <= MOST_RANKS; ranks++) {
        const int64_t lengths[] = {70, 1000, 64 * ranks - 3, 64 * ranks + 5};
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            sweep(s, ranks, lengths[i], lengths[i], stride(113));
        sweep(s, ranks, 64 * ranks, 1000, stride(113));
        sweep(s, ranks, 200, 64 * ranks + 64, stride(113));
    }
    free(s);
}

/* Any problem, any split. */
static void random_rings(void **state)
{
    (void)state;
    scene *s = new_scene();
    seed_range range = seeds(1000);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        ra_ring_options options = RA_RING_OPTIONS_INIT;
        ra_piece q_pieces[30], kv_pieces[30];
        char pattern[256];
        problem.batch = choose(&c, 1, 2);
        problem.q_len = choose(&c, 1, chance(&c, 3) ? 20 : 600);
        problem.kv_len = chance(&c, 2) ? problem.q_len : choose(&c, 1, 900);
        problem.kv_heads = choose(&c, 1, MOST_SETS);
        problem.heads = problem.kv_heads * choose(&c, 1, 2);
        problem.head_dim = 4;
        problem.pattern = pattern;
        choose_pattern(&c, problem.kv_len, pattern, sizeof pattern);
        options.ranks = (int)choose(&c, 1, chance(&c, 5) ? 20 : 7);
        options.strategy = (ra_strategy)choose(&c, 0, 2);
        options.order = (ra_order)choose(&c, 0, 2);
        set_way(&options, (int)choose(&c, 0, 4));
        if (chance(&c, 2)) {
            options.q_pieces = q_pieces;
            options.q_piece_count = choose_pieces(&c, problem.q_len, options.ranks, q_pieces, choose(&c, 1, 30));
        }
        if (chance(&c, 2)) {
            options.kv_pieces = kv_pieces;
            options.kv_piece_count = choose_pieces(&c, problem.kv_len, options.ranks, kv_pieces, choose(&c, 1, 30));
        }
        check(s, &problem, &options, seed);
    }
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_ranks),
        cmocka_unit_test(many_ranks),
        cmocka_unit_test(random_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
