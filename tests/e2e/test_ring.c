/* SPDX-License-Identifier: Apache-2.0 */
/* Rings of every kind inside one process against the oracle, and what they say they did. */
#include "compare.h"
#include "support/ragged.h"
#include "support/ring.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORACLE_ROWS = 24, MOST_RANKS = 16 };

static void require_right(const sample *s, const oracle_rows *expected, const ring_case *c)
{
    double output_error, lse_error, scale = sample_score_scale(s);
    sample_errors(s, expected, &output_error, &lse_error);
    REQUIRE(output_error <= OUTPUT_TOLERANCE * scale && lse_error <= LSE_TOLERANCE * scale,
            "%s; %s: output off by %.2e, lse by %.2e", ring_case_text(c), sample_text(s), output_error, lse_error);
}

static void run_and_compare(const sample *s, const oracle_rows *expected, const ring_case *c)
{
    ra_rank_stats stats[MOST_RANKS] = {RA_RANK_STATS_INIT};
    REQUIRE(ring_case_run(c, s, stats, NULL) == RA_OK, "%s; %s: %s", ring_case_text(c), sample_text(s),
            ring_message(0));
    require_right(s, expected, c);
    int64_t sent = 0, received = 0;
    for (int rank = 0; rank < c->options.ranks; rank++) {
        sent += stats[rank].bytes_sent;
        received += stats[rank].bytes_received;
        REQUIRE(stats[rank].rank == rank, "%s: statistics of rank %d at %d", ring_case_text(c), stats[rank].rank, rank);
    }
    REQUIRE(sent == received, "%s; %s: %lld bytes sent, %lld received", ring_case_text(c), sample_text(s),
            (long long)sent, (long long)received);
}

static const char *const patterns[] = {
    "full", "causal", "window:40,7", "documents", "dilated:48/1,300/3+causal", "blocks:32:local=1:random=1"};
static const int ranks[] = {1, 2, 3, 4, 5, 7, 8, 16};
static const int64_t lengths[] = {1, 2, 31, 64, 257, 1000};
enum { PATTERNS = 6, RANKS = 8, LENGTHS = 6, STRATEGIES = 3, ORDERS = 3 };

/* "documents" means a few of them that fit the length. */
static const char *pattern_for(const char *name, int64_t length, char *text, size_t size)
{
    if (strcmp(name, "documents") != 0)
        return name;
    if (length < 3)
        snprintf(text, size, "documents:%lld", (long long)length);
    else
        snprintf(text, size, "documents:%lld,%lld,%lld", (long long)(length / 3), (long long)(length / 2),
                 (long long)(length - length / 3 - length / 2));
    return text;
}

static void run_length(int pattern, int64_t length, bool (*wanted)(const int axes[6]), int length_index)
{
    ra_problem problem = RA_PROBLEM_INIT;
    char text[128];
    problem.q_len = length;
    problem.heads = 2, problem.kv_heads = 1, problem.head_dim = 16, problem.value_dim = 8;
    problem.pattern = pattern_for(patterns[pattern], length, text, sizeof text);
    choices choice = {(uint64_t)length};
    sample s;
    sample_make(&s, &problem);
    oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &choice);
    for (int strategy = 0; strategy < STRATEGIES; strategy++)
        for (int order = 0; order < ORDERS; order++)
            for (int way = 0; way < WAYS; way++)
                for (int r = 0; r < RANKS; r++) {
                    const int axes[6] = {pattern, strategy, order, way, r, length_index};
                    if (!wanted(axes))
                        continue;
                    ring_case c = ring_case_make((enum way)way, ranks[r], (ra_strategy)strategy, (ra_order)order);
                    run_and_compare(&s, &expected, &c);
                }
    oracle_free(&expected);
    sample_free(&s);
}

/*
 * All pairs of axes: a combination is run if its six indices, weighted, fall on a residue. Checked below to meet every
 * pair of values of every two axes.
 */
static bool in_quick_set(const int a[6])
{
    return (a[0] * 1 + a[1] * 3 + a[2] * 5 + a[3] * 7 + a[4] * 11 + a[5] * 2 + a[1] * a[2] + a[3] * a[5]) % 17 == 0;
}

