/* Plans over ranks: memory, budgets, rows in and out, what is refused, and structs of other versions. */
#include "ring/schedule.h"
#include "support/random.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS = 3 };

static const int64_t MIB = 1 << 20;

static ra_problem problem_of(int64_t length, int64_t heads, int64_t kv_heads, int64_t dim, const char *pattern)
{
    ra_problem p = RA_PROBLEM_INIT;
    p.q_len = length, p.heads = heads, p.kv_heads = kv_heads, p.head_dim = dim, p.pattern = pattern;
    return p;
}

static ra_ring_options stored_ring(int ranks, ra_transport_kind transport, ra_order order, ra_dtype dtype)
{
    ra_ring_options o = RA_RING_OPTIONS_INIT;
    o.ranks = ranks, o.transport = transport, o.order = order, o.lent = 0;
    o.q_dtype = o.k_dtype = o.v_dtype = dtype;
    return o;
}

static ra_ring_plan *planned(const ra_problem *problem, const ra_ring_options *ring)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_ring_plan *plan;
    options.threads = 2;
    REQUIRE(!ra_ring_plan_create(problem, &options, ring, &plan), "%s", ra_last_message());
    return plan;
}

static ra_rank_info rank_info(const ra_ring_plan *plan, int rank)
{
    ra_rank_info info = RA_RANK_INFO_INIT;
    assert_int_equal(ra_ring_plan_rank(plan, rank, &info), RA_OK);
    return info;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Queries, states, and two chunks of keys and values, with something to spare: in rows, whatever the length. */
static void require_law(const ra_problem *p, const ra_ring_options *o)
{
    int64_t size = (int64_t)ra_dtype_size(o->q_dtype), factor = o->q_dtype == RA_F32 ? 8 : 9;
    ra_ring_plan *plan = planned(p, o);
    int64_t most = factor * p->q_len * p->heads * p->head_dim * size / o->ranks + 4 * MIB, sent = 0, received = 0;
    for (int rank = 0; rank < o->ranks; rank++) {
        ra_rank_info info = rank_info(plan, rank);
        REQUIRE(info.peak_bytes <= most,
                "%lld rows, %lld heads (%lld) of %lld, %s, \"%s\", %s, %s, %d ranks: rank %d holds %lld bytes, more "
                "than %lld by %lld",
                (long long)p->q_len, (long long)p->heads, (long long)p->kv_heads, (long long)p->head_dim,
                ra_dtype_name(o->q_dtype), p->pattern, ra_order_name(o->order), ra_transport_name(o->transport),
                o->ranks, rank, (long long)info.peak_bytes, (long long)most, (long long)(info.peak_bytes - most));
        sent += info.bytes_sent;
        received += info.bytes_received;
    }
    REQUIRE(sent == received, "%lld bytes sent, %lld received", (long long)sent, (long long)received);
    ra_ring_plan_free(plan);
}

/* Both transports that copy, and all dtypes. */
static void require_laws(const ra_problem *p, int ranks, ra_order order)
{
    const ra_ring_options rings[] = {
        stored_ring(ranks, RA_TRANSPORT_SIM, order, RA_F32), stored_ring(ranks, RA_TRANSPORT_SIM, order, RA_BF16),
        stored_ring(ranks, RA_TRANSPORT_MPI, order, RA_F32), stored_ring(ranks, RA_TRANSPORT_MPI, order, RA_F16)};
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++)
        require_law(p, &rings[i]);
}

static void require_laws_of_shapes(const char *pattern, ra_order order)
{
    const ra_problem problems[] = {problem_of(65536, 8, 8, 64, pattern), problem_of(65536, 8, 8, 16, pattern),
                                   problem_of(65536, 8, 8, 128, pattern), problem_of(65536, 8, 2, 64, pattern)};
    const ra_problem small = problem_of(1000, 8, 8, 64, pattern), large = problem_of(1 << 20, 8, 8, 64, pattern);
    for (int ranks = 1; ranks <= 16; ranks += stride(1))
        require_laws(&small, ranks, order);
    for (int ranks = 2; ranks <= 64; ranks *= 2 * stride(1)) {
        for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
            require_laws(&problems[i], ranks, order);
        ra_ring_options sim = stored_ring(ranks, RA_TRANSPORT_SIM, order, RA_F32);
        ra_ring_options mpi = stored_ring(ranks, RA_TRANSPORT_MPI, order, RA_BF16);
        require_law(&large, &sim);
        require_law(&large, &mpi);
    }
}

static void full_rings_hold_little(void **state)
{
    (void)state;
    for (int order = 0; order < ORDERS; order++)
        require_laws_of_shapes("full", (ra_order)order);
}

static void causal_contiguous_rings_hold_little(void **state)
{
    (void)state;
    require_laws_of_shapes("causal", RA_ORDER_CONTIGUOUS);
}

static void causal_striped_rings_hold_little(void **state)
{
    (void)state;
    require_laws_of_shapes("causal", RA_ORDER_STRIPED);
}

static void causal_zigzag_rings_hold_little(void **state)
{
    (void)state;
    require_laws_of_shapes("causal", RA_ORDER_ZIGZAG);
}

