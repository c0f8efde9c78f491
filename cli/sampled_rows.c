#include "sampled_rows.h"

#include "compare.h"
#include "report.h"

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

int sampled_rows_take(const sampled_rows *s, sampled_result *r, const char *name, const tensor_file *file,
                      double tolerance)
{
    size_t bytes = (size_t)s->count * (size_t)file->tensor.dim * ra_dtype_size(file->tensor.dtype);
    *r = (sampled_result){.name = name, .file = file, .tolerance = tolerance};
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

static void find_worst(const sampled_rows *s, sampled_result *r, const double *expected)
{
    ra_tensor got = view_of(s, r);
    for (int64_t i = 0; i < s->count; i++)
        for (int64_t d = 0; d < got.dim; d++) {
            double error = distance(ra_tensor_get(&got, 0, i, 0, d), expected[i * got.dim + d], got.dtype);
            if (error > r->error) {
                r->error = error;
                r->where = s->rows[i];
            }
        }
}

static ra_status recompute(sampled_rows *s, const ra_plan *plan, const attention_files *in, double *outputs,
                           double *lses)
{
    ra_storage *storages[3] = {NULL};
    const tensor_file *const files[3] = {&in->query, &in->key, &in->value};
    ra_status status = RA_OK;
    for (int i = 0; i < 3 && !status; i++)
        status = tensor_file_storage(files[i], &storages[i]);
    if (!status)
        status = ra_reference_rows(plan, storages[0], storages[1], storages[2], s->rows, s->count, outputs, lses);
    for (int i = 0; i < 3; i++)
        ra_storage_free(storages[i]);
    return status;
}

int sampled_rows_compare(sampled_rows *s, const ra_plan *plan, const attention_files *in, progress *bar)
{
    size_t count = (size_t)s->count + 1, dim = (size_t)in->value.tensor.dim; /* none is no failure */
    double *outputs = calloc(count * dim, sizeof *outputs), *lses = calloc(count, sizeof *lses);
    const double *const expected[SAMPLED_RESULTS] = {[SAMPLED_OUTPUT] = outputs, [SAMPLED_LSE] = lses};
    int code = EXIT_OK;
    if (!outputs || !lses)
        code = report(EXIT_USAGE, "out of memory: %lld rows to recompute", (long long)s->count);
    if (!code) {
        progress_start(bar, "check", "M pairs/s", 1e-6);
        ra_status status = recompute(s, plan, in, outputs, lses);
        progress_end(bar);
        code = status ? report_failure(status) : EXIT_OK;
    }
    for (int i = 0; i < SAMPLED_RESULTS && !code; i++)
        if (s->results[i].elements)
            find_worst(s, &s->results[i], expected[i]);
    free(outputs);
    free(lses);
    return code;
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
