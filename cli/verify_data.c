/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tensors of a problem, and has the oracle compute all results. See verify_data.h. */
#include "verify_data.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DIM = 4099 };

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

static bool tensor_make(ra_tensor *tensor, ra_dtype dtype, ra_layout layout, int64_t batch, int64_t seq, int64_t heads,
                        int64_t dim)
{
    void *data = calloc((size_t)(batch * seq * heads * dim), ra_dtype_size(dtype));
    *tensor = ra_tensor_dense(data, dtype, layout, batch, seq, heads, dim);
    return data != NULL;
}

/* The element's place in [batch, seq, heads, dim] is its place in the stream, whatever the layout. */
static void tensor_fill(const ra_tensor *t, uint64_t seed)
{
    float values[MOST_DIM];
    for (int64_t row = 0; row < t->batch * t->seq * t->heads; row++) {
        ra_generate(RA_NORMAL, seed, row * t->dim, t->dim, values);
        for (int64_t d = 0; d < t->dim; d++)
            ra_tensor_set(t, row / t->heads / t->seq, row / t->heads % t->seq, row % t->heads, d, values[d]);
    }
}

/* The tensors of one layout. */
static bool tensors_make(ra_tensor t[VERIFY_TENSORS], const verify_case *c, ra_dtype dtype, ra_layout layout)
{
    const struct {
        ra_dtype dtype;
        bool keys;
        int64_t dim;
    } shapes[VERIFY_TENSORS] = {
        [VERIFY_QUERY] = {dtype, false, c->head_dim},
        [VERIFY_KEY] = {dtype, true, c->head_dim},
        [VERIFY_VALUE] = {dtype, true, c->value_dim},
        [VERIFY_OUTPUT_GRADIENT] = {dtype, false, c->value_dim},
        [VERIFY_LSE_GRADIENT] = {RA_F32, false, 1},
        [VERIFY_GIVEN_OUTPUT] = {dtype, false, c->value_dim},
        [VERIFY_GIVEN_LSE] = {RA_F32, false, 1},
        [VERIFY_OUTPUT] = {dtype, false, c->value_dim},
        [VERIFY_LSE] = {RA_F32, false, 1},
        [VERIFY_GRADIENTS + RA_GRADIENT_QUERY] = {dtype, false, c->head_dim},
        [VERIFY_GRADIENTS + RA_GRADIENT_KEY] = {dtype, true, c->head_dim},
        [VERIFY_GRADIENTS + RA_GRADIENT_VALUE] = {dtype, true, c->value_dim},
    };
    bool made = true;
    for (int i = 0; i < VERIFY_TENSORS; i++) {
        int64_t seq = shapes[i].keys ? c->kv_len : c->q_len, heads = shapes[i].keys ? c->kv_heads : c->heads;
        made &= tensor_make(&t[i], shapes[i].dtype, layout, c->batch, seq, heads, shapes[i].dim);
        if (made && i < VERIFY_INPUTS)
            tensor_fill(&t[i], (uint64_t)(1 + i));
    }
    return made;
}

/* ---- Arrays of scores -------------------------------------------------------------------------------------------- */

/* Slopes are those of the ALiBi paper. */
/* About half of the pairs, and valid keys that begin later and end earlier from element to element. */
static void fill_pattern_arrays(const ra_tensor *mask, const ra_tensor *lengths)
{
    uint8_t *pairs = mask->data;
    int64_t *numbers = lengths->data;
    float draw;
    for (int64_t i = 0; i < mask->seq * mask->dim; i++) {
        ra_generate(RA_NORMAL, 103, i, 1, &draw);
        pairs[i] = draw > 0;
    }
    for (int64_t i = 0; i < lengths->batch; i++) {
        numbers[2 * i] = mask->dim * i / (3 * lengths->batch);
        numbers[2 * i + 1] = mask->dim - mask->dim * i / (4 * lengths->batch);
    }
}