/* Rows that are given away while two chunks are here: windows to the right, and documents over several ranks. */
static void rings_that_give_late_hold_little(void **state)
{
    (void)state;
    for (int ranks = 3; ranks <= 8; ranks += 2 * stride(1)) {
        const int64_t length = 1 << 17, chunk = length / ranks;
        const int64_t right[] = {1, chunk / 2, chunk, chunk + chunk / 3, 2 * chunk};
        for (size_t i = 0; i < sizeof right / sizeof *right; i++)
            for (int left = 0; left < 3; left += 2)
                for (int order = 0; order < ORDERS; order++) {
                    char pattern[64];
                    snprintf(pattern, sizeof pattern, "window:%lld,%lld", (long long)(left * chunk),
                             (long long)right[i]);
                    const ra_problem p = problem_of(length, 8, 8, i % 2 ? 16 : 64, pattern);
                    ra_ring_options o = stored_ring(ranks, RA_TRANSPORT_MPI, (ra_order)order, RA_F32);
                    require_law(&p, &o);
                }
        char documents[96];
        snprintf(documents, sizeof documents, "documents:%lld,%lld,%lld", (long long)(chunk / 64 * 64),
                 (long long)(chunk / 64 * 64 - 1), (long long)(length - 2 * (chunk / 64 * 64) + 1));
        const ra_problem two = problem_of(length, 8, 8, 64, documents);
        require_laws(&two, ranks, RA_ORDER_CONTIGUOUS);
    }
}

/* A budget that the plan would exceed is kept where that costs no more than waiting. */
static void a_budget_is_reason_to_spare_memory(void **state)
{
    (void)state;
    const ra_problem p = problem_of(8192, 8, 8, 64, "window:0,5000");
    ra_ring_options o = stored_ring(4, RA_TRANSPORT_MPI, RA_ORDER_CONTIGUOUS, RA_F32);
    ra_ring_plan *plan = planned(&p, &o);
    int64_t plain = ra_ring_plan_process_bytes(plan), chunk = 2 * 2048 * 8 * 64 * (int64_t)sizeof(float);
    assert_false(plan->sparing);
    ra_ring_plan_free(plan);
    o.memory = plain;
    plan = planned(&p, &o);
    assert_false(plan->sparing);
    ra_ring_plan_free(plan);
    o.memory = plain - 1;
    plan = planned(&p, &o);
    assert_true(plan->sparing);
    REQUIRE(ra_ring_plan_process_bytes(plan) <= plain - chunk / 2, "%lld bytes instead of %lld",
            (long long)ra_ring_plan_process_bytes(plan), (long long)plain);
    o.memory = ra_ring_plan_process_bytes(plan);
    ra_ring_plan_free(plan);
    ra_options run = RA_OPTIONS_INIT;
    int smallest;
    run.threads = 2;
    assert_int_equal(ra_ring_smallest(&p, &run, &o, &smallest), RA_OK);
    assert_int_equal(smallest, 4);
    o.memory--;
    assert_int_equal(ra_ring_plan_create(&p, &run, &o, &plan), RA_ERROR_BUDGET);
}

/*
 * However many ranks have no rows, others hold no more than one chunk beside their two: what they give to the rank
 * after the gap.
 */
static void more_ranks_than_blocks_hold_no_more(void **state)
{
    (void)state;
    const ra_problem p = problem_of(1024, 8, 8, 64, "full");
    for (int order = 0; order < ORDERS; order++) {
        ra_ring_options o = stored_ring(16, RA_TRANSPORT_MPI, (ra_order)order, RA_F32);
        ra_ring_plan *plan = planned(&p, &o);
        int64_t chunk = 64 * 8 * 64 * 2 * (int64_t)sizeof(float), most = ra_ring_plan_process_bytes(plan) + chunk;
        ra_ring_plan_free(plan);
        for (o.ranks = 17; o.ranks <= 64; o.ranks++) {
            plan = planned(&p, &o);
            int64_t bytes = ra_ring_plan_process_bytes(plan);
            REQUIRE(bytes <= most + most / 50, "16 blocks, %s: %lld bytes with 16 ranks, %lld with %d",
                    ra_order_name((ra_order)order), (long long)most, (long long)bytes, o.ranks);
            ra_ring_plan_free(plan);
        }
    }
}

/* The mean over ranks of what does not have a fixed size. */
static double mean_growing_bytes(const ra_ring_plan *plan)
{
    double sum = 0;
    for (int rank = 0; rank < plan->options.ranks; rank++) {
        ra_schedule schedule;
        ra_workload work;
        assert_int_equal(ra_schedule_make(plan, rank, &schedule), RA_OK);
        ra_ring_workload(plan, rank, &work);
        ra_rank_memory m = ra_ring_memory(plan, rank, &schedule, &work);
        assert_true(m.total == rank_info(plan, rank).peak_bytes);
        assert_true(m.total == m.query + m.slots + m.marks + m.segments + m.states + m.scratch + m.output + m.storage);
        sum += (double)(m.total - m.scratch - m.output - m.storage);
        ra_schedule_free(&schedule);
    }
    return sum / plan->options.ranks;
}

