/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation made to fail, one after the other: each time a status, a message, nothing leaked, nothing broken.
 * A scenario is run again and again, its first allocation failing, then its second, ..., until none is left to fail.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ringattn/ringattn.h"
#include "transport/comm.h"

/* ---- The heap, as the library sees it -------------------------------------------------------------------------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **block, size_t alignment, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *block);

static struct {
    atomic_long left; /* allocations until the one that fails; negative: it has failed */
    atomic_long live; /* blocks that are not freed yet */
} heap;

static bool fails(void)
{
    if (atomic_fetch_sub(&heap.left, 1) != 0)
        return false;
    errno = ENOMEM;
    return true;
}

static void *counted(void *block)
{
    if (block)
        atomic_fetch_add(&heap.live, 1);
    return block;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size)
{
    if (fails())
        return NULL;
    return block ? __real_realloc(block, size) : counted(__real_realloc(NULL, size));
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

int __wrap_posix_memalign(void **block, size_t alignment, size_t size)
{
    if (fails())
        return ENOMEM;
    int error = __real_posix_memalign(block, alignment, size);
    if (!error)
        counted(*block);
    return error;
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *block)
{
    if (block)
        atomic_fetch_sub(&heap.live, 1);
    __real_free(block);
}

/* Runs the scenario until it needs no further allocation; returns how many it needed. */
static long fail_each(ra_status (*scenario)(void))
{
    for (long nth = 0;; nth++) {
        atomic_store(&heap.left, nth);
        atomic_store(&heap.live, 0);
        ra_status status = scenario();
        assert_int_equal(atomic_load(&heap.live), 0);
        if (atomic_load(&heap.left) >= 0) {
            assert_int_equal(status, RA_OK);
            return nth;
        }
        assert_int_equal(status, RA_ERROR_MEMORY);
        assert_true(strlen(ra_last_message()) > 0);
    }
}

/* ---- Scenarios: each leaves nothing behind, whether it got to its end or not ------------------------------------ */

enum { HEADS = 2, DIM = 8, LONGEST = 4096 };

static float tokens[LONGEST * HEADS * DIM], results[LONGEST * HEADS * DIM];
static char path[64], mask_path[80], scores_path[96];

static ra_tensor view(float *data, int64_t seq)
{
    return ra_tensor_dense(data, RA_F32, RA_BSHD, 1, seq, HEADS, DIM);
}

static ra_status plan_for(const char *pattern, int64_t q_len, int64_t kv_len, ra_plan **plan)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_problem problem = RA_PROBLEM_INIT;
    options.threads = 2;
    problem.q_len = q_len, problem.kv_len = kv_len;
    problem.heads = HEADS, problem.head_dim = DIM;
    problem.pattern = pattern;
    return ra_plan_create(&problem, &options, plan);
}

static ra_status forward(const char *pattern, int64_t q_len, int64_t kv_len)
{
    ra_tensor q = view(tokens, q_len), kv = view(tokens, kv_len), o = view(results, q_len);
    ra_plan *plan;
    ra_status status = plan_for(pattern, q_len, kv_len, &plan);
    if (!status)
        status = ra_forward(plan, &q, &kv, &kv, &o, NULL, NULL);
    else
        assert_null(plan);
    ra_plan_free(plan);
    return status;
}

static ra_status tile_forward(void)
{
    return forward("causal+documents:100,200,33", 333, 333);
}

static ra_status decode_forward(void)
{
    return forward("full", 1, LONGEST);
}

static ra_status documents_file(void)
{
    char pattern[80];
    snprintf(pattern, sizeof pattern, "documents:@%s", path);
    return forward(pattern, 60, 60);
}

static ra_status sparse_forward(void)
{
    return forward("dilated:40/1,100/3:mode=union+blocks:16:local=1:random=2", 333, 333);
}

