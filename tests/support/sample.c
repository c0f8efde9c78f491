/* SPDX-License-Identifier: Apache-2.0 */
/* Makes problems with tensors, and compares outputs with the oracle. See sample.h. */
#include "support/sample.h"

#include "compare.h"
#include "support/placed.h"
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

/* ---- Patterns -------------------------------------------------------------------------------------------------- */

static void append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

static void append_documents(choices *c, int64_t kv_len, char *text, size_t size)
{
    enum { MOST = 12 };
    const char *before = "documents:";
    for (int i = 1; kv_len > 0; i++) {
        int64_t length = i == MOST || chance(c, 5) ? kv_len : choose(c, 1, kv_len);
        append(text, size, "%s%lld", before, (long long)length);
        kv_len -= length;
        before = ",";
    }
}

static void append_interval_term(choices *c, int64_t kv_len, char *text, size_t size)
{
    int64_t reach = chance(c, 3) ? 3 : kv_len;
    switch (choose(c, 0, 6)) {
    case 0: append(text, size, "full"); break;
    case 1: append(text, size, "causal"); break;
    case 2: append(text, size, "window:%lld", (long long)choose(c, 0, reach)); break;
    case 3:
        append(text, size, "window:%lld,%lld", (long long)choose(c, 0, reach), (long long)choose(c, 0, reach));
        break;
    case 4: append(text, size, "causal:prefix=%lld", (long long)choose(c, 0, kv_len + 5)); break;
    case 5: append(text, size, "chunks:%lld", (long long)choose(c, 1, chance(c, 2) ? 30 : kv_len + 10)); break;
    default: append_documents(c, kv_len, text, size); break;
    }
}

/* Up to four branches of any segments, some of them longer than the sequence, with rates that need not divide them. */
static void append_dilated(choices *c, int64_t kv_len, char *text, size_t size)
{
    static const char *const modes[] = {"", ":mode=paper", ":mode=union", ":mode=grouped", ":mode=torchscale"};
    int64_t branches = choose(c, 1, 4), segment = 0, rate = 0;
    for (int64_t i = 0; i < branches; i++) {
        bool again = i > 0 && chance(c, 5); /* twice the same */
        segment = again ? segment : chance(c, 3) ? choose(c, 1, 20) : choose(c, 1, kv_len + kv_len / 2 + 1);
        rate = again ? rate : choose(c, 1, chance(c, 5) || segment < 9 ? segment : 9);
        append(text, size, "%s%lld/%lld", i ? "," : "dilated:", (long long)segment, (long long)rate);
    }
    append(text, size, "%s", modes[choose(c, 0, 4)]);
}

static void append_blocks(choices *c, int64_t kv_len, char *text, size_t size)
{
    static const int64_t sizes[] = {1, 8, 16, 32, 64, 128};
    int64_t block = chance(c, 2) ? sizes[choose(c, 0, 5)] : choose(c, 1, chance(c, 3) ? kv_len + 5 : 100);
    append(text, size, "blocks:%lld", (long long)block);
    bool fraction = chance(c, 5);
    if (fraction)
        append(text, size, ":density=0.%02d", (int)choose(c, 1, 99));
    if (!fraction && chance(c, 2))
        append(text, size, ":local=%d", (int)choose(c, 0, 3));
    if (!fraction && chance(c, 3))
        append(text, size, ":global=%d", (int)choose(c, 0, 3));
    if (!fraction && chance(c, 3))
        append(text, size, ":stride=%d", (int)choose(c, 1, 6));
    if (!fraction && chance(c, 2))
        append(text, size, ":random=%d", (int)choose(c, 0, 5));
    if (chance(c, 3))
        append(text, size, ":seed=%d", (int)choose(c, 0, 1000));
}

void choose_intervals(choices *c, int64_t kv_len, char *text, size_t size)
{
    int64_t terms = choose(c, 1, 3);
    text[0] = '\0';
    for (int64_t i = 0; i < terms; i++) {
        append(text, size, "%s", i ? "+" : "");
        append_interval_term(c, kv_len, text, size);
    }
}

void choose_sparse(choices *c, int64_t kv_len, char *text, size_t size)
{
    int64_t kind = choose(c, 0, 6);
    bool dilated = kind < 3 || kind == 6, blocks = kind >= 3;
    text[0] = '\0';
    for (int i = 0; i < 3; i++) { /* a term of each kind, or none */
        bool any = i == 0 ? dilated : i == 1 ? blocks : chance(c, 2);
        if (!any)
            continue;
        append(text, size, "%s", *text ? "+" : "");
        (i == 0 ? append_dilated : i == 1 ? append_blocks : append_interval_term)(c, kv_len, text, size);
    }
}

