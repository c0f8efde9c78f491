/* SPDX-License-Identifier: Apache-2.0 */
/*
 * documents:LEN,LEN,... or documents:@FILE.npy: packed sequences that do not see each other. documents:Q/K,Q/K,...: the
 * same with query and key lengths of their own, which ragged.c knows.
 */
#include "base/checked.h"
#include "plan/pattern.h"

#include <stdlib.h>
#include <string.h>

/* Numbers of a document: its length, or its query and its key length. */
typedef struct list {
    int64_t *numbers; /* [count][columns]; owned */
    int64_t count, columns;
} list;

/* One LEN or Q/K; `slashed`: it is the latter. */
static ra_status parse_one(ra_parser *p, bool first, list *l)
{
    int64_t *numbers = l->numbers + l->count * l->columns;
    ra_status status = ra_parse_number(p, "a document length, >= 1", numbers);
    if (!status && first && *p->at == '/')
        l->columns = 2;
    if (status || l->columns == 1)
        return status;
    if (*p->at != '/')
        return ra_parse_expected(p, p->at, "\"/\" and the document's number of keys");
    p->at++;
    return ra_parse_number(p, "a number of keys, >= 0", numbers + 1);
}

/* LEN,LEN,... or Q/K,Q/K,... where the parser stands. */
static ra_status parse_list(ra_parser *p, list *l)
{
    int64_t capacity = 1;
    for (const char *c = p->at; *c && *c != '+'; c++)
        capacity += *c == ',';
    l->columns = 1;
    l->numbers = malloc((size_t)(2 * capacity) * sizeof *l->numbers);
    if (!l->numbers)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld document lengths", (long long)capacity);
    for (;; p->at++) {
        ra_status status = parse_one(p, l->count == 0, l);
        if (status)
            return status;
        l->count++;
        if (*p->at != ',')
            return RA_OK;
    }
}

static ra_status load_list(ra_parser *p, list *l)
{
    char *path = NULL;
    const char *start = p->at;
    ra_status status = ra_parse_path(p, &path);
    if (status)
        return status;
    status = ra_pattern_context_of(p)->files->integers(path, &l->numbers, &l->count, &l->columns);
    if (!status && l->columns > 2)
        status = ra_fail(RA_ERROR_FORMAT, "%s: int64 [%lld, %lld]: documents must be [n] or [n, 2]", path,
                         (long long)l->count, (long long)l->columns);
    free(path);
    return status ? ra_parse_failed(p, start, status) : RA_OK;
}

/* The caller's array in memory. */
static ra_status copy_list(ra_parser *p, const char *start, list *l)
{
    const ra_tensor *t = ra_pattern_context_of(p)->shape.documents;
    if (!t)
        return ra_parse_expected(
            p, p->at, "\":LEN,LEN,...\", \":Q/K,Q/K,...\" or \":@FILE.npy\" after \"documents\", or an array of them");
    if (t->dtype != RA_I64 || t->batch != 1 || t->heads != 1 || t->dim < 1 || t->dim > 2 || t->seq < 1 || !t->data) {
        ra_fail(RA_ERROR_ARGUMENT,
                "documents: %s [batch %lld, seq %lld, heads %lld, dim %lld]: must be int64 [1, 1 or more, 1, 1 or 2]",
                ra_dtype_name(t->dtype), (long long)t->batch, (long long)t->seq, (long long)t->heads,
                (long long)t->dim);
        return ra_parse_failed(p, start, RA_ERROR_ARGUMENT);
    }
    l->numbers = malloc((size_t)(t->seq * t->dim) * sizeof *l->numbers);
    if (!l->numbers)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld document lengths", (long long)t->seq);
    l->count = t->seq;
    l->columns = t->dim;
    for (int64_t i = 0; i < t->seq * t->dim; i++)
        l->numbers[i] = ((const int64_t *)t->data)[i / t->dim * t->seq_stride + i % t->dim * t->dim_stride];
    return RA_OK;
}

