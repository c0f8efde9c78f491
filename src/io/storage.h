/* SPDX-License-Identifier: Apache-2.0 */
/* What the library's own parts ask of a storage beyond the public header. */
#ifndef RA_IO_STORAGE_H
#define RA_IO_STORAGE_H

#include "base/status.h"

#include <stdbool.h>

/* The shape of the tensor, as a view; data is NULL unless it is in memory. */
const ra_tensor *ra_storage_view(const ra_storage *storage);

/*
 * Bytes that it holds itself, from its making to its end: none in memory and for what is kept nowhere, at most 256 KiB
 * of staging for a file, 16 KiB for a generator.
 */
int64_t ra_storage_bytes(const ra_storage *storage);

/* The same before there is one: what ra_storage_array would take for this view. */
int64_t ra_storage_array_bytes(const ra_tensor *view);

/* Whether what is written can be read. */
bool ra_storage_keeps(const ra_storage *storage);

/* ra_storage_write for some heads, as many as `from` has, from `head` on; of a storage that keeps what is written. */
ra_status ra_storage_write_heads(ra_storage *storage, int64_t batch, int64_t first, int64_t count, int64_t head,
                                 const ra_tensor *from);

#endif
