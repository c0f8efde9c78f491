/*
 * The layer against the naive one: outputs, gradients against finite differences, bits for any number of threads,
 * recomputing, memory, ranks, caches, and what is refused.
 */
#include "oracle.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct model {
    oracle s;
    float *f[ORACLE_PARTS], *g[ORACLE_PARTS]; /* values, and gradients */
    float *y, *d_y;
    ra_layer_parameters p;
    ra_layer_gradients d;
    ra_tensor views[6]; /* of slopes, sinks and bias, then of their gradients */
    ra_score_arrays arrays;
} model;

static float *numbers(int64_t count)
{
    return calloc((size_t)count + 1, sizeof(float));
}

static void make_arrays(model *m)
{
    int64_t heads = m->s.o.heads, rows = m->s.o.rows;
    for (int i = 0; i < 6; i++) {
        const float *data = (i < 3 ? m->f : m->g)[ORACLE_SLOPES + i % 3];
        m->views[i] = i % 3 < 2 ? ra_tensor_dense(data, RA_F32, RA_BSHD, 1, 1, heads, 1)
                                : ra_tensor_dense(data, RA_F32, RA_BSHD, 1, rows, 1, rows);
    }
    m->arrays = (ra_score_arrays)RA_SCORE_ARRAYS_INIT;
    m->arrays.slopes = &m->views[0], m->arrays.sinks = &m->views[1], m->arrays.bias = &m->views[2];
    m->arrays.d_slopes = &m->views[3], m->arrays.d_sinks = &m->views[4], m->arrays.d_bias = &m->views[5];
    m->s.o.scores = ORACLE_SCORES, m->s.o.score_arrays = &m->arrays;
}

static model *make_any(ra_layer_options o, int causal, int scored)
{
    model *m = calloc(1, sizeof *m);
    m->s.o = o, m->s.causal = causal, m->s.scored = scored;
    oracle_count(&m->s);
    for (int i = 0; i < ORACLE_PARTS; i++) {
        int64_t n = m->s.count[i];
        m->f[i] = n ? numbers(n) : NULL, m->g[i] = n ? numbers(n) : NULL;
        m->s.part[i] = calloc((size_t)n + 1, sizeof(double));
        if (n)
            ra_generate(RA_NORMAL, 7 + (uint64_t)i, 0, n, m->f[i]);
        for (int64_t j = 0; j < n; j++) {
            m->f[i][j] *= i < 4 || i == ORACLE_SLOPES ? 0.3F : 1;
            m->s.part[i][j] = m->f[i][j];
        }
    }
    m->y = numbers(m->s.count[ORACLE_X]), m->d_y = numbers(m->s.count[ORACLE_X]);
    ra_generate(RA_NORMAL, 99, 0, m->s.count[ORACLE_X], m->d_y);
    m->p = (ra_layer_parameters){sizeof m->p, m->f[0], m->f[1], m->f[2], m->f[3],  m->f[4], m->f[5],
                                 m->f[6],     m->f[7], m->f[8], m->f[9], m->f[10], m->f[11]};
    m->d = (ra_layer_gradients){sizeof m->d, m->g[0], m->g[1], m->g[2], m->g[3],  m->g[4], m->g[5],
                                m->g[6],     m->g[7], m->g[8], m->g[9], m->g[10], m->g[11]};
    if (scored)
        make_arrays(m);
    return m;
}

static model *make_model(ra_layer_options o, int causal)
{
    o.pattern = causal ? "causal" : "full";
    return make_any(o, causal, 0);
}

static void free_model(model *m)
{
    for (int i = 0; i < ORACLE_PARTS; i++)
        free(m->f[i]), free(m->g[i]), free(m->s.part[i]);
    free(m->y), free(m->d_y), free(m);
}

static void ok(ra_status status)
{
    if (status)
        print_error("%s\n", ra_last_message());
    assert_int_equal(status, RA_OK);
}

/* Forward and backward, with every count checked against the plan. */
static void run(model *m, ra_layer *layer)
{
    ra_layer_info info = RA_LAYER_INFO_INIT;
    ra_layer_stats stats = RA_LAYER_STATS_INIT;
    ok(ra_layer_describe(layer, &info));
    void *saved = malloc((size_t)info.saved_bytes + 1);
    ok(ra_layer_forward(layer, &m->p, m->f[ORACLE_X], m->y, saved, &stats));
    assert_true(stats.peak_bytes <= stats.planned_peak_bytes && stats.planned_peak_bytes == info.training_bytes);
    assert_true(stats.flops == info.forward_flops);
    ok(ra_layer_backward(layer, &m->p, m->f[ORACLE_X], m->d_y, m->g[ORACLE_X], &m->d, saved, &stats));
    assert_true(stats.peak_bytes <= stats.planned_peak_bytes && stats.planned_peak_bytes == info.backward_bytes);
    assert_true(stats.flops == info.backward_flops);
    free(saved);
}

