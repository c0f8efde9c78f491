/*
 * The layer against the naive one: outputs, gradients against finite differences, bits for any number of threads,
 * recomputing, memory, and what is refused. Ranks and caches: test_layer_ranks.c.
 */
#include "model.h"

#include <math.h>
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
        cmocka_unit_test(test_plain), cmocka_unit_test(test_everything), cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_bits),  cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
