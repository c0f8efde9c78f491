/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results that are kept nowhere (--output null, --query-gradient null): of each a checksum and sampled rows, which the
 * oracle recomputes. Functions return an exit code and report; they do nothing where every result is a file.
 */
#ifndef CLI_NULL_OUTPUTS_H
#define CLI_NULL_OUTPUTS_H

#include "sampled_result.h"

enum { NULL_OUTPUTS = 3 }; /* at most */

typedef struct null_outputs {
    bool any;
    int count;
    sampled_result results[NULL_OUTPUTS]; /* those that are files are not looked at */
} null_outputs;

/* Before the run, after rows have been chosen of a result: they are kept when the file is written. */
void null_outputs_keep(null_outputs *nulls, int which);

/* After the run, in all processes of the job: what each has written becomes what all have written. */
void null_outputs_gather(null_outputs *nulls);

/* Finds the largest error of each result that is looked at. */
typedef int (*null_oracle)(void *user, sampled_result *results);

/* Recompute the rows; one out of tolerance is EXIT_WORK. `speak`: write checksums and errors to standard output. */
int null_outputs_check(null_outputs *nulls, null_oracle oracle, void *user, bool speak);

void null_outputs_free(null_outputs *nulls);

#endif
