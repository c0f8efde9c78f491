/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some rows of one result (an output, a log-sum-exp, a gradient), and how far they are from what the oracle says of
 * them. Who asks the oracle: sampled_rows.c. Functions return an exit code and report.
 */
#ifndef CLI_SAMPLED_RESULT_H
#define CLI_SAMPLED_RESULT_H

#include "tensor_file.h"

enum { SAMPLED_ROWS = 64 }; /* unless somebody says otherwise */

/* The elements are in whole words, so that processes which have some of the rows each can add them. */
typedef struct sampled_result {
    const char *name;     /* "output" */
    const char *place;    /* what a row belongs to: "query" or "key" */
    tensor_file *file;    /* path NULL: there is none */
    int64_t count, total; /* of all rows of all heads, how many are looked at */
    ra_row *rows;         /* [count], spread over batch, heads and positions */
    double given;         /* the tolerance that was asked for; NAN: it follows the data, element by element */
    uint64_t *elements;   /* [count][dim] of the file's dtype; NULL: not looked at */
    int64_t words;
    double error;     /* the largest in terms of its tolerance, */
    double tolerance; /* what it may be, */
    double got, expected;
    ra_row where; /* and where it is */
} sampled_result;

/*
 * Choose `count` rows, at most all, with zeroed elements. Results of the same shape get the same rows. `given` is a
 * tolerance, or NAN; `usual` is what is shown of one that follows the data before anything was compared.
 */
int sampled_result_take(sampled_result *result, tensor_file *file, int64_t count, double given, double usual);

/* Fill in the elements from the file. */
int sampled_result_read(sampled_result *result);

/* What is expected of element d of the i-th row, and how far off it may be. */
typedef double (*sampled_expectation)(const void *oracle, int64_t i, int64_t d, double *tolerance);

/* Find the largest error. Does nothing for a result that is not looked at. */
void sampled_result_compare(sampled_result *result, const void *oracle, sampled_expectation expect);

bool sampled_result_ok(const sampled_result *result);

/* Whether all of them are within their tolerances. */
bool sampled_results_ok(const sampled_result *results, int count);

/* Write what was found to standard output. */
void sampled_results_print(const sampled_result *results, int count);

/* EXIT_WORK, and the first result that is out of tolerance. */
int sampled_results_report(const sampled_result *results, int count);

void sampled_results_free(sampled_result *results, int count);

#endif
