/*
 * Some rows of a result, and what the oracle says of them: what `check` looks at in files, and what `attend` keeps of
 * an output that it does not write. Functions return an exit code and report.
 */
#ifndef CLI_SAMPLED_ROWS_H
#define CLI_SAMPLED_ROWS_H

#include "attention_files.h"
#include "progress.h"

enum { SAMPLED_ROWS = 64 }; /* unless somebody says otherwise */

/* Of one result. The elements are in whole words, so that processes which have some of the rows each can add them. */
typedef struct sampled_result {
    const char *name;
    const tensor_file *file; /* path NULL: there is none */
    double given;       /* the tolerance that was asked for; NAN: it follows scores and values, element by element */
    uint64_t *elements; /* [count][dim] of the file's dtype; NULL: not looked at */
    int64_t words;
    double error;     /* the largest in terms of its tolerance, */
    double tolerance; /* what it may be, */
    ra_row where;     /* and where it is */
} sampled_result;

enum { SAMPLED_OUTPUT, SAMPLED_LSE, SAMPLED_RESULTS };

typedef struct sampled_rows {
    int64_t count, total; /* of all rows of all heads, how many are looked at */
    ra_row *rows;
    sampled_result results[SAMPLED_RESULTS];
} sampled_rows;

/*
 * Choose `count` rows, at most all, spread over batch, heads and queries, with room for zeroed results. `given` is a
 * tolerance, or NAN.
 */
int sampled_rows_choose(sampled_rows *sample, const ra_problem *problem, int64_t count);
int sampled_rows_take(const sampled_rows *sample, sampled_result *result, const char *name, const tensor_file *file,
                      double given);

/* Fill in the elements from the file. */
int sampled_rows_read(const sampled_rows *sample, sampled_result *result);

/* Recompute the rows and find the largest errors. `bar` is the progress that the plan calls. */
int sampled_rows_compare(sampled_rows *sample, const ra_plan *plan, const attention_files *inputs, progress *bar);

/* Write what was found to standard output. */
void sampled_rows_print(const sampled_rows *sample);

/* Whether everything that was looked at is within its tolerance. */
bool sampled_rows_ok(const sampled_rows *sample);

void sampled_rows_free(sampled_rows *sample);

#endif
