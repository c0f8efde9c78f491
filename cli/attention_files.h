/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The query, key and value files of one problem, with the options that describe it: shared by `attend` and `check`.
 * Functions return an exit code and report.
 */
#ifndef CLI_ATTENTION_FILES_H
#define CLI_ATTENTION_FILES_H

#include "gen_input.h"
#include "pattern_args.h"

typedef struct attention_files {
    const char *query_path, *key_path, *value_path;
    pattern_args pattern;
    double scale;
    int layout; /* an ra_layout */
    gen_args gen;
    bool others_made_up; /* gen:SEED stands for another input of the verb too */
    tensor_file query, key, value;
} attention_files;

enum { ATTENTION_OPTIONS = 5 + PATTERN_OPTIONS + GEN_OPTIONS };

/* The defaults, and the options that change them. */
void attention_files_options(attention_files *files, arg_option options[ATTENTION_OPTIONS]);

/* Open the three files and make the problem they state; their shapes must agree. Nothing is read yet. */
int attention_files_open(attention_files *files, ra_problem *problem);

/* The shapes and dtypes of the files of output and log-sum-exp. */
tensor_shape output_shape(const attention_files *files, ra_dtype dtype);
tensor_shape lse_shape(const attention_files *files);

void attention_files_close(attention_files *files);

#endif
