/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of floats as 8 bits and a scale: ra_quantize_rows. What reads them: kernel/template_*.h, exec/reference.c. */
#include "base/overlap.h"
#include "base/tensor.h"

#include <fenv.h>
#include <float.h>
#include <math.h>

/* One head of one row; elements are counted by the view. */
typedef struct place {
    int64_t batch, seq, head;
} place;

enum { LARGEST = 127 };

static ra_status refuse(const place *at, int64_t dim, double x)
{
    return ra_fail(RA_ERROR_ARGUMENT,
                   "rows: element [batch %lld, seq %lld, head %lld, dim %lld] is %g: 8 bits have finite numbers alone",
                   (long long)at->batch, (long long)at->seq, (long long)at->head, (long long)dim,
                   x != x ? (double)NAN : x);
}

static ra_status check_finite(const ra_tensor *rows, const place *at)
{
    for (int64_t d = 0; d < rows->dim; d++) {
        double x = ra_tensor_get(rows, at->batch, at->seq, at->head, d);
        if (!isfinite(x))
            return refuse(at, d, x);
    }
    return RA_OK;
}

/* Below the least normal float a scale would lose digits, and elements their place among 127. */
static double scale_of(const ra_tensor *rows, const place *at)
{
    double most = 0;
    for (int64_t d = 0; d < rows->dim; d++)
        most = fmax(most, fabs(ra_tensor_get(rows, at->batch, at->seq, at->head, d)));
    return most == 0 ? 0 : fmax((double)(float)(most / LARGEST), FLT_MIN);
}

static void quantize_row(const ra_tensor *rows, const place *at, const ra_tensor *data, const ra_tensor *scale)
{
    double step = scale_of(rows, at);
    for (int64_t d = 0; d < rows->dim; d++) {
        double x = step == 0 ? 0 : ra_tensor_get(rows, at->batch, at->seq, at->head, d) / step;
        ra_tensor_set(data, at->batch, at->seq, at->head, d, fmax(-LARGEST, fmin(LARGEST, rint(x))));
    }
    ra_tensor_set(scale, at->batch, at->seq, at->head, 0, step);
}

static place place_at(const ra_tensor *rows, int64_t i)
{
    return (place){i / rows->heads / rows->seq, i / rows->heads % rows->seq, i % rows->heads};
}

static ra_status check(const ra_tensor *rows, const ra_tensor *data, const ra_tensor *scale)
{
    ra_status status = RA_OK;
    if (!rows || rows->batch < 0 || rows->seq < 0 || rows->heads < 0 || rows->dim < 0)
        return ra_fail(RA_ERROR_ARGUMENT, "rows: %s", rows ? "a dimension is negative" : "the tensor is NULL");
    status = ra_tensor_check(rows, "rows", rows->batch, rows->seq, rows->heads, rows->dim);
    if (!status)
        status = ra_tensor_check_shape(data, "data", rows->batch, rows->seq, rows->heads, rows->dim);
    if (!status)
        status = ra_tensor_check_shape(scale, "scale", rows->batch, rows->seq, rows->heads, 1);
    if (!status && data->dtype != RA_I8)
        status = ra_fail(RA_ERROR_ARGUMENT, "data: dtype %s: must be int8", ra_dtype_name(data->dtype));
    if (!status && scale->dtype != RA_F32)
        status = ra_fail(RA_ERROR_ARGUMENT, "scale: dtype %s: must be float32", ra_dtype_name(scale->dtype));
    return status ? status
                  : ra_check_apart((const ra_tensor *const[]){rows, data, scale},
                                   (const char *const[]){"rows", "data", "scale"}, 1, 3);
}

ra_status ra_quantize_rows(const ra_tensor *rows, const ra_tensor *data, const ra_tensor *scale)
{
    ra_status status = check(rows, data, scale);
    if (status)
        return status;
    int64_t count = rows->batch * rows->seq * rows->heads;
    fenv_t environment; /* the caller's rounding must not show */
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    for (int64_t i = 0; i < count && !status; i++) {
        place at = place_at(rows, i);
        status = check_finite(rows, &at);
    }
    for (int64_t i = 0; i < count && !status; i++) {
        place at = place_at(rows, i);
        quantize_row(rows, &at, data, scale);
    }
    fesetenv(&environment);
    return status;
}
