/* SPDX-License-Identifier: Apache-2.0 */
/* Dilated and block-sparse attention over ranks: against the oracle, what travels, and what must not be seen. */
#include "compare.h"
#include "support/ragged.h"
#include "support/ring.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ORACLE_ROWS = 24, MOST_RANKS = 16, STRATEGIES = 3, ORDERS = 3 };

static void require_run(const ring_case *c, const sample *s, ra_rank_stats *stats, uint64_t seed)
{
    REQUIRE(ring_case_run(c, s, stats, NULL) == RA_OK, "seed %llu: %s, %s tiles; %s: %s", (unsigned long long)seed,
            ring_case_text(c), ra_tile_order_name(c->run.tiles), sample_text(s), ring_message(0));
}

static void require_right(const sample *s, const oracle_rows *expected, const ring_case *c, uint64_t seed)
{
    double output_error, lse_error, scale = sample_score_scale(s);
    sample_errors(s, expected, &output_error, &lse_error);
    REQUIRE(output_error <= OUTPUT_TOLERANCE * scale && lse_error <= LSE_TOLERANCE * scale,
            "seed %llu: %s, %s tiles; %s: output off by %.2e, lse by %.2e", (unsigned long long)seed, ring_case_text(c),
            ra_tile_order_name(c->run.tiles), sample_text(s), output_error, lse_error);
}

/* ---- Against the oracle ------------------------------------------------------------------------------------------ */

static void choose_problem(choices *c, ra_problem *p, char *pattern, size_t size)
{
    p->batch = choose(c, 1, 2);
    p->kv_heads = choose(c, 1, 3);
    p->heads = p->kv_heads * choose(c, 1, 4);
    p->head_dim = choose(c, 1, 40);
    p->value_dim = choose(c, 1, 40);
    p->q_len = chance(c, 4) ? choose(c, 1, 8) : choose(c, 1, 500);
    p->kv_len = chance(c, 3) ? choose(c, 1, 600) : p->q_len;
    p->pattern = pattern;
    choose_sparse(c, p->kv_len, pattern, size);
    choose_positions(c, p);
    choose_ragged(c, p, pattern, size);
}

/* Any strategy, order, transport and number of ranks, more than there are blocks among them. */
static void random_rings(void **state)
{
    (void)state;
    seed_range range = seeds(130);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices choice = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        char pattern[512];
        sample s;
        choose_problem(&choice, &problem, pattern, sizeof pattern);
        sample_make_any(&s, &problem, ANY_DTYPE, &choice);
        oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &choice);
        for (int i = 0; i < 6; i++) {
            ring_case c = ring_case_make((way)choose(&choice, 0, WAYS - 1), (int)choose(&choice, 1, 9),
                                         (ra_strategy)choose(&choice, 0, 2), (ra_order)choose(&choice, 0, 2));
            ra_piece q_pieces[12], kv_pieces[12];
            ra_rank_stats stats[MOST_RANKS] = {RA_RANK_STATS_INIT};
            c.run.threads = (int)choose(&choice, 1, 3);
            c.run.tiles = (ra_tile_order)choose(&choice, 0, 2);
            if (chance(&choice, 4)) {
                c.options.q_pieces = q_pieces;
                c.options.q_piece_count = ring_choose_pieces(&choice, problem.q_len, c.options.ranks, q_pieces, 12);
            }
            if (chance(&choice, 4)) {
                c.options.kv_pieces = kv_pieces;
                c.options.kv_piece_count = ring_choose_pieces(&choice, problem.kv_len, c.options.ranks, kv_pieces, 12);
            }
            require_run(&c, &s, stats, seed);
            require_right(&s, &expected, &c, seed);
            REQUIRE(sample_padding_kept(&s), "seed %llu: %s; %s: wrote outside its elements", (unsigned long long)seed,
                    ring_case_text(&c), sample_text(&s));
        }
        oracle_free(&expected);
        sample_free(&s);
    }
}

static void sample_of(sample *s, int64_t length, int64_t heads, int64_t kv_heads, const char *pattern)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = length, problem.heads = heads, problem.kv_heads = kv_heads;
    problem.head_dim = 8, problem.value_dim = 6, problem.pattern = pattern;
    sample_make(s, &problem);
}

