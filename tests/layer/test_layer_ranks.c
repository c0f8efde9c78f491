/* SPDX-License-Identifier: Apache-2.0 */
/* The layer on ranks and with a cache, against the same layer in one process and against the naive one. */
#include "model.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 3 };

/* How a sequence is spread. */
typedef struct way {
    const char *pattern;
    ra_order order;
    ra_strategy strategy;
    int64_t rows;
    int scored;
    int silent; /* no row sees another rank's: nothing travels */
} way;

static const way WAYS[] = {
    {"causal", RA_ORDER_ZIGZAG, RA_STRATEGY_RING, 500, 0, 0},
    {"causal", RA_ORDER_STRIPED, RA_STRATEGY_BROADCAST, 131, 0, 0},
    {"full", RA_ORDER_CONTIGUOUS, RA_STRATEGY_ALLGATHER, 131, 1, 0},
    {"causal", RA_ORDER_ZIGZAG, RA_STRATEGY_RING, 131, 1, 0},
    {"dilated:64/1,128/2+causal", RA_ORDER_CONTIGUOUS, RA_STRATEGY_RING, 384, 0, 1},
    {"dilated:64/1,128/2+causal", RA_ORDER_CONTIGUOUS, RA_STRATEGY_RING, 500, 0, 0},
    {"dilated:64/1,128/2", RA_ORDER_CONTIGUOUS, RA_STRATEGY_BROADCAST, 384, 0, 1},
    {"blocks:64", RA_ORDER_CONTIGUOUS, RA_STRATEGY_RING, 384, 0, 1},
    {"causal", RA_ORDER_CONTIGUOUS, RA_STRATEGY_RING, 2, 0, 0},
};

typedef struct rank {
    const way *way;
    const model *whole;
    model *mine;
    ra_comm *comm;
    ra_layer *layer;
} rank;

static void *run_rank(void *argument)
{
    rank *r = argument;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = RANKS, ring.transport = RA_TRANSPORT_THREADS;
    ring.order = r->way->order, ring.strategy = r->way->strategy;
    ra_layer_options o = r->whole->s.o;
    if (ra_layer_create_on_rank(&o, &ring, r->comm, &r->layer)) {
        print_error("%s: %s\n", o.pattern, ra_last_message());
        return NULL;
    }
    ra_layer_info info = RA_LAYER_INFO_INIT;
    ra_layer_stats stats = RA_LAYER_STATS_INIT;
    ra_layer_describe(r->layer, &info);
    o.rows = info.rows;
    o.scores = NULL, o.score_arrays = NULL; /* those of the whole are every rank's */
    model *m = make_any(o, 0, 0);
    for (int64_t b = 0; b < o.batch; b++)
        for (int64_t i = 0; i < info.rows; i++) {
            int64_t from = (b * r->whole->s.o.rows + ra_layer_row(r->layer, i)) * o.embed;
            int64_t to = (b * info.rows + i) * o.embed;
            memcpy(m->f[ORACLE_X] + to, r->whole->f[ORACLE_X] + from, (size_t)o.embed * sizeof(float));
            memcpy(m->d_y + to, r->whole->d_y + from, (size_t)o.embed * sizeof(float));
        }
    void *saved = malloc((size_t)info.saved_bytes + 1);
    ra_status first = ra_layer_forward(r->layer, &m->p, m->f[ORACLE_X], m->y, NULL, &stats);
    int fits = !first && stats.peak_bytes <= stats.planned_peak_bytes && stats.flops == info.forward_flops;
    ra_status status = ra_layer_forward(r->layer, &m->p, m->f[ORACLE_X], m->y, saved, &stats);
    fits = fits && stats.peak_bytes <= stats.planned_peak_bytes && stats.flops == info.forward_flops;
    if (!status)
        status = ra_layer_backward(r->layer, &m->p, m->f[ORACLE_X], m->d_y, m->g[ORACLE_X], &m->d, saved, &stats);
    fits = fits && stats.peak_bytes <= stats.planned_peak_bytes && stats.flops == info.backward_flops;
    fits = fits && (!r->way->silent || (stats.bytes_sent == 0 && stats.bytes_received == 0));
    free(saved);
    if (!status && fits)
        r->mine = m;
    else
        print_error("%s, %lld rows: %s\n", o.pattern, (long long)r->way->rows,
                    status ? ra_last_message() : "other bytes or flops than planned");
    return NULL;
}