void choose_pattern(choices *c, int64_t kv_len, char *text, size_t size)
{
    (chance(c, 2) ? choose_intervals : choose_sparse)(c, kv_len, text, size);
}

void choose_positions(choices *c, ra_problem *p)
{
    int64_t both = p->q_len + p->kv_len;
    if (chance(c, 2))
        return;
    if (!chance(c, 3))
        p->key_position = chance(c, 6) ? choose(c, 0, INT64_C(1) << 55) : choose(c, 0, chance(c, 2) ? 20 : 3 * both);
    if (chance(c, 4))
        return;
    int64_t before = p->key_position - p->q_len - 9, end = p->key_position + p->kv_len;
    p->query_position = chance(c, 4)   ? choose(c, 0, INT64_C(1) << 56)
                        : chance(c, 2) ? end - p->q_len + choose(c, -9, 70)
                                       : choose(c, before, end + 9);
    if (p->query_position < 0)
        p->query_position = 0;
}

/* ---- Tensors --------------------------------------------------------------------------------------------------- */

static void set_shape(const ra_problem *p, int which, int64_t shape[4])
{
    bool of_query = which == SAMPLE_QUERY || which == SAMPLE_OUTPUT || which == SAMPLE_LSE;
    shape[0] = p->batch;
    shape[1] = of_query ? p->q_len : p->kv_len;
    shape[2] = of_query ? p->heads : p->kv_heads;
    shape[3] = which == SAMPLE_QUERY || which == SAMPLE_KEY ? p->head_dim : which == SAMPLE_LSE ? 1 : p->value_dim;
}

static void keep(sample *s, int which, const placed *p)
{
    s->tensors[which] = p->view;
    s->memory[which] = p->memory;
    s->bytes[which] = p->bytes;
}

static void start(sample *s, const ra_problem *problem)
{
    s->problem = *problem;
    if (problem->kv_len == RA_SAME)
        s->problem.kv_len = problem->q_len;
    if (problem->kv_heads == RA_SAME)
        s->problem.kv_heads = problem->heads;
    if (problem->value_dim == RA_SAME)
        s->problem.value_dim = problem->head_dim;
    snprintf(s->pattern, sizeof s->pattern, "%s", problem->pattern ? problem->pattern : "full");
    s->problem.pattern = s->pattern;
}

void sample_make(sample *s, const ra_problem *problem)
{
    start(s, problem);
    for (int i = 0; i < SAMPLE_TENSORS; i++) {
        int64_t shape[4];
        set_shape(&s->problem, i, shape);
        placed p = place_dense(shape);
        keep(s, i, &p);
        if (i <= SAMPLE_VALUE)
            fill_tensor(&p.view, (uint64_t)i + 1);
    }
}

void sample_make_any(sample *s, const ra_problem *problem, int dtype, choices *c)
{
    /* With queries and keys both constant along the dimension, scores would not be of unit variance. */
    static const int constant[SAMPLE_TENSORS] = {4, 3, 4, 0, 0};
    start(s, problem);
    for (int i = 0; i < SAMPLE_TENSORS; i++) {
        int64_t shape[4];
        set_shape(&s->problem, i, shape);
        placed p = place_any(c, shape, i == SAMPLE_LSE ? RA_F32 : dtype, constant[i]);
        keep(s, i, &p);
        if (i <= SAMPLE_VALUE)
            fill_tensor(&p.view, choose_bits(c));
    }
}

void sample_free(sample *s)
{
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        free(s->memory[i]);
}

void sample_wipe(const sample *s)
{
    memset(s->memory[SAMPLE_OUTPUT], 0xff, s->bytes[SAMPLE_OUTPUT]);
    memset(s->memory[SAMPLE_LSE], 0xff, s->bytes[SAMPLE_LSE]);
}

static bool padding_kept(const sample *s, int which)
{
    placed p = {s->tensors[which], s->memory[which], s->bytes[which]};
    return placed_padding_kept(&p);
}

bool sample_padding_kept(const sample *s)
{
    return padding_kept(s, SAMPLE_OUTPUT) && padding_kept(s, SAMPLE_LSE);
}

/* ---- Running and judging --------------------------------------------------------------------------------------- */

