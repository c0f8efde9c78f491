/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses rows of a result, and finds the largest error among them. What is expected of a row: sampled_rows.c. The
 * tolerance: compare.c. See sampled_result.h.
 */
#include "sampled_result.h"

#include "compare.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One row out of each of `parts` nearly equal parts of [0, total), scattered so that no period of the data is met. */
static int64_t pick(int64_t part, int64_t parts, int64_t total)
{
    int64_t size = total / parts, rest = total % parts;
    int64_t first = part * size + (part < rest ? part : rest), count = size + (part < rest);
    uint64_t scattered = (uint64_t)(part + 1) * 0x9e3779b97f4a7c15U;
    return first + (int64_t)((scattered >> 1) % (uint64_t)count);
}

static int choose(sampled_result *r, int64_t count)
{
    const ra_tensor *t = &r->file->tensor;
    r->total = t->batch * t->heads * t->seq;
    r->count = count < r->total ? count : r->total;
    r->rows = calloc((size_t)r->count + 1, sizeof *r->rows); /* none is no failure */
    if (!r->rows)
        return report(EXIT_USAGE, "out of memory: %lld rows to recompute", (long long)r->count);
    for (int64_t i = 0; i < r->count; i++) {
        int64_t at = pick(i, r->count, r->total);
        r->rows[i] = (ra_row){.batch = at / t->seq / t->heads, .seq = at % t->seq, .head = at / t->seq % t->heads};
    }
    return EXIT_OK;
}

int sampled_result_take(sampled_result *r, tensor_file *file, int64_t count, double given, double usual)
{
    r->file = file;
    r->given = given;
    r->tolerance = isnan(given) ? usual : given;
    int code = choose(r, count);
    if (code)
        return code;
    size_t bytes = (size_t)r->count * (size_t)file->tensor.dim * ra_dtype_size(file->tensor.dtype);
    r->words = (int64_t)(bytes / sizeof *r->elements + 1);
    r->elements = calloc((size_t)r->words, sizeof *r->elements);
    return r->elements
               ? EXIT_OK
               : report(EXIT_USAGE, "%s: out of memory: %zu bytes for the rows to recompute", file->path, bytes);
}

/* The sampled rows as a tensor [1, count, 1, dim]. */
static ra_tensor view_of(const sampled_result *r)
{
    const ra_tensor *t = &r->file->tensor;
    return ra_tensor_dense(r->elements, t->dtype, RA_BSHD, 1, r->count, 1, t->dim);
}

int sampled_result_read(sampled_result *r)
{
    ra_storage *storage = NULL;
    if (tensor_file_storage(r->file, &storage))
        return report_refusal();
    ra_tensor rows = view_of(r), one = rows;
    ra_status status = RA_OK;
    one.seq = 1;
    for (int64_t i = 0; i < r->count && !status; i++) {
        one.data = (char *)rows.data + i * rows.seq_stride * (int64_t)ra_dtype_size(rows.dtype);
        status = ra_storage_read(storage, r->rows[i].batch, r->rows[i].seq, 1, r->rows[i].head, &one);
    }
    ra_storage_free(storage);
    return status ? report_failure(status) : EXIT_OK;
}

static double in_terms_of(double tolerance, double error)
{
    return error > 0 ? error / tolerance : 0;
}

void sampled_result_compare(sampled_result *r, const void *oracle, sampled_expectation expect)
{
    if (!r->elements)
        return;
    ra_tensor got = view_of(r);
    for (int64_t i = 0; i < r->count; i++)
        for (int64_t d = 0; d < got.dim; d++) {
            double tolerance, expected = expect(oracle, i, d, &tolerance);
            double value = ra_tensor_get(&got, 0, i, 0, d), error = distance(value, expected, got.dtype);
            if (!isnan(r->given))
                tolerance = r->given;
            double share = in_terms_of(tolerance, error), worst = in_terms_of(r->tolerance, r->error);
            if (share > worst || (share == worst && error > r->error)) {
                r->error = error;
                r->tolerance = tolerance;
                r->where = r->rows[i];
                r->got = value;
                r->expected = expected;
            }
        }
}

bool sampled_result_ok(const sampled_result *r)
{
    return r->error <= r->tolerance;
}

bool sampled_results_ok(const sampled_result *results, int count)
{
    bool ok = true;
    for (int i = 0; i < count; i++)
        ok = ok && sampled_result_ok(&results[i]);
    return ok;
}

/* Rows are counted once for results that have the same. */
static void print_count(const sampled_result *r, const sampled_result *before)
{
    if (before && strcmp(before->place, r->place) == 0 && before->total == r->total)
        return;
    printf("%lld of %lld %srows recomputed\n", (long long)r->count, (long long)r->total,
           strcmp(r->place, "key") == 0 ? "key " : "");
}

void sampled_results_print(const sampled_result *results, int count)
{
    const sampled_result *before = NULL;
    for (int i = 0; i < count; i++) {
        const sampled_result *r = &results[i];
        if (!r->elements)
            continue;
        print_count(r, before);
        printf("%s: largest error %.2e, tolerance %.2e: %s", r->name, r->error, r->tolerance,
               sampled_result_ok(r) ? "ok" : "FAILED");
        if (!sampled_result_ok(r))
            printf(" at batch %lld, head %lld, %s %lld", (long long)r->where.batch, (long long)r->where.head, r->place,
                   (long long)r->where.seq);
        putchar('\n');
        before = r;
    }
}

int sampled_results_report(const sampled_result *results, int count)
{
    const sampled_result *wrong = results;
    while (wrong + 1 < results + count && sampled_result_ok(wrong))
        wrong++;
    return report(EXIT_WORK, "%s: error %.2e at batch %lld, head %lld, %s %lld is past the tolerance %.2e", wrong->name,
                  wrong->error, (long long)wrong->where.batch, (long long)wrong->where.head, wrong->place,
                  (long long)wrong->where.seq, wrong->tolerance);
}

void sampled_results_free(sampled_result *results, int count)
{
    for (int i = 0; i < count; i++) {
        free(results[i].elements);
        free(results[i].rows);
    }
}
