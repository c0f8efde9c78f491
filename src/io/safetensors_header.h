/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a .safetensors file, from bytes and to bytes. No files, and safe on any bytes.
 *
 *     length (8 bytes, little-endian) {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...} blanks
 *
 * Offsets count from the end of the header. The tensors fill the rest of the file, in any order and without a gap. All
 * of them are checked, not only the one that is asked for: a file that is wrong somewhere is not trusted elsewhere.
 */
#ifndef RA_IO_SAFETENSORS_HEADER_H
#define RA_IO_SAFETENSORS_HEADER_H

#include "io/array_header.h"

enum {
    RA_SAFETENSORS_READ_BYTES = 100000000, /* the longest header, which is the format's own limit */
    RA_SAFETENSORS_VALUES = 4000000,       /* the most values in it, which is some 400000 tensors */
    RA_SAFETENSORS_NAME_BYTES = 255,       /* the longest name that is written; any is read */
    RA_SAFETENSORS_WRITE_BYTES = 2048      /* enough for any header that ra_safetensors_format makes */
};

/* How many bytes the length and the header take, from the first `size` of a file of `file_bytes`. */
ra_status ra_safetensors_extent(const char *path, const void *bytes, size_t size, int64_t file_bytes, int64_t *wanted);

/*
 * Find a tensor; `bytes` are as many as ra_safetensors_extent has said. With a `name` of "" the file must have only
 * one. Elements of dtypes that ra_dtype lacks are refused for this tensor, and left alone in others.
 */
ra_status ra_safetensors_parse(const char *path, const char *name, const void *bytes, size_t size, int64_t file_bytes,
                               ra_array_header *header);

/* Write the header of a new file with one tensor to `bytes` and complete `header`. The elements begin at 64 bytes. */
ra_status ra_safetensors_format(const char *path, const char *name, ra_dtype dtype, int dims, const int64_t *shape,
                                char bytes[RA_SAFETENSORS_WRITE_BYTES], ra_array_header *header);

/*
 * The same for a file with several tensors, one behind the other: `header` is of all their elements, in one dimension.
 * With `dtypes`, each has its own, and `dtype` is what all of it is taken for.
 */
ra_status ra_safetensors_format_parts(const char *path, ra_dtype dtype, const ra_dtype *dtypes, int count,
                                      const ra_array_part *parts, char bytes[RA_SAFETENSORS_WRITE_BYTES],
                                      ra_array_header *header);

#endif
