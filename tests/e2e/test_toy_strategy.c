/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strategy of one's own, written here and nowhere else, runs through the engine in every way there is: what travels
 * is one table of functions. In this one chunks come the other way round, each straight from its owner: at step t rank
 * q works on the chunk of rank q + t.
 */
#include "ring/message.h"
#include "ring/planning.h"
#include "support/ring.h"
#include "support/unit.h"

#include <string.h>

enum { MOST_RANKS = 8 };

static int64_t steps(const ra_pass *pass)
{
    return pass->ring->options.ranks;
}

static ra_share share(const ra_pass *pass, int rank, int64_t step)
{
    return ra_partition_share(ra_pass_moving(pass), ra_rank_before(pass, rank, -step));
}

static bool receive(const ra_pass *pass, int rank, int64_t phase, int64_t *cursor, ra_message *m)
{
    if (phase == 0 || (*cursor)++ > 0)
        return false;
    *m = ra_message_of_rows(pass, ra_rank_before(pass, rank, -phase), rank, phase);
    m->again = phase > 1;
    return true;
}

static bool send(const ra_pass *pass, int rank, int64_t phase, int64_t *cursor, ra_message *m)
{
    if (phase == 0 || (*cursor)++ > 0)
        return false;
    *m = ra_message_of_rows(pass, rank, ra_rank_before(pass, rank, phase), phase);
    m->again = phase > 1;
    return true;
}

static void rows(const ra_reads *reads, const ra_message *m, const ra_share *on, uint64_t *words, uint64_t *scratch)
{
    (void)scratch;
    ra_reads_set(reads, m->to, on, words);
}

static ra_slot_rows slot_rows(const ra_pass *pass, int rank, const ra_rank_plan *planned)
{
    int64_t own = pass->ring->planes * ra_partition_share(ra_pass_moving(pass), rank).rows,
            chunk = pass->ring->planes * pass->chunk_rows;
    (void)planned;
    return (ra_slot_rows){.rows = {chunk > own ? chunk : own, chunk, own},
                          .roles = {pass->roles, pass->roles, pass->roles}};
}

static int slot(int64_t step)
{
    return (int)(step % 2);
}

static int slot_again(const ra_rank_plan *planned, int64_t phase)
{
    return planned->sparing ? slot(phase - 1) : 2;
}

static int64_t runs(const ra_pass *pass, int rank, const ra_rank_plan *planned)
{
    (void)rank, (void)planned;
    return 2 * pass->ring->planes * pass->chunk_rows;
}

/* Whether a query head of a plane on a rank sees a key. */
static bool reads_key(const ra_traffic_question *q, int64_t plane, int rank, int64_t key)
{
    int64_t heads = q->plan->heads / q->planes;
    ra_share queries = ra_partition_share(q->queries, rank);
    for (int64_t i = 0; i < queries.ranges; i++) {
        ra_range range = ra_share_range(&queries, i);
        for (int64_t query = range.first; query < range.end; query++)
            for (int64_t head = plane * heads; head < (plane + 1) * heads; head++)
                if (ra_pattern_sees(&q->plan->pattern, head, query + q->plan->offset, key))
                    return true;
    }
    return false;
}

/* Rows of an owner that a rank reads, by the definition of the pattern. */
static int64_t rows_between(const ra_traffic_question *q, int owner, int rank)
{
    ra_share own = ra_partition_share(q->keys, owner);
    int64_t count = 0;
    for (int64_t plane = 0; plane < q->planes; plane++)
        for (int64_t i = 0; i < own.ranges; i++) {
            ra_range range = ra_share_range(&own, i);
            for (int64_t key = range.first; key < range.end; key++)
                count += reads_key(q, plane, rank, key);
        }
    return count;
}

static ra_status traffic(const ra_traffic_question *q, ra_traffic *counted)
{
    int ranks = q->keys->ranks;
    for (int rank = q->first; rank < q->end; rank++) {
        ra_traffic *t = &counted[rank - q->first];
        memset(t, 0, sizeof *t);
        for (int other = 0; other < ranks; other++) {
            int64_t came = other == rank ? 0 : rows_between(q, other, rank);
            int64_t went = other == rank ? 0 : rows_between(q, rank, other);
            t->hops += came > 0;
            t->rows_received += came;
            t->rows_sent += went;
            if ((other + 1) % ranks != rank && went > t->rows_again)
                t->rows_again = went;
        }
    }
    return RA_OK;
}

static const ra_strategy_kind backwards = {.id = RA_STRATEGY_RING,
                                           .name = "backwards",
                                           .steps = steps,
                                           .phases = steps,
                                           .share = share,
                                           .receive = receive,
                                           .send = send,
                                           .rows = rows,
                                           .slot_rows = slot_rows,
                                           .slot = slot,
                                           .slot_again = slot_again,
                                           .runs = runs,
                                           .own_step = 0,
                                           .traffic = traffic};

static void go_backwards(ra_ring_plan *plan)
{
    plan->strategy = &backwards;
    REQUIRE(!ra_ring_plan_fill(plan), "%s", ra_last_message());
}

static void spare_memory(ra_ring_plan *plan)
{
    go_backwards(plan);
    for (int rank = 0; rank < plan->count; rank++)
        plan->ranks[rank].sparing = true;
}

static void require_right(const sample *s, const oracle_rows *expected, const ring_case *c)
{
    ra_rank_stats stats[MOST_RANKS] = {RA_RANK_STATS_INIT};
    double output_error, lse_error;
    int64_t received = 0, hops = 0;
    REQUIRE(ring_case_run(c, s, stats, NULL) == RA_OK, "%s; %s: %s", ring_case_text(c), sample_text(s),
            ring_message(0));
    sample_errors(s, expected, &output_error, &lse_error);
    REQUIRE(output_error <= 2e-6 && lse_error <= 2e-5, "%s; %s: output off by %.2e, lse by %.2e", ring_case_text(c),
            sample_text(s), output_error, lse_error);
    for (int rank = 0; rank < c->options.ranks; rank++) {
        received += stats[rank].bytes_received;
        hops += stats[rank].hops;
    }
    bool full = strcmp(s->problem.pattern, "full") == 0;
    REQUIRE(!full || (received > 0 && hops == c->options.ranks * (c->options.ranks - 1)), "%s: %lld hops",
            ring_case_text(c), (long long)hops);
}

static void a_strategy_of_ones_own_runs_everywhere(void **state)
{
    (void)state;
    static const char *const patterns[] = {"full", "causal", "window:30,90", "dilated:64/2,128/1"};
    for (int i = 0; i < 4; i++) {
        choices choice = {(uint64_t)i};
        ra_problem problem = RA_PROBLEM_INIT;
        sample s;
        problem.q_len = problem.kv_len = 331;
        problem.heads = 4, problem.kv_heads = 2, problem.head_dim = 20;
        problem.pattern = patterns[i];
        sample_make(&s, &problem);
        oracle_rows expected = sample_oracle(&s, 60, &choice);
        for (int way = 0; way < WAYS; way++)
            for (int ranks = 2; ranks <= 5; ranks++) {
                ring_case c = ring_case_make((enum way)way, ranks, RA_STRATEGY_RING, (ra_order)((way + ranks) % 3));
                c.adapt = way % 2 && ranks % 2 ? spare_memory : go_backwards;
                require_right(&s, &expected, &c);
            }
        oracle_free(&expected);
        sample_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_strategy_of_ones_own_runs_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