/* Every strategy, order and way with ranks that have nothing. */
static void more_ranks_than_blocks(void **state)
{
    (void)state;
    static const char *const patterns[] = {"dilated:40/1,130/3", "dilated:130/2:mode=grouped+causal",
                                           "blocks:16:local=1:random=1", "blocks:50:global=1+causal"};
    for (int i = 0; i < 4; i++) {
        sample s;
        sample_of(&s, 130, 4, 2, patterns[i]);
        choices choice = {1};
        oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &choice);
        for (int at = 0; at < STRATEGIES * ORDERS * WAYS; at++) {
            ring_case c = ring_case_make((way)(at % WAYS), 9, (ra_strategy)(at / WAYS % STRATEGIES),
                                         (ra_order)(at / WAYS / STRATEGIES));
            require_run(&c, &s, NULL, 0);
            require_right(&s, &expected, &c, 0);
        }
        oracle_free(&expected);
        sample_free(&s);
    }
}

/* A mask of every head's own, out of a file. */
static void masks_of_heads(void **state)
{
    (void)state;
    enum { LENGTH = 300, SIZE = 20, BLOCKS = LENGTH / SIZE, HEADS = 4 };
    const int64_t shape[] = {HEADS, BLOCKS, BLOCKS};
    uint8_t mask[HEADS * BLOCKS * BLOCKS];
    char path[64], pattern[128];
    ra_array *array;
    for (int i = 0; i < HEADS * BLOCKS * BLOCKS; i++)
        mask[i] = i * 13 / 5 % 7 == 0 && i / BLOCKS % BLOCKS != 4; /* queries of block 4 see nothing */
    snprintf(path, sizeof path, "/tmp/ringattn-sparse-%ld.npy", (long)getpid());
    assert_int_equal(ra_array_create(path, RA_BOOL, 3, shape, &array), RA_OK);
    assert_int_equal(ra_array_write(array, 0, sizeof mask, mask), RA_OK);
    assert_int_equal(ra_array_commit(array), RA_OK);
    ra_array_close(array);
    static const char *const others[] = {"", "causal+", "dilated:60/1,120/2+"};
    for (int other = 0; other < 3; other++) {
        snprintf(pattern, sizeof pattern, "%sblocks:%d:mask=@%s", others[other], SIZE, path);
        sample s;
        sample_of(&s, LENGTH, HEADS, 2, pattern);
        choices choice = {1};
        oracle_rows expected = sample_oracle(&s, LENGTH * HEADS, &choice); /* all: which are empty matters */
        for (int at = 0; at < STRATEGIES * WAYS; at++) {
            ring_case c = ring_case_make((way)(at % WAYS), 3, (ra_strategy)(at / WAYS), (ra_order)(at % ORDERS));
            require_run(&c, &s, NULL, 0);
            require_right(&s, &expected, &c, 0);
        }
        oracle_free(&expected);
        sample_free(&s);
    }
    assert_int_equal(unlink(path), 0);
}

/* ---- Ranks that differ ------------------------------------------------------------------------------------------- */

static const char *odd_pattern;

static void change_pattern(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    (void)run, (void)options;
    problem->pattern = odd_pattern;
}

/* The greeting tells patterns apart by everything that they are made of. */
static void a_rank_with_another_pattern_is_found_out(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"dilated:64/2,128/4", "dilated:64/2,128/2"},
        {"dilated:64/2,128/4", "dilated:64/2,127/4"},
        {"dilated:64/2,128/4", "dilated:128/4,64/2"},
        {"dilated:64/2,128/4", "dilated:64/2,128/4:mode=union"},
        {"dilated:64/2,128/4:mode=grouped", "dilated:64/2,128/4:mode=torchscale"},
        {"blocks:16:random=2:seed=1", "blocks:16:random=2:seed=2"},
        {"blocks:16:random=2", "blocks:16:random=3"},
        {"blocks:16:local=1", "blocks:16:local=2"},
        {"blocks:16:global=1", "blocks:16:stride=1"},
        {"blocks:16:density=0.2", "blocks:16:density=0.3"},
        {"blocks:16", "blocks:17"},
        {"causal+blocks:16", "blocks:16"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sample s;
        sample_of(&s, 200, 4, 2, texts[i][0]);
        ring_case c = ring_case_make(WAY_MESSAGES, 3, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS);
        odd_pattern = texts[i][1];
        c.odd_rank = 1;
        c.odd = change_pattern;
        ra_status status = ring_case_run(&c, &s, NULL, NULL);
        REQUIRE(status && strstr(ring_message(0), "pattern: "), "\"%s\" and \"%s\": %s, %s", texts[i][0], texts[i][1],
                ra_status_name(status), ring_message(0));
        sample_free(&s);
    }
}

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