/* Lengths to ends, for documents that have as many queries as keys. */
static ra_status add_up(int64_t kv_len, ra_term *term)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < term->count; i++) {
        if (term->ends[i] < 1)
            return ra_fail(RA_ERROR_ARGUMENT, "document %lld has length %lld: must be >= 1", (long long)i + 1,
                           (long long)term->ends[i]);
        if (!ra_add_ok(sum, term->ends[i], &sum))
            return ra_fail(RA_ERROR_ARGUMENT, "the documents add up to 2^63 or more");
        term->ends[i] = sum;
    }
    if (sum != kv_len)
        return ra_fail(RA_ERROR_ARGUMENT, "the %lld documents add up to %lld, but the key length is %lld",
                       (long long)term->count, (long long)sum, (long long)kv_len);
    return RA_OK;
}

/* Where all lengths are alike these are ordinary documents; those without a key do not matter. */
static void make_plain(ra_term *term)
{
    ra_ragged *r = term->ragged;
    term->ends = r->key_ends;
    for (int64_t i = 0; i < r->count; i++)
        if (r->key_ends[i] > (term->count ? term->ends[term->count - 1] : 0))
            term->ends[term->count++] = r->key_ends[i];
    r->key_ends = NULL;
    ra_ragged_free(r);
    term->ragged = NULL;
}

static ra_status take_ragged(const ra_pattern_shape *shape, const list *l, ra_term *term)
{
    if (shape->placed)
        return ra_fail(RA_ERROR_ARGUMENT,
                       "query position %lld beside documents:Q/K: their queries are at the end of their keys",
                       (long long)(shape->offset + shape->origin));
    ra_status status = ra_ragged_make(l->numbers, l->count, shape->q_len, shape->kv_len, &term->ragged);
    if (status)
        return status;
    if (ra_ragged_even(term->ragged)) {
        make_plain(term);
        return RA_OK;
    }
    term->kind = &ra_term_ragged;
    if (term->from_memory)
        term->ragged->array = *shape->documents;
    return RA_OK;
}

/* Of a list that could be read; its numbers are the term's, or freed. */
static ra_status take_list(const ra_pattern_shape *shape, const list *l, ra_term *term)
{
    if (l->columns == 1) {
        term->ends = l->numbers;
        term->count = l->count;
        return add_up(shape->kv_len, term);
    }
    ra_status status = take_ragged(shape, l, term);
    free(l->numbers);
    return status;
}

static ra_status documents_parse(ra_parser *p, ra_term *term)
{
    list l = {NULL, 0, 0};
    ra_status status;
    const char *start = p->at - strlen(term->kind->name);
    term->from_memory = *p->at != ':';
    if (term->from_memory)
        status = copy_list(p, start, &l);
    else
        status = *++p->at == '@' ? load_list(p, &l) : parse_list(p, &l);
    if (status) {
        free(l.numbers);
        return status;
    }
    status = take_list(&ra_pattern_context_of(p)->shape, &l, term);
    return status == RA_ERROR_ARGUMENT ? ra_parse_failed(p, start, status) : status;
}

/* The document that holds `position`: the first that ends past it. `count` when none does. */
static int64_t document_of(const ra_term *term, int64_t position)
{
    int64_t low = 0, high = term->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (term->ends[middle] > position)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static ra_interval documents_interval(const ra_term *term, int64_t position)
{
    int64_t document = document_of(term, position);
    if (position < 0)
        return (ra_interval){0, 0};
    int64_t begin = document ? term->ends[document - 1] : 0;
    return (ra_interval){begin, document < term->count ? term->ends[document] : begin};
}

static int64_t documents_next_jump(const ra_term *term, int64_t position)
{
    if (position < 0)
        return 0;
    int64_t document = document_of(term, position);
    return document < term->count ? term->ends[document] : INT64_MAX;
}

static int documents_sees(const ra_term *term, int64_t head, int64_t position, int64_t key)
{
    (void)head;
    return position >= 0 && document_of(term, position) == document_of(term, key);
}

const ra_term_kind ra_term_documents = {
    "documents",         "documents:LEN,LEN,... or documents:Q/K,Q/K,... or documents:@FILE.npy",
    documents_parse,     documents_interval,
    documents_next_jump, ra_term_never_repeats,
    documents_sees};

/* The pattern knows what a query of ragged documents sees of them: they say where it is, for all terms. */
static int ragged_sees(const ra_term *term, int64_t head, int64_t position, int64_t key)
{
    (void)term, (void)head, (void)position, (void)key;
    return true;
}

const ra_term_kind ra_term_ragged = {"documents", "documents:Q/K,Q/K,...", NULL, NULL, NULL, NULL, ragged_sees};
