/* What the library's own parts ask of a storage beyond the public header. */
#ifndef RA_IO_STORAGE_H
#define RA_IO_STORAGE_H

#include "base/status.h"

/* The shape of the tensor, as a view; data is NULL unless it is in memory. */
const ra_tensor *ra_storage_view(const ra_storage *storage);

/*
 * Bytes that it holds itself, from its making to its end: none in memory and for what is kept nowhere, at most 256 KiB
 * of staging for a file, 16 KiB for a generator.
 */
int64_t ra_storage_bytes(const ra_storage *storage);

/* The same before there is one: what ra_storage_array would take for this view. */
int64_t ra_storage_array_bytes(const ra_tensor *view);

#endif