static ra_status mask_write(void)
{
    enum { BLOCKS = 4 };
    const int64_t shape[3] = {HEADS, BLOCKS, BLOCKS};
    static const uint8_t kept[HEADS * BLOCKS * BLOCKS] = {[3] = 1, [20] = 1};
    ra_array *array;
    ra_status status = ra_array_create(mask_path, RA_BOOL, 3, shape, &array);
    if (!status)
        status = ra_array_write(array, 0, sizeof kept, kept);
    if (!status)
        status = ra_array_commit(array);
    ra_array_close(array);
    return status;
}

static ra_status mask_file(void)
{
    char pattern[128];
    snprintf(pattern, sizeof pattern, "causal+blocks:15:mask=@%s", mask_path);
    return forward(pattern, 60, 60);
}

/* Arrays of scores, in one file. */
static ra_status scores_write(void)
{
    const ra_array_part parts[] = {{.name = "alibi", .dims = 1, .shape = {HEADS}},
                                   {.name = "relative", .dims = 2, .shape = {1, 5}},
                                   {.name = "bias", .dims = 4, .shape = {1, 1, 60, 60}},
                                   {.name = "sinks", .dims = 1, .shape = {HEADS}}};
    ra_array *array;
    ra_status status = ra_array_create_parts(scores_path, RA_F32, 4, parts, &array);
    if (!status)
        status = ra_array_write(array, 0, HEADS + 5 + 60 * 60 + HEADS, tokens);
    if (!status)
        status = ra_array_commit(array);
    ra_array_close(array);
    return status;
}

/* All of them, with their gradients: both directions, and the oracle. */
static ra_status scores_file(void)
{
    static float elements[4][60 * 60], lse[60 * HEADS], d_q[60 * HEADS * DIM];
    static double exact[60 * HEADS * DIM];
    ra_tensor x = view(tokens, 60), o = view(results, 60), l = ra_tensor_dense(lse, RA_F32, RA_BSHD, 1, 60, HEADS, 1);
    ra_tensor slopes = ra_tensor_dense(elements[0], RA_F32, RA_BSHD, 1, 1, HEADS, 1), sinks = slopes, d = view(d_q, 60);
    ra_tensor table = ra_tensor_dense(elements[1], RA_F32, RA_BSHD, 1, 1, 1, 5);
    ra_tensor bias = ra_tensor_dense(elements[2], RA_F32, RA_BSHD, 1, 60, 1, 60);
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    ra_problem problem = RA_PROBLEM_INIT;
    ra_plan *plan;
    char text[512];
    sinks.data = elements[3];
    arrays.d_slopes = &slopes, arrays.d_table = &table, arrays.d_bias = &bias, arrays.d_sinks = &sinks;
    snprintf(text, sizeof text, "alibi:@%s#alibi+relative:@%s#relative+softcap:9+bias:@%s#bias+sinks:@%s#sinks",
             scores_path, scores_path, scores_path, scores_path);
    problem.q_len = 60, problem.heads = HEADS, problem.head_dim = DIM;
    problem.scores = text, problem.score_arrays = &arrays;
    ra_status status = ra_plan_create(&problem, NULL, &plan);
    if (!status)
        status = ra_forward(plan, &x, &x, &x, &o, &l, NULL);
    if (!status)
        status = ra_backward(plan, &x, &x, &x, &o, &l, &x, NULL, &d, NULL, NULL, NULL);
    if (!status)
        status = ra_reference_backward(plan, &x, &x, &x, &x, NULL, exact, NULL, NULL);
    ra_plan_free(plan);
    return status;
}

static ra_status reference_row(void)
{
    double row[DIM], lse;
    ra_tensor x = view(tokens, 100);
    ra_plan *plan;
    ra_status status = plan_for("window:3,4", 100, 100, &plan);
    if (!status)
        status = ra_reference_row(plan, &x, &x, &x, 0, 1, 50, row, &lse);
    ra_plan_free(plan);
    return status;
}

