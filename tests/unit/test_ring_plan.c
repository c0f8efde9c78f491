/* SPDX-License-Identifier: Apache-2.0 */
/* Plans over ranks: rows in and out, what is refused, and structs of other versions. */
#include "ring/ring_plan.h"
#include "support/planned.h"
#include "support/random.h"
#include "support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS = 3 };

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

/* ---- One rank ---------------------------------------------------------------------------------------------------- */

static bool same_info(const ra_rank_info *a, const ra_rank_info *b)
{
    return a->q_rows == b->q_rows && a->kv_rows == b->kv_rows && a->steps == b->steps && a->hops == b->hops &&
           a->bytes_sent == b->bytes_sent && a->bytes_received == b->bytes_received &&
           a->pairs_visible == b->pairs_visible && a->pairs_worked == b->pairs_worked &&
           a->peak_bytes == b->peak_bytes && a->lent_bytes == b->lent_bytes;
}

/* A rank that is planned alone does and holds what it does among all ranks, however many there are. */
static void one_rank_as_among_all(void **state)
{
    (void)state;
    static const char *const patterns[] = {"causal", "window:70,9", "dilated:64/1,128/4", "blocks:64:random=1"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        for (int transport = RA_TRANSPORT_SIM; transport <= RA_TRANSPORT_MPI; transport++) {
            const ra_problem p = problem_of(9000, 2, 1, 8, patterns[i]);
            ra_ring_options o = stored_ring(100, (ra_transport_kind)transport, RA_ORDER_ZIGZAG, RA_F32);
            ra_ring_plan *all = planned(&p, &o);
            for (o.rank = 0; o.rank < o.ranks; o.rank += 33) {
                ra_ring_plan *one = planned(&p, &o);
                const ra_rank_info expected = rank_info(all, o.rank), found = rank_info(one, o.rank);
                REQUIRE(same_info(&expected, &found), "%s, %s, rank %d: %lld bytes alone, %lld among all", patterns[i],
                        ra_transport_name(o.transport), o.rank, (long long)found.peak_bytes,
                        (long long)expected.peak_bytes);
                ra_ring_plan_free(one);
            }
            ra_ring_plan_free(all);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_the_ranges_of_the_shares),
        cmocka_unit_test(what_was_split_is_gathered),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(null_arguments),
        cmocka_unit_test(values_beyond_a_plan),
        cmocka_unit_test(older_options_and_infos),
        cmocka_unit_test(newer_options_and_infos),
        cmocka_unit_test(older_statistics),
        cmocka_unit_test(names),
        cmocka_unit_test(one_rank_as_among_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