static bool in_slow_set(const int axes[6])
{
    (void)axes;
    return true;
}

static void the_quick_set_has_all_pairs(void **state)
{
    (void)state;
    static const int sizes[6] = {PATTERNS, STRATEGIES, ORDERS, WAYS, RANKS, LENGTHS};
    static bool met[6][6][8][8];
    int a[6];
    for (a[0] = 0; a[0] < sizes[0]; a[0]++)
        for (a[1] = 0; a[1] < sizes[1]; a[1]++)
            for (a[2] = 0; a[2] < sizes[2]; a[2]++)
                for (a[3] = 0; a[3] < sizes[3]; a[3]++)
                    for (a[4] = 0; a[4] < sizes[4]; a[4]++)
                        for (a[5] = 0; a[5] < sizes[5]; a[5]++)
                            for (int i = 0; i < 36 && in_quick_set(a); i++)
                                met[i / 6][i % 6][a[i / 6]][a[i % 6]] = true;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++)
            for (int x = 0; x < sizes[i]; x++)
                for (int y = 0; y < sizes[j]; y++)
                    REQUIRE(met[i][j][x][y], "axes %d and %d: values %d and %d never meet", i, j, x, y);
}

static void every_axis_against_the_oracle(void **state)
{
    (void)state;
    for (int pattern = 0; pattern < PATTERNS; pattern++)
        for (int i = 0; i < LENGTHS; i++)
            run_length(pattern, lengths[i], getenv("RINGATTN_SLOW") ? in_slow_set : in_quick_set, i);
}

static void choose_problem(choices *c, ra_problem *p, char *pattern, size_t size)
{
    p->batch = choose(c, 1, 2);
    p->kv_heads = choose(c, 1, 3);
    p->heads = p->kv_heads * choose(c, 1, 3);
    p->head_dim = choose(c, 1, 40);
    p->value_dim = choose(c, 1, 40);
    p->q_len = chance(c, 4) ? choose(c, 1, 8) : choose(c, 1, 500);
    p->kv_len = chance(c, 3) ? choose(c, 1, 700) : p->q_len;
    if (chance(c, 8)) { /* several spans of keys */
        p->batch = 1;
        p->heads = p->kv_heads = 1;
        p->q_len = choose(c, 1, 60);
        p->kv_len = choose(c, 4096, 6000);
    }
    p->pattern = pattern;
    choose_pattern(c, p->kv_len, pattern, size);
    choose_positions(c, p);
    choose_ragged(c, p, pattern, size);
}

static void random_problems(void **state)
{
    (void)state;
    seed_range range = seeds(150);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices choice = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        char pattern[512];
        sample s;
        choose_problem(&choice, &problem, pattern, sizeof pattern);
        sample_make_any(&s, &problem, ANY_DTYPE, &choice);
        oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &choice);
        for (int i = 0; i < 4; i++) {
            ring_case c = ring_case_make((way)choose(&choice, 0, WAYS - 1), (int)choose(&choice, 1, 9),
                                         (ra_strategy)choose(&choice, 0, 2), (ra_order)choose(&choice, 0, 2));
            ra_piece q_pieces[12], kv_pieces[12];
            c.run.threads = (int)choose(&choice, 1, 3);
            c.sparing = i % 2;
            if (chance(&choice, 3)) {
                c.options.q_pieces = q_pieces;
                c.options.q_piece_count = ring_choose_pieces(&choice, problem.q_len, c.options.ranks, q_pieces, 12);
            }
            if (chance(&choice, 3)) {
                c.options.kv_pieces = kv_pieces;
                c.options.kv_piece_count =
                    ring_choose_pieces(&choice, s.problem.kv_len, c.options.ranks, kv_pieces, 12);
            }
            ra_rank_stats stats[MOST_RANKS] = {RA_RANK_STATS_INIT};
            REQUIRE(ring_case_run(&c, &s, stats, NULL) == RA_OK, "seed %llu: %s; %s: %s", (unsigned long long)seed,
                    ring_case_text(&c), sample_text(&s), ring_message(0));
            require_right(&s, &expected, &c);
            REQUIRE(sample_padding_kept(&s), "seed %llu: %s; %s: wrote outside its elements", (unsigned long long)seed,
                    ring_case_text(&c), sample_text(&s));
        }
        oracle_free(&expected);
        sample_free(&s);
    }
}

