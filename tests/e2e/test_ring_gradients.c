/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients over ranks of every kind inside one process, against the oracle and against a run in one piece. */
#include "support/faulty.h"
#include "support/ragged.h"
#include "support/ring.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RANKS = 16, STRATEGIES = 3, ORDERS = 3 };

/* A sample with output and lse, their gradients, the gradients of the oracle, and those of a run in one piece. */
typedef struct scene {
    sample s;
    ra_tensor tensors[RING_GRADIENTS];
    double *expected[3]; /* d_q, d_k, d_v: [batch, seq, heads, dim] */
    void *local[3];
} scene;

static int64_t elements(const ra_tensor *t)
{
    return t->batch * t->seq * t->heads * t->dim;
}

static ra_tensor made(const ra_tensor *like, int64_t dim, ra_dtype dtype, uint64_t seed)
{
    ra_tensor t = ra_tensor_dense(NULL, dtype, RA_BSHD, like->batch, like->seq, like->heads, dim);
    t.data = malloc((size_t)elements(&t) * ra_dtype_size(dtype) + 1);
    assert_non_null(t.data);
    assert_int_equal(ra_generate_as(RA_NORMAL, seed, 0, elements(&t), dtype, t.data), RA_OK);
    return t;
}

static void scene_make(scene *c, const ra_problem *problem, ra_dtype dtype)
{
    ra_plan *plan = NULL;
    ra_options run = RA_OPTIONS_INIT;
    sample_make(&c->s, problem);
    sample_run(&c->s, RA_KERNEL_AUTO, 1);
    const ra_tensor *t = c->s.tensors;
    ra_tensor *g = c->tensors;
    g[RING_D_OUTPUT] = made(&t[SAMPLE_OUTPUT], t[SAMPLE_OUTPUT].dim, RA_F32, 11);
    g[RING_D_LSE] = made(&t[SAMPLE_LSE], 1, RA_F32, 12);
    for (int i = 0; i < 3; i++) {
        g[RING_D_Q + i] = made(&t[i], t[i].dim, dtype, 13);
        c->expected[i] = malloc((size_t)(elements(&t[i]) + 1) * sizeof(double));
        c->local[i] = malloc((size_t)elements(&t[i]) * ra_dtype_size(dtype) + 1);
        assert_true(c->expected[i] && c->local[i]);
    }
    run.threads = 1;
    REQUIRE(!ra_plan_create(&c->s.problem, &run, &plan), "%s", ra_last_message());
    REQUIRE(!ra_reference_backward(plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE], &g[RING_D_OUTPUT],
                                   &g[RING_D_LSE], c->expected[0], c->expected[1], c->expected[2]),
            "%s", ra_last_message());
    REQUIRE(!ra_backward(plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE], &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE],
                         &g[RING_D_OUTPUT], &g[RING_D_LSE], &g[RING_D_Q], &g[RING_D_K], &g[RING_D_V], NULL),
            "%s", ra_last_message());
    for (int i = 0; i < 3; i++)
        memcpy(c->local[i], g[RING_D_Q + i].data, (size_t)elements(&t[i]) * ra_dtype_size(dtype));
    ra_plan_free(plan);
}

static void scene_free(scene *c)
{
    for (int i = 0; i < RING_GRADIENTS; i++)
        free(c->tensors[i].data);
    for (int i = 0; i < 3; i++) {
        free(c->expected[i]);
        free(c->local[i]);
    }
    sample_free(&c->s);
}

/* The largest distance from the oracle, as a fraction of its largest element, which counts as 1 at least. */
static double error_of(const scene *c, int gradient)
{
    const ra_tensor *t = &c->tensors[RING_D_Q + gradient];
    double largest = 1, error = 0;
    for (int64_t i = 0; i < elements(t); i++) {
        int64_t row = i / t->dim, seq = row / t->heads % t->seq;
        double is = ra_tensor_get(t, row / t->heads / t->seq, seq, row % t->heads, i % t->dim);
        double should = c->expected[gradient][i];
        largest = fmax(largest, fabs(should));
        error = fabs(is - should) <= error ? error : fabs(is - should); /* NaN stays */
    }
    return error / largest;
}

