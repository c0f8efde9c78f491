/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer against the naive one: outputs, gradients against finite differences, bits for any number of threads,
 * recomputing, memory, and what is refused. Ranks and caches: test_layer_ranks.c.
 */
#include "model.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

/* No tokens: nothing is done, and gradients of parameters are zero. */
static void test_empty(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        ra_layer_options o = everything(i == 0 ? 0 : 5);
        o.batch = i == 1 ? 0 : 1, o.recompute = i == 0;
        model *m = make_model(o, 1);
        for (int part = 0; part < ORACLE_X; part++)
            memset(m->g[part], 1, (size_t)m->s.count[part] * sizeof(float));
        run_options(m);
        for (int part = 0; part < ORACLE_X && i < 2; part++)
            for (int64_t j = 0; j < m->s.count[part]; j++)
                assert_true(m->g[part][j] == 0);
        free_model(m);
    }
}

/* Gradients that are not wanted are not computed, and the others are the same. */
static void test_some_gradients(void **state)
{
    (void)state;
    model *all = make_model(everything(21), 1), *some = make_model(everything(21), 1);
    ra_layer *layer = NULL;
    ra_layer_info info = RA_LAYER_INFO_INIT;
    ra_layer_stats stats = RA_LAYER_STATS_INIT;
    run_options(all);
    ok(ra_layer_create(&some->s.o, &layer));
    ok(ra_layer_describe(layer, &info));
    void *saved = malloc((size_t)info.saved_bytes);
    const float *x = some->f[ORACLE_X];
    ok(ra_layer_forward(layer, &some->p, x, some->y, saved, NULL));
    some->d.w_k = some->d.b_o = some->d.norm_q = NULL;
    ok(ra_layer_backward(layer, &some->p, x, some->d_y, NULL, &some->d, saved, &stats));
    assert_true(stats.flops < info.backward_flops);
    assert_memory_equal(some->g[0], all->g[0], (size_t)all->s.count[0] * sizeof(float));
    assert_memory_equal(some->g[9], all->g[9], (size_t)all->s.count[9] * sizeof(float));
    assert_true(some->g[1][0] == 0 && some->g[7][0] == 0 && some->g[8][0] == 0);
    ok(ra_layer_backward(layer, &some->p, x, some->d_y, some->g[ORACLE_X], NULL, saved, NULL));
    assert_memory_equal(some->g[ORACLE_X], all->g[ORACLE_X], (size_t)all->s.count[ORACLE_X] * sizeof(float));
    free(saved), ra_layer_free(layer), free_model(all), free_model(some);
}

/* One layer, run by several threads at the same time. */
typedef struct caller {
    const ra_layer *layer;
    model *m;
    ra_status status;
} caller;

static void *call(void *argument)
{
    caller *c = argument;
    for (int i = 0; i < 3 && !c->status; i++)
        c->status = ra_layer_forward(c->layer, &c->m->p, c->m->f[ORACLE_X], c->m->y, NULL, NULL);
    return NULL;
}

static void test_callers(void **state)
{
    (void)state;
    enum { CALLERS = 3 };
    ra_layer_options o = everything(150);
    o.keep_memory = 1;
    ra_layer *layer = NULL;
    caller callers[CALLERS];
    pthread_t threads[CALLERS];
    model *one = make_model(o, 1);
    run_options(one);
    ok(ra_layer_create(&one->s.o, &layer));
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){layer, make_model(o, 1), RA_OK};
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        ok(callers[i].status);
        assert_memory_equal(callers[i].m->y, one->y, (size_t)one->s.count[ORACLE_X] * sizeof(float));
        free_model(callers[i].m);
    }
    ra_layer_free(layer), free_model(one);
}

/* ---- Sums of gradients ------------------------------------------------------------------------------------------ */

/* Sums over blocks of rows: gradients of every parameter, multiples of the unit, the same for any number of threads. */
static void test_sums(void **state)
{
    (void)state;
    ra_layer_options o = everything(150);
    model *m = make_model(o, 1);
    run_options(m);
    double *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        ra_layer *layer = NULL;
        m->s.o.threads = threads, m->s.o.sum_rows = 64;
        ok(ra_layer_create(&m->s.o, &layer));
        double *sums = run_sums(m, layer);
        int64_t at = 0;
        for (int i = 0; i < ORACLE_X; i++)
            for (int64_t j = 0; j < m->s.count[i]; j++, at++) {
                close_to(sums[at], m->g[i][j], 1 + fabs(sums[at]));
                assert_true(sums[at] / RA_LAYER_SUM_UNIT == floor(sums[at] / RA_LAYER_SUM_UNIT));
                assert_true(!first || sums[at] == first[at]);
            }
        ra_layer_free(layer);
        if (first)
            free(sums);
        else
            first = sums;
    }
    free(first);
    free_model(m);
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
    o = odd_sizes(), o.query_key_norm = 7;
    refused(o, "query_key_norm 7: must be 0 or 1");
    o = odd_sizes(), o.head_dim = 2000;
    refused(o, "head_dim 2000: must be 1..1024");
    o = odd_sizes(), o.sum_rows = -1;
    refused(o, "sum_rows -1: must be >= 0");
    o = odd_sizes(), o.rows = -1;
    refused(o, "rows -1");
    o = odd_sizes(), o.embed = 0;
    refused(o, "embed 0");
    o = odd_sizes(), o.rotary_base = -1;
    refused(o, "rotary_base -1");
    o = odd_sizes(), o.rotary_scale = 0;
    refused(o, "rotary_scale 0");
    o = odd_sizes(), o.norm_epsilon = NAN;
    refused(o, "norm_epsilon");
    o = odd_sizes(), o.threads = -3;
    refused(o, "threads");
    o = odd_sizes(), o.scores = "nonsense";
    refused(o, "nonsense");
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

/* Sizes whose products do not fit into 64 bits, or into what a BLAS counts with. */
static void test_too_large(void **state)
{
    (void)state;
    const int64_t huge = INT64_MAX / 2;
    for (int i = 0; i < 5; i++) {
        ra_layer_options o = odd_sizes();
        ra_layer *layer = NULL;
        o.batch = i == 0 ? huge : 2, o.rows = i == 1 ? huge : 13, o.embed = i == 2 ? huge : 20;
        o.heads = i == 3 ? huge : 4, o.cache = i == 4 ? huge : 0;
        o.kv_heads = i == 3 ? huge : 1;
        ra_status status = ra_layer_create(&o, &layer);
        assert_true(status == RA_ERROR_ARGUMENT || status == RA_ERROR_MEMORY);
        assert_true(strlen(ra_last_message()) > 10);
        assert_null(layer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),          cmocka_unit_test(test_everything), cmocka_unit_test(test_empty),
        cmocka_unit_test(test_some_gradients), cmocka_unit_test(test_callers),    cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_patterns),       cmocka_unit_test(test_bits),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