static void with_memory_enough(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    (void)problem, (void)run;
    options->memory = 0;
}

/* Windows to the right over several ranks: own rows are given away late, and more so where memory is spared. */
static void rings_that_spare_memory(void **state)
{
    (void)state;
    static const char *const windows[] = {"window:0,130", "window:70,200"};
    choices choice = {1};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        sample s;
        problem.q_len = 500;
        problem.heads = 2;
        problem.head_dim = 16;
        problem.pattern = windows[i];
        sample_make(&s, &problem);
        oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &choice);
        for (int way = WAY_MESSAGES; way <= WAY_MESSAGES_STORED; way++)
            for (int ranks = 3; ranks <= 7; ranks += 2)
                for (int order = 0; order < 3; order++) {
                    ring_case c = ring_case_make((enum way)way, ranks, RA_STRATEGY_RING, (ra_order)order);
                    c.sparing = true;
                    run_and_compare(&s, &expected, &c);
                    c.odd_rank = ranks / 2; /* one that has memory enough, and sends and receives nothing late */
                    c.odd = with_memory_enough;
                    run_and_compare(&s, &expected, &c);
                }
        oracle_free(&expected);
        sample_free(&s);
    }
}

/* Ranks that have queries and no key that these see, and ranks that have no queries. */
static void ranks_with_nothing_to_do(void **state)
{
    (void)state;
    static const ra_piece one_each[] = {{0, 1, 0}, {1, 2, 1}}, last_alone[] = {{0, 2, 8}};
    choices choice = {1};
    ra_problem problem = RA_PROBLEM_INIT;
    sample s;
    problem.q_len = 2;
    problem.kv_len = 1;
    problem.heads = 2;
    problem.head_dim = 20;
    problem.pattern = "causal";
    sample_make(&s, &problem);
    oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &choice);
    for (int way = 0; way < WAYS; way++)
        for (int strategy = 0; strategy < 3; strategy++) {
            ring_case c = ring_case_make((enum way)way, 2, (ra_strategy)strategy, RA_ORDER_CONTIGUOUS);
            c.options.q_pieces = one_each;
            c.options.q_piece_count = 2;
            run_and_compare(&s, &expected, &c);
            c.options.ranks = 9;
            c.options.q_pieces = last_alone;
            c.options.q_piece_count = 1;
            run_and_compare(&s, &expected, &c);
        }
    oracle_free(&expected);
    sample_free(&s);
}

/* What a run held is the next one's, be that larger, smaller or of another kind. */
static void communicators_that_are_used_again(void **state)
{
    (void)state;
    static const struct {
        int64_t length, heads, dim;
        const char *pattern;
        ra_strategy strategy;
    } runs[] = {{1500, 8, 64, "full", RA_STRATEGY_RING},
                {1500, 8, 64, "full", RA_STRATEGY_RING},
                {70, 2, 20, "causal", RA_STRATEGY_RING},
                {1700, 8, 72, "causal", RA_STRATEGY_ALLGATHER},
                {2, 1, 20, "full", RA_STRATEGY_BROADCAST},
                {1500, 8, 64, "window:90,9", RA_STRATEGY_BROADCAST},
                {900, 4, 64, "documents:400,500", RA_STRATEGY_RING}};
    enum { RANKS = 3 };
    choices choice = {1};
    for (int way = WAY_THREADS; way < WAYS; way++) {
        ra_comm *comms[RANKS] = {NULL};
        ring_case c = ring_case_make((enum way)way, RANKS, RA_STRATEGY_RING, RA_ORDER_ZIGZAG);
        c.kept = comms;
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            ra_problem problem = RA_PROBLEM_INIT;
            sample s;
            problem.q_len = runs[i].length;
            problem.heads = runs[i].heads;
            problem.head_dim = runs[i].dim;
            problem.pattern = runs[i].pattern;
            c.options.strategy = runs[i].strategy;
            sample_make(&s, &problem);
            oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &choice);
            run_and_compare(&s, &expected, &c);
            oracle_free(&expected);
            sample_free(&s);
        }
        ring_case_done(&c);
    }
}

