/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, runs and judges problems of the backward pass. See gradients.h. */
#include "support/gradients.h"

#include "compare.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *take(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    assert_non_null(memory);
    return memory;
}

/* ---- Making ------------------------------------------------------------------------------------------------------ */

/* The tensor of the sample that a gradient has the shape of. */
static const ra_tensor *counterpart(const gradients *g, int which)
{
    static const int of[D_TENSORS] = {SAMPLE_QUERY, SAMPLE_KEY, SAMPLE_VALUE, SAMPLE_OUTPUT, SAMPLE_LSE};
    return &g->s.tensors[of[which]];
}

static int64_t count_of(const gradients *g, int which)
{
    const ra_tensor *t = counterpart(g, which);
    return t->batch * t->seq * t->heads * t->dim;
}

static void place_gradients(gradients *g, choices *c, int dtype)
{
    for (int i = 0; i < D_TENSORS; i++) {
        const ra_tensor *t = counterpart(g, i);
        const int64_t shape[4] = {t->batch, t->seq, t->heads, t->dim};
        g->d[i] = c ? place_any(c, shape, i == D_LSE ? RA_F32 : dtype, i >= D_INPUTS ? 3 : 0) : place_dense(shape);
        if (i >= D_INPUTS)
            fill_tensor(&g->d[i].view, c ? choose_bits(c) : (uint64_t)i + 10);
    }
    for (int i = 0; i < D_INPUTS; i++) {
        g->exact[i] = take((size_t)count_of(g, i) * sizeof *g->exact[i]);
        g->sizes[i] = NULL;
    }
}

void gradients_make(gradients *g, const ra_problem *problem, bool with_lse)
{
    sample_make(&g->s, problem);
    place_gradients(g, NULL, RA_F32);
    g->with_lse = with_lse;
    g->fast = false;
}

void gradients_make_any(gradients *g, const ra_problem *problem, int dtype, choices *c)
{
    sample_make_any(&g->s, problem, dtype, c);
    place_gradients(g, c, dtype);
    g->with_lse = chance(c, 2);
    g->fast = false;
}

void gradients_free(gradients *g)
{
    for (int i = 0; i < D_TENSORS; i++)
        free(g->d[i].memory);
    for (int i = 0; i < D_INPUTS; i++) {
        free(g->exact[i]);
        free(g->sizes[i]);
    }
    sample_free(&g->s);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

void gradients_run_as(const gradients *g, const ra_options *options, const bool wanted[D_INPUTS], ra_stats *stats)
{
    const ra_tensor *t = g->s.tensors;
    const ra_tensor *d[D_INPUTS];
    ra_plan *plan = NULL;
    for (int i = 0; i < D_INPUTS; i++) {
        memset(g->d[i].memory, 0xff, g->d[i].bytes);
        d[i] = wanted[i] ? &g->d[i].view : NULL;
    }
    sample_run_as(&g->s, options, NULL);
    REQUIRE(!ra_plan_create(&g->s.problem, options, &plan), "%s: %s", gradients_text(g), ra_last_message());
    ra_status status = ra_backward(plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE], &t[SAMPLE_OUTPUT],
                                   &t[SAMPLE_LSE], &g->d[D_OUTPUT].view, g->with_lse ? &g->d[D_LSE].view : NULL,
                                   d[D_QUERY], d[D_KEY], d[D_VALUE], stats);
    ra_plan_free(plan);
    REQUIRE(!status, "%s: %s", gradients_text(g), ra_last_message());
}

void gradients_run(const gradients *g, ra_kernel_id kernel, int threads)
{
    static const bool all[D_INPUTS] = {true, true, true};
    ra_options options = RA_OPTIONS_INIT;
    options.kernel = kernel;
    options.threads = threads;
    options.precision = ra_kernel_precision(kernel);
    gradients_run_as(g, &options, all, NULL);
}