ra_plan *sample_plan(const sample *s, ra_kernel_id kernel, int threads)
{
    ra_options options = RA_OPTIONS_INIT;
    ra_plan *plan = NULL;
    options.kernel = kernel;
    options.threads = threads;
    options.precision = ra_kernel_precision(kernel); /* the dtypes of a sample decide nothing */
    REQUIRE(!ra_plan_create(&s->problem, &options, &plan), "%s: %s", sample_text(s), ra_last_message());
    return plan;
}

void sample_run_as(const sample *s, const ra_options *options, ra_stats *stats)
{
    const ra_tensor *t = s->tensors;
    ra_plan *plan = NULL;
    REQUIRE(!ra_plan_create(&s->problem, options, &plan), "%s: %s", sample_text(s), ra_last_message());
    sample_wipe(s);
    ra_status status =
        ra_forward(plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE], &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE], stats);
    ra_plan_free(plan);
    REQUIRE(!status, "%s: %s", sample_text(s), ra_last_message());
}

void sample_run(const sample *s, ra_kernel_id kernel, int threads)
{
    ra_options options = RA_OPTIONS_INIT;
    options.kernel = kernel;
    options.threads = threads;
    options.precision = ra_kernel_precision(kernel); /* the dtypes of a sample decide nothing */
    sample_run_as(s, &options, NULL);
}

char *sample_keep(const sample *s)
{
    char *kept = take(s->bytes[SAMPLE_OUTPUT] + s->bytes[SAMPLE_LSE]);
    memcpy(kept, s->memory[SAMPLE_OUTPUT], s->bytes[SAMPLE_OUTPUT]);
    memcpy(kept + s->bytes[SAMPLE_OUTPUT], s->memory[SAMPLE_LSE], s->bytes[SAMPLE_LSE]);
    return kept;
}

bool sample_same(const sample *s, const char *kept)
{
    return memcmp(kept, s->memory[SAMPLE_OUTPUT], s->bytes[SAMPLE_OUTPUT]) == 0 &&
           memcmp(kept + s->bytes[SAMPLE_OUTPUT], s->memory[SAMPLE_LSE], s->bytes[SAMPLE_LSE]) == 0;
}

oracle_rows sample_oracle(const sample *s, int most, choices *c)
{
    const ra_problem *p = &s->problem;
    const ra_tensor *t = s->tensors;
    int64_t all = p->batch * p->heads * p->q_len;
    oracle_rows rows = {.count = all < most ? (int)all : most};
    rows.at = take((size_t)rows.count * sizeof *rows.at);
    rows.output = take((size_t)(rows.count * p->value_dim) * sizeof *rows.output);
    rows.lse = take((size_t)rows.count * sizeof *rows.lse);
    ra_plan *plan = sample_plan(s, RA_KERNEL_GENERIC, 1);
    for (int i = 0; i < rows.count; i++) {
        int64_t row = all <= most ? i : i == 0 ? 0 : i == 1 ? all - 1 : choose(c, 0, all - 1), *at = rows.at[i];
        at[0] = row / p->heads / p->q_len;
        at[1] = row / p->q_len % p->heads;
        at[2] = row % p->q_len;
        REQUIRE(!ra_reference_row(plan, &t[SAMPLE_QUERY], &t[SAMPLE_KEY], &t[SAMPLE_VALUE], at[0], at[1], at[2],
                                  rows.output + i * p->value_dim, rows.lse + i),
                "%s: %s", sample_text(s), ra_last_message());
    }
    ra_plan_free(plan);
    return rows;
}

void oracle_free(oracle_rows *rows)
{
    free(rows->at);
    free(rows->output);
    free(rows->lse);
    free(rows->spread);
    free(rows->rounding);
    free(rows->size);
}

void oracle_size(const sample *s, oracle_rows *rows)
{
    int64_t dim = s->problem.value_dim;
    ra_storage *storages[SAMPLE_OUTPUT];
    ra_row *at = take((size_t)rows->count * sizeof *at);
    double *output = take((size_t)(rows->count * dim) * sizeof *output);
    rows->spread = take((size_t)(rows->count * dim) * sizeof *rows->spread);
    rows->rounding = take((size_t)(rows->count * dim) * sizeof *rows->rounding);
    rows->size = take((size_t)rows->count * sizeof *rows->size);
    for (int i = 0; i < SAMPLE_OUTPUT; i++)
        assert_int_equal(ra_storage_memory(&s->tensors[i], &storages[i]), RA_OK);
    for (int i = 0; i < rows->count; i++)
        at[i] = (ra_row){.batch = rows->at[i][0], .seq = rows->at[i][2], .head = rows->at[i][1]};
    ra_plan *plan = sample_plan(s, RA_KERNEL_GENERIC, 1);
    REQUIRE(!ra_reference_rows_rounded(plan, storages[SAMPLE_QUERY], storages[SAMPLE_KEY], storages[SAMPLE_VALUE], at,
                                       rows->count, output, NULL, rows->spread, rows->size, rows->rounding),
            "%s: %s", sample_text(s), ra_last_message());
    ra_plan_free(plan);
    for (int i = 0; i < SAMPLE_OUTPUT; i++)
        ra_storage_free(storages[i]);
    free(output);
    free(at);
}

