/* Where tensors live: in memory or in a file, read and written by ranges of rows. For one thread at a time. */
#ifndef RA_IO_STORAGE_H
#define RA_IO_STORAGE_H

#include "base/status.h"

/* The shape of the tensor, as a view; data is NULL unless it is in memory. */
const ra_tensor *ra_storage_view(const ra_storage *storage);

/*
 * Rows first .. first + count - 1 of one batch, all heads. `into` / `from` is a view [1, count, heads, dim] of the
 * storage's dtype, with any strides; it shares no memory with the storage. A range outside the tensor asserts.
 */
ra_status ra_storage_read(ra_storage *storage, int64_t batch, int64_t first, int64_t count, const ra_tensor *into);
ra_status ra_storage_write(ra_storage *storage, int64_t batch, int64_t first, int64_t count, const ra_tensor *from);

/* Bytes that it holds itself, from its making to its end: none in memory, at most 256 KiB of staging for a file. */
int64_t ra_storage_bytes(const ra_storage *storage);

/* The same before there is one: what ra_storage_array would take for this view. */
int64_t ra_storage_array_bytes(const ra_tensor *view);

#endif