static bool arrays_make(verify_data *data, const verify_case *c)
{
    enum { REACH = 20 };
    const char *const names[VERIFY_ARRAYS] = {"relative", "bias", "sinks", "mask", "lengths"};
    ra_tensor *a = data->arrays;
    ra_score_arrays *views = &data->score_arrays;
    const ra_tensor **const where[VERIFY_ARRAYS] = {&views->table, &views->bias, &views->sinks, &views->mask,
                                                    &views->lengths};
    *views = (ra_score_arrays)RA_SCORE_ARRAYS_INIT;
    bool made = tensor_make(&a[VERIFY_TABLE], RA_F32, RA_BSHD, 1, 1, c->heads, 2 * REACH + 1) &&
                tensor_make(&a[VERIFY_BIAS], RA_F32, RA_BSHD, c->batch, c->q_len, 1, c->kv_len) &&
                tensor_make(&a[VERIFY_SINKS], RA_F32, RA_BSHD, 1, 1, c->heads, 1) &&
                tensor_make(&a[VERIFY_MASK], RA_BOOL, RA_BSHD, 1, c->q_len, 1, c->kv_len) &&
                tensor_make(&a[VERIFY_LENGTHS], RA_I64, RA_BSHD, c->batch, 1, 1, 2);
    for (int i = 0; i < VERIFY_ARRAYS && made; i++) {
        const char *text = i < VERIFY_MASK ? c->scores : c->pattern;
        if (i < VERIFY_MASK)
            tensor_fill(&a[i], (uint64_t)(100 + i));
        if (text && strstr(text, names[i]))
            *where[i] = &a[i];
    }
    if (made)
        fill_pattern_arrays(&a[VERIFY_MASK], &a[VERIFY_LENGTHS]);
    return made;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

/* Every row of a tensor. */
static bool rows_make(verify_rows *r, const ra_tensor *of)
{
    size_t count = (size_t)(of->batch * of->seq * of->heads), dim = (size_t)of->dim;
    *r = (verify_rows){.count = (int64_t)count, .dim = of->dim};
    r->rows = malloc(count * sizeof *r->rows);
    r->values = malloc(count * dim * sizeof *r->values);
    r->spreads = malloc(count * dim * sizeof *r->spreads);
    r->roundings = malloc(count * dim * sizeof *r->roundings);
    r->lses = malloc(count * sizeof *r->lses);
    r->sizes = malloc(count * sizeof *r->sizes);
    for (int64_t i = 0; r->rows && i < r->count; i++)
        r->rows[i] = (ra_row){.batch = i / of->heads / of->seq, .seq = i / of->heads % of->seq, .head = i % of->heads};
    return r->rows && r->values && r->spreads && r->roundings && r->lses && r->sizes;
}

static void rows_free(verify_rows *r)
{
    free(r->rows);
    free(r->values);
    free(r->spreads);
    free(r->roundings);
    free(r->lses);
    free(r->sizes);
}

bool verify_data_make(verify_data *data, const verify_case *c, ra_dtype dtype)
{
    *data = (verify_data){0};
    bool made = arrays_make(data, c);
    for (int layout = 0; layout < VERIFY_LAYOUTS; layout++)
        made &= tensors_make(data->tensors[layout], c, dtype, (ra_layout)layout);
    made &= rows_make(&data->forward, &data->tensors[0][VERIFY_OUTPUT]);
    for (int i = 0; i < GRADIENTS; i++)
        made &= rows_make(&data->gradients[i], &data->tensors[0][VERIFY_GRADIENTS + i]);
    return made;
}

void verify_data_free(verify_data *data)
{
    for (int i = 0; i < VERIFY_ARRAYS; i++)
        free(data->arrays[i].data);
    for (int layout = 0; layout < VERIFY_LAYOUTS; layout++)
        for (int i = 0; i < VERIFY_TENSORS; i++)
            free(data->tensors[layout][i].data);
    rows_free(&data->forward);
    for (int i = 0; i < GRADIENTS; i++)
        rows_free(&data->gradients[i]);
}

/* ---- The oracle -------------------------------------------------------------------------------------------------- */

ra_status verify_plan(const verify_data *data, const verify_case *c, ra_kernel_id kernel, ra_plan **plan)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.batch = c->batch;
    problem.q_len = c->q_len, problem.kv_len = c->kv_len;
    problem.heads = c->heads, problem.kv_heads = c->kv_heads;
    problem.head_dim = c->head_dim, problem.value_dim = c->value_dim;
    problem.pattern = c->pattern;
    problem.scores = c->scores;
    problem.score_arrays = &data->score_arrays;
    ra_options options = RA_OPTIONS_INIT;
    options.kernel = kernel;
    return ra_plan_create(&problem, &options, plan);
}

/* The oracle's forward pass as tensors. */
static void give_forward(verify_data *data)
{
    const verify_rows *r = &data->forward;
    for (int layout = 0; layout < VERIFY_LAYOUTS; layout++) {
        const ra_tensor *output = &data->tensors[layout][VERIFY_GIVEN_OUTPUT];
        const ra_tensor *lse = &data->tensors[layout][VERIFY_GIVEN_LSE];
        for (int64_t i = 0; i < r->count; i++) {
            const ra_row *row = &r->rows[i];
            for (int64_t d = 0; d < r->dim; d++)
                ra_tensor_set(output, row->batch, row->seq, row->head, d, r->values[i * r->dim + d]);
            ra_tensor_set(lse, row->batch, row->seq, row->head, 0, r->lses[i]);
        }
    }
}

ra_status verify_data_reference(verify_data *data, const verify_case *c)
{
    ra_storage *s[VERIFY_OUTPUT] = {NULL};
    verify_rows *f = &data->forward;
    ra_plan *plan = NULL;
    ra_status status = verify_plan(data, c, RA_KERNEL_GENERIC, &plan);
    for (int i = 0; i < VERIFY_OUTPUT && !status; i++)
        status = ra_storage_memory(&data->tensors[RA_BSHD][i], &s[i]);
    if (!status)
        status = ra_reference_rows_rounded(plan, s[VERIFY_QUERY], s[VERIFY_KEY], s[VERIFY_VALUE], f->rows, f->count,
                                           f->values, f->lses, f->spreads, f->sizes, f->roundings);
    if (!status)
        give_forward(data);
    for (int i = 0; i < GRADIENTS && !status; i++) {
        verify_rows *g = &data->gradients[i];
        status = ra_reference_gradient_rows(
            plan, s[VERIFY_QUERY], s[VERIFY_KEY], s[VERIFY_VALUE], s[VERIFY_GIVEN_OUTPUT], s[VERIFY_GIVEN_LSE],
            s[VERIFY_OUTPUT_GRADIENT], s[VERIFY_LSE_GRADIENT], (ra_gradient)i, g->rows, g->count, g->values, g->sizes);
    }
    for (int i = 0; i < VERIFY_OUTPUT; i++)
        ra_storage_free(s[i]);
    ra_plan_free(plan);
    return status;
}