/* The slope of the line through log(bytes) over log(ranks). */
static double slope_of(const ra_problem *problem, ra_transport_kind transport, ra_order order, ra_dtype dtype)
{
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (int ranks = 2; ranks <= 64; ranks *= 2) {
        ra_ring_options o = stored_ring(ranks, transport, order, dtype);
        ra_ring_plan *plan = planned(problem, &o);
        double lx = log(ranks), ly = log(mean_growing_bytes(plan));
        n += 1, x += lx, y += ly, xx += lx * lx, xy += lx * ly;
        ra_ring_plan_free(plan);
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

static void twice_the_ranks_hold_half_each(void **state)
{
    (void)state;
    static const int64_t lengths[] = {65536, 1 << 20};
    for (int i = 0; i < 2; i++)
        for (int order = 0; order < ORDERS; order++)
            for (int dtype = RA_F32; dtype <= (i ? RA_F32 : RA_F16); dtype++)
                for (int transport = RA_TRANSPORT_SIM; transport <= (i ? RA_TRANSPORT_SIM : RA_TRANSPORT_MPI);
                     transport += 2) {
                    ra_problem p = problem_of(lengths[i], 8, 8, 64, "full");
                    double slope = slope_of(&p, (ra_transport_kind)transport, (ra_order)order, (ra_dtype)dtype);
                    REQUIRE(fabs(slope + 1) <= 0.02, "%lld rows, %s, %s, %s: slope %.4f", (long long)lengths[i],
                            ra_order_name((ra_order)order), ra_dtype_name((ra_dtype)dtype),
                            ra_transport_name((ra_transport_kind)transport), slope);
                }
}

/* Tensors that are lent are not held; a rank of the simulation may read all keys, another its own. */
static void lent_tensors_are_counted_apart(void **state)
{
    (void)state;
    const ra_problem p = problem_of(4096, 8, 8, 64, "full");
    for (int transport = RA_TRANSPORT_SIM; transport <= RA_TRANSPORT_MPI; transport++) {
        ra_ring_options o = stored_ring(4, (ra_transport_kind)transport, RA_ORDER_CONTIGUOUS, RA_F32);
        ra_ring_plan *stored = planned(&p, &o);
        o.lent = 1;
        ra_ring_plan *lent = planned(&p, &o);
        int64_t row = (int64_t)8 * 64 * 4, keys = transport == RA_TRANSPORT_SIM ? 4096 : 1024;
        int64_t peaks[2] = {0, 0};
        for (int rank = 0; rank < 4; rank++) {
            assert_true(rank_info(stored, rank).lent_bytes == 0);
            assert_true(rank_info(lent, rank).lent_bytes == 2 * 1024 * row + 2 * keys * row);
            assert_true(rank_info(lent, rank).peak_bytes + 1024 * row <= rank_info(stored, rank).peak_bytes);
            assert_true(rank_info(lent, rank).q_rows == 1024 && rank_info(lent, rank).kv_rows == 1024);
            peaks[0] += rank_info(stored, rank).peak_bytes;
            peaks[1] = rank_info(stored, rank).peak_bytes > peaks[1] ? rank_info(stored, rank).peak_bytes : peaks[1];
        }
        assert_true(ra_ring_plan_process_bytes(stored) == peaks[transport != RA_TRANSPORT_THREADS]);
        ra_ring_plan_free(stored);
        ra_ring_plan_free(lent);
    }
}

/* ---- Budgets ----------------------------------------------------------------------------------------------------- */

enum { MOST_TRIED = 20 };

/* What a process holds with 1, 2, ... ranks at least. */
static void list_needs(const ra_problem *p, const ra_ring_options *ring, int64_t *needs)
{
    for (int ranks = 1; ranks <= MOST_TRIED; ranks++) {
        ra_ring_options o = *ring;
        o.ranks = ranks, o.memory = 0;
        ra_ring_plan *plan = planned(p, &o);
        if (o.strategy == RA_STRATEGY_RING) {
            free(plan->ranks);
            plan->sparing = true;
            assert_int_equal(ra_ring_plan_fill(plan), RA_OK);
        }
        needs[ranks] = ra_ring_plan_process_bytes(plan);
        ra_ring_plan_free(plan);
    }
}

/* The refusal of a ring that is too small, and the advice that it gives. */
static void require_refusal(const ra_problem *p, const ra_ring_options *o, const int64_t *needs, int expected)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_ring_plan *plan = (ra_ring_plan *)&options; /* must become NULL */
    char message[256];
    options.threads = 2;
    assert_int_equal(ra_ring_plan_create(p, &options, o, &plan), RA_ERROR_BUDGET);
    assert_null(plan);
    snprintf(message, sizeof message,
             "memory %lld bytes: a ring of %d needs %lld bytes in a process; the smallest ring that fits is %d",
             (long long)o->memory, o->ranks, (long long)needs[o->ranks], expected);
    assert_string_equal(ra_last_message(), message);
}

/* For a budget that `ranks` ranks just meet: the smallest ring is the first that meets it. */
static void require_smallest(const ra_problem *p, const ra_ring_options *ring, const int64_t *needs, int64_t memory)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_ring_options o = *ring;
    int expected = 1, found = -1;
    options.threads = 2;
    o.memory = memory;
    o.ranks = 1;
    while (needs[expected] > memory)
        expected++;
    REQUIRE(!ra_ring_smallest(p, &options, &o, &found), "%s", ra_last_message());
    REQUIRE(found == expected,
            "%lld rows, \"%s\", %s, %s, %s, %lld bytes: smallest ring %d instead of %d, which needs %lld",
            (long long)p->q_len, p->pattern, ra_strategy_name(o.strategy), ra_order_name(o.order),
            ra_transport_name(o.transport), (long long)memory, found, expected, (long long)needs[expected]);
    if (expected > 2)
        require_refusal(p, &o, needs, expected);
    o.ranks = expected - 1;
    if (expected > 1)
        require_refusal(p, &o, needs, expected);
    o.ranks = expected;
    ra_ring_plan_free(planned(p, &o));
}