static const char *const names[] = {"d_q", "d_k", "d_v"};

/* Bytes that are sent are received; what was planned was enough, and not much too much. */
static void require_figures(const scene *c, const ring_case *r, const ra_rank_stats *stats)
{
    int64_t sent = 0, received = 0;
    /* The plan of a run from and to storages counts with files, and these are in memory. */
    double least = r->way == WAY_SIM || r->way == WAY_THREADS || r->way == WAY_MESSAGES ? 0.9 : 0;
    for (int rank = 0; rank < r->options.ranks; rank++) {
        sent += stats[rank].bytes_sent;
        received += stats[rank].bytes_received;
        REQUIRE(stats[rank].peak_bytes <= stats[rank].planned_peak_bytes &&
                    (double)stats[rank].peak_bytes >= least * (double)stats[rank].planned_peak_bytes,
                "%s; %s: rank %d held %lld bytes of %lld planned", ring_case_text(r), sample_text(&c->s), rank,
                (long long)stats[rank].peak_bytes, (long long)stats[rank].planned_peak_bytes);
    }
    REQUIRE(sent == received, "%s; %s: %lld bytes sent, %lld received", ring_case_text(r), sample_text(&c->s),
            (long long)sent, (long long)received);
}

static void require_right(scene *c, ring_case *r, double tolerance)
{
    ra_rank_stats stats[MOST_RANKS] = {RA_RANK_STATS_INIT};
    r->backward = c->tensors;
    REQUIRE(ring_case_run(r, &c->s, stats, NULL) == RA_OK, "%s; %s: %s", ring_case_text(r), sample_text(&c->s),
            ring_message(0));
    for (int i = 0; i < 3; i++)
        if (c->tensors[RING_D_Q + i].data)
            REQUIRE(error_of(c, i) <= tolerance, "%s; %s: %s is off by %.2e", ring_case_text(r), sample_text(&c->s),
                    names[i], error_of(c, i));
    require_figures(c, r, stats);
}

static void require_local_bits(const scene *c, const ring_case *r)
{
    for (int i = 0; i < 3; i++) {
        const ra_tensor *t = &c->tensors[RING_D_Q + i];
        REQUIRE(memcmp(t->data, c->local[i], (size_t)elements(t) * ra_dtype_size(t->dtype)) == 0,
                "%s; %s: %s has other bits than in one piece", ring_case_text(r), sample_text(&c->s), names[i]);
    }
}

static const double TOLERANCE = 4e-6;

static const char *const patterns[] = {"full",
                                       "causal",
                                       "window:40,7",
                                       "window:3,90",
                                       "documents:100,31,2,124",
                                       "dilated:48/1,300/3+causal",
                                       "dilated:32/2,64/1:mode=union",
                                       "blocks:32:local=1:random=1",
                                       "blocks:16:local=0:global=1:random=2+causal"};
static const int ranks[] = {1, 2, 3, 4, 7, 16};
enum { PATTERNS = 9, RANKS = 6 };

/* One in so many combinations, spread over all axes; all of them in a slow run. */
static bool wanted(int *count)
{
    enum { QUICK = 5 };
    return getenv("RINGATTN_SLOW") || (*count)++ % QUICK == 0;
}

static void every_axis_against_the_oracle(void **state)
{
    (void)state;
    int count = 0;
    for (int i = 0; i < PATTERNS; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        scene c;
        problem.q_len = problem.kv_len = 257;
        problem.heads = 4, problem.kv_heads = i % 2 ? 2 : 4, problem.head_dim = 16, problem.value_dim = 8;
        problem.pattern = patterns[i];
        scene_make(&c, &problem, RA_F32);
        for (int strategy = 0; strategy < STRATEGIES; strategy++)
            for (int order = 0; order < ORDERS; order++)
                for (int way = 0; way < WAYS; way++)
                    for (int r = 0; r < RANKS; r++) {
                        ring_case of = ring_case_make((enum way)way, ranks[r], (ra_strategy)strategy, (ra_order)order);
                        of.run.threads = 1 + r % 2;
                        if (!wanted(&count))
                            continue;
                        require_right(&c, &of, TOLERANCE);
                        if (strategy == RA_STRATEGY_BROADCAST && !strstr(patterns[i], "dilated"))
                            require_local_bits(&c, &of);
                    }
        scene_free(&c);
    }
}

