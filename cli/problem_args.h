/* SPDX-License-Identifier: Apache-2.0 */
/* The options that say what is to be computed where there are no tensors to tell: what `plan` and `advise` share. */
#ifndef CLI_PROBLEM_ARGS_H
#define CLI_PROBLEM_ARGS_H

#include "pattern_args.h"

typedef struct problem_args {
    int64_t length, kv_length, heads, kv_heads, dim, value_dim, batch;
    int dtype; /* an ra_dtype */
    pattern_args pattern;
} problem_args;

enum { PROBLEM_OPTIONS = 8 + PATTERN_OPTIONS };

/*
 * The defaults, and the options that change them; length, heads and dim are required. Lengths and batch may
 * be 0.
 */
void problem_args_options(problem_args *args, arg_option options[PROBLEM_OPTIONS]);

/* Lengths and batch must be 1 or more: for what there is no point in doing to an empty problem. */
void problem_args_need_rows(arg_option options[PROBLEM_OPTIONS]);

/* The problem, with the pattern that `pattern_args_text` gives. */
ra_problem problem_args_problem(const problem_args *args, const char *pattern);

#endif
