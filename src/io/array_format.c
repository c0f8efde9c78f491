/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of file formats, and which of them a path means. The formats: npy_header.c and safetensors_header.c. See
 * array_format.h.
 */
#include "io/array_format.h"

#include "io/npy_header.h"
#include "io/safetensors_header.h"

#include <string.h>

/* ---- .npy, which holds one array without a name -------------------------------------------------------------------
 */

static ra_status npy_extent(const char *path, const void *bytes, size_t size, int64_t file_bytes, int64_t *wanted)
{
    (void)path, (void)bytes, (void)file_bytes;
    *wanted = (int64_t)size;
    return RA_OK;
}

static ra_status npy_parse(const char *path, const char *name, const void *bytes, size_t size, int64_t file_bytes,
                           ra_array_header *header)
{
    (void)name;
    ra_status status = ra_npy_parse(path, bytes, size, header);
    if (!status && header->file_bytes > file_bytes)
        return ra_fail(RA_ERROR_FORMAT, "%s: truncated: its header promises %lld bytes, the file has %lld", path,
                       (long long)header->file_bytes, (long long)file_bytes);
    return status;
}

static ra_status npy_format(const char *path, const char *name, ra_dtype dtype, int dims, const int64_t *shape,
                            char bytes[RA_HEADER_WRITE_BYTES], ra_array_header *header)
{
    (void)name;
    return ra_npy_format(path, dtype, dims, shape, bytes, header);
}

_Static_assert((int)RA_NPY_READ_BYTES <= (int)RA_HEADER_FIRST_BYTES, "a .npy header is read at once");
_Static_assert((int)RA_NPY_WRITE_BYTES <= (int)RA_HEADER_WRITE_BYTES, "any header fits");
_Static_assert((int)RA_SAFETENSORS_WRITE_BYTES <= (int)RA_HEADER_WRITE_BYTES, "any header fits");

static const ra_array_format NPY = {NULL, npy_extent, npy_parse, npy_format};
static const ra_array_format SAFETENSORS = {"output", ra_safetensors_extent, ra_safetensors_parse,
                                            ra_safetensors_format};

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

static const char SUFFIX[] = ".safetensors";
enum { SUFFIX_LENGTH = sizeof SUFFIX - 1 };

size_t ra_array_split_path(const char *path, const char **name)
{
    const char *nowhere;
    name = name ? name : &nowhere;
    *name = NULL;
    if (!path)
        return 0;
    /* The first that is followed by '#': a tensor may be called anything, a file is hardly called so. */
    for (const char *at = path; (at = strstr(at, SUFFIX)); at += SUFFIX_LENGTH) {
        const char *end = at + SUFFIX_LENGTH;
        if (*end != '#' && *end)
            continue;
        *name = *end ? end + 1 : end;
        return (size_t)(end - path);
    }
    return strlen(path);
}

const ra_array_format *ra_array_format_of(const char *path)
{
    const char *name;
    ra_array_split_path(path, &name);
    return name ? &SAFETENSORS : &NPY;
}
