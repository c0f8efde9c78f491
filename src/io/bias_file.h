/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bias in a file, [batch or 1, heads or 1, q_len or 1, kv_len] of a floating-point dtype: opened and checked once,
 * and read by parts, never whole. Parts may be read by several threads at once.
 */
#ifndef RA_IO_BIAS_FILE_H
#define RA_IO_BIAS_FILE_H

#include "base/status.h"

typedef struct ra_bias_file ra_bias_file;

/* `shape` is batch, heads, q_len and kv_len. *view has the sizes of the file and no data. Close with ra_bias_close. */
ra_status ra_bias_open(const char *path, const int64_t shape[4], ra_tensor *view, ra_bias_file **file);
void ra_bias_close(ra_bias_file *file);

/* A part of one batch and head, as floats, and the first failure of a read: see ra_bias_source in score/scores.h. */
ra_status ra_bias_failed(ra_bias_file *file);
void ra_bias_read(ra_bias_file *file, int64_t batch, int64_t head, int64_t first_query, int64_t queries,
                  int64_t first_key, int64_t keys, float *to, int64_t stride);

#endif
