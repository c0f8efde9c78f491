/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs that are made up instead of read: gen:SEED in place of a file, and the options that say what it looks like.
 * Functions return an exit code and report.
 */
#ifndef CLI_GEN_INPUT_H
#define CLI_GEN_INPUT_H

#include "args.h"
#include "tensor_file.h"

typedef struct gen_args {
    arg_shape shape, kv_shape; /* dims 0: not given */
    int distribution, dtype;   /* -1: not given */
} gen_args;

enum { GEN_OPTIONS = 4 };

/* The names of the distributions, indexed by ra_distribution: for options. */
extern const char *const gen_distributions[];

/* The defaults, and the options that change them. */
void gen_args_options(gen_args *args, arg_option options[GEN_OPTIONS]);

/* Whether a path is gen:SEED, or meant to be. */
bool gen_named(const char *path);

/* Reads the SEED of gen:SEED; `option` is where it was given. */
int gen_seed(const char *option, const char *path, uint64_t *seed);

/* Refuse what no input takes. The paths are the inputs'; `others`: there is a made-up input of a shape that is known.
 */
int gen_args_check(const gen_args *args, const char *query, const char *key, const char *value, bool others);

/* The tensor that gen:SEED stands for, given to --`option`; `keys`: a key or a value. */
int gen_open(const gen_args *args, const char *option, bool keys, const char *path, tensor_axes axes,
             tensor_file *file);

/* The same for a tensor of a shape that is known, [dims] as a file would have it. A log-sum-exp is float32. */
int gen_open_shape(const gen_args *args, const char *option, const char *path, tensor_axes axes, int dims,
                   const int64_t *shape, tensor_file *file);

#endif
