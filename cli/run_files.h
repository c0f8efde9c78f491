/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a run by the options that name them, and which of them may not be the same. Functions return an exit
 * code and report.
 */
#ifndef CLI_RUN_FILES_H
#define CLI_RUN_FILES_H

#include "tensor_file.h"

#include <limits.h>

/* A tensor that is read or written. */
typedef struct run_file {
    const char *option; /* "query" */
    const char *path;   /* NULL: not given */
    tensor_file *file;
    tensor_axes axes;   /* how a result is made, */
    tensor_shape shape; /* known before it is */
} run_file;

/* What else a run reads and writes. NULL: nothing. */
typedef struct run_paths {
    const char *pattern;         /* names files after '@' */
    const char *scores;          /* the same */
    const char *stats;           /* written */
    const char *checkpoint;      /* written, with files beside it */
    const char *scores_gradient; /* written */
} run_paths;

/* The next file that a text, such as a pattern, names after '@' and up to '+'; *text moves behind it. False: none. */
bool named_file(const char **text, char path[PATH_MAX]);

/* No file may be both read and written, or written twice. A .safetensors file is written with one tensor. */
int run_files_check(const run_file *reads, int read_count, const run_file *results, int result_count,
                    const run_paths *others);

/* The memory that all of them take as whole tensors. */
double run_files_bytes(const run_file *reads, int read_count, const run_file *results, int result_count);

#endif