static void any_number_of_threads(void **state)
{
    (void)state;
    static const char *const patterns[] = {"dilated:64/1,200/3+causal", "dilated:90/2,200/5:mode=union",
                                           "blocks:32:local=1:random=2", "blocks:20:stride=3+causal"};
    for (int i = 0; i < 4; i++)
        for (int at = 0; at < STRATEGIES * ORDERS * 3; at++) {
            sample s;
            sample_of(&s, 260, 4, 2, patterns[i]);
            static const way ways[] = {WAY_SIM, WAY_THREADS_STORED, WAY_MESSAGES};
            ring_case c =
                ring_case_make(ways[(at + i) % 3], 3, (ra_strategy)(at / ORDERS % STRATEGIES), (ra_order)(at % ORDERS));
            c.run.tiles = (ra_tile_order)(at / 9);
            require_run(&c, &s, NULL, 0);
            char *one = sample_keep(&s);
            for (c.run.threads = 2; c.run.threads <= 3; c.run.threads++) {
                require_run(&c, &s, NULL, 0);
                REQUIRE(sample_same(&s, one), "%s, %s tiles; %s: other bits with %d threads", ring_case_text(&c),
                        ra_tile_order_name(c.run.tiles), sample_text(&s), c.run.threads);
            }
            free(one);
            sample_free(&s);
        }
}

/*
 * Wherever rows are and in whatever order tiles are worked: keys after a position are made NaN, and the rows up to it
 * keep their bits.
 */
static void a_permuted_order_never_leaks_a_future_key(void **state)
{
    (void)state;
    enum { LENGTH = 330, CUT = 150, HEADS = 3, DIM = 6 };
    static const char *const patterns[] = {"causal", "causal+dilated:64/1,300/3",
                                           "dilated:40/2,330/4:mode=union+causal", "blocks:16:local=2:random=3+causal",
                                           "causal+blocks:64:global=2"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        for (int at = 0; at < STRATEGIES * ORDERS * 3; at++) {
            sample s;
            sample_of(&s, LENGTH, HEADS, 1, patterns[i]);
            ring_case c =
                ring_case_make((way)(at % WAYS), 3, (ra_strategy)(at / ORDERS % STRATEGIES), (ra_order)(at % ORDERS));
            c.run.tiles = (ra_tile_order)(at / 9);
            require_run(&c, &s, NULL, 0);
            char *before = sample_keep(&s);
            for (int64_t row = CUT + 1; row < LENGTH; row++)
                for (int d = 0; d < DIM; d++) {
                    ra_tensor_set(&s.tensors[SAMPLE_KEY], 0, row, 0, d, (double)NAN);
                    ra_tensor_set(&s.tensors[SAMPLE_VALUE], 0, row, 0, d, (double)NAN);
                }
            require_run(&c, &s, NULL, 0);
            REQUIRE(same_bits(before, s.memory[SAMPLE_OUTPUT], (int64_t)(CUT + 1) * HEADS * DIM),
                    "%s, %s tiles; %s: a later key shows", ring_case_text(&c), ra_tile_order_name(c.run.tiles),
                    sample_text(&s));
            float last = ((const float *)s.memory[SAMPLE_LSE])[(LENGTH - 1) * HEADS];
            REQUIRE(isnan(last) || last == -INFINITY, "%s: the poison was not there", sample_text(&s));
            free(before);
            sample_free(&s);
        }
}

/* ---- What travels ------------------------------------------------------------------------------------------------ */

static ra_problem problem_of(int64_t length, int64_t heads, int64_t kv_heads, const char *pattern)
{
    ra_problem p = RA_PROBLEM_INIT;
    p.q_len = length, p.heads = heads, p.kv_heads = kv_heads, p.head_dim = 8, p.value_dim = 6, p.pattern = pattern;
    return p;
}

enum { ROW_BYTES = (8 + 6) * 4 }; /* a key and its value, of one head */

static ra_ring_plan *planned(const ra_problem *p, int ranks, ra_strategy strategy, ra_order order)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan;
    options.threads = 1;
    ring.ranks = ranks, ring.strategy = strategy, ring.order = order;
    REQUIRE(!ra_ring_plan_create(p, &options, &ring, &plan), "%s: %s", p->pattern, ra_last_message());
    return plan;
}

/* What all ranks together send, of what was planned; *most is the most that one receives. */
static int64_t planned_bytes(const ra_problem *p, int ranks, ra_strategy strategy, ra_order order, int64_t *most)
{
    ra_ring_plan *plan = planned(p, ranks, strategy, order);
    int64_t sent = 0, received = 0;
    *most = 0;
    for (int rank = 0; rank < ranks; rank++) {
        ra_rank_info info = RA_RANK_INFO_INIT;
        assert_int_equal(ra_ring_plan_rank(plan, rank, &info), RA_OK);
        sent += info.bytes_sent;
        received += info.bytes_received;
        *most = info.bytes_received > *most ? info.bytes_received : *most;
    }
    assert_true(sent == received);
    ra_ring_plan_free(plan);
    return sent;
}