static void check_way(const way *way)
{
    ra_layer_options o = everything(way->rows);
    o.threads = 1, o.pattern = way->pattern, o.first_position = way->silent ? 128 : 3;
    model *whole = make_any(o, 0, way->scored);
    run_options(whole);
    float *arrays[3] = {NULL, NULL, NULL}; /* gradients of scores, which every rank writes: the total */
    for (int i = 0; i < 3 && way->scored; i++) {
        size_t bytes = (size_t)whole->s.count[ORACLE_SLOPES + i] * sizeof(float);
        arrays[i] = memcpy(malloc(bytes), whole->g[ORACLE_SLOPES + i], bytes);
        memset(whole->g[ORACLE_SLOPES + i], 0, bytes);
    }
    ra_comm *comms[RANKS];
    rank ranks[RANKS];
    pthread_t threads[RANKS];
    ok(ra_comm_threads(RANKS, comms));
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (rank){way, whole, NULL, comms[i], NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < RANKS; i++)
        assert_non_null(ranks[i].mine);
    for (int i = 0; i < ORACLE_X; i++)
        for (int64_t j = 0; j < whole->s.count[i]; j++) {
            double sum = 0;
            for (int r = 0; r < RANKS; r++)
                sum += ranks[r].mine->g[i][j];
            close_to(sum, whole->g[i][j], 10 + fabs(sum));
        }
    for (int r = 0; r < RANKS; r++) {
        model *m = ranks[r].mine;
        for (int64_t i = 0; i < m->s.count[ORACLE_X]; i++) {
            int64_t t = i / o.embed, b = t / m->s.o.rows;
            int64_t at = (b * o.rows + ra_layer_row(ranks[r].layer, t % m->s.o.rows)) * o.embed + i % o.embed;
            close_to(m->y[i], whole->y[at], 1 + fabsf(m->y[i]));
            close_to(m->g[ORACLE_X][i], whole->g[ORACLE_X][at], 1 + fabsf(whole->g[ORACLE_X][at]));
        }
        ra_layer_free(ranks[r].layer);
        ra_comm_free(comms[r]);
        free_model(m);
    }
    for (int i = 0; i < 3 && way->scored; i++) {
        for (int64_t j = 0; j < whole->s.count[ORACLE_SLOPES + i]; j++)
            close_to(whole->g[ORACLE_SLOPES + i][j], arrays[i][j], 1 + fabsf(arrays[i][j]));
        free(arrays[i]);
    }
    free_model(whole);
}

static void test_ranks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++)
        check_way(&WAYS[i]);
}

static void test_simulation(void **state)
{
    (void)state;
    ra_layer_options o = everything(300);
    model *whole = make_model(o, 1), *sim = make_model(o, 1);
    run_options(whole);
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = RANKS, ring.strategy = RA_STRATEGY_BROADCAST;
    ra_comm *comm = NULL;
    ra_layer *layer = NULL;
    ok(ra_comm_sim(RANKS, &comm));
    ok(ra_layer_create_on_rank(&sim->s.o, &ring, comm, &layer));
    run(sim, layer);
    same(whole, sim);
    ra_layer_free(layer);
    ra_comm_free(comm);
    free_model(whole), free_model(sim);
}

/* ---- Sums of gradients --------------------------------------------------------------------------------------------
 */

typedef struct summed {
    const model *whole;
    ra_comm *comm;
    double *sums;
} summed;

/* Contiguous parts of 64 and 128 rows: blocks are not divided. */
static const ra_piece PIECES[] = {{0, 64, 0}, {64, 192, 1}, {192, 300, 2}};

static void *run_summed(void *argument)
{
    summed *s = argument;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ra_layer_options o = s->whole->s.o;
    ra_layer *layer = NULL;
    ring.ranks = RANKS, ring.transport = RA_TRANSPORT_THREADS, ring.strategy = RA_STRATEGY_BROADCAST;
    ring.q_pieces = ring.kv_pieces = PIECES, ring.q_piece_count = ring.kv_piece_count = RANKS;
    if (ra_layer_create_on_rank(&o, &ring, s->comm, &layer))
        return NULL;
    ra_layer_info info = RA_LAYER_INFO_INIT;
    ra_layer_describe(layer, &info);
    int64_t whole_rows = o.rows, first = ra_layer_row(layer, 0);
    o.rows = info.rows;
    model *m = make_any(o, 0, 0);
    for (int64_t b = 0; b < o.batch; b++) {
        int64_t from = (b * whole_rows + first) * o.embed, to = b * info.rows * o.embed;
        size_t bytes = (size_t)(info.rows * o.embed) * sizeof(float);
        memcpy(m->f[ORACLE_X] + to, s->whole->f[ORACLE_X] + from, bytes);
        memcpy(m->d_y + to, s->whole->d_y + from, bytes);
    }
    s->sums = run_sums(m, layer);
    ra_layer_free(layer);
    free_model(m);
    return NULL;
}

/* Sums over ranks have the bits of those in one process. */
static void test_sums(void **state)
{
    (void)state;
    ra_layer_options o = everything(300);
    o.sum_rows = 64, o.threads = 1;
    model *whole = make_model(o, 1);
    ra_layer *layer = NULL;
    ok(ra_layer_create(&whole->s.o, &layer));
    double *expected = run_sums(whole, layer);
    ra_layer_free(layer);
    ra_comm *comms[RANKS];
    summed ranks[RANKS];
    pthread_t threads[RANKS];
    ok(ra_comm_threads(RANKS, comms));
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (summed){whole, comms[i], NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, run_summed, &ranks[i]), 0);
    }
    int64_t count = 0;
    for (int i = 0; i < ORACLE_X; i++)
        count += whole->s.count[i];
    for (int i = 0; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
        assert_non_null(ranks[i].sums);
    }
    for (int64_t i = 0; i < count; i++)
        assert_true(ranks[2].sums[i] + (ranks[0].sums[i] + ranks[1].sums[i]) == expected[i]);
    for (int i = 0; i < RANKS; i++) {
        free(ranks[i].sums);
        ra_comm_free(comms[i]);
    }
    free(expected);
    free_model(whole);
}

