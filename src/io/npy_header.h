/*
 * The header of a .npy file, from bytes and to bytes. Pure: no files and no allocation, and safe on any bytes.
 *
 *     "\x93NUMPY" major minor length {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } blanks newline
 */
#ifndef RA_IO_NPY_HEADER_H
#define RA_IO_NPY_HEADER_H

#include "base/status.h"

enum {
    RA_NPY_READ_BYTES = 4096, /* a header must end within these; a plain array's takes 64 to 256 */
    RA_NPY_WRITE_BYTES = 256  /* enough for any header that ra_npy_format makes */
};

typedef struct ra_npy_header {
    ra_dtype dtype;
    int dims;
    int64_t shape[RA_ARRAY_MAX_DIMS];
    int64_t count;      /* elements in all */
    int64_t data_at;    /* the file offset of the first element */
    int64_t file_bytes; /* what the file must hold: data_at and the elements */
} ra_npy_header;

/* "(2, 3)", as Python writes it; returns its length. RA_NPY_WRITE_BYTES are enough. */
int ra_npy_shape_text(const ra_npy_header *header, char *text, size_t size);

/* Read a header from the first `size` bytes of a file (all of it, or RA_NPY_READ_BYTES); `path` is for messages. */
ra_status ra_npy_parse(const char *path, const void *bytes, size_t size, ra_npy_header *header);

/* Write the header of a new file to `bytes` and complete `header`. */
ra_status ra_npy_format(const char *path, ra_dtype dtype, int dims, const int64_t *shape,
                        char bytes[RA_NPY_WRITE_BYTES], ra_npy_header *header);

#endif
