/* Structs that grow: what the caller's version of a struct has is copied, the rest stays at its default. */
#ifndef RA_BASE_SIZED_H
#define RA_BASE_SIZED_H

#include "base/status.h"

/* `ours` holds the defaults. `name` and `macro` are for messages. A struct of a newer version is refused. */
ra_status ra_copy_in(void *ours, size_t our_size, const void *theirs, const char *name, const char *macro);

/* Whether the caller's struct has been set up at all: to be known before any work is done for it. */
ra_status ra_check_sized(const void *theirs, const char *name, const char *macro);

/* Everything but the size, as far as the caller's version has room for it. */
ra_status ra_copy_out(void *theirs, const void *ours, size_t our_size, const char *name, const char *macro);

#endif
