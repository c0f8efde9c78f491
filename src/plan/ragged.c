/* SPDX-License-Identifier: Apache-2.0 */
/* Packed sequences with query and key lengths of their own. See ragged.h; their text is read in term_documents.c. */
#include "plan/ragged.h"

#include "base/checked.h"
#include "base/parser.h"

#include <stdlib.h>

static ra_status refuse_sum(const char *what, int64_t count, int64_t sum, int64_t length)
{
    return ra_fail(RA_ERROR_ARGUMENT, "the %s of the %lld documents add up to %lld, but there are %lld", what,
                   (long long)count, (long long)sum, (long long)length);
}

/* Lengths to ends. */
static ra_status add_up(const int64_t *lengths, ra_ragged *r)
{
    int64_t queries = 0, keys = 0;
    for (int64_t i = 0; i < r->count; i++) {
        int64_t q = lengths[2 * i], k = lengths[2 * i + 1];
        if (q < 0 || k < 0)
            return ra_fail(RA_ERROR_ARGUMENT, "document %lld has lengths %lld/%lld: must be >= 0", (long long)i + 1,
                           (long long)q, (long long)k);
        if (!ra_add_ok(queries, q, &queries) || !ra_add_ok(keys, k, &keys))
            return ra_fail(RA_ERROR_ARGUMENT, "the documents add up to 2^63 or more");
        r->query_ends[i] = queries;
        r->key_ends[i] = keys;
    }
    return RA_OK;
}

ra_status ra_ragged_make(const int64_t *lengths, int64_t count, int64_t q_len, int64_t kv_len, ra_ragged **ragged)
{
    ra_ragged *r = *ragged = calloc(1, sizeof *r);
    if (r)
        r->key_ends = calloc((size_t)(2 * count + 1), sizeof *r->key_ends);
    if (!r || !r->key_ends)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld documents", (long long)count);
    r->count = count;
    r->query_ends = r->key_ends + count;
    ra_status status = add_up(lengths, r);
    int64_t queries = count && !status ? r->query_ends[count - 1] : 0,
            keys = count && !status ? r->key_ends[count - 1] : 0;
    if (!status && queries != q_len)
        status = refuse_sum("queries", count, queries, q_len);
    if (!status && keys != kv_len)
        status = refuse_sum("keys", count, keys, kv_len);
    return status;
}

/* Column 0 is queries, 1 is keys. */
static int64_t array_value(const ra_ragged *r, int64_t i, int column)
{
    const ra_tensor *t = &r->array;
    return ((const int64_t *)t->data)[i * t->seq_stride + column * t->dim_stride];
}

static int64_t planned_value(const ra_ragged *r, int64_t i, int column)
{
    const int64_t *ends = column ? r->key_ends : r->query_ends;
    return ends[i] - (i ? ends[i - 1] : 0);
}

bool ra_ragged_changed(const ra_ragged *r)
{
    for (int64_t i = 0; r->array.data && i < 2 * r->count; i++)
        if (array_value(r, i / 2, (int)(i % 2)) != planned_value(r, i / 2, (int)(i % 2)))
            return true;
    return false;
}

ra_status ra_ragged_now(const ra_ragged *planned, int64_t q_len, int64_t kv_len, ra_ragged **now)
{
    static const ra_parser text = {"pattern", "documents", "documents", NULL};
    int64_t *lengths = malloc((size_t)(2 * planned->count + 1) * sizeof *lengths);
    *now = NULL;
    if (!lengths)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld documents", (long long)planned->count);
    ra_status status = RA_OK;
    for (int64_t i = 0; i < planned->count && !status; i++) {
        lengths[2 * i] = array_value(planned, i, 0);
        lengths[2 * i + 1] = array_value(planned, i, 1);
        if (lengths[2 * i + 1] > planned_value(planned, i, 1))
            status =
                ra_fail(RA_ERROR_ARGUMENT,
                        "documents: document %lld has %lld keys: the plan is for %lld, and lengths may only shrink",
                        (long long)i + 1, (long long)lengths[2 * i + 1], (long long)planned_value(planned, i, 1));
    }
    if (!status) {
        status = ra_ragged_make(lengths, planned->count, q_len, kv_len, now);
        status = status == RA_ERROR_ARGUMENT ? ra_parse_failed(&text, text.text, status) : status;
    }
    free(lengths);
    return status;
}

void ra_ragged_free(ra_ragged *r)
{
    if (r)
        free(r->key_ends);
    free(r);
}

int64_t ra_ragged_bytes(const ra_ragged *r)
{
    return (int64_t)sizeof *r + 2 * r->count * (int64_t)sizeof *r->key_ends;
}

bool ra_ragged_even(const ra_ragged *r)
{
    for (int64_t i = 0; i < r->count; i++)
        if (r->key_ends[i] != r->query_ends[i])
            return false;
    return true;
}

int64_t ra_ragged_most_queries(const ra_ragged *r)
{
    int64_t most = 0;
    for (int64_t i = 0; i < r->count; i++)
        most = ra_max(most, planned_value(r, i, 0));
    return most;
}

ra_packed_query ra_ragged_at(const ra_ragged *r, int64_t query)
{
    int64_t low = 0, high = r->count; /* the first sequence that ends past the query */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (r->query_ends[middle] > query)
            high = middle;
        else
            low = middle + 1;
    }
    int64_t first = low ? r->key_ends[low - 1] : 0;
    if (low == r->count) {
        int64_t queries = low ? r->query_ends[low - 1] : 0;
        return (ra_packed_query){first, first, ra_add_clamped(first, query - queries), INT64_MAX};
    }
    int64_t end = r->key_ends[low];
    return (ra_packed_query){first, end, end - (r->query_ends[low] - query), r->query_ends[low]};
}
