/*
 * Chooses rows of a result, has the oracle recompute them, and finds the largest error. The tolerance: compare.c. See
 * sampled_rows.h.
 */
#include "sampled_rows.h"

#include "compare.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* One row out of each of `parts` nearly equal parts of [0, total), scattered so that no period of the data is met. */
static int64_t pick(int64_t part, int64_t parts, int64_t total)
{
    int64_t size = total / parts, rest = total % parts;
    int64_t first = part * size + (part < rest ? part : rest), count = size + (part < rest);
    uint64_t scattered = (uint64_t)(part + 1) * 0x9e3779b97f4a7c15U;
    return first + (int64_t)((scattered >> 1) % (uint64_t)count);
}

int sampled_rows_choose(sampled_rows *s, const ra_problem *p, int64_t count)
{
    s->total = p->batch * p->heads * p->q_len;
    s->count = count < s->total ? count : s->total;
    s->rows = calloc((size_t)s->count + 1, sizeof *s->rows); /* none is no failure */
    if (!s->rows)
        return report(EXIT_USAGE, "out of memory: %lld rows to recompute", (long long)s->count);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = pick(i, s->count, s->total);
        s->rows[i] =
            (ra_row){.batch = at / p->q_len / p->heads, .seq = at % p->q_len, .head = at / p->q_len % p->heads};
    }
    return EXIT_OK;
}

int sampled_rows_take(const sampled_rows *s, sampled_result *r, const char *name, const tensor_file *file, double given)
{
    size_t bytes = (size_t)s->count * (size_t)file->tensor.dim * ra_dtype_size(file->tensor.dtype);
    double usual = r == &s->results[SAMPLED_LSE] ? LSE_TOLERANCE : OUTPUT_TOLERANCE;
    *r = (sampled_result){.name = name, .file = file, .given = given, .tolerance = isnan(given) ? usual : given};
    r->words = (int64_t)(bytes / sizeof *r->elements + 1);
    r->elements = calloc((size_t)r->words, sizeof *r->elements);
    return r->elements
               ? EXIT_OK
               : report(EXIT_USAGE, "%s: out of memory: %zu bytes for the rows to recompute", file->path, bytes);
}

/* The sampled rows as a tensor [1, count, 1, dim]. */
static ra_tensor view_of(const sampled_rows *s, const sampled_result *r)
{
    const ra_tensor *t = &r->file->tensor;
    return ra_tensor_dense(r->elements, t->dtype, RA_BSHD, 1, s->count, 1, t->dim);
}

int sampled_rows_read(const sampled_rows *s, sampled_result *r)
{
    ra_storage *storage = NULL;
    if (tensor_file_storage(r->file, &storage))
        return report_refusal();
    ra_tensor rows = view_of(s, r), one = rows;
    ra_status status = RA_OK;
    one.seq = 1;
    for (int64_t i = 0; i < s->count && !status; i++) {
        one.data = (char *)rows.data + i * rows.seq_stride * (int64_t)ra_dtype_size(rows.dtype);
        status = ra_storage_read(storage, s->rows[i].batch, s->rows[i].seq, 1, s->rows[i].head, &one);
    }
    ra_storage_free(storage);
    return status ? report_failure(status) : EXIT_OK;
}

/* What the oracle says of the rows. */
typedef struct oracle_rows {
    double *outputs, *spreads; /* [count][value dim] */
    double *lses, *sizes;      /* [count] */
    int64_t head_dim, value_dim;
} oracle_rows;

static void rows_free(oracle_rows *o)
{
    free(o->outputs);
    free(o->spreads);
    free(o->lses);
    free(o->sizes);
}

static int rows_take(oracle_rows *o, int64_t rows, const attention_files *in)
{
    size_t count = (size_t)rows + 1, dim = (size_t)in->value.tensor.dim; /* none is no failure */
    *o = (oracle_rows){.outputs = calloc(count * dim, sizeof *o->outputs),
                       .spreads = calloc(count * dim, sizeof *o->spreads),
                       .lses = calloc(count, sizeof *o->lses),
                       .sizes = calloc(count, sizeof *o->sizes),
                       .head_dim = in->query.tensor.dim,
                       .value_dim = in->value.tensor.dim};
    if (o->outputs && o->spreads && o->lses && o->sizes)
        return EXIT_OK;
    rows_free(o);
    return report(EXIT_USAGE, "out of memory: %lld rows to recompute", (long long)rows);
}