/* Odd sizes: fewer queries than keys and more, one row, batches, other dims, splits of one's own. */
static void random_problems_against_the_oracle(void **state)
{
    (void)state;
    seed_range range = seeds(60);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices choice = {seed};
        ra_problem problem = RA_PROBLEM_INIT;
        char pattern[512];
        scene c;
        problem.batch = choose(&choice, 1, 2);
        problem.q_len = choose(&choice, 1, 300);
        problem.kv_len = chance(&choice, 2) ? problem.q_len : choose(&choice, 1, 300);
        problem.kv_heads = choose(&choice, 1, 3);
        problem.heads = problem.kv_heads * choose(&choice, 1, 3);
        problem.head_dim = choose(&choice, 1, 40);
        problem.value_dim = choose(&choice, 1, 40);
        problem.pattern = pattern;
        choose_pattern(&choice, problem.kv_len, pattern, sizeof pattern);
        choose_positions(&choice, &problem);
        choose_ragged(&choice, &problem, pattern, sizeof pattern);
        scene_make(&c, &problem, RA_F32);
        for (int i = 0; i < 3; i++) {
            ring_case r = ring_case_make((enum way)choose(&choice, 0, WAYS - 1), (int)choose(&choice, 1, 8),
                                         (ra_strategy)choose(&choice, 0, STRATEGIES - 1),
                                         (ra_order)choose(&choice, 0, ORDERS - 1));
            ra_piece q_pieces[10], kv_pieces[10];
            if (chance(&choice, 3)) {
                r.options.q_pieces = q_pieces;
                r.options.kv_pieces = kv_pieces;
                r.options.q_piece_count = ring_choose_pieces(&choice, problem.q_len, r.options.ranks, q_pieces, 10);
                r.options.kv_piece_count = ring_choose_pieces(&choice, problem.kv_len, r.options.ranks, kv_pieces, 10);
            }
            r.run.threads = (int)choose(&choice, 1, 3);
            r.sparing = chance(&choice, 3);
            require_right(&c, &r, 2e-5);
        }
        scene_free(&c);
    }
}

/* Gradients that are not wanted are not computed, and nothing travels for them. */
static void gradients_may_be_left_out(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = problem.kv_len = 200;
    problem.heads = 2, problem.head_dim = 12;
    problem.pattern = "causal";
    for (unsigned bits = 1; bits < 8; bits++)
        for (int strategy = 0; strategy < STRATEGIES; strategy++)
            for (int way = 0; way < WAYS; way++) {
                scene c;
                scene_make(&c, &problem, RA_F32);
                for (int i = 0; i < 3; i++)
                    if (!(bits >> i & 1)) {
                        free(c.tensors[RING_D_Q + i].data);
                        c.tensors[RING_D_Q + i].data = NULL;
                    }
                ring_case r = ring_case_make((enum way)way, 3, (ra_strategy)strategy, RA_ORDER_ZIGZAG);
                require_right(&c, &r, TOLERANCE);
                scene_free(&c);
            }
}

