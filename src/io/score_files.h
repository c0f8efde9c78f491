/* SPDX-License-Identifier: Apache-2.0 */
/* Files that scores name: lists and tables of floats, loaded whole. A bias is in bias_file.h. */
#ifndef RA_IO_SCORE_FILES_H
#define RA_IO_SCORE_FILES_H

#include "base/status.h"

/* float32 [count], called `name` in messages. *values is malloc'ed for the caller, also when a failure is returned. */
ra_status ra_load_list(const char *path, const char *name, int64_t count, float **values);

/* float32 [heads or 1, an odd number]: *rows and *columns say which. The same ownership. */
ra_status ra_load_table(const char *path, int64_t heads, float **values, int64_t *rows, int64_t *columns);

#endif
