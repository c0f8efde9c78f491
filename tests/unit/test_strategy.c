/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategies as pure functions, against a table that says for every row and rank who needs it and where it comes from.
 * The table is made from the pattern and the partitions only.
 */
#include "plan/batch.h"
#include "ring/message.h"
#include "ring/planning.h"
#include "ring/rank_bytes.h"
#include "shares.h"
#include "support/ragged.h"
#include "support/sample.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LENGTH = 5000, MOST_RANKS = 64, MOST_PLANES = 3, STRATEGIES = 3, ORDERS = 3, SEEN_EXHAUSTIVELY = 300 };
enum { NOBODY = -1 };

/* A ring, and what must be true of it. */
typedef struct scene {
    char text[512]; /* for messages */
    const ra_ring_plan *ring;
    ra_strategy strategy;
    int ranks;
    int64_t q_len, kv_len, steps, planes;
    int owner[MOST_LENGTH]; /* of each key row */
    int part[MOST_LENGTH];  /* of the sequence, when it is cut into as many as there are steps */
    uint8_t needs[MOST_PLANES][MOST_RANKS]
                 [MOST_LENGTH]; /* whether a query of the set's heads on the rank sees the key */
    int8_t source[MOST_PLANES][MOST_RANKS][MOST_LENGTH]; /* who gives the key row to the rank; NOBODY */
    ra_reads reads;
    uint8_t sends[MOST_RANKS][MOST_RANKS][MOST_RANKS]; /* [phase][from][to]: messages */
    int64_t runs[MOST_RANKS][MOST_RANKS];              /* [phase][rank]: runs of rows of its messages */
    int64_t rows_sent[MOST_RANKS], rows_received[MOST_RANKS], hops[MOST_RANKS];
    uint64_t *words, *scratch;
    uint8_t counts[MOST_PLANES][MOST_LENGTH], others[MOST_PLANES][MOST_LENGTH];
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
static void add_needs_of_query(const scene *s, int64_t plane, int64_t query, uint8_t *needs)
{
    const ra_plan *plan = s->ring->plan;
    int64_t heads = plan->heads / s->planes, all = heads * ra_plan_elements(plan);
    if (s->kv_len <= SEEN_EXHAUSTIVELY || !ra_pattern_is_interval(&plan->pattern) || ra_plan_by_batch(plan)) {
        for (int64_t key = 0; key < s->kv_len; key++)
            for (int64_t i = 0; i < all && !needs[key]; i++)
                needs[key] = ra_plan_sees(plan, i / heads, plane * heads + i % heads, query, key) > 0;
        return;
    }
    ra_interval seen = ra_pattern_interval(&plan->pattern, query + plan->offset);
    if (seen.lo < seen.hi)
        memset(needs + seen.lo, 1, (size_t)(seen.hi - seen.lo));
}

static void fill_needs_of_rank(scene *s, int64_t plane, int rank)
{
    uint8_t *needs = s->needs[plane][rank];
    ra_share share = ra_partition_share(&s->ring->queries, rank);
    memset(needs, s->strategy == RA_STRATEGY_ALLGATHER, (size_t)s->kv_len);
    for (int64_t i = 0; i < share.ranges && s->strategy != RA_STRATEGY_ALLGATHER; i++) {
        ra_range range = ra_share_range(&share, i);
        for (int64_t query = range.first; query < range.end; query++)
            add_needs_of_query(s, plane, query, needs);
    }
}

/* In a ring a row comes from the rank before, if that one needs it too, else from its owner. */
static int source_of(const scene *s, int64_t plane, int rank, int64_t key)
{
    if (!s->needs[plane][rank][key] || s->owner[key] == rank)
        return NOBODY;
    int before = (rank + s->ranks - 1) % s->ranks;
    return s->strategy == RA_STRATEGY_RING && s->needs[plane][before][key] ? before : s->owner[key];
}

/* Marks of all sets on a share, into counts[plane][position]; -1 when some are beside it. */
static int64_t count_planes(const scene *s, const ra_share *share, const uint64_t *words,
                            uint8_t counts[MOST_PLANES][MOST_LENGTH])
{
    int64_t rows = 0;
    for (int64_t plane = 0; plane < s->planes; plane++) {
        memset(counts[plane], 0, (size_t)s->kv_len);
        int64_t marks = count_marks(share, words + plane * share->blocks, counts[plane]);
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
    s->steps = ring->strategy->steps(&ring->passes[0]);
    s->reads = (ra_reads){.pass = &ring->passes[0]};
    s->planes = ring->planes;
    SCENE_REQUIRE(s, s->ranks <= MOST_RANKS && s->kv_len <= MOST_LENGTH && s->q_len <= MOST_LENGTH);
    SCENE_REQUIRE(s, s->planes <= MOST_PLANES && (s->planes == 1 || s->planes == ring->plan->kv_heads));
    SCENE_REQUIRE(s, s->steps == (s->strategy == RA_STRATEGY_ALLGATHER ? 1 : s->ranks));
    fill_owners(s);
    fill_parts(s);
    for (int64_t i = 0; i < s->planes * s->ranks; i++)
        fill_needs_of_rank(s, i / s->ranks, (int)(i % s->ranks));
    for (int64_t i = 0; i < s->planes * s->ranks; i++)
        for (int64_t key = 0; key < s->kv_len; key++)
            s->source[i / s->ranks][i % s->ranks][key] = (int8_t)source_of(s, i / s->ranks, (int)(i % s->ranks), key);
    memset(s->sends, 0, sizeof s->sends);
    memset(s->runs, 0, sizeof s->runs);
    memset(s->rows_sent, 0, sizeof s->rows_sent);
    memset(s->rows_received, 0, sizeof s->rows_received);
    memset(s->hops, 0, sizeof s->hops);
    /* Exactly the room that is said to be enough, so that the sanitizers see any more. */
    size_t room = (size_t)(s->planes * ring->passes[0].slot_blocks) * sizeof *s->words;
    s->words = malloc(room);
    s->scratch = malloc(room);
    assert_true(s->words && s->scratch);
    memset(s->words, 0xff, room);
}

static void scene_free(scene *s)
{
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
        ra_share keys = s->ring->strategy->share(&s->ring->passes[0], rank, step);
        ra_reads_set(&s->reads, rank, &keys, s->words);
        int64_t rows = count_planes(s, &keys, s->words, s->counts), expected = 0, of_step = 0;
        const chosen those = keys_of_step(s, rank, step);
        for (int64_t key = 0; key < s->kv_len; key++) {
            bool here = those.of[key] == those.value;
            of_step += here;
            for (int64_t plane = 0; plane < s->planes; plane++) {
                expected += here && s->needs[plane][rank][key];
                RANK_REQUIRE(s, rank, key, s->counts[plane][key] == (here && s->needs[plane][rank][key]));
                s->others[plane][key] = (uint8_t)(s->others[plane][key] + s->counts[plane][key]);
            }
        }
        RANK_REQUIRE(s, rank, step, rows == expected && keys.rows == of_step);
        RANK_REQUIRE(s, rank, step, keys.blocks <= s->ring->passes[0].slot_blocks);
    }
    for (int64_t plane = 0; plane < s->planes; plane++)
        for (int64_t key = 0; key < s->kv_len; key++)
            RANK_REQUIRE(s, rank, key, s->others[plane][key] == s->needs[plane][rank][key]);
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

/* Runs of the counted rows among those of a share that are held: all of them, or those that a rank reads. */
enum { ALL_ROWS = -1 };

static int64_t runs_of(const scene *s, const ra_share *held, int needed_by)
{
    int64_t runs = 0;
    for (int64_t plane = 0; plane < s->planes; plane++) {
        bool running = false;
        for (int64_t i = 0; i < held->ranges; i++) {
            ra_range range = ra_share_range(held, i);
            for (int64_t key = range.first; key < range.end; key++) {
                if (needed_by != ALL_ROWS && !s->needs[plane][needed_by][key])
                    continue;
                runs += s->counts[plane][key] && !running;
                running = s->counts[plane][key];
            }
        }
    }
    return runs;
}

/* Messages carry what they say: keys and values of all heads, which are stored. */
static void require_cargo(const scene *s, const ra_message *m)
{
    SCENE_REQUIRE(s, m->roles == (1U << RA_ROLE_KEYS | 1U << RA_ROLE_VALUES) && m->delivery == RA_STORE);
    SCENE_REQUIRE(s, m->head == 0 && m->heads == s->ring->plan->kv_heads);
    SCENE_REQUIRE(s, m->from != m->to && m->from >= 0 && m->from < s->ranks && m->to >= 0 && m->to < s->ranks);
    int64_t bytes = s->ring->passes[0].row_bytes[RA_ROLE_KEYS] + s->ring->passes[0].row_bytes[RA_ROLE_VALUES];
    SCENE_REQUIRE(s, ra_message_bytes(&s->ring->passes[0], m, 3) == 3 * bytes);
    bool late = s->strategy == RA_STRATEGY_RING && m->phase > 1 && (m->from + m->phase) % s->ranks == m->to;
    SCENE_REQUIRE(s, m->again == late);
}

/* How a message is noted by its sender, and when it has been received. */
enum { SENT = 1, RECEIVED = 2 };

/* A message has just the rows that the table takes from that sender, and they are new. Returns the rows. */
static int64_t require_receive(scene *s, int rank, const ra_message *m, int64_t *runs)
{
    ra_share keys = ra_message_share(&s->ring->passes[0], m);
    ra_message_rows(&s->reads, m, &keys, s->words, s->scratch);
    int64_t rows = count_planes(s, &keys, s->words, s->counts);
    require_cargo(s, m);
    RANK_REQUIRE(s, rank, m->phase, rows >= 0 && m->to == rank);
    const chosen those = keys_of_step(s, rank, m->phase);
    for (int64_t plane = 0; plane < s->planes; plane++)
        for (int64_t key = 0; key < s->kv_len; key++) {
            bool comes = s->source[plane][rank][key] == m->from && those.of[key] == those.value;
            RANK_REQUIRE(s, rank, key, s->counts[plane][key] == comes);
            RANK_REQUIRE(s, rank, key, !comes || s->needs[plane][rank][key]);
            RANK_REQUIRE(s, rank, key, !comes || s->owner[key] == m->from || s->needs[plane][m->from][key]);
        }
    *runs += runs_of(s, &keys, rank);
    s->rows_received[rank] += rows;
    return rows;
}

static void require_receives(scene *s, int rank)
{
    const ra_strategy_kind *strategy = s->ring->strategy;
    for (int64_t phase = 0; phase < s->steps; phase++) {
        ra_message m;
        int64_t came = 0, runs = 0;
        for (int64_t cursor = 0; strategy->receive(&s->ring->passes[0], rank, phase, &cursor, &m);) {
            RANK_REQUIRE(s, rank, phase, m.phase == phase);
            if (!require_receive(s, rank, &m, &runs))
                continue;
            came++;
            RANK_REQUIRE(s, rank, phase, s->sends[phase][m.from][rank] == SENT);
            s->sends[phase][m.from][rank] = RECEIVED;
        }
        s->hops[rank] += s->strategy == RA_STRATEGY_ALLGATHER ? came : came > 0;
        s->runs[phase][rank] += runs;
    }
    int64_t foreign = 0;
    for (int64_t plane = 0; plane < s->planes; plane++)
        for (int64_t key = 0; key < s->kv_len; key++)
            foreign += s->source[plane][rank][key] != NOBODY;
    RANK_REQUIRE(s, rank, 0, s->rows_received[rank] == foreign);
}

/* What is sent is what the other side takes, and the sender has it by then. Returns the rows. */
static int64_t require_send(scene *s, int rank, const ra_message *m)
{
    ra_share taken = ra_message_share(&s->ring->passes[0], m), held = ra_message_held(&s->ring->passes[0], m);
    ra_message_rows(&s->reads, m, &taken, s->words, s->scratch);
    int64_t rows = count_planes(s, &taken, s->words, s->others);
    ra_message_rows(&s->reads, m, &held, s->words, s->scratch);
    require_cargo(s, m);
    RANK_REQUIRE(s, rank, m->phase, count_planes(s, &held, s->words, s->counts) == rows && m->from == rank);
    for (int64_t plane = 0; plane < s->planes; plane++)
        RANK_REQUIRE(s, rank, m->phase, memcmp(s->counts[plane], s->others[plane], (size_t)s->kv_len) == 0);
    bool own = m->held == -1;
    RANK_REQUIRE(s, rank, m->phase, own || (m->held > 0 && m->held < m->phase && s->strategy == RA_STRATEGY_RING));
    const chosen those = own ? (chosen){s->owner, rank} : keys_of_step(s, rank, m->held);
    for (int64_t plane = 0; plane < s->planes; plane++)
        for (int64_t key = 0; key < s->kv_len; key++)
            RANK_REQUIRE(s, rank, key,
                         !s->counts[plane][key] ||
                             (those.of[key] == those.value && (own || s->needs[plane][rank][key])));
    s->runs[m->phase][rank] += m->again ? runs_of(s, &held, m->to) : runs_of(s, &held, own ? ALL_ROWS : rank);
    s->rows_sent[rank] += rows;
    return rows;
}

static void require_sends(scene *s, int rank)
{
    const ra_strategy_kind *strategy = s->ring->strategy;
    for (int64_t phase = 0; phase < s->steps; phase++) {
        ra_message m;
        for (int64_t cursor = 0; strategy->send(&s->ring->passes[0], rank, phase, &cursor, &m);) {
            RANK_REQUIRE(s, rank, phase, m.phase == phase);
            if (require_send(s, rank, &m))
                s->sends[phase][rank][m.to] += SENT;
        }
    }
}

/* The runs that the messages of any phase consist of are no more than was said. */
static void require_runs(const scene *s, int rank)
{
    int64_t most = s->ring->strategy->runs(&s->ring->passes[0], rank, ra_pass_planned(&s->ring->passes[0], rank));
    for (int64_t phase = 0; phase < s->steps; phase++)
        RANK_REQUIRE(s, rank, phase, s->runs[phase][rank] <= most);
}

/* Every send has been received, and the traffic that the plan counts in its own way is the same. */
static void require_traffic(const scene *s)
{
    ra_traffic traffic[MOST_RANKS];
    for (int64_t phase = 0; phase < s->steps; phase++)
        for (int from = 0; from < s->ranks; from++)
            for (int to = 0; to < s->ranks; to++)
                RANK_REQUIRE(s, from, phase, !s->sends[phase][from][to] || s->sends[phase][from][to] == RECEIVED);
    const ra_traffic_question all = {.plan = s->ring->plan,
                                     .planes = s->planes,
                                     .queries = &s->ring->queries,
                                     .keys = &s->ring->keys,
                                     .end = s->ranks};
    SCENE_REQUIRE(s, !s->ring->strategy->traffic(&all, traffic));
    int64_t row_bytes = s->ring->passes[0].row_bytes[RA_ROLE_KEYS] + s->ring->passes[0].row_bytes[RA_ROLE_VALUES];
    for (int rank = 0; rank < s->ranks; rank++) {
        const ra_rank_info *info = &ra_pass_planned(&s->ring->passes[0], rank)->info;
        ra_traffic one; /* the same, counted by itself */
        ra_traffic_question question = all;
        question.first = rank, question.end = rank + 1;
        SCENE_REQUIRE(s, !s->ring->strategy->traffic(&question, &one));
        RANK_REQUIRE(s, rank, one.rows_sent, memcmp(&one, &traffic[rank], sizeof one) == 0);
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

/* Rows of a share that a rank reads, of all planes. */
static int64_t rows_read(const scene *s, int rank, const ra_share *share)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < share->ranges; i++) {
        ra_range range = ra_share_range(share, i);
        for (int64_t plane = 0; plane < s->planes; plane++)
            for (int64_t key = range.first; key < range.end; key++)
                rows += s->needs[plane][rank][key];
    }
    return rows;
}

/* Own rows that a rank of a ring gives away after the first phase are read again, for that phase alone. */
static int64_t list_uses_again(scene *s, int rank, use *uses)
{
    const ra_strategy_kind *strategy = s->ring->strategy;
    const ra_rank_plan *planned = ra_pass_planned(&s->ring->passes[0], rank);
    int64_t count = 0;
    for (int64_t phase = 0; phase < s->steps; phase++) {
        ra_message m;
        for (int64_t cursor = 0; strategy->send(&s->ring->passes[0], rank, phase, &cursor, &m);) {
            ra_share held = ra_message_held(&s->ring->passes[0], &m);
            ra_message_rows(&s->reads, &m, &held, s->words, s->scratch);
            int64_t rows = count_planes(s, &held, s->words, s->counts), half = 2 * phase + planned->sparing;
            if (m.again && rows)
                uses[count++] = (use){strategy->slot_again(planned, phase), half, half, rows};
        }
    }
    return count;
}

/* All uses of slots by a rank whose chunks are copied. */
static int64_t list_uses(scene *s, int rank, use *uses)
{
    const ra_strategy_kind *strategy = s->ring->strategy;
    ra_share own = ra_partition_share(&s->ring->keys, rank);
    bool ring = s->strategy == RA_STRATEGY_RING;
    int64_t count = 0;
    if (own.rows)
        uses[count++] = (use){0, -2, ring ? 2 : 2 * s->steps, s->planes * own.rows};
    for (int64_t step = 0; step < s->steps; step++) {
        ra_share keys = strategy->share(&s->ring->passes[0], rank, step);
        int64_t rows = rows_read(s, rank, &keys);
        if (rows && !(ring && step == 0)) /* it is passed on only while it is worked on */
            uses[count++] = (use){strategy->slot(step), 2 * step, 2 * (step + 1), rows};
    }
    RANK_REQUIRE(s, rank, 0, strategy->own_step == (ring ? 0 : -1) && (!ring || strategy->slot(0) == 0));
    return count + list_uses_again(s, rank, uses + count);
}

static void require_slots(scene *s, int rank)
{
    ra_slot_rows slots =
        s->ring->strategy->slot_rows(&s->ring->passes[0], rank, ra_pass_planned(&s->ring->passes[0], rank));
    use uses[2 * MOST_RANKS + 2];
    int64_t count = list_uses(s, rank, uses);
    for (int64_t i = 0; i < count; i++) {
        RANK_REQUIRE(s, rank, i, uses[i].slot >= 0 && uses[i].slot < RA_SLOTS_MOST);
        RANK_REQUIRE(s, rank, i, uses[i].rows <= slots.rows[uses[i].slot]);
        for (int64_t j = 0; j < i; j++)
            RANK_REQUIRE(s, rank, i,
                         uses[i].slot != uses[j].slot || uses[i].from > uses[j].to || uses[j].from > uses[i].to);
    }
}

static bool is_full(const ra_ring_plan *ring)
{
    return ring->plan->pattern.count == 1 && ring->plan->pattern.terms[0].kind == &ra_term_full;
}

/* Full attention in a ring where everybody has queries, and any where memory is spared: two chunks, no more. */
static void require_two_chunks(const scene *s, int rank)
{
    const ra_rank_plan *planned = ra_pass_planned(&s->ring->passes[0], rank);
    ra_slot_rows slots = s->ring->strategy->slot_rows(&s->ring->passes[0], rank, planned);
    int64_t rows = 0, most = 0;
    for (int i = 0; i < RA_SLOTS_MOST; i++)
        rows += slots.rows[i];
    bool full = is_full(s->ring);
    for (int i = 0; i < s->ranks; i++) {
        int64_t chunk = ra_partition_share(&s->ring->keys, i).rows;
        most = chunk > most ? chunk : most;
        full = full && ra_partition_share(&s->ring->queries, i).rows > 0;
    }
    if (s->strategy == RA_STRATEGY_RING && (full || planned->sparing))
        RANK_REQUIRE(s, rank, rows, rows <= 2 * s->planes * most);
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

static void require_all(scene *s, const ra_ring_plan *ring)
{
    scene_make(s, ring);
    for (int rank = 0; rank < s->ranks; rank++) {
        require_steps(s, rank);
        require_sends(s, rank);
        require_slots(s, rank);
        require_two_chunks(s, rank);
    }
    for (int rank = 0; rank < s->ranks; rank++) {
        require_receives(s, rank);
        require_runs(s, rank);
    }
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
        for (int rank = 0; rank < ring->count; rank++)
            ring->ranks[rank].sparing = true;
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
        char pattern[512];
        problem.batch = choose(&c, 1, 2);
        problem.q_len = choose(&c, 1, chance(&c, 3) ? 20 : 600);
        problem.kv_len = chance(&c, 2) ? problem.q_len : choose(&c, 1, 900);
        problem.kv_heads = choose(&c, 1, MOST_PLANES);
        problem.heads = problem.kv_heads * choose(&c, 1, 2);
        problem.head_dim = 4;
        problem.pattern = pattern;
        choose_pattern(&c, problem.kv_len, pattern, sizeof pattern);
        choose_positions(&c, &problem);
        choose_ragged(&c, &problem, pattern, sizeof pattern);
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