void sample_errors(const sample *s, const oracle_rows *rows, double *output_error, double *lse_error)
{
    const ra_tensor *output = &s->tensors[SAMPLE_OUTPUT], *lse = &s->tensors[SAMPLE_LSE];
    *output_error = *lse_error = 0;
    for (int i = 0; i < rows->count; i++) {
        const int64_t *at = rows->at[i];
        for (int64_t d = 0; d < output->dim; d++)
            *output_error = fmax(*output_error, distance(ra_tensor_get(output, at[0], at[2], at[1], d),
                                                         rows->output[i * output->dim + d], output->dtype));
        *lse_error = fmax(*lse_error, distance(ra_tensor_get(lse, at[0], at[2], at[1], 0), rows->lse[i], RA_F32));
    }
}

void sample_errors_sized(const sample *s, const oracle_rows *rows, double *output_part, double *lse_part)
{
    const ra_tensor *output = &s->tensors[SAMPLE_OUTPUT], *lse = &s->tensors[SAMPLE_LSE];
    int64_t head_dim = s->problem.head_dim, dim = output->dim;
    *output_part = *lse_part = 0;
    for (int i = 0; i < rows->count; i++) {
        const int64_t *at = rows->at[i];
        for (int64_t d = 0; d < dim; d++) {
            double expected = rows->output[i * dim + d];
            double error = distance(ra_tensor_get(output, at[0], at[2], at[1], d), expected, output->dtype);
            double fast = rows->fast ? fast_output_tolerance(rows->rounding[i * dim + d]) : 0;
            double exact = output_tolerance(head_dim, rows->size[i], rows->spread[i * dim + d], expected);
            *output_part = fmax(*output_part, error / (exact + fast));
        }
        double error = distance(ra_tensor_get(lse, at[0], at[2], at[1], 0), rows->lse[i], RA_F32);
        *lse_part = fmax(*lse_part, error / lse_tolerance(head_dim, rows->size[i]));
    }
}

/*
 * The largest root mean square of a query's elements where all of them are the same one; otherwise 1, which that of
 * standard-normal elements is about.
 */
static double size_of_queries(const sample *s)
{
    const ra_tensor *q = &s->tensors[SAMPLE_QUERY];
    double largest = 0;
    if (q->dim_stride != 0 || q->dim == 1)
        return 1;
    for (int64_t row = 0; row < q->batch * q->seq * q->heads; row++)
        largest =
            fmax(largest, fabs(ra_tensor_get(q, row / q->heads / q->seq, row / q->heads % q->seq, row % q->heads, 0)));
    return largest;
}

double sample_score_scale(const sample *s)
{
    const ra_problem *p = &s->problem;
    double factor = p->scale == RA_SCALE_DEFAULT ? 1 : fabs(p->scale) * sqrt((double)p->head_dim);
    return fmax(1, factor * size_of_queries(s));
}

bool same_bits(const void *a, const void *b, int64_t floats)
{
    return memcmp(a, b, (size_t)floats * sizeof(float)) == 0;
}

ra_kernel_id next_kernel(ra_kernel_id id)
{
    do
        id = (ra_kernel_id)(id + 1);
    while (ra_kernel_name(id) && (!ra_kernel_available(id) || ra_kernel_precision(id) != RA_PRECISION_EXACT));
    return ra_kernel_name(id) ? id : RA_KERNEL_AUTO;
}

const char *sample_text(const sample *s)
{
    static char text[1024];
    const ra_problem *p = &s->problem;
    snprintf(text, sizeof text,
             "%s, batch %lld, length %lld:%lld, at %lld:%lld, heads %lld:%lld, dim %lld:%lld, scale %g", s->pattern,
             (long long)p->batch, (long long)p->q_len, (long long)p->kv_len, (long long)p->query_position,
             (long long)p->key_position, (long long)p->heads, (long long)p->kv_heads, (long long)p->head_dim,
             (long long)p->value_dim, p->scale);
    return text;
}