/* Sums of 16-bit gradients are float32 on all ranks, and are rounded once: broadcast has the bits of one piece. */
static void gradients_are_rounded_once(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    scene c;
    problem.q_len = problem.kv_len = 300;
    problem.heads = 4, problem.kv_heads = 2, problem.head_dim = 24;
    scene_make(&c, &problem, RA_BF16);
    for (int strategy = 0; strategy < STRATEGIES; strategy++)
        for (int way = 0; way < WAYS; way++) {
            ring_case r = ring_case_make((enum way)way, 4, (ra_strategy)strategy, RA_ORDER_STRIPED);
            require_right(&c, &r, 4.1e-3);
            if (strategy == RA_STRATEGY_BROADCAST)
                require_local_bits(&c, &r);
        }
    scene_free(&c);
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    scene c;
    problem.q_len = problem.kv_len = 500;
    problem.heads = 4, problem.kv_heads = 2, problem.head_dim = 16;
    problem.pattern = "causal";
    scene_make(&c, &problem, RA_F32);
    for (int strategy = 0; strategy < STRATEGIES; strategy++)
        for (int threads = 1; threads <= 4; threads++) {
            ring_case r = ring_case_make(WAY_MESSAGES, 3, (ra_strategy)strategy, RA_ORDER_CONTIGUOUS);
            r.run.threads = threads;
            require_right(&c, &r, TOLERANCE);
            for (int i = 0; i < 3 && threads == 1; i++)
                memcpy(c.local[i], c.tensors[RING_D_Q + i].data, (size_t)elements(&c.tensors[RING_D_Q + i]) * 4);
            require_local_bits(&c, &r);
        }
    scene_free(&c);
}

/*
 * Full attention: a ring moves every chunk to every rank once, with its sums, and these back to their owners.
 * All-gather moves every row and every sum once between two ranks.
 */
static void require_side(ra_strategy strategy, int group)
{
    enum { SEQ = 512, DIM = 32, R = 4 };
    ra_problem problem = RA_PROBLEM_INIT;
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    ra_rank_info info = RA_RANK_INFO_INIT;
    ra_ring_plan *plan;
    bool ring = strategy == RA_STRATEGY_RING;
    problem.q_len = SEQ, problem.heads = 8, problem.kv_heads = 8 / group, problem.head_dim = DIM;
    options.ranks = R, options.backward = 1, options.transport = RA_TRANSPORT_MPI, options.strategy = strategy;
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &plan), RA_OK);
    assert_int_equal(ra_ring_plan_rank(plan, 1, &info), RA_OK);
    int64_t queries = SEQ / R * 8 * 4 * ((R - 1) * (3 * DIM + 2) + (ring ? DIM : 0));
    int64_t keys = SEQ / R * (8 / group) * 4 * ((R - 1) * 4 * DIM + (ring ? 2 * DIM : 0));
    assert_int_equal(info.bytes_sent, group == 1 ? queries : keys);
    assert_int_equal(info.bytes_received, info.bytes_sent);
    assert_int_equal(info.hops, R - 1);
    assert_int_equal(info.steps, ring ? R : 1);
    ra_ring_plan_free(plan);
}

/* Virtual ranks keep sums in float32 gradients that can be read, and count what travels as others do. Else: two passes.
 */
static void virtual_ranks_keep_sums_where_they_can(void **state)
{
    (void)state;
    enum { R = 4 };
    static const ra_dtype dtypes[] = {RA_F32, RA_F32, RA_BF16, RA_F32};
    static const unsigned kept[] = {7, 1 << RA_GRADIENT_QUERY, 7, 0};
    static const int64_t steps[] = {R, R, 2 * R, 2 * R};
    for (int i = 0; i < 4; i++) {
        ra_problem problem = RA_PROBLEM_INIT;
        ra_ring_options options = RA_RING_OPTIONS_INIT;
        ra_rank_info virtual = RA_RANK_INFO_INIT, real = RA_RANK_INFO_INIT;
        ra_ring_plan *plan;
        problem.q_len = 512, problem.heads = 4, problem.head_dim = 16;
        options.ranks = R, options.backward = 1, options.gradients_kept = kept[i];
        options.d_q_dtype = options.d_k_dtype = options.d_v_dtype = dtypes[i];
        assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &plan), RA_OK);
        assert_int_equal(ra_ring_plan_rank(plan, 1, &virtual), RA_OK);
        ra_ring_plan_free(plan);
        options.transport = RA_TRANSPORT_MPI;
        assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &plan), RA_OK);
        assert_int_equal(ra_ring_plan_rank(plan, 1, &real), RA_OK);
        ra_ring_plan_free(plan);
        assert_int_equal(virtual.steps, steps[i]);
        assert_true((steps[i] == R) == (virtual.bytes_sent == real.bytes_sent && virtual.hops == real.hops));
    }
}