static void run_options(model *m)
{
    ra_layer *layer = NULL;
    ok(ra_layer_create(&m->s.o, &layer));
    run(m, layer);
    ra_layer_free(layer);
}

static double loss(const model *m, double *y)
{
    double sum = 0;
    oracle_forward(&m->s, y);
    for (int64_t i = 0; i < m->s.count[ORACLE_X]; i++)
        sum += y[i] * m->d_y[i];
    return sum;
}

static void close_to(double got, double wanted, double size)
{
    if (!(fabs(got - wanted) <= 1e-4 * size))
        fail_msg("%g instead of %g, size %g", got, wanted, size);
}

/* Every gradient against a central difference of the naive layer. */
static void check_gradients(const model *m)
{
    double *y = malloc((size_t)(m->s.count[ORACLE_X] + 1) * sizeof(double));
    for (int i = 0; i < ORACLE_PARTS; i++)
        for (int64_t j = 0; j < m->s.count[i]; j += 1 + m->s.count[i] / 40) {
            double at = m->s.part[i][j], step = 1e-5;
            m->s.part[i][j] = at + step;
            double above = loss(m, y);
            m->s.part[i][j] = at - step;
            double below = loss(m, y);
            m->s.part[i][j] = at;
            double wanted = (above - below) / (2 * step);
            close_to(m->g[i][j], wanted, 1 + fabs(wanted));
        }
    free(y);
}

static void check_output(const model *m)
{
    double *y = malloc((size_t)(m->s.count[ORACLE_X] + 1) * sizeof(double));
    oracle_forward(&m->s, y);
    for (int64_t i = 0; i < m->s.count[ORACLE_X]; i++)
        close_to(m->y[i], y[i], 1 + fabs(y[i]));
    free(y);
}

static ra_layer_options odd_sizes(void)
{
    ra_layer_options o = RA_LAYER_OPTIONS_INIT;
    o.batch = 2, o.rows = 13, o.embed = 20, o.heads = 5, o.kv_heads = 1, o.head_dim = 7, o.threads = 2;
    return o;
}

static ra_layer_options everything(int64_t rows)
{
    ra_layer_options o = RA_LAYER_OPTIONS_INIT;
    o.batch = 2, o.rows = rows, o.embed = 18, o.heads = 4, o.kv_heads = 2, o.head_dim = 6, o.threads = 2;
    o.input_bias = o.output_bias = o.query_key_norm = o.output_norm = 1;
    o.rotary_base = 100, o.rotary_scale = 2, o.first_position = 3;
    return o;
}

static void test_plain(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        model *m = make_model(odd_sizes(), causal);
        run_options(m);
        check_output(m), check_gradients(m);
        free_model(m);
    }
}

static void test_everything(void **state)
{
    (void)state;
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        ra_layer_options o = everything(11);
        o.rotary_interleaved = interleaved;
        model *m = make_model(o, 1);
        run_options(m);
        check_output(m), check_gradients(m);
        free_model(m);
    }
}

/* Who sees whom, by the plan of the attention alone. */
static ra_plan *seen(const ra_layer_options *o)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_plan *plan = NULL;
    problem.batch = o->batch, problem.q_len = o->rows, problem.heads = o->heads, problem.kv_heads = o->kv_heads;
    problem.head_dim = o->head_dim, problem.pattern = o->pattern, problem.key_position = o->first_position;
    ok(ra_plan_create(&problem, NULL, &plan));
    return plan;
}

/* Any pattern, with and without terms of scores, whose arrays have gradients too. */
static void test_patterns(void **state)
{
    (void)state;
    static const char *const PATTERNS[] = {"full",     "causal",          "window:3,1",      "dilated:4/1,8/2+causal",
                                           "chunks:5", "documents:4,7,2", "blocks:2:local=2"};
    for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++)
        for (int scored = 0; scored < 2; scored++) {
            ra_layer_options o = everything(13);
            o.pattern = PATTERNS[i], o.batch = 1 + scored, o.recompute = scored;
            model *m = make_any(o, 0, scored);
            ra_plan *plan = seen(&o);
            m->s.plan = plan;
            run_options(m);
            check_output(m), check_gradients(m);
            ra_plan_free(plan), free_model(m);
        }
}

static void same(const model *a, const model *b)
{
    assert_memory_equal(a->y, b->y, (size_t)a->s.count[ORACLE_X] * sizeof(float));
    for (int i = 0; i < ORACLE_PARTS; i++)
        assert_memory_equal(a->g[i], b->g[i], (size_t)a->s.count[i] * sizeof(float));
}

static void test_bits(void **state)
{
    (void)state;
    ra_layer_options o = everything(700);
    o.threads = 1;
    model *one = make_model(o, 1);
    run_options(one);
    check_output(one);
    for (o.threads = 1; o.threads <= 4; o.threads++)
        for (o.recompute = 0; o.recompute < 2; o.recompute++) {
            o.keep_memory = o.recompute;
            model *m = make_model(o, 1);
            run_options(m);
            same(one, m);
            free_model(m);
        }
    free_model(one);
}