static void require_all_budgets(const ra_problem *p, const ra_ring_options *ring)
{
    int64_t needs[MOST_TRIED + 1];
    list_needs(p, ring, needs);
    for (int ranks = 1; ranks <= MOST_TRIED; ranks += ranks < 10 ? 1 : 10) {
        require_smallest(p, ring, needs, needs[ranks]);
        if (ranks > 1 && needs[ranks - 1] > needs[ranks])
            require_smallest(p, ring, needs, needs[ranks - 1] - 1);
    }
}

static void budgets_name_the_smallest_ring(void **state)
{
    (void)state;
    const ra_problem p = problem_of(10007, 4, 4, 64, "full");
    for (int order = 0; order < ORDERS; order++)
        for (int transport = RA_TRANSPORT_SIM; transport <= RA_TRANSPORT_MPI; transport += 2) {
            ra_ring_options o = stored_ring(1, (ra_transport_kind)transport, (ra_order)order, RA_F32);
            require_all_budgets(&p, &o);
        }
}

static void budgets_of_causal_rings(void **state)
{
    (void)state;
    const ra_problem p = problem_of(10007, 4, 4, 64, "causal");
    for (int order = 0; order < ORDERS; order++) {
        ra_ring_options o = stored_ring(1, RA_TRANSPORT_MPI, (ra_order)order, RA_F32);
        require_all_budgets(&p, &o);
    }
}

static void budgets_of_windows(void **state)
{
    (void)state;
    const ra_problem p = problem_of(10007, 4, 4, 64, "window:300,300");
    for (int order = 0; order < ORDERS; order++) {
        ra_ring_options o = stored_ring(1, RA_TRANSPORT_MPI, (ra_order)order, RA_F32);
        require_all_budgets(&p, &o);
    }
}

/* Heads with rows of their own, and rows here and there. */
static void budgets_of_sparse_rings(void **state)
{
    (void)state;
    static const char *const patterns[] = {"dilated:300/1,2000/4", "causal+dilated:500/2,4000/3:mode=union",
                                           "blocks:64:local=1:random=2", "blocks:50:global=1:stride=9+causal"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const ra_problem p = problem_of(4000, 4, 2, 64, patterns[i]);
        ra_ring_options o = stored_ring(1, i % 2 ? RA_TRANSPORT_SIM : RA_TRANSPORT_MPI, (ra_order)(i % ORDERS), RA_F32);
        require_all_budgets(&p, &o);
    }
}

/* A rank of few segments holds its own rows, and little of others'. */
static void sparse_rings_hold_little(void **state)
{
    (void)state;
    static const char *const patterns[] = {"dilated:2048/1,4096/2", "blocks:64:local=2+causal",
                                           "dilated:4096/4:mode=grouped+causal"};
    for (int i = 0; i < 3; i++)
        for (int ranks = 2; ranks <= 32; ranks *= 4) {
            const ra_problem p = problem_of(32768, 8, 2, 64, patterns[i]);
            require_laws(&p, ranks, (ra_order)i);
        }
}

static void budgets_of_other_strategies(void **state)
{
    (void)state;
    const ra_problem p = problem_of(4000, 4, 4, 64, "full");
    for (int strategy = RA_STRATEGY_ALLGATHER; strategy <= RA_STRATEGY_BROADCAST; strategy++) {
        ra_ring_options o = stored_ring(1, RA_TRANSPORT_MPI, RA_ORDER_CONTIGUOUS, RA_F32);
        o.strategy = (ra_strategy)strategy;
        require_all_budgets(&p, &o);
    }
}

static void budgets_of_threads(void **state)
{
    (void)state;
    const ra_problem p = problem_of(4000, 4, 4, 64, "full");
    ra_ring_options o = stored_ring(1, RA_TRANSPORT_THREADS, RA_ORDER_CONTIGUOUS, RA_F32);
    require_all_budgets(&p, &o);
}

static void a_budget_that_nothing_meets(void **state)
{
    (void)state;
    const ra_problem p = problem_of(200, 1, 1, 8, "full");
    ra_ring_options o = stored_ring(3, RA_TRANSPORT_MPI, RA_ORDER_CONTIGUOUS, RA_F32);
    ra_ring_plan *plan = planned(&p, &o);
    int64_t need = ra_ring_plan_process_bytes(plan);
    ra_ring_plan_free(plan);
    ra_options options = RA_OPTIONS_INIT;
    char message[256];
    int ranks = -1, least_ranks = 0;
    long long least = 0;
    options.threads = 2;
    o.memory = 1000;
    assert_int_equal(ra_ring_plan_create(&p, &options, &o, &plan), RA_ERROR_BUDGET);
    snprintf(message, sizeof message, "memory 1000 bytes: a ring of 3 needs %lld bytes in a process; ",
             (long long)need);
    assert_int_equal(strncmp(ra_last_message(), message, strlen(message)), 0);
    assert_int_equal(sscanf(ra_last_message() + strlen(message),
                            "the least that this can be run with is %lld bytes, in a ring of %d", &least, &least_ranks),
                     2);
    assert_int_equal(ra_ring_smallest(&p, &options, &o, &ranks), RA_OK);
    assert_int_equal(ranks, 0);
    /* With that much it can be run, with a byte less not. */
    o.memory = least;
    o.ranks = least_ranks;
    assert_int_equal(ra_ring_plan_create(&p, &options, &o, &plan), RA_OK);
    ra_ring_plan_free(plan);
    o.memory = least - 1;
    assert_int_equal(ra_ring_smallest(&p, &options, &o, &ranks), RA_OK);
    assert_int_equal(ranks, 0);
}