static ra_status reference_rows(void)
{
    const ra_row rows[] = {{0, 50, 1}, {0, 99, 0}};
    double outputs[2 * DIM], lses[2];
    ra_tensor shape = view(NULL, 100);
    ra_storage *x = NULL;
    ra_plan *plan;
    ra_status status = plan_for("window:3,4", 100, 100, &plan);
    if (!status)
        status = ra_storage_generator(RA_NORMAL, 1, &shape, &x);
    if (!status)
        status = ra_reference_rows(plan, x, x, x, rows, 2, outputs, lses);
    ra_storage_free(x);
    ra_plan_free(plan);
    return status;
}

static ra_status array_read(void)
{
    int64_t lengths[3];
    ra_array *array;
    ra_status status = ra_array_open(path, &array);
    if (!status)
        status = ra_array_read(array, 0, 3, lengths);
    else
        assert_null(array);
    ra_array_close(array);
    return status;
}

static ra_status array_write(void)
{
    const int64_t shape[1] = {3}, lengths[3] = {10, 20, 30};
    ra_array *array;
    ra_status status = ra_array_create(path, RA_I64, 1, shape, &array);
    if (!status)
        status = ra_array_write(array, 0, 3, lengths);
    else
        assert_null(array);
    if (!status)
        status = ra_array_commit(array);
    ra_array_close(array);
    return status;
}

static ra_status reference_backward(void)
{
    static double d_q[100 * HEADS * DIM], d_k[100 * HEADS * DIM], d_v[100 * HEADS * DIM];
    ra_tensor x = view(tokens, 100);
    ra_plan *plan;
    ra_status status = plan_for("window:3,4", 100, 100, &plan);
    if (!status)
        status = ra_reference_backward(plan, &x, &x, &x, &x, NULL, d_q, d_k, d_v);
    ra_plan_free(plan);
    return status;
}

/* The gradient by queries, with sizes, and that by keys. */
static ra_status reference_gradient_rows(void)
{
    const ra_row rows[] = {{0, 50, 1}, {0, 99, 0}};
    double gradients[2 * DIM], sizes[2];
    ra_tensor shape = view(NULL, 100), one = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, 100, HEADS, 1);
    ra_storage *x = NULL, *lse = NULL;
    ra_plan *plan;
    ra_status status = plan_for("window:3,4", 100, 100, &plan);
    if (!status)
        status = ra_storage_generator(RA_NORMAL, 1, &shape, &x);
    if (!status)
        status = ra_storage_generator(RA_NORMAL, 2, &one, &lse);
    for (int i = 0; i < 2 && !status; i++)
        status = ra_reference_gradient_rows(plan, x, x, x, x, lse, x, lse, (ra_gradient)i, rows, 2, gradients, sizes);
    ra_storage_free(lse);
    ra_storage_free(x);
    ra_plan_free(plan);
    return status;
}

/* Gradients by keys and values in 16 bits, which need sums. */
static ra_status backward(const char *pattern)
{
    enum { ROWS = 150 };
    static float lse[ROWS * HEADS], d_q[ROWS * HEADS * DIM];
    static uint16_t d_k[ROWS * HEADS * DIM], d_v[ROWS * HEADS * DIM];
    ra_tensor x = view(tokens, ROWS), o = view(results, ROWS), query = view(d_q, ROWS);
    ra_tensor l = ra_tensor_dense(lse, RA_F32, RA_BSHD, 1, ROWS, HEADS, 1);
    ra_tensor key = ra_tensor_dense(d_k, RA_BF16, RA_BSHD, 1, ROWS, HEADS, DIM), value = key;
    value.data = d_v;
    ra_plan *plan;
    ra_status status = plan_for(pattern, ROWS, ROWS, &plan);
    if (!status)
        status = ra_backward(plan, &x, &x, &x, &o, &l, &x, &l, &query, &key, &value, NULL);
    ra_plan_free(plan);
    return status;
}

static ra_status plain_backward(void)
{
    return backward("causal");
}

