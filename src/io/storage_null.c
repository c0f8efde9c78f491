/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that are kept nowhere: a checksum, and some rows. Each row has a hash of its own that depends on where it is
 * and on every bit of it; their sum depends neither on the order in which rows are written nor on who writes them.
 */
#include "base/mix.h"
#include "base/status.h"
#include "base/tensor.h"
#include "io/backing.h"

#include <string.h>

/* Four chains side by side: one alone would wait for its own multiplications. */
enum { CHAINS = 4 };

static inline uint64_t chained(uint64_t chain, uint32_t bits)
{
    chain = (chain ^ bits) * 0x9e3779b97f4a7c15U; /* odd: what was different stays different */
    return chain ^ (chain >> 32);
}

/* The size of an element is known where this is inlined. */
static inline uint64_t hash_elements(uint64_t position, const char *elements, int64_t step, int64_t dim, size_t size)
{
    uint64_t chain[CHAINS] = {1, 2, 3, 4}, hash = ra_mix64(position + 1);
    int64_t first = 0;
    uint32_t bits = 0;
    for (; first + CHAINS <= dim; first += CHAINS)
        for (int64_t i = 0; i < CHAINS; i++) {
            memcpy(&bits, elements + (first + i) * step, size);
            chain[i] = chained(chain[i], bits);
        }
    for (int64_t i = 0; first + i < dim; i++) {
        memcpy(&bits, elements + (first + i) * step, size);
        chain[i] = chained(chain[i], bits);
    }
    for (int i = 0; i < CHAINS; i++)
        hash = ra_mix64(hash ^ chain[i]);
    return hash;
}

static uint64_t row_hash(uint64_t position, const char *elements, int64_t step, int64_t dim, ra_dtype dtype)
{
    return ra_dtype_size(dtype) == 4 ? hash_elements(position, elements, step, dim, 4)
                                     : hash_elements(position, elements, step, dim, 2);
}

static void add_rows(ra_storage *s, int64_t batch, int64_t first, const ra_tensor *rows)
{
    const ra_tensor *v = &s->view;
    int64_t step = v->dim > 1 ? rows->dim_stride * (int64_t)ra_dtype_size(v->dtype) : 0;
    for (int64_t row = 0; row < rows->seq; row++)
        for (int64_t head = 0; head < v->heads; head++) {
            uint64_t position = (uint64_t)((batch * v->seq + first + row) * v->heads + head);
            s->kept.checksum += row_hash(position, ra_tensor_at(rows, 0, row, head, 0), step, v->dim, v->dtype);
        }
}

static void keep_rows(ra_storage *s, int64_t batch, int64_t first, const ra_tensor *rows)
{
    size_t size = ra_dtype_size(s->view.dtype);
    for (int64_t i = 0; i < s->kept.count; i++) {
        const ra_row *row = &s->kept.rows[i];
        if (row->batch != batch || row->seq < first || row->seq - first >= rows->seq)
            continue;
        char *to = s->kept.elements + i * s->view.dim * (int64_t)size;
        for (int64_t d = 0; d < s->view.dim; d++)
            memcpy(to + d * (int64_t)size, ra_tensor_at(rows, 0, row->seq - first, row->head, d), size);
    }
}

static void take_rows(ra_storage *s, int64_t batch, int64_t first, const ra_tensor *rows)
{
    add_rows(s, batch, first, rows);
    keep_rows(s, batch, first, rows);
}

ra_status ra_storage_null(const ra_tensor *view, const ra_row *rows, int64_t count, void *elements,
                          ra_storage **storage)
{
    ra_status status = ra_storage_check_place(storage);
    if (!status)
        status = ra_storage_check_shape(view);
    if (!status)
        status = ra_rows_check(rows, "storage", count, elements, view->batch, view->seq, view->heads);
    if (status)
        return status;
    const ra_tensor shape = ra_tensor_dense(NULL, view->dtype, RA_BSHD, view->batch, view->seq, view->heads, view->dim);
    status = ra_storage_new(&shape, 0, storage);
    if (status)
        return status;
    (*storage)->take = take_rows;
    (*storage)->kept.rows = rows;
    (*storage)->kept.count = count;
    (*storage)->kept.elements = elements;
    return RA_OK;
}

ra_status ra_storage_checksum(const ra_storage *s, uint64_t *checksum)
{
    if (!s || !checksum)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", s ? "checksum" : "storage");
    if (!s->take)
        return ra_fail(RA_ERROR_ARGUMENT, "storage: has no checksum: only what ra_storage_null makes has one");
    *checksum = s->kept.checksum;
    return RA_OK;
}
