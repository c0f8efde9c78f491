/* documents:LEN,LEN,... or documents:@FILE.npy: packed sequences that do not see each other. */
#include "base/checked.h"
#include "plan/pattern.h"

#include <stdlib.h>

/* LEN,LEN,... where the parser stands. */
static ra_status parse_lengths(ra_parser *p, int64_t **lengths, int64_t *count)
{
    int64_t capacity = 1;
    for (const char *c = p->at; *c && *c != '+'; c++)
        capacity += *c == ',';
    *lengths = malloc((size_t)capacity * sizeof **lengths);
    if (!*lengths)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld document lengths", (long long)capacity);
    for (*count = 0;; p->at++) {
        ra_status status = ra_parse_number(p, "a document length, >= 1", &(*lengths)[*count]);
        if (status)
            return status;
        ++*count;
        if (*p->at != ',')
            return RA_OK;
    }
}

static ra_status load_lengths(ra_parser *p, int64_t **lengths, int64_t *count)
{
    char *path = NULL;
    ra_status status = ra_parse_path(p, &path);
    if (!status)
        status = ra_pattern_context_of(p)->files->lengths(path, lengths, count);
    free(path);
    return status;
}

static ra_status documents_parse(ra_parser *p, ra_term *term)
{
    if (*p->at != ':')
        return ra_parse_expected(p, p->at, "\":LEN,LEN,...\" or \":@FILE.npy\" after \"documents\"");
    p->at++;
    ra_status status =
        *p->at == '@' ? load_lengths(p, &term->ends, &term->count) : parse_lengths(p, &term->ends, &term->count);
    if (status)
        return status;
    int64_t sum = 0, kv_len = ra_pattern_context_of(p)->shape.kv_len;
    for (int64_t i = 0; i < term->count; i++) {
        if (term->ends[i] < 1)
            return ra_fail(RA_ERROR_ARGUMENT, "pattern \"%.200s\": document %lld has length %lld: must be >= 1",
                           p->text, (long long)i + 1, (long long)term->ends[i]);
        if (!ra_add_ok(sum, term->ends[i], &sum))
            return ra_fail(RA_ERROR_ARGUMENT, "pattern \"%.200s\": the documents add up to 2^63 or more", p->text);
        term->ends[i] = sum;
    }
    if (sum != kv_len)
        return ra_fail(RA_ERROR_ARGUMENT,
                       "pattern \"%.200s\": the %lld documents add up to %lld, but the key length is %lld", p->text,
                       (long long)term->count, (long long)sum, (long long)kv_len);
    return RA_OK;
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

const ra_term_kind ra_term_documents = {"documents",         "documents:LEN,LEN,... or documents:@FILE.npy",
                                        documents_parse,     documents_interval,
                                        documents_next_jump, ra_term_never_repeats,
                                        documents_sees};