char *gradients_keep(const gradients *g)
{
    char *kept = take(g->d[D_QUERY].bytes + g->d[D_KEY].bytes + g->d[D_VALUE].bytes), *to = kept;
    for (int i = 0; i < D_INPUTS; i++) {
        memcpy(to, g->d[i].memory, g->d[i].bytes);
        to += g->d[i].bytes;
    }
    return kept;
}

bool gradients_same(const gradients *g, const char *kept, int which)
{
    for (int i = 0; i < which; i++)
        kept += g->d[i].bytes;
    return memcmp(kept, g->d[which].memory, g->d[which].bytes) == 0;
}

bool gradients_padding_kept(const gradients *g)
{
    bool kept = true;
    for (int i = 0; i < D_INPUTS; i++)
        kept &= placed_padding_kept(&g->d[i]);
    return kept;
}

/* ---- Judging ----------------------------------------------------------------------------------------------------- */

/* What d_lse has to be for the exact output to give the delta that the rounded output gives. */
static double told(const gradients *g, const ra_plan *plan, int64_t batch, int64_t query, int64_t head, double *exact)
{
    const ra_tensor *t = g->s.tensors, *output = &t[SAMPLE_OUTPUT];
    double d_lse = g->with_lse ? ra_tensor_get(&g->d[D_LSE].view, batch, query, head, 0) : 0;
    REQUIRE(
        !ra_reference_row(plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE], batch, head, query, exact, NULL),
        "%s: %s", gradients_text(g), ra_last_message());
    for (int64_t d = 0; d < output->dim; d++)
        d_lse -= ra_tensor_get(&g->d[D_OUTPUT].view, batch, query, head, d) *
                 (ra_tensor_get(output, batch, query, head, d) - exact[d]);
    return d_lse;
}

static placed d_lse_of_rounded(const gradients *g, const ra_plan *plan)
{
    const ra_problem *p = &g->s.problem;
    placed d_lse = place_dense((const int64_t[4]){p->batch, p->q_len, p->heads, 1});
    double *exact = take((size_t)p->value_dim * sizeof *exact);
    for (int64_t row = 0; row < p->batch * p->q_len * p->heads; row++) {
        int64_t batch = row / p->heads / p->q_len, query = row / p->heads % p->q_len, head = row % p->heads;
        ra_tensor_set(&d_lse.view, batch, query, head, 0, told(g, plan, batch, query, head, exact));
    }
    free(exact);
    return d_lse;
}

void gradients_solve(gradients *g)
{
    const ra_tensor *t = g->s.tensors;
    ra_plan *plan = sample_plan(&g->s, RA_KERNEL_GENERIC, 1);
    bool rounded = t[SAMPLE_OUTPUT].dtype != RA_F32;
    placed d_lse = rounded ? d_lse_of_rounded(g, plan) : g->d[D_LSE];
    ra_status status = ra_reference_backward(plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE],
                                             &g->d[D_OUTPUT].view, rounded || g->with_lse ? &d_lse.view : NULL,
                                             g->exact[D_QUERY], g->exact[D_KEY], g->exact[D_VALUE]);
    REQUIRE(!status, "%s: %s", gradients_text(g), ra_last_message());
    ra_plan_free(plan);
    if (rounded)
        free(d_lse.memory);
    for (int i = 0; i < D_INPUTS; i++) {
        free(g->sizes[i]);
        g->sizes[i] = NULL;
        g->largest[i] = 0;
        for (int64_t j = 0; j < count_of(g, i); j++)
            g->largest[i] = fmax(g->largest[i], fabs(g->exact[i][j]));
    }
}

double gradients_error(const gradients *g, int which)
{
    const ra_tensor *t = &g->d[which].view;
    double error = 0;
    for (int64_t row = 0; row < t->batch * t->seq * t->heads; row++)
        for (int64_t d = 0; d < t->dim; d++) {
            double got = ra_tensor_get(t, row / t->heads / t->seq, row / t->heads % t->seq, row % t->heads, d);
            error = fmax(error, distance(got, g->exact[which][row * t->dim + d], t->dtype));
        }
    return error / fmax(1, g->largest[which]);
}

