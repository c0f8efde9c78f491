/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a .npy file, from bytes and to bytes. Pure: no files and no allocation, and safe on any bytes.
 *
 *     "\x93NUMPY" major minor length {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } blanks newline
 */
#ifndef RA_IO_NPY_HEADER_H
#define RA_IO_NPY_HEADER_H

#include "io/array_header.h"

enum {
    RA_NPY_READ_BYTES = 4096, /* a header must end within these; a plain array's takes 64 to 256 */
    RA_NPY_WRITE_BYTES = 256  /* enough for any header that ra_npy_format makes */
};

/* Read a header from the first `size` bytes of a file (all of it, or RA_NPY_READ_BYTES); `path` is for messages. */
ra_status ra_npy_parse(const char *path, const void *bytes, size_t size, ra_array_header *header);

/* Write the header of a new file to `bytes` and complete `header`. */
ra_status ra_npy_format(const char *path, ra_dtype dtype, int dims, const int64_t *shape,
                        char bytes[RA_NPY_WRITE_BYTES], ra_array_header *header);

#endif