static double output_expected(const oracle_rows *o, int64_t row, int64_t d, double *tolerance)
{
    double expected = o->outputs[row * o->value_dim + d];
    *tolerance = output_tolerance(o->head_dim, o->sizes[row], o->spreads[row * o->value_dim + d], expected);
    return expected;
}

static double lse_expected(const oracle_rows *o, int64_t row, int64_t d, double *tolerance)
{
    (void)d;
    *tolerance = lse_tolerance(o->head_dim, o->sizes[row]);
    return o->lses[row];
}

typedef double (*expectation)(const oracle_rows *o, int64_t row, int64_t d, double *tolerance);

static double in_terms_of(double tolerance, double error)
{
    return error > 0 ? error / tolerance : 0;
}

static void find_worst(const sampled_rows *s, sampled_result *r, const oracle_rows *oracle, expectation expect)
{
    ra_tensor got = view_of(s, r);
    for (int64_t i = 0; i < s->count; i++)
        for (int64_t d = 0; d < got.dim; d++) {
            double tolerance, expected = expect(oracle, i, d, &tolerance);
            double error = distance(ra_tensor_get(&got, 0, i, 0, d), expected, got.dtype);
            if (!isnan(r->given))
                tolerance = r->given;
            double share = in_terms_of(tolerance, error), worst = in_terms_of(r->tolerance, r->error);
            if (share > worst || (share == worst && error > r->error)) {
                r->error = error;
                r->tolerance = tolerance;
                r->where = s->rows[i];
            }
        }
}

static ra_status recompute(sampled_rows *s, const ra_plan *plan, const attention_files *in, const oracle_rows *to)
{
    ra_storage *storages[3] = {NULL};
    const tensor_file *const files[3] = {&in->query, &in->key, &in->value};
    ra_status status = RA_OK;
    for (int i = 0; i < 3 && !status; i++)
        status = tensor_file_storage(files[i], &storages[i]);
    if (!status)
        status = ra_reference_rows_sized(plan, storages[0], storages[1], storages[2], s->rows, s->count, to->outputs,
                                         to->lses, to->spreads, to->sizes);
    for (int i = 0; i < 3; i++)
        ra_storage_free(storages[i]);
    return status;
}

int sampled_rows_compare(sampled_rows *s, const ra_plan *plan, const attention_files *in, progress *bar)
{
    static const expectation EXPECTED[SAMPLED_RESULTS] = {output_expected, lse_expected};
    oracle_rows oracle;
    int code = rows_take(&oracle, s->count, in);
    if (code)
        return code;
    progress_start(bar, "check", "M pairs/s", 1e-6);
    ra_status status = recompute(s, plan, in, &oracle);
    progress_end(bar);
    for (int i = 0; i < SAMPLED_RESULTS && !status; i++)
        if (s->results[i].elements)
            find_worst(s, &s->results[i], &oracle, EXPECTED[i]);
    rows_free(&oracle);
    return status ? report_failure(status) : EXIT_OK;
}

static bool within(const sampled_result *r)
{
    return r->error <= r->tolerance;
}

void sampled_rows_print(const sampled_rows *s)
{
    printf("%lld of %lld rows recomputed\n", (long long)s->count, (long long)s->total);
    for (int i = 0; i < SAMPLED_RESULTS; i++) {
        const sampled_result *r = &s->results[i];
        if (!r->elements)
            continue;
        printf("%s: largest error %.2e, tolerance %.2e: %s", r->name, r->error, r->tolerance,
               within(r) ? "ok" : "FAILED");
        if (!within(r))
            printf(" at batch %lld, head %lld, query %lld", (long long)r->where.batch, (long long)r->where.head,
                   (long long)r->where.seq);
        putchar('\n');
    }
}

bool sampled_rows_ok(const sampled_rows *s)
{
    return within(&s->results[SAMPLED_OUTPUT]) && within(&s->results[SAMPLED_LSE]);
}

void sampled_rows_free(sampled_rows *s)
{
    for (int i = 0; i < SAMPLED_RESULTS; i++)
        free(s->results[i].elements);
    free(s->rows);
}