double gradients_error_of(const gradients *g, int which, const float *values)
{
    double error = 0;
    for (int64_t i = 0; i < count_of(g, which); i++)
        error = fmax(error, distance((double)values[i], g->exact[which][i], RA_F32));
    return error / fmax(1, g->largest[which]);
}

/* What rounding of each row of a gradient grows with: [rows], which the caller frees. */
static double *sizes_of(const gradients *g, int which)
{
    const ra_tensor *inputs[SAMPLE_TENSORS + 2], *t = &g->d[which].view;
    int64_t count = t->batch * t->seq * t->heads;
    ra_storage *in[SAMPLE_TENSORS + 2] = {NULL};
    ra_row *rows = take((size_t)count * sizeof *rows);
    double *all = take((size_t)(count * t->dim) * sizeof *all), *sizes = take((size_t)count * sizeof *sizes);
    ra_plan *plan = sample_plan(&g->s, RA_KERNEL_GENERIC, 1);
    for (int64_t i = 0; i < count; i++)
        rows[i] = (ra_row){i / t->heads / t->seq, i / t->heads % t->seq, i % t->heads};
    for (int i = 0; i < SAMPLE_TENSORS + 2; i++) {
        inputs[i] = i < SAMPLE_TENSORS ? &g->s.tensors[i] : &g->d[D_OUTPUT + i - SAMPLE_TENSORS].view;
        if (i <= SAMPLE_TENSORS || g->with_lse)
            assert_int_equal(ra_storage_memory(inputs[i], &in[i]), RA_OK);
    }
    REQUIRE(!ra_reference_gradient_rows(plan, in[0], in[1], in[2], in[3], in[4], in[5], in[6], (ra_gradient)which, rows,
                                        count, all, sizes),
            "%s: %s", gradients_text(g), ra_last_message());
    for (int i = 0; i < SAMPLE_TENSORS + 2; i++)
        ra_storage_free(in[i]);
    ra_plan_free(plan);
    free(rows);
    free(all);
    return sizes;
}

double gradients_part(gradients *g, int which)
{
    const ra_problem *p = &g->s.problem;
    const ra_tensor *t = &g->d[which].view;
    int64_t terms = which == D_QUERY ? p->kv_len : p->q_len * (p->heads / p->kv_heads);
    double part = 0;
    if (!g->sizes[which])
        g->sizes[which] = sizes_of(g, which);
    for (int64_t row = 0; row < t->batch * t->seq * t->heads; row++)
        for (int64_t d = 0; d < t->dim; d++) {
            double got = ra_tensor_get(t, row / t->heads / t->seq, row / t->heads % t->seq, row % t->heads, d);
            double error = distance(got, g->exact[which][row * t->dim + d], t->dtype);
            double size = g->sizes[which][row], fast = g->fast ? fast_gradient_tolerance(size) : 0;
            part = fmax(part, error / (gradient_tolerance(terms, size) + fast));
        }
    return part;
}

const char *gradients_text(const gradients *g)
{
    static char text[1200];
    snprintf(text, sizeof text, "%s%s, dtypes %s %s %s, output %s, d_output %s, gradients %s %s %s", sample_text(&g->s),
             g->with_lse ? ", d_lse" : "", ra_dtype_name(g->s.tensors[SAMPLE_QUERY].dtype),
             ra_dtype_name(g->s.tensors[SAMPLE_KEY].dtype), ra_dtype_name(g->s.tensors[SAMPLE_VALUE].dtype),
             ra_dtype_name(g->s.tensors[SAMPLE_OUTPUT].dtype), ra_dtype_name(g->d[D_OUTPUT].view.dtype),
             ra_dtype_name(g->d[D_QUERY].view.dtype), ra_dtype_name(g->d[D_KEY].view.dtype),
             ra_dtype_name(g->d[D_VALUE].view.dtype));
    return text;
}