/* Of one ring, whatever ranks are. */
static void transports_change_no_bits(void **state)
{
    (void)state;
    static const char *const patterns[] = {"full", "causal", "window:70,200", "blocks:64:density=0.3"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        for (int order = 0; order < ORDERS; order++) {
            ra_problem problem = RA_PROBLEM_INIT;
            sample s;
            char *kept = NULL;
            problem.q_len = 700;
            problem.heads = 2;
            problem.head_dim = 20;
            problem.pattern = patterns[i];
            sample_make(&s, &problem);
            for (int way = 0; way < WAYS; way++) {
                ring_case c = ring_case_make((enum way)way, 3, RA_STRATEGY_RING, (ra_order)order);
                REQUIRE(ring_case_run(&c, &s, NULL, NULL) == RA_OK, "%s; %s: %s", ring_case_text(&c), sample_text(&s),
                        ring_message(0));
                REQUIRE(!kept || sample_same(&s, kept), "%s; %s: other bits than virtual ranks have",
                        ring_case_text(&c), sample_text(&s));
                kept = kept ? kept : sample_keep(&s);
            }
            free(kept);
            sample_free(&s);
        }
}

/* The result that was kept is that of a ring too, with as many ranks and in whatever way and order. */
static void require_bits(const sample *s, ra_kernel_id kernel, const char *kept)
{
    for (int r = 0; r < RANKS; r++)
        for (int way = 0; way < WAYS; way++) {
            int order = (r + way) % ORDERS;
            ra_strategy strategy = (r + way / 2) % 3 == 0 ? RA_STRATEGY_ALLGATHER : RA_STRATEGY_BROADCAST;
            ring_case c = ring_case_make((enum way)way, ranks[r], strategy, (ra_order)order);
            c.run.kernel = kernel;
            c.run.threads = 1 + (r + way) % 2;
            REQUIRE(ring_case_run(&c, s, NULL, NULL) == RA_OK, "%s; %s: %s", ring_case_text(&c), sample_text(s),
                    ring_message(0));
            REQUIRE(sample_same(s, kept), "%s; %s, %s: other bits than in one piece", ring_case_text(&c),
                    sample_text(s), ra_kernel_name(kernel));
        }
}

static void broadcast_and_allgather_have_the_bits_of_a_run_in_one_piece(void **state)
{
    (void)state;
    static const struct {
        int64_t q_len, kv_len, heads;
        const char *pattern;
    } shapes[] = {{333, 333, 2, "full"},
                  {500, 500, 1, "causal"},
                  {257, 400, 2, "causal+window:70,0"},
                  {20, 9000, 1, "causal"},
                  {1, 9000, 1, "full"},
                  {3, 700, 2, "window:300,5"},
                  {400, 400, 1, "documents:100,1,200,99"},
                  {333, 333, 2, "blocks:32:local=1:random=2"},
                  {300, 500, 2, "blocks:50:global=1:stride=3+causal"},
                  {200, 90, 1, "blocks:7:random=3"},
                  {3, 700, 2, "blocks:64:density=0.3"},
                  {20, 9000, 1, "blocks:64:local=2:random=20+causal"}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        FOR_EACH_KERNEL (kernel) {
            ra_problem problem = RA_PROBLEM_INIT;
            problem.q_len = shapes[i].q_len, problem.kv_len = shapes[i].kv_len, problem.heads = shapes[i].heads;
            problem.head_dim = 20, problem.value_dim = 24, problem.pattern = shapes[i].pattern;
            sample s;
            sample_make(&s, &problem);
            sample_run(&s, kernel, 2);
            char *kept = sample_keep(&s);
            require_bits(&s, kernel, kept);
            free(kept);
            sample_free(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_quick_set_has_all_pairs),
        cmocka_unit_test(every_axis_against_the_oracle),
        cmocka_unit_test(random_problems),
        cmocka_unit_test(rings_that_spare_memory),
        cmocka_unit_test(ranks_with_nothing_to_do),
        cmocka_unit_test(communicators_that_are_used_again),
        cmocka_unit_test(transports_change_no_bits),
        cmocka_unit_test(broadcast_and_allgather_have_the_bits_of_a_run_in_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