/* No limit is met by everything. */
static void no_budget_is_met_by_one_rank(void **state)
{
    (void)state;
    const ra_problem p = problem_of(200, 1, 1, 8, "full");
    ra_ring_options o = stored_ring(3, RA_TRANSPORT_MPI, RA_ORDER_CONTIGUOUS, RA_F32);
    int ranks = -1;
    assert_int_equal(ra_ring_smallest(&p, NULL, &o, &ranks), RA_OK);
    assert_int_equal(ranks, 1);
}

/* With pieces of the caller's own there are only so many ranks; nothing is said about other numbers. */
static void a_budget_with_pieces(void **state)
{
    (void)state;
    const ra_problem p = problem_of(200, 1, 1, 8, "full");
    const ra_piece pieces[] = {{0, 50, 2}, {50, 200, 0}};
    ra_ring_options o = stored_ring(3, RA_TRANSPORT_MPI, RA_ORDER_CONTIGUOUS, RA_F32);
    ra_ring_plan *plan;
    o.kv_pieces = pieces, o.kv_piece_count = 2;
    o.memory = 1000;
    assert_int_equal(ra_ring_plan_create(&p, NULL, &o, &plan), RA_ERROR_BUDGET);
    assert_non_null(strstr(ra_last_message(), "memory 1000 bytes: a ring of 3 needs "));
    assert_null(strstr(ra_last_message(), "the least that this can be run with"));
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static void pieces_are_the_ranges_of_the_shares(void **state)
{
    (void)state;
    ra_problem p = problem_of(1000, 2, 2, 8, "causal");
    p.kv_len = 700;
    for (int order = 0; order < ORDERS; order++) {
        ra_ring_options o = stored_ring(5, RA_TRANSPORT_SIM, (ra_order)order, RA_F32);
        ra_ring_plan *plan = planned(&p, &o);
        ra_piece piece;
        uint8_t queries[1000] = {0}, keys[700] = {0};
        for (int rank = 0; rank < 5; rank++) {
            int64_t rows[2] = {0, 0}, i = 0;
            for (; !ra_ring_plan_queries(plan, rank, i, &piece); i++, rows[0] += piece.end - piece.first) {
                assert_int_equal(piece.rank, rank);
                for (int64_t at = piece.first; at < piece.end; at++)
                    queries[at]++;
            }
            for (i = 0; !ra_ring_plan_keys(plan, rank, i, &piece); i++, rows[1] += piece.end - piece.first) {
                assert_int_equal(piece.rank, rank);
                for (int64_t at = piece.first; at < piece.end; at++)
                    keys[at]++;
            }
            assert_true(rows[0] == rank_info(plan, rank).q_rows && rows[1] == rank_info(plan, rank).kv_rows);
        }
        for (int i = 0; i < 1000; i++)
            assert_true(queries[i] == 1 && (i >= 700 || keys[i] == 1));
        ra_ring_plan_free(plan);
    }
}

/* A tensor whose axes lie in any order and direction, with gaps, in memory that is all 0x5a. */
typedef struct odd_tensor {
    ra_tensor view;
    char *memory;
    size_t bytes;
} odd_tensor;

static odd_tensor odd_make(choices *c, ra_dtype dtype, int64_t batch, int64_t seq, int64_t heads, int64_t dim)
{
    odd_tensor t = {ra_tensor_dense(NULL, dtype, RA_BSHD, batch, seq, heads, dim), NULL, 0};
    int64_t *strides[] = {&t.view.batch_stride, &t.view.seq_stride, &t.view.head_stride, &t.view.dim_stride};
    const int64_t extents[] = {batch, seq, heads, dim};
    int64_t stride = choose(c, 1, 3), origin = 0;
    for (int i = 0, at = (int)choose(c, 0, 3); i < 4; i++, at = (at + 3) % 4) {
        *strides[at] = chance(c, 3) ? -stride : stride;
        origin += *strides[at] < 0 && extents[at] ? stride * (extents[at] - 1) : 0;
        stride = stride * extents[at] + choose(c, 0, 2);
    }
    t.bytes = (size_t)stride * ra_dtype_size(dtype);
    t.memory = malloc(t.bytes + 1);
    assert_non_null(t.memory);
    memset(t.memory, 0x5a, t.bytes);
    t.view.data = t.memory + (size_t)origin * ra_dtype_size(dtype);
    return t;
}

/* Small whole numbers, which every dtype has. */
static double value_at(int64_t batch, int64_t seq, int64_t head, int64_t dim)
{
    return (double)((batch * 61 + seq * 7 + head * 31 + dim * 3) % 251);
}

/* Set rows of `t`: row i is position `first` + i of the whole. */
static void set_rows(const ra_tensor *t, int64_t row, int64_t first, int64_t rows)
{
    for (int64_t b = 0; b < t->batch; b++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t h = 0; h < t->heads; h++)
                for (int64_t d = 0; d < t->dim; d++)
                    ra_tensor_set(t, b, row + i, h, d, value_at(b, first + i, h, d));
}

/* Set a rank's part by the definition: its pieces, one after the other. */
static void set_part(const ra_ring_plan *plan, int rank, int keys, const ra_tensor *part)
{
    ra_piece piece;
    int64_t row = 0;
    for (int64_t i = 0; !(keys ? ra_ring_plan_keys : ra_ring_plan_queries)(plan, rank, i, &piece); i++) {
        set_rows(part, row, piece.first, piece.end - piece.first);
        row += piece.end - piece.first;
    }
}

/* Split, compare with the definition, gather again; not a byte beside the elements changes. */
static void round_trip(choices *c, const ra_ring_plan *plan, int keys, int64_t length, ra_dtype dtype, uint64_t seed)
{
    int64_t batch = choose(c, 1, 2), heads = choose(c, 1, 3), dim = choose(c, 1, 5);
    odd_tensor whole = odd_make(c, dtype, batch, length, heads, dim);
    choices again = {choose_bits(c)}, same = again;
    odd_tensor copy = odd_make(&again, dtype, batch, length, heads, dim);
    odd_tensor gathered = odd_make(&same, dtype, batch, length, heads, dim);
    set_rows(&whole.view, 0, 0, length);
    set_rows(&copy.view, 0, 0, length);
    for (int rank = 0; rank < plan->options.ranks; rank++) {
        ra_rank_info info = rank_info(plan, rank);
        int64_t rows = keys ? info.kv_rows : info.q_rows;
        choices third = {choose_bits(c)}, fourth = third;
        odd_tensor part = odd_make(&third, dtype, batch, rows, heads, dim);
        odd_tensor expected = odd_make(&fourth, dtype, batch, rows, heads, dim);
        set_part(plan, rank, keys, &expected.view);
        REQUIRE(!ra_ring_split(plan, rank, keys, &whole.view, &part.view), "seed %llu: %s", (unsigned long long)seed,
                ra_last_message());
        REQUIRE(memcmp(part.memory, expected.memory, part.bytes) == 0, "seed %llu: rank %d has other rows",
                (unsigned long long)seed, rank);
        REQUIRE(!ra_ring_gather(plan, rank, keys, &part.view, &gathered.view), "seed %llu: %s",
                (unsigned long long)seed, ra_last_message());
        free(part.memory);
        free(expected.memory);
    }
    REQUIRE(memcmp(gathered.memory, copy.memory, copy.bytes) == 0, "seed %llu: not what was split",
            (unsigned long long)seed);
    free(whole.memory);
    free(copy.memory);
    free(gathered.memory);
}

static void what_was_split_is_gathered(void **state)
{
    (void)state;
    seed_range range = seeds(200);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_problem p = problem_of(choose(&c, 1, 300), 1, 1, 4, "full");
        p.kv_len = choose(&c, 1, 300);
        ra_ring_options o =
            stored_ring((int)choose(&c, 1, 7), RA_TRANSPORT_THREADS, (ra_order)choose(&c, 0, 2), RA_F32);
        const ra_piece pieces[] = {{0, p.kv_len / 3, o.ranks - 1}, {p.kv_len / 3, p.kv_len, 0}};
        if (chance(&c, 2))
            o.kv_pieces = pieces, o.kv_piece_count = 2;
        ra_ring_plan *plan = planned(&p, &o);
        round_trip(&c, plan, 0, p.q_len, (ra_dtype)choose(&c, RA_F32, RA_BF16), seed);
        round_trip(&c, plan, 1, p.kv_len, (ra_dtype)choose(&c, RA_F32, RA_BF16), seed);
        ra_ring_plan_free(plan);
    }
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

/* Changes one thing about options that are fine. */
typedef void (*spoiler)(ra_ring_options *o);

#define SPOIL(name, ...)                                                                                               \
    static void name(ra_ring_options *o)                                                                               \
    {                                                                                                                  \
        __VA_ARGS__;                                                                                                   \
    }

static const ra_piece beyond[] = {{0, 200, 0}, {200, 301, 1}};

SPOIL(no_ranks, o->ranks = 0)
SPOIL(negative_ranks, o->ranks = -3)
SPOIL(too_many_ranks, o->ranks = (1 << 20) + 1)
SPOIL(strategy_unknown, o->strategy = (ra_strategy)3)
SPOIL(strategy_negative, o->strategy = (ra_strategy)-1)
SPOIL(order_unknown, o->order = (ra_order)9)
SPOIL(transport_unknown, o->transport = (ra_transport_kind)4)
SPOIL(q_dtype_integer, o->q_dtype = RA_I64)
SPOIL(k_dtype_bytes, o->k_dtype = RA_U8)
SPOIL(v_dtype_unknown, o->v_dtype = (ra_dtype)77)
SPOIL(negative_memory, o->memory = -1)
SPOIL(timeout_nan, o->timeout = (double)NAN)
SPOIL(timeout_negative, o->timeout = -0.5)
SPOIL(timeout_infinite, o->timeout = (double)INFINITY)
SPOIL(query_pieces_beyond, o->q_pieces = beyond, o->q_piece_count = 2)
SPOIL(key_pieces_beyond, o->kv_pieces = beyond, o->kv_piece_count = 2)
SPOIL(not_set_up, o->size = 0)

static const struct refusal {
    spoiler spoil;
    const char *message;
} refusals[] = {
    {no_ranks, "ranks 0: must be 1..1048576"},
    {negative_ranks, "ranks -3: must be 1..1048576"},
    {too_many_ranks, "ranks 1048577: must be 1..1048576"},
    {strategy_unknown, "strategy 3: must be ring, allgather or broadcast"},
    {strategy_negative, "strategy -1: must be ring, allgather or broadcast"},
    {order_unknown, "order 9: must be contiguous, zigzag or striped"},
    {transport_unknown, "transport 4: must be sim, threads or mpi"},
    {q_dtype_integer, "q_dtype 3: must be float32, float16 or bfloat16"},
    {k_dtype_bytes, "k_dtype 4: must be float32, float16 or bfloat16"},
    {v_dtype_unknown, "v_dtype 77: must be float32, float16 or bfloat16"},
    {negative_memory, "memory -1: must be >= 0"},
    {timeout_nan, "timeout nan: must be a number of seconds, or 0 for 60"},
    {timeout_negative, "timeout -0.5: must be a number of seconds, or 0 for 60"},
    {timeout_infinite, "timeout inf: must be a number of seconds, or 0 for 60"},
    {query_pieces_beyond, "query pieces: piece 1 is rows [200, 301): must begin at 200 and end by 300"},
    {key_pieces_beyond, "key pieces: piece 1 is rows [200, 301): must begin at 200 and end by 300"},
    {not_set_up, "ra_ring_options: size 0: set the struct up with RA_RING_OPTIONS_INIT"},
};

static void refusals_say_why(void **state)
{
    (void)state;
    const ra_problem p = problem_of(300, 2, 2, 8, NULL);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        ra_ring_options o = stored_ring(2, RA_TRANSPORT_SIM, RA_ORDER_CONTIGUOUS, RA_F32);
        ra_ring_plan *plan = (ra_ring_plan *)&o; /* must become NULL */
        refusals[i].spoil(&o);
        assert_int_equal(ra_ring_plan_create(&p, NULL, &o, &plan), RA_ERROR_ARGUMENT);
        assert_string_equal(ra_last_message(), refusals[i].message);
        assert_null(plan);
    }
}