static ra_status sparse_backward(void)
{
    return backward("dilated:40/1,100/3:mode=union+blocks:16:local=1:random=2");
}

static ra_status array_join(void)
{
    const int64_t shape[1] = {3};
    ra_array *maker, *array = NULL;
    ra_status status = ra_array_create(path, RA_I64, 1, shape, &maker);
    if (!status)
        status = ra_array_join(path, RA_I64, 1, shape, &array);
    ra_array_close(array);
    ra_array_close(maker); /* without a commit: the file that others read stays */
    return status;
}

/* A header that is longer than what is read at first, and two tensors to be put in order. */
static ra_status tensor_read(void)
{
    int64_t value;
    char tensor_path[sizeof path + 20];
    snprintf(tensor_path, sizeof tensor_path, "%s.safetensors#b", path);
    ra_array *array;
    ra_status status = ra_array_open(tensor_path, &array);
    if (!status)
        status = ra_array_read(array, 0, 1, &value);
    else
        assert_null(array);
    ra_array_close(array);
    return status;
}

static void write_tensors(void)
{
    enum { LENGTH = 5000 };
    char tensor_path[sizeof path + 20], text[LENGTH + 1];
    snprintf(tensor_path, sizeof tensor_path, "%s.safetensors", path);
    snprintf(text, sizeof text, "%-*s", LENGTH,
             "{\"b\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[8,16]},"
             "\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}");
    FILE *file = fopen(tensor_path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite((const uint64_t[]){LENGTH}, 8, 1, file), 1);
    assert_int_equal(fwrite(text, LENGTH, 1, file), 1);
    assert_int_equal(fwrite((const uint64_t[]){1, 2}, 8, 2, file), 2);
    assert_int_equal(fclose(file), 0);
}

static ra_status storages(void)
{
    const int64_t shape[] = {HEADS, 100, DIM};
    char other_path[sizeof path + 2];
    snprintf(other_path, sizeof other_path, "%s-2", path);
    ra_tensor whole = view(results, 100);
    ra_tensor file = ra_tensor_dense(NULL, RA_F32, RA_BHSD, 1, 100, HEADS, DIM);
    ra_storage *memory = NULL, *storage = NULL, *nowhere = NULL;
    ra_array *array;
    ra_status status = ra_array_create(other_path, RA_F32, 3, shape, &array);
    if (!status)
        status = ra_storage_array(array, &file, &storage);
    if (!status)
        status = ra_storage_memory(&whole, &memory);
    if (!status)
        status = ra_storage_null(&whole, NULL, 0, NULL, &nowhere);
    ra_storage_free(nowhere);
    ra_storage_free(memory);
    ra_storage_free(storage);
    ra_array_close(array);
    return status;
}

/* All three ranks are played by this thread; what is not received is given up. */
static ra_status thread_messages(void)
{
    enum { RANKS = 3 };
    ra_comm *comms[RANKS];
    ra_transport_state found;
    ra_status status = ra_comm_threads(RANKS, comms);
    for (int i = 0; i < 2 * RANKS && !status; i++) {
        ra_transport *t = &comms[i % RANKS]->transport;
        status = i < RANKS ? t->send(t->state, (t->rank + 1) % RANKS, 0, NULL, 0)
                           : t->receive(t->state, (t->rank + RANKS - 1) % RANKS, 0, NULL, 0);
        if (!status)
            status = t->progress(t->state, &found);
    }
    for (int i = 0; i < RANKS; i++)
        ra_comm_free(comms[i]);
    return status;
}

static ra_status simulated_ranks(void)
{
    ra_comm *comm;
    ra_status status = ra_comm_sim(3, &comm);
    ra_comm_free(comm);
    return status;
}

/* ---- Rings ------------------------------------------------------------------------------------------------------ */

enum { RING_ROWS = 300 };

static const char *ring_pattern = "causal+documents:100,199,1";