/* A storage that keeps nothing is refused where the plan reads sums out of it. */
static void sums_are_not_kept_nowhere(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan;
    ra_comm *comm;
    scene c;
    enum { STORAGES = SAMPLE_LSE + 1 + RING_GRADIENTS };
    ra_storage *storages[STORAGES] = {NULL};
    problem.q_len = problem.kv_len = 10, problem.heads = 1, problem.head_dim = 4;
    scene_make(&c, &problem, RA_F32);
    options.ranks = 2, options.backward = 1, options.lent = 0, options.d_lse = 1;
    assert_int_equal(ra_comm_sim(2, &comm), RA_OK);
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &plan), RA_OK);
    for (int i = 0; i <= SAMPLE_LSE; i++)
        assert_int_equal(ra_storage_memory(&c.s.tensors[i], &storages[i]), RA_OK);
    for (int i = 0; i < RING_GRADIENTS; i++)
        assert_int_equal(i == RING_D_K ? ra_storage_null(&c.tensors[i], NULL, 0, NULL, &storages[SAMPLE_LSE + 1 + i])
                                       : ra_storage_memory(&c.tensors[i], &storages[SAMPLE_LSE + 1 + i]),
                         RA_OK);
    ra_storage **g = storages + SAMPLE_LSE + 1;
    assert_int_equal(ra_ring_run_backward(plan, comm, storages[SAMPLE_QUERY], storages[SAMPLE_KEY],
                                          storages[SAMPLE_VALUE], storages[SAMPLE_OUTPUT], storages[SAMPLE_LSE],
                                          g[RING_D_OUTPUT], g[RING_D_LSE], g[RING_D_Q], g[RING_D_K], g[RING_D_V], NULL),
                     RA_ERROR_ARGUMENT);
    REQUIRE(strstr(ra_last_message(), "d_k: its storage keeps nothing"), "%s", ra_last_message());
    for (int i = 0; i < STORAGES; i++)
        ra_storage_free(storages[i]);
    ra_ring_plan_free(plan);
    ra_comm_free(comm);
    scene_free(&c);
}

static void the_side_that_moves_is_the_one_of_fewer_bytes(void **state)
{
    (void)state;
    for (int group = 1; group <= 4; group *= 2) {
        require_side(RA_STRATEGY_RING, group);
        require_side(RA_STRATEGY_ALLGATHER, group);
    }
}

/* Threads and processes have the same bits: sums are added up in an order that goes by the ranks. */
static void real_ranks_have_the_same_bits(void **state)
{
    (void)state;
    static const ra_strategy strategies[] = {RA_STRATEGY_RING, RA_STRATEGY_ALLGATHER};
    ra_problem problem = RA_PROBLEM_INIT;
    scene c;
    problem.q_len = problem.kv_len = 500;
    problem.heads = 4, problem.kv_heads = 2, problem.head_dim = 16;
    problem.pattern = "window:200,60";
    scene_make(&c, &problem, RA_F32);
    for (int strategy = 0; strategy < 2; strategy++)
        for (int way = WAY_THREADS; way < WAYS; way++) {
            ring_case r = ring_case_make((enum way)way, 4, strategies[strategy], RA_ORDER_ZIGZAG);
            require_right(&c, &r, TOLERANCE);
            for (int i = 0; i < 3 && way == WAY_THREADS; i++)
                memcpy(c.local[i], c.tensors[RING_D_Q + i].data, (size_t)elements(&c.tensors[RING_D_Q + i]) * 4);
            require_local_bits(&c, &r);
        }
    scene_free(&c);
}