/* The same of a run, of what it counted. */
static int64_t bytes_of_run(const ra_problem *p, int ranks, ra_strategy strategy, ra_order order, way way)
{
    ra_rank_stats stats[MOST_RANKS] = {RA_RANK_STATS_INIT};
    ring_case c = ring_case_make(way, ranks, strategy, order);
    sample s;
    int64_t sent = 0;
    sample_make(&s, p);
    require_run(&c, &s, stats, 0);
    for (int rank = 0; rank < ranks; rank++)
        sent += stats[rank].bytes_sent;
    sample_free(&s);
    return sent;
}

/* Planned and run, by ring and by broadcast, in every way. */
static void require_bytes(const ra_problem *p, int ranks, ra_order order, int64_t bytes)
{
    for (int strategy = RA_STRATEGY_RING; strategy <= RA_STRATEGY_BROADCAST; strategy += 2) {
        int64_t most, sent = planned_bytes(p, ranks, (ra_strategy)strategy, order, &most);
        REQUIRE(sent == bytes, "%s, %lld rows, heads %lld:%lld, %d ranks, %s, %s: plans to send %lld bytes, not %lld",
                p->pattern, (long long)p->q_len, (long long)p->heads, (long long)p->kv_heads, ranks,
                ra_strategy_name((ra_strategy)strategy), ra_order_name(order), (long long)sent, (long long)bytes);
        for (int way = 0; way < WAYS; way++) {
            sent = bytes_of_run(p, ranks, (ra_strategy)strategy, order, (enum way)way);
            REQUIRE(sent == bytes, "%s, %d ranks, %s, %s, %s: sent %lld bytes, not %lld", p->pattern, ranks,
                    ra_strategy_name((ra_strategy)strategy), ra_order_name(order), way_names[way], (long long)sent,
                    (long long)bytes);
        }
    }
}

/* Parts of 128 rows (zigzag and striped: two of 64), and segments and blocks that divide them. */
static void segments_inside_ranks_send_nothing(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "dilated:64/1",      "dilated:32/1,64/3",           "dilated:64/5:mode=grouped",
        "blocks:64",         "blocks:32:local=0+causal",    "dilated:64/1,64/4:mode=union",
        "dilated:16/2+full", "blocks:16+dilated:64/1,64/2", "dilated:64/2:mode=torchscale"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        for (int order = 0; order < ORDERS; order++) {
            ra_problem p = problem_of(512, 4, 2, patterns[i]);
            require_bytes(&p, 4, (ra_order)order, 0);
        }
    ra_problem longer = problem_of(512, 4, 2, "dilated:128/1,64/3+causal");
    require_bytes(&longer, 4, RA_ORDER_CONTIGUOUS, 0);
    /* One row more in a segment, and something does travel. */
    ra_problem beyond = problem_of(512, 4, 2, "dilated:129/1");
    int64_t most;
    assert_true(planned_bytes(&beyond, 4, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS, &most) > 0);
}

/*
 * One segment over all ranks: of each rank's 64 rows a query head takes 64 / rate, and a key/value head as many times
 * that as its query heads have offsets. Each rank gets those of all others.
 */
static void only_selected_rows_travel(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        int ranks;
        int64_t heads, kv_heads, residues, rate; /* residues: of a key/value head */
    } cases[] = {
        {"dilated:128/4", 2, 4, 4, 1, 4},
        {"dilated:128/4", 2, 4, 2, 2, 4},
        {"dilated:128/4", 2, 4, 1, 4, 4},
        {"dilated:128/4", 2, 8, 1, 4, 4}, /* more query heads than there are offsets */
        {"dilated:128/8", 2, 6, 2, 3, 8},
        {"dilated:128/1", 2, 4, 2, 1, 1},
        {"dilated:256/16", 4, 4, 4, 1, 16},
        {"dilated:256/4:mode=union", 4, 4, 2, 2, 4},
        {"dilated:1000/4", 4, 2, 2, 1, 4},
        {"dilated:128/2:mode=torchscale", 2, 4, 2, 1, 2}, /* heads 0 and 1 have offset 0, heads 2 and 3 offset 1 */
        {"dilated:128/2:mode=torchscale", 2, 4, 1, 2, 2},
        {"dilated:128/2:mode=grouped", 2, 4, 1, 1, 2},
        {"dilated:128/4,128/4", 2, 4, 2, 2, 4}, /* a row travels once, however often it counts */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int ranks = cases[i].ranks;
        ra_problem p = problem_of((int64_t)64 * ranks, cases[i].heads, cases[i].kv_heads, cases[i].pattern);
        int64_t rows = cases[i].kv_heads * cases[i].residues * 64 / cases[i].rate;
        require_bytes(&p, ranks, RA_ORDER_CONTIGUOUS, (int64_t)ranks * (ranks - 1) * rows * ROW_BYTES);
    }
    /* Causal: only to those who come after. */
    ra_problem causal = problem_of(256, 4, 2, "causal+dilated:256/4");
    require_bytes(&causal, 4, RA_ORDER_CONTIGUOUS, (int64_t)6 * 2 * 2 * 16 * ROW_BYTES);
}

