/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a storage is made of: for src/io only. A storage in memory has data in its view. All others are written or read
 * through `move` (elements that lie together: a file, a generator) or `take` (rows that are kept nowhere).
 */
#ifndef RA_IO_BACKING_H
#define RA_IO_BACKING_H

#include "base/memory.h"

#include <stdbool.h>

/* Elements [first, first + count) in the order of the storage's own layout, to or from memory. */
typedef ra_status (*ra_move_elements)(const ra_storage *storage, bool writing, int64_t first, int64_t count,
                                      void *elements);

/* Rows that are written, as in ra_storage_write; they have been checked. */
typedef void (*ra_take_rows)(ra_storage *storage, int64_t batch, int64_t first, const ra_tensor *rows);

/* The text of ra_storage_fingerprint, but for the layout. */
typedef ra_status (*ra_describe_source)(const ra_storage *storage, char *text, size_t size);

struct ra_storage {
    ra_tensor view;
    ra_move_elements move;
    ra_take_rows take;
    ra_describe_source describe; /* NULL: nothing can be said */

    ra_array *array;
    ra_array *scale; /* of 8 bits */
    struct {
        ra_distribution distribution;
        uint64_t seed;
    } made;
    struct {
        uint64_t checksum;
        const ra_row *rows; /* the caller's */
        int64_t count;
        char *elements;
    } kept;

    ra_accountant bytes; /* of the staging */
    int64_t staging_bytes;
    char *staging;
};

/* A new storage that has no more than a view; `staging` > 0: and as many bytes for rows that do not lie together. */
ra_status ra_storage_new(const ra_tensor *view, int64_t staging, ra_storage **storage);

/* RA_OK for floating point in a shape that is not too large to be addressed; batch and seq may be 0. */
ra_status ra_storage_check_shape(const ra_tensor *view);

/* Where a storage is to be put: refused if NULL, else *storage is NULL until one is made. */
ra_status ra_storage_check_place(ra_storage **storage);

/* RA_OK when the view is dense in one of the two layouts (`name` is for the message); completes the strides. */
ra_status ra_storage_check_dense(const char *name, ra_tensor *view);

#endif