/* Peak: 14 units of (n / R) x H x D x 4 bytes and 4 MiB, and it falls with the ring. */
static void a_rank_holds_its_share(void **state)
{
    (void)state;
    static const ra_strategy strategies[] = {RA_STRATEGY_RING, RA_STRATEGY_BROADCAST};
    static const ra_transport_kind transports[] = {RA_TRANSPORT_SIM, RA_TRANSPORT_MPI};
    for (int i = 0; i < 4; i++) {
        double before = 0;
        for (int count = 4; count <= 64; count *= 2) {
            ra_problem problem = RA_PROBLEM_INIT;
            ra_ring_options options = RA_RING_OPTIONS_INIT;
            ra_options run = RA_OPTIONS_INIT;
            ra_ring_plan *plan;
            problem.q_len = 1 << 20, problem.heads = 8, problem.head_dim = 64;
            options.ranks = count, options.lent = 0, options.backward = 1;
            options.strategy = strategies[i % 2], options.transport = transports[i / 2];
            run.threads = 2;
            assert_int_equal(ra_ring_plan_create(&problem, &run, &options, &plan), RA_OK);
            double unit = (double)problem.q_len / count * 8 * 64 * 4;
            double bytes = (double)ra_ring_plan_process_bytes(plan);
            REQUIRE(bytes <= 14 * unit + (4 << 20), "%s, %s, %d ranks: %.2f units and 4 MiB",
                    ra_strategy_name(options.strategy), ra_transport_name(options.transport), count,
                    (bytes - (4 << 20)) / unit);
            REQUIRE(count == 4 || bytes < 0.56 * before, "%s, %d ranks: %.3f of what half as many hold",
                    ra_strategy_name(options.strategy), count, bytes / before);
            before = bytes;
            ra_ring_plan_free(plan);
        }
    }
}

/* ---- A transport that does one thing wrong ----------------------------------------------------------------------- */

enum { FAULTY_RANK = 1, HANG_SECONDS = 60 };

static void wrap_faulty(void *user, int rank, ra_transport *transport)
{
    ra_transport inner = *transport;
    if (rank == FAULTY_RANK)
        assert_int_equal(faulty_wrap(&inner, user, transport), RA_OK);
}

/* A run with a fault. All ranks fail, or none does because it came too late or was a delay; and none hangs. */
static ra_status run_faulty(scene *c, ra_strategy strategy, fault *what, int ranks_of_it)
{
    ra_status statuses[MOST_RANKS];
    ring_case r = ring_case_make(WAY_MESSAGES, ranks_of_it, strategy, RA_ORDER_CONTIGUOUS);
    r.backward = c->tensors;
    r.wrap = wrap_faulty;
    r.wrap_user = what;
    r.options.timeout = what->kind == FAULT_LOST ? 0.1 : 20;
    alarm(HANG_SECONDS);
    ra_status status = ring_case_run(&r, &c->s, NULL, statuses);
    alarm(0);
    for (int rank = 0; rank < ranks_of_it; rank++)
        REQUIRE(!statuses[rank] || statuses[rank] == RA_ERROR_PEER || statuses[rank] == RA_ERROR_TIMEOUT,
                "%s, fault %d at %lld: rank %d has %s: %s", ring_case_text(&r), what->kind, (long long)what->at, rank,
                ra_status_name(statuses[rank]), ring_message(rank));
    return status;
}

