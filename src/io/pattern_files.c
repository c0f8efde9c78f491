/* SPDX-License-Identifier: Apache-2.0 */
/* Files that patterns name: see pattern_files.h. */
#include "io/pattern_files.h"

#include "ringattn/ringattn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 64-bit words that hold `count` bits. */
static int64_t words_of(int64_t count)
{
    return (count + 63) / 64;
}

/* documents:@FILE.npy */
ra_status ra_load_integers(const char *path, int64_t **values, int64_t *rows, int64_t *columns)
{
    ra_array *array = NULL;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    *values = NULL;
    ra_status status = ra_array_open(path, &array);
    if (!status)
        status = ra_array_describe(array, &info);
    if (!status && (info.dtype != RA_I64 || info.dims < 1 || info.dims > 2 || info.count < 1))
        status = ra_fail(RA_ERROR_FORMAT,
                         "%s: %d-dimensional %s with %lld elements: lengths must be a one- or two-dimensional int64 "
                         "array with at least one",
                         path, info.dims, ra_dtype_name(info.dtype), (long long)info.count);
    if (!status && !(*values = malloc((size_t)info.count * sizeof **values)))
        status = ra_fail(RA_ERROR_MEMORY, "%s: out of memory: %lld lengths", path, (long long)info.count);
    if (!status)
        status = ra_array_read(array, 0, info.count, *values);
    *rows = status ? 0 : info.shape[0];
    *columns = info.dims == 2 ? info.shape[1] : 1;
    ra_array_close(array);
    return status;
}

/* One row of a mask, as bytes, to bits. */
static ra_status pack_mask_row(const char *path, const uint8_t *bytes, int64_t count, uint64_t *bits)
{
    memset(bits, 0, (size_t)words_of(count) * sizeof *bits);
    for (int64_t i = 0; i < count; i++) {
        if (bytes[i] > 1)
            return ra_fail(RA_ERROR_FORMAT, "%s: a byte that is %d among booleans: must be 0 or 1", path, bytes[i]);
        bits[i / 64] |= (uint64_t)bytes[i] << (i % 64);
    }
    return RA_OK;
}

static ra_status read_mask(const char *path, ra_array *array, int64_t count, int64_t rows, uint64_t *bits)
{
    uint8_t *bytes = malloc((size_t)count);
    ra_status status =
        bytes ? RA_OK : ra_fail(RA_ERROR_MEMORY, "%s: out of memory: %lld bytes", path, (long long)count);
    for (int64_t row = 0; row < rows && !status; row++) {
        status = ra_array_read(array, row * count, count, bytes);
        if (!status)
            status = pack_mask_row(path, bytes, count, bits + row * words_of(count));
    }
    free(bytes);
    return status;
}

/* A shape as text. */
static const char *text_of(const ra_array_info *info, char text[128])
{
    text[0] = 0;
    for (int i = 0; i < info->dims; i++) {
        size_t used = strlen(text);
        snprintf(text + used, 128 - used, "%s%lld", i ? ", " : "", (long long)info->shape[i]);
    }
    return text;
}

/* blocks:...:mask=@FILE.npy */
ra_status ra_load_mask(const char *path, int64_t count, int64_t heads, uint64_t **bits, bool *by_head)
{
    ra_array *array = NULL;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    *bits = NULL;
    ra_status status = ra_array_open(path, &array);
    if (!status)
        status = ra_array_describe(array, &info);
    const int64_t *extent = info.shape + (info.dims == 3);
    *by_head = info.dims == 3;
    bool fits =
        (info.dims == 2 || (info.dims == 3 && info.shape[0] == heads)) && extent[0] == count && extent[1] == count;
    char shape[128];
    if (!status && (info.dtype != RA_BOOL || !fits))
        status =
            ra_fail(RA_ERROR_FORMAT, "%s: %s [%s]: a mask of blocks must be bool [%lld, %lld] or [%lld, %lld, %lld]",
                    path, ra_dtype_name(info.dtype), text_of(&info, shape), (long long)count, (long long)count,
                    (long long)heads, (long long)count, (long long)count);
    int64_t rows = count * (*by_head ? heads : 1);
    if (!status && !(*bits = malloc((size_t)(rows * words_of(count)) * sizeof **bits)))
        status = ra_fail(RA_ERROR_MEMORY, "%s: out of memory: a mask of %lld blocks", path, (long long)info.count);
    if (!status)
        status = read_mask(path, array, count, rows, *bits);
    ra_array_close(array);
    return status;
}

/* Whether a mask of pairs is for a problem; how many slices it has. */
static bool fits_pairs(const ra_array_info *info, const int64_t shape[4], int64_t *batch, int64_t *heads)
{
    int dims = info->dims;
    if (info->dtype != RA_BOOL || dims < 2 || dims > 4)
        return false;
    *batch = dims == 4 ? info->shape[0] : 1;
    *heads = dims > 2 ? info->shape[dims - 3] : 1;
    return (dims < 4 || *batch == shape[0]) && (dims < 3 || *heads == shape[1] || (dims == 4 && *heads == 1)) &&
           info->shape[dims - 2] == shape[2] && info->shape[dims - 1] == shape[3];
}

/* mask:@FILE.npy */
ra_status ra_load_pairs(const char *path, const int64_t shape[4], uint64_t **bits, int64_t *batch, int64_t *heads)
{
    ra_array *array = NULL;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    char text[128];
    *bits = NULL;
    ra_status status = ra_array_open(path, &array);
    if (!status)
        status = ra_array_describe(array, &info);
    long long b = shape[0], h = shape[1], q = shape[2], k = shape[3];
    if (!status && !fits_pairs(&info, shape, batch, heads))
        status = ra_fail(RA_ERROR_FORMAT,
                         "%s: %s [%s]: a mask must be bool [%lld, %lld], [%lld, %lld, %lld] or [%lld, %lld or 1, %lld, "
                         "%lld]",
                         path, ra_dtype_name(info.dtype), text_of(&info, text), q, k, h, q, k, b, h, q, k);
    int64_t rows = status ? 0 : *batch * *heads * shape[2];
    if (!status && !(*bits = malloc((size_t)(rows * words_of(shape[3]) + 1) * sizeof **bits)))
        status = ra_fail(RA_ERROR_MEMORY, "%s: out of memory: a mask of %lld pairs", path, (long long)info.count);
    if (!status && shape[3] > 0)
        status = read_mask(path, array, shape[3], rows, *bits);
    ra_array_close(array);
    return status;
}
