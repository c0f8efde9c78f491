/* SPDX-License-Identifier: Apache-2.0 */
/* Models for the tests of the layer: made up, run and compared with the naive layer. See model.h. */
#include "model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

float *numbers(int64_t count)
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

model *make_any(ra_layer_options o, int causal, int scored)
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
    m->d = (ra_layer_gradients){sizeof m->d, m->g[0], m->g[1], m->g[2], m->g[3],  m->g[4],  m->g[5],
                                m->g[6],     m->g[7], m->g[8], m->g[9], m->g[10], m->g[11], NULL};
    if (scored)
        make_arrays(m);
    return m;
}

model *make_model(ra_layer_options o, int causal)
{
    o.pattern = causal ? "causal" : "full";
    return make_any(o, causal, 0);
}

void free_model(model *m)
{
    for (int i = 0; i < ORACLE_PARTS; i++)
        free(m->f[i]), free(m->g[i]), free(m->s.part[i]);
    free(m->y), free(m->d_y), free(m);
}

void ok(ra_status status)
{
    if (status)
        print_error("%s\n", ra_last_message());
    assert_int_equal(status, RA_OK);
}

/* Forward and backward, with every count checked against the plan. */
void run(model *m, ra_layer *layer)
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

double *run_sums(const model *m, ra_layer *layer)
{
    ra_layer_info info = RA_LAYER_INFO_INIT;
    ra_layer_stats stats = RA_LAYER_STATS_INIT;
    ra_layer_gradients d = RA_LAYER_GRADIENTS_INIT;
    int64_t count = 0;
    for (int i = 0; i < ORACLE_X; i++)
        count += m->s.count[i];
    ok(ra_layer_describe(layer, &info));
    void *saved = malloc((size_t)info.saved_bytes + 1);
    d.sums = calloc((size_t)count, sizeof(double));
    ok(ra_layer_forward(layer, &m->p, m->f[ORACLE_X], m->y, saved, &stats));
    ok(ra_layer_backward(layer, &m->p, m->f[ORACLE_X], m->d_y, NULL, &d, saved, &stats));
    assert_true(stats.peak_bytes <= stats.planned_peak_bytes && stats.planned_peak_bytes == info.backward_bytes);
    free(saved);
    return d.sums;
}

void run_options(model *m)
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

void close_to(double got, double wanted, double size)
{
    if (!(fabs(got - wanted) <= 1e-4 * size))
        fail_msg("%g instead of %g, size %g", got, wanted, size);
}

/* Every gradient against a central difference of the naive layer. */
void check_gradients(const model *m)
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

void check_output(const model *m)
{
    double *y = malloc((size_t)(m->s.count[ORACLE_X] + 1) * sizeof(double));
    oracle_forward(&m->s, y);
    for (int64_t i = 0; i < m->s.count[ORACLE_X]; i++)
        close_to(m->y[i], y[i], 1 + fabs(y[i]));
    free(y);
}

ra_layer_options odd_sizes(void)
{
    ra_layer_options o = RA_LAYER_OPTIONS_INIT;
    o.batch = 2, o.rows = 13, o.embed = 20, o.heads = 5, o.kv_heads = 1, o.head_dim = 7, o.threads = 2;
    return o;
}

ra_layer_options everything(int64_t rows)
{
    ra_layer_options o = RA_LAYER_OPTIONS_INIT;
    o.batch = 2, o.rows = rows, o.embed = 18, o.heads = 4, o.kv_heads = 2, o.head_dim = 6, o.threads = 2;
    o.input_bias = o.output_bias = o.query_key_norm = o.output_norm = 1;
    o.rotary_base = 100, o.rotary_scale = 2, o.first_position = 3;
    return o;
}

void same(const model *a, const model *b)
{
    assert_memory_equal(a->y, b->y, (size_t)a->s.count[ORACLE_X] * sizeof(float));
    for (int i = 0; i < ORACLE_PARTS; i++)
        assert_memory_equal(a->g[i], b->g[i], (size_t)a->s.count[i] * sizeof(float));
}
