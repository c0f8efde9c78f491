/* SPDX-License-Identifier: Apache-2.0 */
/* Files that patterns name: lists of lengths, and masks of booleans as bits. */
#ifndef RA_IO_PATTERN_FILES_H
#define RA_IO_PATTERN_FILES_H

#include "base/status.h"

#include <stdbool.h>

/*
 * documents:@FILE.npy: an int64 array [rows] or [rows, columns]; of one dimension it has one column. *values is
 * malloc'ed for the caller, also when a failure is returned.
 */
ra_status ra_load_integers(const char *path, int64_t **values, int64_t *rows, int64_t *columns);

/*
 * blocks:...:mask=@FILE.npy: booleans [count, count] or [heads, count, count] as bits, each row in words of 64. The
 * same ownership.
 */
ra_status ra_load_mask(const char *path, int64_t count, int64_t heads, uint64_t **bits, bool *by_head);

/*
 * mask:@FILE.npy: booleans [q_len, kv_len], [heads, q_len, kv_len] or [batch, heads or 1, q_len, kv_len] as bits, each
 * row in words of 64; `shape` is batch, heads, q_len, kv_len. *batch and *heads are those of the file. The same
 * ownership.
 */
ra_status ra_load_pairs(const char *path, const int64_t shape[4], uint64_t **bits, int64_t *batch, int64_t *heads);

#endif
