/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes as texts, and the checks and sizes that all formats share. See array_header.h. */
#include "io/array_header.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>

int ra_shape_text(const ra_array_header *h, char *text, size_t size)
{
    int used = snprintf(text, size, "(");
    for (int i = 0; i < h->dims; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%lld", i ? ", " : "", (long long)h->shape[i]);
    return used + snprintf(text + used, size - (size_t)used, h->dims == 1 ? ",)" : ")");
}

ra_status ra_array_unfit(const char *path, const ra_array_info *info, const char *must)
{
    char text[RA_SHAPE_TEXT_BYTES];
    ra_array_header h = {.dims = info->dims};
    memcpy(h.shape, info->shape, sizeof h.shape);
    ra_shape_text(&h, text, sizeof text);
    return ra_fail(RA_ERROR_FORMAT, "%s: %s of shape %s: %s", path, ra_dtype_name(info->dtype), text, must);
}

ra_status ra_array_header_start(const char *path, ra_dtype dtype, int dims, const int64_t *shape,
                                ra_array_header *header)
{
    ra_array_header h = {.dtype = dtype, .dims = dims};
    if (dims < 0 || dims > RA_ARRAY_MAX_DIMS)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: %d dimensions: must be 0..%d", path, dims, RA_ARRAY_MAX_DIMS);
    for (int i = 0; i < dims; i++) {
        if (shape[i] < 0)
            return ra_fail(RA_ERROR_ARGUMENT, "%s: extent %lld in the shape: must not be negative", path,
                           (long long)shape[i]);
        h.shape[i] = shape[i];
    }
    *header = h;
    return RA_OK;
}

ra_status ra_array_header_measure(ra_status status, const char *path, ra_array_header *h)
{
    int64_t bytes;
    bool fits = true, empty = false;
    h->count = 1;
    for (int i = 0; i < h->dims; i++) {
        empty |= h->shape[i] == 0;
        fits = fits && ra_mul_ok(h->count, h->shape[i], &h->count);
    }
    if (empty) {
        fits = true;
        h->count = 0;
    }
    if (fits && ra_mul_ok(h->count, (int64_t)ra_dtype_size(h->dtype), &bytes) &&
        ra_add_ok(bytes, h->data_at, &h->file_bytes))
        return RA_OK;
    char text[RA_SHAPE_TEXT_BYTES];
    ra_shape_text(h, text, sizeof text);
    return ra_fail(status, "%s: %s of shape %s overflows 64-bit sizes", path, ra_dtype_name(h->dtype), text);
}