static ra_status ring_plan_for(ra_ring_options options, ra_ring_plan **plan)
{
    ra_options run = RA_OPTIONS_INIT;
    ra_problem problem = RA_PROBLEM_INIT;
    run.threads = 2;
    problem.q_len = RING_ROWS, problem.heads = HEADS, problem.head_dim = DIM;
    problem.pattern = ring_pattern;
    ra_status status = ra_ring_plan_create(&problem, &run, &options, plan);
    if (status)
        assert_null(*plan);
    return status;
}

static ra_status ring_plans(void)
{
    static const ra_piece pieces[] = {{0, 10, 1}, {10, 200, 0}, {200, 300, 2}};
    ra_ring_plan *plan;
    ra_status status = RA_OK;
    for (int i = 0; i < 9 && !status; i++) {
        ra_ring_options options = RA_RING_OPTIONS_INIT;
        options.ranks = 3;
        options.strategy = (ra_strategy)(i % 3);
        options.order = (ra_order)(i / 3);
        options.transport = RA_TRANSPORT_MPI;
        options.kv_pieces = i % 2 ? pieces : NULL;
        options.kv_piece_count = i % 2 ? 3 : 0;
        status = ring_plan_for(options, &plan);
        ra_ring_plan_free(plan);
    }
    return status;
}

static ra_status smallest_ring(void)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    int ranks = 0;
    problem.q_len = LONGEST, problem.heads = HEADS, problem.head_dim = DIM;
    options.lent = 0;
    options.memory = 2 << 20;
    ra_status status = ra_ring_smallest(&problem, NULL, &options, &ranks);
    assert_int_equal(ranks > 0, !status);
    return status;
}

static ra_status run_stored(const ra_ring_plan *plan, ra_comm *comm)
{
    ra_tensor x = view(tokens, RING_ROWS), o = view(results, RING_ROWS);
    ra_rank_stats stats[3] = {RA_RANK_STATS_INIT};
    ra_storage *in = NULL, *out = NULL;
    ra_status status = ra_storage_memory(&x, &in);
    if (!status)
        status = ra_storage_memory(&o, &out);
    if (!status)
        status = ra_ring_run(plan, comm, in, in, in, out, NULL, stats);
    ra_storage_free(in);
    ra_storage_free(out);
    return status;
}

static ra_status run_lent(const ra_ring_plan *plan, ra_comm *comm)
{
    ra_tensor x = view(tokens, RING_ROWS), o = view(results, RING_ROWS);
    ra_rank_stats stats[3] = {RA_RANK_STATS_INIT};
    return ra_ring_forward(plan, comm, &x, &x, &x, &o, NULL, stats);
}

/* Simulated ranks, or the only rank of a ring of threads: it greets, agrees and ends as one of many does. */
static ra_status ring(ra_strategy strategy, int ranks, ra_transport_kind transport, int lent)
{
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan;
    ra_comm *comm = NULL;
    options.ranks = ranks;
    options.strategy = strategy;
    options.transport = transport;
    options.lent = lent;
    ra_status status = ring_plan_for(options, &plan);
    if (!status)
        status = transport == RA_TRANSPORT_SIM ? ra_comm_sim(ranks, &comm) : ra_comm_threads(1, &comm);
    if (!status)
        status = lent ? run_lent(plan, comm) : run_stored(plan, comm);
    ra_comm_free(comm);
    ra_ring_plan_free(plan);
    return status;
}

/* The same with heads that need different rows. */
static ra_status sparse_ring_plans(void)
{
    const char *usual = ring_pattern;
    ring_pattern = "dilated:90/1,200/4+blocks:16:random=3";
    ra_status status = ring_plans();
    ring_pattern = usual;
    return status;
}

static ra_status sparse_ring_of_sim_stored(void)
{
    const char *usual = ring_pattern;
    ring_pattern = "dilated:90/1,200/4";
    ra_status status = ring(RA_STRATEGY_RING, 3, RA_TRANSPORT_SIM, 0);
    ring_pattern = usual;
    return status;
}

