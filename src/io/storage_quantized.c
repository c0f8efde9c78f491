/* SPDX-License-Identifier: Apache-2.0 */
/* 8 bits and scales in files, read as float32. */
#include "base/checked.h"
#include "base/status.h"
#include "io/array.h"
#include "io/backing.h"
#include "io/storage.h"

enum { SCALES = 256 };

/* RA_OK when an array has one element of a dtype for each `per` elements of the view. */
static ra_status check_array(const ra_array *array, const char *what, ra_dtype dtype, const ra_tensor *view,
                             int64_t per)
{
    ra_array_info info = RA_ARRAY_INFO_INIT;
    if (!array)
        return ra_fail(RA_ERROR_ARGUMENT, "storage: the array of the %s is NULL", what);
    ra_status status = ra_array_describe(array, &info);
    if (status)
        return status;
    if (info.dtype != dtype)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: the %s of 8 bits are %s: must be %s", ra_array_path(array), what,
                       ra_dtype_name(info.dtype), ra_dtype_name(dtype));
    int64_t wanted = view->batch * view->seq * view->heads * (view->dim / per);
    if (info.count != wanted)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: has %lld %s, and [batch %lld, seq %lld, heads %lld, dim %lld] has %lld",
                       ra_array_path(array), (long long)info.count, what, (long long)view->batch, (long long)view->seq,
                       (long long)view->heads, (long long)view->dim, (long long)wanted);
    return RA_OK;
}

/* Elements of whole rows or parts of some become floats, from the front: the 8 bits of the rest are behind them. */
static ra_status scale_elements(const ra_storage *s, int64_t first, int64_t count, const int8_t *from, float *to)
{
    float scales[SCALES];
    int64_t dim = s->view.dim, known = 0, begin = 0; /* scales of rows begin .. begin + known - 1 */
    for (int64_t i = 0; i < count;) {
        int64_t row = (first + i) / dim, end = ra_min(count, (row + 1) * dim - first);
        if (row >= begin + known) {
            begin = row;
            known = ra_min(SCALES, (first + count - 1) / dim - row + 1);
            ra_status status = ra_array_read(s->scale, begin, known, scales);
            if (status)
                return status;
        }
        for (; i < end; i++)
            to[i] = (float)from[i] * scales[row - begin];
    }
    return RA_OK;
}

static ra_status move_quantized(const ra_storage *s, bool writing, int64_t first, int64_t count, void *elements)
{
    if (writing)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: 8 bits of a storage cannot be written", ra_array_path(s->array));
    int8_t *behind = (int8_t *)elements + 3 * count;
    ra_status status = ra_array_read(s->array, first, count, behind);
    return status ? status : scale_elements(s, first, count, behind, elements);
}

static ra_status describe_quantized(const ra_storage *s, char *text, size_t size)
{
    return ra_array_fingerprint(s->array, text, size);
}

ra_status ra_storage_quantized(ra_array *data, ra_array *scale, const ra_tensor *view, ra_storage **storage)
{
    ra_status status = ra_storage_check_place(storage);
    if (!status)
        status = ra_storage_check_shape(view);
    if (!status && view->dtype != RA_F32)
        status =
            ra_fail(RA_ERROR_ARGUMENT, "storage: 8 bits are read as float32, not as %s", ra_dtype_name(view->dtype));
    if (!status)
        status = check_array(data, "data", RA_I8, view, 1);
    if (!status)
        status = check_array(scale, "scales", RA_F32, view, view->dim);
    if (status)
        return status;
    ra_tensor dense = *view;
    dense.data = NULL;
    status = ra_storage_check_dense(ra_array_path(data), &dense);
    if (!status) /* what is planned for files holds here too */
        status = ra_storage_new(&dense, ra_storage_array_bytes(&dense), storage);
    if (status)
        return status;
    (*storage)->array = data;
    (*storage)->scale = scale;
    (*storage)->move = move_quantized;
    (*storage)->describe = describe_quantized;
    return RA_OK;
}
