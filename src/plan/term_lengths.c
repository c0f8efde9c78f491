/* SPDX-License-Identifier: Apache-2.0 */
/* lengths:@FILE.npy, or lengths with an array of the caller: the valid keys of each batch element. */
#include "plan/pattern.h"

#include <stdlib.h>
#include <string.h>

static ra_status load(const ra_parser *p, const char *path, ra_lengths *l, int64_t *rows)
{
    int64_t columns = 0;
    ra_status status = ra_pattern_context_of(p)->files->integers(path, &l->planned, rows, &columns);
    l->columns = columns == 2 || columns == 3 ? (int)columns : 0;
    return status;
}

static ra_status copy(const ra_tensor *t, ra_lengths *l, int64_t *rows)
{
    if (t->dtype != RA_I64 || t->seq != 1 || t->heads != 1 || t->dim < 2 || t->dim > 3 || (t->batch > 0 && !t->data))
        return ra_fail(RA_ERROR_ARGUMENT,
                       "lengths: %s [batch %lld, seq %lld, heads %lld, dim %lld]: must be int64 [batch, 1, 1, 2 or 3]",
                       ra_dtype_name(t->dtype), (long long)t->batch, (long long)t->seq, (long long)t->heads,
                       (long long)t->dim);
    *rows = t->batch;
    l->columns = (int)t->dim;
    l->planned = malloc((size_t)(t->batch * t->dim + 1) * sizeof *l->planned);
    if (!l->planned)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: lengths of %lld batch elements", (long long)t->batch);
    l->array = *t;
    for (int64_t i = 0; i < t->batch * t->dim; i++)
        l->planned[i] = ((const int64_t *)t->data)[i / t->dim * t->batch_stride + i % t->dim * t->dim_stride];
    return RA_OK;
}

/* Whether what was read is for this problem. */
static ra_status check(const ra_parser *p, const ra_lengths *l, int64_t rows)
{
    const ra_pattern_shape *shape = &ra_pattern_context_of(p)->shape;
    if (l->columns == 0 || rows != shape->batch)
        return ra_fail(RA_ERROR_ARGUMENT, "lengths of %lld elements with %s: must be [%lld, 2] or [%lld, 3]",
                       (long long)rows,
                       l->columns ? l->columns == 2 ? "2 columns" : "3 columns" : "neither 2 nor 3 columns",
                       (long long)shape->batch, (long long)shape->batch);
    if (l->columns == 3 && shape->placed)
        return ra_fail(RA_ERROR_ARGUMENT, "query position %lld beside lengths that have a position for each element",
                       (long long)(shape->offset + shape->origin));
    return ra_lengths_check(l, &(ra_lengths_limits){shape->batch, shape->q_len, shape->kv_len});
}

static ra_status lengths_parse(ra_parser *p, ra_term *term)
{
    const ra_tensor *array = ra_pattern_context_of(p)->shape.lengths;
    const char *start = p->at - strlen(term->kind->name);
    char *path = NULL;
    int64_t rows = 0;
    term->from_memory = *p->at != ':';
    if (term->from_memory ? !array : p->at[1] != '@')
        return ra_parse_expected(p, p->at, "\":@FILE.npy\" after \"lengths\", or lengths among the score_arrays");
    ra_lengths *l = term->lengths = calloc(1, sizeof *l);
    if (!l)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: lengths of a batch");
    p->at += !term->from_memory;
    ra_status status = term->from_memory ? RA_OK : ra_parse_path(p, &path);
    if (status)
        return status;
    status = path ? load(p, path, l, &rows) : copy(array, l, &rows);
    free(path);
    l->batch = rows;
    l->at = l->planned;
    l->batch_stride = l->columns;
    l->column_stride = 1;
    if (!status)
        status = check(p, l, rows);
    return status == RA_OK || status == RA_ERROR_MEMORY ? status : ra_parse_failed(p, start, status);
}

/* The pattern knows the batch element. */
static int lengths_sees(const ra_term *term, int64_t head, int64_t position, int64_t key)
{
    (void)term, (void)head, (void)position, (void)key;
    return true;
}

const ra_term_kind ra_term_lengths = {"lengths", "lengths:@FILE.npy", lengths_parse, NULL, NULL, NULL, lengths_sees};
