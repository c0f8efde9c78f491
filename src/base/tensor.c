/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor views: names and sizes of dtypes, elements, checks. Whether two views share memory: overlap.c. See tensor.h.
 */
#include "base/tensor.h"

#include "base/checked.h"
#include "base/half.h"

const char *ra_dtype_name(ra_dtype dtype)
{
    switch (dtype) {
    case RA_F32: return "float32";
    case RA_F16: return "float16";
    case RA_BF16: return "bfloat16";
    case RA_I64: return "int64";
    case RA_U8: return "uint8";
    case RA_BOOL: return "bool";
    case RA_F64: return "float64";
    case RA_I8: return "int8";
    case RA_I32: return "int32";
    }
    return "unknown";
}

size_t ra_dtype_size(ra_dtype dtype)
{
    switch (dtype) {
    case RA_F32: return 4;
    case RA_F16: return 2;
    case RA_BF16: return 2;
    case RA_I64: return 8;
    case RA_U8: return 1;
    case RA_BOOL: return 1;
    case RA_F64: return 8;
    case RA_I8: return 1;
    case RA_I32: return 4;
    }
    return 0;
}

ra_tensor ra_tensor_dense(const void *data, ra_dtype dtype, ra_layout layout, int64_t batch, int64_t seq, int64_t heads,
                          int64_t dim)
{
    ra_tensor t = {(void *)(uintptr_t)data, dtype, batch, seq, heads, dim, 0, 0, 0, 1};
    /* Unsigned, so that absurd extents wrap here and are refused by the check, instead of being undefined. */
    uint64_t d = (uint64_t)dim, s = (uint64_t)seq, h = (uint64_t)heads;
    t.batch_stride = (int64_t)(s * h * d);
    t.seq_stride = (int64_t)(layout == RA_BSHD ? h * d : d);
    t.head_stride = (int64_t)(layout == RA_BSHD ? d : s * d);
    return t;
}

static int64_t element_offset(const ra_tensor *t, int64_t batch, int64_t seq, int64_t head, int64_t dim)
{
    return batch * t->batch_stride + seq * t->seq_stride + head * t->head_stride + dim * t->dim_stride;
}

const void *ra_tensor_at(const ra_tensor *t, int64_t batch, int64_t seq, int64_t head, int64_t dim)
{
    return (const char *)t->data + element_offset(t, batch, seq, head, dim) * (int64_t)ra_dtype_size(t->dtype);
}

double ra_tensor_get(const ra_tensor *t, int64_t batch, int64_t seq, int64_t head, int64_t dim)
{
    if (!t || !t->data)
        return 0;
    int64_t at = element_offset(t, batch, seq, head, dim);
    switch (t->dtype) {
    case RA_F32: return ((const float *)t->data)[at];
    case RA_F16: return ra_f16_to_f32(((const uint16_t *)t->data)[at]);
    case RA_BF16: return ra_bf16_to_f32(((const uint16_t *)t->data)[at]);
    case RA_I64: return (double)((const int64_t *)t->data)[at];
    case RA_BOOL:
    case RA_U8: return ((const uint8_t *)t->data)[at];
    case RA_F64: return ((const double *)t->data)[at];
    case RA_I8: return ((const int8_t *)t->data)[at];
    case RA_I32: return ((const int32_t *)t->data)[at];
    }
    return 0;
}

void ra_tensor_set(const ra_tensor *t, int64_t batch, int64_t seq, int64_t head, int64_t dim, double value)
{
    if (!t || !t->data)
        return;
    int64_t at = element_offset(t, batch, seq, head, dim);
    switch (t->dtype) {
    case RA_F32: ((float *)t->data)[at] = (float)value; break;
    case RA_F16: ((uint16_t *)t->data)[at] = ra_f32_to_f16((float)value); break;
    case RA_BF16: ((uint16_t *)t->data)[at] = ra_f32_to_bf16((float)value); break;
    case RA_I64: ((int64_t *)t->data)[at] = (int64_t)value; break;
    case RA_BOOL:
    case RA_U8: ((uint8_t *)t->data)[at] = (uint8_t)value; break;
    case RA_F64: ((double *)t->data)[at] = value; break;
    case RA_I8: ((int8_t *)t->data)[at] = (int8_t)value; break;
    case RA_I32: ((int32_t *)t->data)[at] = (int32_t)value; break;
    }
}