/* Sums that are lost, cut or delayed are noticed as rows are; a delay changes no bit. */
static void faults_end_the_run(void **state)
{
    (void)state;
    enum { R = 3 };
    ra_problem problem = RA_PROBLEM_INIT;
    scene c;
    problem.q_len = problem.kv_len = 200;
    problem.heads = 2, problem.head_dim = 8;
    scene_make(&c, &problem, RA_F32);
    for (int strategy = 0; strategy < STRATEGIES; strategy++) {
        fault_counts clean = {0};
        fault none = {FAULT_NONE, 0, 0, &clean};
        assert_int_equal(run_faulty(&c, (ra_strategy)strategy, &none, R), RA_OK);
        for (int i = 0; i < 3; i++)
            memcpy(c.local[i], c.tensors[RING_D_Q + i].data, (size_t)elements(&c.tensors[RING_D_Q + i]) * 4);
        for (int kind = FAULT_DELAY; kind <= FAULT_FAIL; kind++)
            for (int64_t at = 1; at <= clean.sends; at++) {
                fault_counts counts = {0};
                fault what = {(fault_kind)kind, at, 5, &counts};
                bool ended = at > clean.sends - (R - 1); /* the last agreement: others may have come to their end */
                ra_status status = run_faulty(&c, (ra_strategy)strategy, &what, R);
                REQUIRE(kind == FAULT_DELAY ? status == RA_OK : status != RA_OK || ended || !counts.happened,
                        "strategy %d, fault %d at %lld: %s", strategy, kind, (long long)at, ra_status_name(status));
                const ring_case delayed = ring_case_make(WAY_MESSAGES, R, (ra_strategy)strategy, RA_ORDER_CONTIGUOUS);
                if (kind == FAULT_DELAY)
                    require_local_bits(&c, &delayed);
            }
    }
    scene_free(&c);
}

static void a_plan_runs_in_its_own_direction(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    ra_ring_plan *forward, *backward;
    ra_comm *comm;
    scene c;
    problem.q_len = problem.kv_len = 10, problem.heads = 1, problem.head_dim = 4;
    scene_make(&c, &problem, RA_F32);
    const ra_tensor *t = c.s.tensors, *g = c.tensors;
    options.ranks = 2;
    assert_int_equal(ra_comm_sim(2, &comm), RA_OK);
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &forward), RA_OK);
    options.backward = 1;
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &backward), RA_OK);
    assert_int_equal(ra_ring_forward(backward, comm, &t[0], &t[1], &t[2], &t[3], &t[4], NULL), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "the plan is of a backward pass"));
    assert_int_equal(
        ra_ring_backward(forward, comm, &t[0], &t[1], &t[2], &t[3], &t[4], &g[0], NULL, &g[2], &g[3], &g[4], NULL),
        RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "the plan is of a forward pass"));
    assert_int_equal(
        ra_ring_backward(backward, comm, &t[0], &t[1], &t[2], &t[3], &t[4], &g[0], &g[1], &g[2], &g[3], &g[4], NULL),
        RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "d_lse is there"));
    assert_int_equal(
        ra_ring_backward(backward, comm, &t[0], &t[1], &t[2], &t[3], &t[4], &g[0], NULL, &g[2], NULL, &g[4], NULL),
        RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "d_k is NULL"));
    options.gradients = 0;
    ra_ring_plan *none;
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &none), RA_ERROR_ARGUMENT);
    ra_ring_plan_free(forward);
    ra_ring_plan_free(backward);
    ra_comm_free(comm);
    scene_free(&c);
}

static void a_backward_pass_has_no_checkpoint(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    ra_checkpoint_options where = RA_CHECKPOINT_OPTIONS_INIT;
    ra_ring_plan *plan;
    ra_checkpoint *checkpoint = NULL;
    problem.q_len = 10, problem.heads = 1, problem.head_dim = 4;
    options.lent = 0, options.backward = 1;
    where.path = "nowhere";
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &plan), RA_OK);
    assert_int_equal(ra_checkpoint_open(&where, plan, &checkpoint), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "backward pass"));
    ra_ring_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_axis_against_the_oracle),
        cmocka_unit_test(random_problems_against_the_oracle),
        cmocka_unit_test(gradients_may_be_left_out),
        cmocka_unit_test(gradients_are_rounded_once),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(real_ranks_have_the_same_bits),
        cmocka_unit_test(the_side_that_moves_is_the_one_of_fewer_bytes),
        cmocka_unit_test(virtual_ranks_keep_sums_where_they_can),
        cmocka_unit_test(sums_are_not_kept_nowhere),
        cmocka_unit_test(a_rank_holds_its_share),
        cmocka_unit_test(faults_end_the_run),
        cmocka_unit_test(a_plan_runs_in_its_own_direction),
        cmocka_unit_test(a_backward_pass_has_no_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