static ra_status ring_of_sim(void)
{
    return ring(RA_STRATEGY_RING, 3, RA_TRANSPORT_SIM, 1);
}

static ra_status ring_of_sim_stored(void)
{
    return ring(RA_STRATEGY_RING, 3, RA_TRANSPORT_SIM, 0);
}

static ra_status allgather_of_sim_stored(void)
{
    return ring(RA_STRATEGY_ALLGATHER, 3, RA_TRANSPORT_SIM, 0);
}

static ra_status broadcast_of_sim_stored(void)
{
    return ring(RA_STRATEGY_BROADCAST, 3, RA_TRANSPORT_SIM, 0);
}

static ra_status ring_of_one_thread(void)
{
    return ring(RA_STRATEGY_RING, 1, RA_TRANSPORT_THREADS, 1);
}

static ra_status ring_of_one_process_stored(void)
{
    return ring(RA_STRATEGY_RING, 1, RA_TRANSPORT_MPI, 0);
}

/* ---- Tests ----------------------------------------------------------------------------------------------------- */

/* In this order: the writing ones leave the files that others read. */
static const struct scenario {
    const char *name;
    ra_status (*run)(void);
} scenarios[] = {
    {"array_write", array_write},
    {"array_read", array_read},
    {"documents_file", documents_file},
    {"tile_forward", tile_forward},
    {"sparse_forward", sparse_forward},
    {"mask_write", mask_write},
    {"mask_file", mask_file},
    {"scores_write", scores_write},
    {"scores_file", scores_file},
    {"decode_forward", decode_forward},
    {"reference_row", reference_row},
    {"reference_rows", reference_rows},
    {"reference_backward", reference_backward},
    {"reference_gradient_rows", reference_gradient_rows},
    {"plain_backward", plain_backward},
    {"sparse_backward", sparse_backward},
    {"array_join", array_join},
    {"tensor_read", tensor_read},
    {"storages", storages},
    {"thread_messages", thread_messages},
    {"simulated_ranks", simulated_ranks},
    {"ring_plans", ring_plans},
    {"smallest_ring", smallest_ring},
    {"sparse_ring_plans", sparse_ring_plans},
    {"sparse_ring_of_sim_stored", sparse_ring_of_sim_stored},
    {"ring_of_sim", ring_of_sim},
    {"ring_of_sim_stored", ring_of_sim_stored},
    {"allgather_of_sim_stored", allgather_of_sim_stored},
    {"broadcast_of_sim_stored", broadcast_of_sim_stored},
    {"ring_of_one_thread", ring_of_one_thread},
    {"ring_of_one_process_stored", ring_of_one_process_stored},
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

static void test_scenario(void **state)
{
    const struct scenario *scenario = *state;
    long allocations = fail_each(scenario->run);
    print_message("%s: each of %ld allocations\n", scenario->name, allocations);
    assert_true(allocations > 0);
}

static int set_up(void **state)
{
    (void)state;
    ra_generate(RA_NORMAL, 1, 0, LONGEST * HEADS * DIM, tokens);
    snprintf(path, sizeof path, "/tmp/ringattn-allocation-%ld.npy", (long)getpid());
    write_tensors();
    snprintf(mask_path, sizeof mask_path, "%s-mask", path);
    snprintf(scores_path, sizeof scores_path, "%s-scores.safetensors", path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char tensor_path[sizeof path + 20];
    snprintf(tensor_path, sizeof tensor_path, "%s.safetensors", path);
    return unlink(tensor_path) | unlink(mask_path) | unlink(scores_path) | unlink(path);
}

int main(void)
{
    struct CMUnitTest tests[SCENARIOS];
    for (int i = 0; i < SCENARIOS; i++)
        tests[i] = (struct CMUnitTest){scenarios[i].name, test_scenario, NULL, NULL, (void *)&scenarios[i]};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