/* Eight blocks of 64, two to a rank: a rank gets just the blocks that its own ones keep. */
static void only_kept_blocks_travel(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        int64_t blocks; /* that go from one rank to another, in all */
    } cases[] = {
        {"blocks:64:local=1", 6},        /* two neighbours of inner ranks, one of outer */
        {"blocks:64:local=1+causal", 3}, /* the one before */
        {"blocks:64:local=2", 12},       {"blocks:64:global=1", 6 + 3}, /* all to the first; the first to all */
        {"blocks:64:stride=4", 8},       {"blocks:64:random=7", 24},    {"blocks:128:local=1", 12}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ra_problem p = problem_of(512, 4, 2, cases[i].pattern);
        require_bytes(&p, 4, RA_ORDER_CONTIGUOUS, cases[i].blocks * 64 * 2 * ROW_BYTES);
    }
}

/*
 * Parts whose ends lie at the same places of their segments, whatever the length: exactly the same bytes. And for any
 * length, no more than the segments at the ends of a rank's parts have.
 */
static void bytes_do_not_grow_with_the_length(void **state)
{
    (void)state;
    static const char *const patterns[] = {"dilated:1000/1", "dilated:200/1,1000/3", "dilated:1000/4+causal",
                                           "dilated:500/2,1000/5:mode=union", "blocks:50:local=2"};
    enum { RANKS = 4, HEADS = 4, KV_HEADS = 2, LONGEST = 1000 };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        for (int order = RA_ORDER_CONTIGUOUS; order <= RA_ORDER_ZIGZAG; order++)
            for (int strategy = RA_STRATEGY_RING; strategy <= RA_STRATEGY_BROADCAST; strategy += 2) {
                int parts = order == RA_ORDER_ZIGZAG ? 2 * RANKS : RANKS;
                int64_t first_sent = -1, first_most = -1, most;
                for (int64_t k = 1; k <= 4; k *= 2) {
                    ra_problem p = problem_of(parts * (8000 * k + 320), HEADS, KV_HEADS, patterns[i]);
                    int64_t sent = planned_bytes(&p, RANKS, (ra_strategy)strategy, (ra_order)order, &most);
                    first_sent = k == 1 ? sent : first_sent;
                    first_most = k == 1 ? most : first_most;
                    REQUIRE(sent > 0 && sent == first_sent && most == first_most,
                            "%s, %s, %s: %lld bytes at length %lld, %lld at first", patterns[i],
                            ra_strategy_name((ra_strategy)strategy), ra_order_name((ra_order)order), (long long)sent,
                            (long long)p.q_len, (long long)first_sent);
                }
                for (int64_t length = 5000; length <= 40000; length += 6999) {
                    ra_problem p = problem_of(length, HEADS, KV_HEADS, patterns[i]);
                    planned_bytes(&p, RANKS, (ra_strategy)strategy, (ra_order)order, &most);
                    REQUIRE(most <= (int64_t)2 * (parts / RANKS) * LONGEST * KV_HEADS * ROW_BYTES,
                            "%s, %s, length %lld: %lld bytes", patterns[i], ra_order_name((ra_order)order),
                            (long long)length, (long long)most);
                }
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_rings),
        cmocka_unit_test(more_ranks_than_blocks),
        cmocka_unit_test(masks_of_heads),
        cmocka_unit_test(a_rank_with_another_pattern_is_found_out),
        cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(a_permuted_order_never_leaks_a_future_key),
        cmocka_unit_test(segments_inside_ranks_send_nothing),
        cmocka_unit_test(only_selected_rows_travel),
        cmocka_unit_test(only_kept_blocks_travel),
        cmocka_unit_test(bytes_do_not_grow_with_the_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
