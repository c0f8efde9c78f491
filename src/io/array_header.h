/* SPDX-License-Identifier: Apache-2.0 */
/* What the header of a file says of an array in it, whatever the format. Pure: no files and no allocation. */
#ifndef RA_IO_ARRAY_HEADER_H
#define RA_IO_ARRAY_HEADER_H

#include "base/status.h"

#include <stdbool.h>

enum { RA_SHAPE_TEXT_BYTES = 256 }; /* enough for any shape as a text */

typedef struct ra_array_header {
    ra_dtype dtype;
    int dims;
    int64_t shape[RA_ARRAY_MAX_DIMS];
    int64_t count;      /* elements in all */
    int64_t data_at;    /* the file offset of the first element */
    int64_t file_bytes; /* what the file must hold */
} ra_array_header;

/* "(2, 3)", as Python writes it; returns its length. */
int ra_shape_text(const ra_array_header *header, char *text, size_t size);

/* RA_ERROR_FORMAT for an array that is not what it `must` be: "PATH: float32 of shape (2, 3): MUST". */
ra_status ra_array_unfit(const char *path, const ra_array_info *info, const char *must);

/* The header of an array that is to be made, as far as every format has it; the caller's values are checked. */
ra_status ra_array_header_start(const char *path, ra_dtype dtype, int dims, const int64_t *shape,
                                ra_array_header *header);

/*
 * count and file_bytes from shape, dtype and data_at, for an array that its file ends with. An extent of 0 makes an
 * empty array, whatever the others are. What overflows is refused with `status`.
 */
ra_status ra_array_header_measure(ra_status status, const char *path, ra_array_header *header);

#endif