static void null_arguments(void **state)
{
    (void)state;
    const ra_problem p = problem_of(300, 2, 2, 8, NULL);
    ra_ring_options o = stored_ring(2, RA_TRANSPORT_SIM, RA_ORDER_CONTIGUOUS, RA_F32);
    ra_rank_info info = RA_RANK_INFO_INIT;
    ra_ring_plan *plan;
    ra_piece piece;
    int ranks;
    assert_int_equal(ra_ring_plan_create(&p, NULL, &o, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_ring_plan_create(NULL, NULL, &o, &plan), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "problem is NULL");
    assert_int_equal(ra_ring_smallest(&p, NULL, NULL, &ranks), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_ring_smallest(&p, NULL, &o, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_ring_smallest(NULL, NULL, &o, &ranks), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_ring_plan_rank(NULL, 0, &info), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_ring_plan_queries(NULL, 0, 0, &piece), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_ring_plan_keys(NULL, 0, 0, &piece), RA_ERROR_ARGUMENT);
    ra_ring_plan_free(NULL);
    /* No options mean one rank. */
    assert_int_equal(ra_ring_plan_create(&p, NULL, NULL, &plan), RA_OK);
    assert_true(rank_info(plan, 0).q_rows == 300);
    assert_int_equal(ra_ring_plan_rank(plan, 0, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "info is NULL");
    ra_ring_plan_free(plan);
}

static void values_beyond_a_plan(void **state)
{
    (void)state;
    const ra_problem p = problem_of(300, 2, 2, 8, NULL);
    ra_ring_options o = stored_ring(2, RA_TRANSPORT_SIM, RA_ORDER_ZIGZAG, RA_F32);
    ra_ring_plan *plan = planned(&p, &o);
    ra_rank_info info = RA_RANK_INFO_INIT;
    ra_piece piece;
    float data[300] = {0};
    assert_int_equal(ra_ring_plan_rank(plan, 2, &info), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "rank 2: must be 0..1");
    assert_int_equal(ra_ring_plan_rank(plan, -1, &info), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_ring_plan_queries(plan, 0, 2, &piece), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "index 2: rank 0 has 2 runs of rows");
    assert_int_equal(ra_ring_plan_keys(plan, 1, -1, &piece), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_ring_plan_keys(plan, 0, 0, NULL), RA_ERROR_ARGUMENT);
    ra_tensor whole = ra_tensor_dense(data, RA_F32, RA_BSHD, 1, 300, 1, 1), part = whole;
    assert_int_equal(ra_ring_split(plan, 0, 0, &whole, &part), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "part: [batch 1, seq 300, heads 1, dim 1]"));
    part.seq = rank_info(plan, 0).q_rows;
    part.dtype = RA_F16;
    assert_int_equal(ra_ring_split(plan, 0, 0, &whole, &part), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "part is float16 and whole is float32: must be the same");
    assert_int_equal(ra_ring_split(plan, 0, 0, NULL, &part), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_ring_gather(plan, 0, 0, NULL, &whole), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_ring_gather(plan, 2, 0, &part, &whole), RA_ERROR_ARGUMENT);
    ra_ring_plan_free(plan);
}

/* ---- Struct sizes: a caller of an older version is served, one of a newer is told -------------------------------- */

static void older_options_and_infos(void **state)
{
    (void)state;
    const ra_problem p = problem_of(300, 2, 2, 8, NULL);
    ra_ring_options o;
    memset(&o, 0x5a, sizeof o); /* what follows the size is not read */
    o.size = offsetof(ra_ring_options, order);
    o.ranks = 3, o.strategy = RA_STRATEGY_BROADCAST;
    ra_ring_plan *plan = planned(&p, &o);
    assert_true(plan->options.ranks == 3 && plan->options.strategy == RA_STRATEGY_BROADCAST);
    assert_true(plan->options.order == RA_ORDER_CONTIGUOUS && plan->options.transport == RA_TRANSPORT_SIM);
    assert_true(plan->options.lent == 1 && plan->options.memory == 0 && plan->options.timeout == 60);
    ra_rank_info info = RA_RANK_INFO_INIT;
    info.size = offsetof(ra_rank_info, hops);
    info.hops = -5;
    assert_int_equal(ra_ring_plan_rank(plan, 1, &info), RA_OK);
    assert_true(info.size == offsetof(ra_rank_info, hops) && info.q_rows == 128 && info.steps == 3 && info.hops == -5);
    info.size = 2;
    assert_int_equal(ra_ring_plan_rank(plan, 1, &info), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "ra_rank_info: size 2: set the struct up with RA_RANK_INFO_INIT");
    ra_ring_plan_free(plan);
}

static void newer_options_and_infos(void **state)
{
    (void)state;
    const ra_problem p = problem_of(300, 2, 2, 8, NULL);
    struct {
        ra_rank_info info;
        char more[64];
    } larger = {RA_RANK_INFO_INIT, "kept"};
    struct {
        ra_ring_options options;
        char more[8];
    } newer = {RA_RING_OPTIONS_INIT, ""};
    ra_ring_plan *plan = planned(&p, &newer.options);
    larger.info.size = sizeof larger;
    assert_int_equal(ra_ring_plan_rank(plan, 0, &larger.info), RA_OK);
    assert_true(larger.info.size == sizeof larger && larger.info.q_rows == 300);
    assert_string_equal(larger.more, "kept");
    ra_ring_plan_free(plan);
    newer.options.size = sizeof newer;
    assert_int_equal(ra_ring_plan_create(&p, NULL, &newer.options, &plan), RA_ERROR_UNSUPPORTED);
    assert_non_null(strstr(ra_last_message(), "ra_ring_options: size "));
    assert_null(plan);
}

/* An array of smaller structs: each is filled up to its size, at its own place. */
static void older_statistics(void **state)
{
    (void)state;
    enum { SIZE = offsetof(ra_rank_stats, hops), RANKS = 3 };
    const ra_problem p = problem_of(150, 1, 1, 4, NULL);
    ra_ring_options o = RA_RING_OPTIONS_INIT;
    o.ranks = RANKS;
    ra_ring_plan *plan = planned(&p, &o);
    static float data[4][150 * 4];
    ra_tensor t[4];
    for (int i = 0; i < 4; i++)
        t[i] = ra_tensor_dense(data[i], RA_F32, RA_BSHD, 1, 150, 1, 4);
    union {
        size_t size;
        char bytes[(RANKS + 1) * SIZE];
    } stats;
    memset(&stats, 0x5a, sizeof stats);
    stats.size = SIZE;
    ra_comm *comm;
    assert_int_equal(ra_comm_sim(RANKS, &comm), RA_OK);
    assert_int_equal(ra_ring_forward(plan, comm, &t[0], &t[1], &t[2], &t[3], NULL, (ra_rank_stats *)&stats), RA_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        ra_rank_stats s = RA_RANK_STATS_INIT;
        memcpy(&s, stats.bytes + rank * SIZE, SIZE);
        assert_true(s.size == SIZE && s.rank == rank && s.steps == RANKS);
        assert_true(s.q_rows == rank_info(plan, rank).q_rows && s.kv_rows == rank_info(plan, rank).kv_rows);
    }
    for (int i = 0; i < SIZE; i++)
        assert_int_equal(stats.bytes[RANKS * SIZE + i], 0x5a);
    stats.size = 1;
    assert_int_equal(ra_ring_forward(plan, comm, &t[0], &t[1], &t[2], &t[3], NULL, (ra_rank_stats *)&stats),
                     RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "ra_rank_stats: size 1: set the struct up with RA_RANK_STATS_INIT");
    ra_comm_free(comm);
    ra_ring_plan_free(plan);
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(ra_strategy_name(RA_STRATEGY_ALLGATHER), "allgather");
    assert_string_equal(ra_order_name(RA_ORDER_STRIPED), "striped");
    assert_string_equal(ra_transport_name(RA_TRANSPORT_MPI), "mpi");
    assert_null(ra_strategy_name((ra_strategy)3));
    assert_null(ra_order_name((ra_order)-1));
    assert_null(ra_transport_name((ra_transport_kind)3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_rings_hold_little),
        cmocka_unit_test(causal_contiguous_rings_hold_little),
        cmocka_unit_test(causal_striped_rings_hold_little),
        cmocka_unit_test(causal_zigzag_rings_hold_little),
        cmocka_unit_test(rings_that_give_late_hold_little),
        cmocka_unit_test(a_budget_is_reason_to_spare_memory),
        cmocka_unit_test(more_ranks_than_blocks_hold_no_more),
        cmocka_unit_test(twice_the_ranks_hold_half_each),
        cmocka_unit_test(lent_tensors_are_counted_apart),
        cmocka_unit_test(budgets_name_the_smallest_ring),
        cmocka_unit_test(budgets_of_causal_rings),
        cmocka_unit_test(budgets_of_windows),
        cmocka_unit_test(budgets_of_sparse_rings),
        cmocka_unit_test(sparse_rings_hold_little),
        cmocka_unit_test(budgets_of_other_strategies),
        cmocka_unit_test(budgets_of_threads),
        cmocka_unit_test(a_budget_that_nothing_meets),
        cmocka_unit_test(no_budget_is_met_by_one_rank),
        cmocka_unit_test(a_budget_with_pieces),
        cmocka_unit_test(pieces_are_the_ranges_of_the_shares),
        cmocka_unit_test(what_was_split_is_gathered),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(null_arguments),
        cmocka_unit_test(values_beyond_a_plan),
        cmocka_unit_test(older_options_and_infos),
        cmocka_unit_test(newer_options_and_infos),
        cmocka_unit_test(older_statistics),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
