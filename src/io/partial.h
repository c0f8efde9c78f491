/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is not complete yet. What will be PATH is written as PATH.partial, locked by its maker. The system drops
 * the lock when the maker ends, whatever ended it: a PATH.partial that nobody holds was left by a killed run.
 */
#ifndef RA_IO_PARTIAL_H
#define RA_IO_PARTIAL_H

#include "base/status.h"

#include <stdbool.h>

#define RA_PARTIAL_SUFFIX ".partial"

/*
 * Make `name` (PATH.partial) anew, empty, locked and open for reading and writing; `path` is for messages. A leftover
 * is replaced, the file of a living run is refused. *fd is -1 after a failure. Closing it gives the lock up.
 */
ra_status ra_partial_create(const char *path, const char *name, int *fd);

/* Open a `name` that another process is making. */
ra_status ra_partial_join(const char *path, const char *name, int *fd);

/* Whether `name` still leads to the file behind `fd`: only then is it the maker's to rename or to remove. */
bool ra_partial_leads_to(const char *name, int fd);

#endif