/* Adds |(extent - 1) * stride * size| to *reach: the farthest byte the view can address from its origin. */
static bool add_reach(int64_t extent, int64_t stride, int64_t size, int64_t *reach)
{
    int64_t bytes;
    if (!ra_mul_ok(extent - 1, stride, &bytes) || !ra_mul_ok(bytes, size, &bytes) || bytes == INT64_MIN)
        return false;
    return ra_add_ok(*reach, bytes < 0 ? -bytes : bytes, reach);
}

ra_status ra_tensor_check_shape(const ra_tensor *t, const char *name, int64_t batch, int64_t seq, int64_t heads,
                                int64_t dim)
{
    if (!t)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: the tensor is NULL", name);
    bool empty = t->batch == 0 || t->seq == 0 || t->heads == 0 || t->dim == 0;
    if (!t->data && !empty)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: data is NULL", name);
    if (!ra_dtype_size(t->dtype))
        return ra_fail(RA_ERROR_ARGUMENT, "%s: dtype %d: there is none", name, (int)t->dtype);
    if ((uintptr_t)t->data % ra_dtype_size(t->dtype) != 0)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: data %p: must be a multiple of the %zu bytes of %s", name, t->data,
                       ra_dtype_size(t->dtype), ra_dtype_name(t->dtype));
    if (t->batch != batch || t->seq != seq || t->heads != heads || t->dim != dim)
        return ra_fail(RA_ERROR_ARGUMENT,
                       "%s: [batch %lld, seq %lld, heads %lld, dim %lld] does not match the problem's [batch %lld, "
                       "seq %lld, heads %lld, dim %lld]",
                       name, (long long)t->batch, (long long)t->seq, (long long)t->heads, (long long)t->dim,
                       (long long)batch, (long long)seq, (long long)heads, (long long)dim);
    if (empty)
        return RA_OK;
    int64_t size = (int64_t)ra_dtype_size(t->dtype), reach = size;
    if (!add_reach(batch, t->batch_stride, size, &reach) || !add_reach(seq, t->seq_stride, size, &reach) ||
        !add_reach(heads, t->head_stride, size, &reach) || !add_reach(dim, t->dim_stride, size, &reach))
        return ra_fail(RA_ERROR_ARGUMENT,
                       "%s: strides [%lld, %lld, %lld, %lld] reach past the address space with this shape", name,
                       (long long)t->batch_stride, (long long)t->seq_stride, (long long)t->head_stride,
                       (long long)t->dim_stride);
    return RA_OK;
}

ra_status ra_tensor_check(const ra_tensor *t, const char *name, int64_t batch, int64_t seq, int64_t heads, int64_t dim)
{
    if (t && t->dtype == RA_I8)
        return ra_fail(RA_ERROR_ARGUMENT,
                       "%s: dtype int8 needs scales, which only ra_forward_cached takes: must be float32, float16 or "
                       "bfloat16",
                       name);
    if (t && t->dtype != RA_F32 && t->dtype != RA_F16 && t->dtype != RA_BF16)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: dtype %d (%s): must be float32, float16 or bfloat16", name,
                       (int)t->dtype, ra_dtype_name(t->dtype));
    return ra_tensor_check_shape(t, name, batch, seq, heads, dim);
}

ra_status ra_tensor_check_reference(const ra_tensor *t, const char *name, int64_t batch, int64_t seq, int64_t heads,
                                    int64_t dim)
{
    if (t && t->dtype != RA_F32 && t->dtype != RA_F16 && t->dtype != RA_BF16 && t->dtype != RA_F64)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: dtype %d (%s): must be float32, float16, bfloat16 or float64", name,
                       (int)t->dtype, ra_dtype_name(t->dtype));
    return ra_tensor_check_shape(t, name, batch, seq, heads, dim);
}

ra_status ra_rows_check(const ra_row *rows, const char *name, int64_t count, const void *elements, int64_t batch,
                        int64_t seq, int64_t heads)
{
    if (count < 0)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: %lld rows: must be 0 or more", name, (long long)count);
    if (count > 0 && (!rows || !elements))
        return ra_fail(RA_ERROR_ARGUMENT, "%s: %s %lld rows is NULL", name, rows ? "room for" : "the list of",
                       (long long)count);
    for (int64_t i = 0; i < count; i++) {
        const ra_row *r = &rows[i];
        if (r->batch < 0 || r->batch >= batch || r->seq < 0 || r->seq >= seq || r->head < 0 || r->head >= heads)
            return ra_fail(RA_ERROR_ARGUMENT,
                           "%s: row %lld is batch %lld, seq %lld, head %lld: must be below %lld, %lld and %lld", name,
                           (long long)i, (long long)r->batch, (long long)r->seq, (long long)r->head, (long long)batch,
                           (long long)seq, (long long)heads);
    }
    return RA_OK;
}