/* ---- Caches ---------------------------------------------------------------------------------------------------- */

/* Two sequences, a window and rotary positions: prompt and single tokens give what one pass over all of them gives. */
static void test_decode_batch(void **state)
{
    (void)state;
    enum { ROWS = 11, PROMPT = 6, BATCH = 2 };
    ra_layer_options o = everything(ROWS);
    o.pattern = "window:3,0", o.rotary_interleaved = 1;
    model *m = make_any(o, 1, 0);
    run_options(m);
    int64_t e = o.embed, width = o.kv_heads * o.head_dim;
    float *k = numbers(BATCH * ROWS * width), *v = numbers(BATCH * ROWS * width), *x = numbers(BATCH * PROMPT * e);
    float *y = numbers(BATCH * PROMPT * e);
    ra_layer_cache cache = {k, v, ROWS, 0};
    ra_layer *prompt = NULL, *next = NULL;
    o.cache = ROWS, o.rows = PROMPT;
    ok(ra_layer_create(&o, &prompt));
    o.rows = 1;
    ok(ra_layer_create(&o, &next));
    for (int64_t t = 0; t < ROWS; t += t ? 1 : PROMPT) {
        int64_t rows = t ? 1 : PROMPT;
        for (int64_t b = 0; b < BATCH; b++)
            memcpy(x + b * rows * e, m->f[ORACLE_X] + (b * ROWS + t) * e, (size_t)(rows * e) * sizeof(float));
        ok(ra_layer_decode(t ? next : prompt, &m->p, x, y, &cache, NULL));
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t i = 0; i < rows * e; i++)
                close_to(y[b * rows * e + i], m->y[(b * ROWS + t) * e + i], 1);
    }
    ra_layer_free(prompt), ra_layer_free(next);
    free(k), free(v), free(x), free(y), free_model(m);
}

static void test_decode(void **state)
{
    (void)state;
    enum { ROWS = 9, PROMPT = 4, CACHE = 12 };
    ra_layer_options o = everything(ROWS);
    o.batch = 1;
    model *m = make_model(o, 1);
    float *k = numbers(CACHE * 12), *v = numbers(CACHE * 12);
    ra_layer_cache cache = {k, v, CACHE, 0};
    ra_layer *prompt = NULL, *next = NULL;
    ra_layer_stats stats = RA_LAYER_STATS_INIT;
    o = m->s.o, o.cache = CACHE, o.rows = PROMPT;
    ok(ra_layer_create(&o, &prompt));
    o.rows = 1;
    ok(ra_layer_create(&o, &next));
    ok(ra_layer_decode(prompt, &m->p, m->f[ORACLE_X], m->y, &cache, &stats));
    for (int t = PROMPT; t < ROWS; t++) {
        ok(ra_layer_decode(next, &m->p, m->f[ORACLE_X] + t * o.embed, m->y + t * o.embed, &cache, &stats));
        assert_true(stats.peak_bytes <= stats.planned_peak_bytes);
    }
    assert_int_equal(cache.length, ROWS);
    check_output(m);
    assert_int_equal(ra_layer_decode(prompt, &m->p, m->f[ORACLE_X], m->y, &cache, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "the cache has 9 keys of 12: no room for 4 more");
    ra_layer_free(prompt), ra_layer_free(next);
    free(k), free(v), free_model(m);
}

static void test_ring_refused(void **state)
{
    (void)state;
    ra_layer_options o = everything(8);
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ra_layer *layer = NULL;
    ra_comm *comm = NULL;
    ok(ra_comm_sim(2, &comm));
    ring.ranks = 3;
    assert_int_equal(ra_layer_create_on_rank(&o, &ring, comm, &layer), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "ring options have 3 ranks, the communicator 2");
    ring.ranks = 2, ring.size = 12;
    assert_int_equal(ra_layer_create_on_rank(&o, &ring, comm, &layer), RA_ERROR_ARGUMENT);
    ring.size = sizeof ring + 8;
    assert_int_equal(ra_layer_create_on_rank(&o, &ring, comm, &layer), RA_ERROR_ARGUMENT);
    ring.size = sizeof ring, o.cache = 8;
    assert_int_equal(ra_layer_create_on_rank(&o, &ring, comm, &layer), RA_ERROR_UNSUPPORTED);
    assert_int_equal(ra_layer_create_on_rank(&o, NULL, comm, &layer), RA_ERROR_ARGUMENT);
    assert_null(layer);
    ra_comm_free(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),        cmocka_unit_test(test_simulation),   cmocka_unit_test(test_decode),
        cmocka_unit_test(test_decode_batch), cmocka_unit_test(test_ring_refused), cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
