/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The further inputs of a gradient beside query, key and value, and the gradients themselves: options and files
 * that `gradient` and `check` share. Functions return an exit code and report.
 */
#ifndef CLI_GRADIENT_FILES_H
#define CLI_GRADIENT_FILES_H

#include "attention_files.h"
#include "progress.h"

enum { GRADIENTS = RA_GRADIENT_VALUE + 1, GRADIENT_OPTIONS = 2 + GRADIENTS };

typedef struct gradient_files {
    const char *output_path, *lse_path, *output_gradient_path, *lse_gradient_path; /* NULL: not given */
    const char *paths[GRADIENTS]; /* of the gradients, by ra_gradient */
    tensor_file output, lse, output_gradient, lse_gradient;
    tensor_file gradients[GRADIENTS];
} gradient_files;

/* --output-gradient, --lse-gradient, --query-gradient, --key-gradient and --value-gradient. */
void gradient_files_options(gradient_files *files, arg_option options[GRADIENT_OPTIONS]);

/* "query-gradient" as an option, "query gradient" in sentences. */
const char *gradient_option(int gradient);
const char *gradient_name(int gradient);

/* Whether one of the three gradients is named. */
bool gradient_files_any(const gradient_files *files);

/*
 * Refuse a gradient without an output gradient, an output without its log-sum-exp, and a run without a gradient;
 * others: there are gradients beside the three.
 */
int gradient_files_check(const gradient_files *files, bool others);

/* Open the four inputs. Those that are not given stay without a path. Their shapes must fit the problem. */
int gradient_files_open(gradient_files *files, const attention_files *inputs, const ra_problem *problem);

/*
 * For a forward pass that is run first: output and log-sum-exp that stay in memory, in the dtypes that `attend` writes.
 * Then the pass itself, after all tensors have been allocated and the inputs read. seconds may be NULL.
 */
void gradient_files_hold_forward(gradient_files *files, const attention_files *inputs);
int gradient_files_forward(gradient_files *files, const attention_files *inputs, const ra_plan *plan, progress *bar,
                           double *seconds);

/* The shape and dtype of the file of a gradient: those of its tensor. */
tensor_shape gradient_shape(int gradient, const attention_files *inputs);

void gradient_files_close(gradient_files *files);

#endif
