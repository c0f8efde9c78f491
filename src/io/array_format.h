/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of arrays in files: which one a path means, and what each does with the start of a file. */
#ifndef RA_IO_ARRAY_FORMAT_H
#define RA_IO_ARRAY_FORMAT_H

#include "io/array_header.h"

enum {
    RA_HEADER_FIRST_BYTES = 4096, /* of a file are read at first, if it has as many */
    RA_HEADER_WRITE_BYTES = 2048  /* enough for any header that is made here */
};

typedef struct ra_array_format {
    /* Of an array that is made without a name; NULL: arrays of this format have none. */
    const char *default_name;

    /* How many bytes from the start of the file on `parse` wants, from the first `size` ones. */
    ra_status (*extent)(const char *path, const void *bytes, size_t size, int64_t file_bytes, int64_t *wanted);

    /* Read a header from the bytes that were wanted; `name` is the array's, "": the only one. `path` is for messages.
     */
    ra_status (*parse)(const char *path, const char *name, const void *bytes, size_t size, int64_t file_bytes,
                       ra_array_header *header);

    /* Write the header of a new file, whose size is data_at, and complete `header`. */
    ra_status (*format)(const char *path, const char *name, ra_dtype dtype, int dims, const int64_t *shape,
                        char bytes[RA_HEADER_WRITE_BYTES], ra_array_header *header);
} ra_array_format;

/* Never NULL: what is not .safetensors is taken for .npy. */
const ra_array_format *ra_array_format_of(const char *path);

#endif