/* ---- Ranks ----------------------------------------------------------------------------------------------------- */

enum { RANKS = 3 };

typedef struct rank {
    const model *whole;
    model *mine;
    ra_comm *comm;
    ra_layer *layer;
} rank;

static void *run_rank(void *argument)
{
    rank *r = argument;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = RANKS, ring.order = RA_ORDER_ZIGZAG, ring.transport = RA_TRANSPORT_THREADS;
    ra_layer_options o = r->whole->s.o;
    o.pattern = "causal";
    if (ra_layer_create_on_rank(&o, &ring, r->comm, &r->layer))
        return NULL;
    ra_layer_info info = RA_LAYER_INFO_INIT;
    ra_layer_stats stats = RA_LAYER_STATS_INIT;
    ra_layer_describe(r->layer, &info);
    o.rows = info.rows;
    model *m = make_model(o, 1);
    for (int64_t b = 0; b < o.batch; b++)
        for (int64_t i = 0; i < info.rows; i++) {
            int64_t from = (b * r->whole->s.o.rows + ra_layer_row(r->layer, i)) * o.embed;
            int64_t to = (b * info.rows + i) * o.embed;
            memcpy(m->f[ORACLE_X] + to, r->whole->f[ORACLE_X] + from, (size_t)o.embed * sizeof(float));
            memcpy(m->d_y + to, r->whole->d_y + from, (size_t)o.embed * sizeof(float));
        }
    void *saved = malloc((size_t)info.saved_bytes);
    ra_status status = ra_layer_forward(r->layer, &m->p, m->f[ORACLE_X], m->y, saved, &stats);
    int fits = stats.peak_bytes <= stats.planned_peak_bytes && stats.flops == info.forward_flops;
    if (!status)
        status = ra_layer_backward(r->layer, &m->p, m->f[ORACLE_X], m->d_y, m->g[ORACLE_X], &m->d, saved, &stats);
    fits = fits && stats.peak_bytes <= stats.planned_peak_bytes && stats.flops == info.backward_flops;
    free(saved);
    if (!status && fits)
        r->mine = m;
    return NULL;
}

static void test_ranks(void **state)
{
    (void)state;
    ra_layer_options o = everything(500);
    o.threads = 1;
    model *whole = make_model(o, 1);
    run_options(whole);
    ra_comm *comms[RANKS];
    rank ranks[RANKS];
    pthread_t threads[RANKS];
    ok(ra_comm_threads(RANKS, comms));
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (rank){whole, NULL, comms[i], NULL};
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
    free_model(whole);
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

/* ---- Caches ---------------------------------------------------------------------------------------------------- */

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

/* ---- Bad input ------------------------------------------------------------------------------------------------- */

static void refused(ra_layer_options o, const char *says)
{
    ra_layer *layer = NULL;
    assert_int_equal(ra_layer_create(&o, &layer), RA_ERROR_ARGUMENT);
    assert_null(layer);
    if (!strstr(ra_last_message(), says))
        fail_msg("\"%s\" does not say \"%s\"", ra_last_message(), says);
}

static void test_refused(void **state)
{
    (void)state;
    ra_layer_options o = odd_sizes();
    o.rotary_base = 10000;
    refused(o, "head_dim 7 is odd");
    o = odd_sizes(), o.kv_heads = 2;
    refused(o, "kv_heads 2: must be >= 1 and divide heads, which is 5");
    o = odd_sizes(), o.heads = 3, o.head_dim = RA_SAME;
    refused(o, "embed 20 is no multiple of heads 3");
    o = odd_sizes(), o.pattern = "nonsense";
    refused(o, "nonsense");
    o = odd_sizes(), o.cache = 5;
    refused(o, "cache 5");
    o = odd_sizes(), o.size = 3;
    refused(o, "RA_LAYER_OPTIONS_INIT");
    model *m = make_model(odd_sizes(), 0);
    ra_layer *layer = NULL;
    ok(ra_layer_create(&m->s.o, &layer));
    m->p.w_k = NULL;
    assert_int_equal(ra_layer_forward(layer, &m->p, m->f[ORACLE_X], m->y, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "w_k is NULL"));
    m->p.w_k = m->f[1], m->p.b_o = m->y;
    assert_int_equal(ra_layer_forward(layer, &m->p, m->f[ORACLE_X], m->y, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "b_o is given"));
    assert_int_equal(ra_layer_forward(layer, &m->p, NULL, m->y, NULL, NULL), RA_ERROR_ARGUMENT);
    ra_layer_free(layer), free_model(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),  cmocka_unit_test(test_everything), cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_bits),   cmocka_unit_test(test_ranks),      cmocka_unit_test(test_simulation),
        cmocka_unit_test(test_decode), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
