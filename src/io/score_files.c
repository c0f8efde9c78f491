/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and tables of floats out of files. See score_files.h. */
#include "io/score_files.h"

#include "io/array_header.h"

#include <stdio.h>
#include <stdlib.h>

/* All elements of an array that has been found to fit. */
static ra_status load(const char *path, ra_array *array, int64_t count, float **values)
{
    *values = malloc((size_t)count * sizeof **values);
    if (!*values)
        return ra_fail(RA_ERROR_MEMORY, "%s: out of memory: %lld floats", path, (long long)count);
    return ra_array_read(array, 0, count, *values);
}

static ra_status open_described(const char *path, ra_array **array, ra_array_info *info)
{
    ra_status status = ra_array_open(path, array);
    return status ? status : ra_array_describe(*array, info);
}

ra_status ra_load_list(const char *path, const char *name, int64_t count, float **values)
{
    ra_array *array = NULL;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    char must[128];
    *values = NULL;
    ra_status status = open_described(path, &array, &info);
    if (!status && (info.dtype != RA_F32 || info.dims != 1 || info.count != count)) {
        snprintf(must, sizeof must, "%s must be float32 [%lld], one for each query head", name, (long long)count);
        status = ra_array_unfit(path, &info, must);
    }
    if (!status)
        status = load(path, array, count, values);
    ra_array_close(array);
    return status;
}

ra_status ra_load_table(const char *path, int64_t heads, float **values, int64_t *rows, int64_t *columns)
{
    ra_array *array = NULL;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    char must[160];
    *values = NULL;
    ra_status status = open_described(path, &array, &info);
    *rows = info.shape[0];
    *columns = info.shape[1];
    if (!status && (info.dtype != RA_F32 || info.dims != 2 || (*rows != 1 && *rows != heads) || *columns % 2 != 1)) {
        snprintf(must, sizeof must, "a relative table must be float32 [%lld or 1, an odd number]", (long long)heads);
        status = ra_array_unfit(path, &info, must);
    }
    if (!status)
        status = load(path, array, info.count, values);
    ra_array_close(array);
    return status;
}
