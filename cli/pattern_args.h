/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that say which keys a query sees, where both sit and what happens to scores: what all verbs with a
 * pattern share.
 */
#ifndef CLI_PATTERN_ARGS_H
#define CLI_PATTERN_ARGS_H

#include "args.h"

enum { PATTERN_OPTIONS = 5 };

typedef struct pattern_args {
    const char *pattern, *preset; /* NULL: not given */
    char *joined, *joined_scores; /* owned */
    int64_t query_position;       /* RA_SAME: not given */
    int64_t key_position;
    const char *scores; /* NULL: not given */
} pattern_args;

void pattern_args_options(pattern_args *args, arg_option options[PATTERN_OPTIONS]);

/*
 * The pattern that both say, "full" if none does; NULL after it has reported why there is none. A preset's scores come
 * before those that are given. To be called once, before pattern_args_place.
 */
const char *pattern_args_text(pattern_args *args);

/* The positions and the scores into a problem. */
void pattern_args_place(const pattern_args *args, ra_problem *problem);

void pattern_args_free(pattern_args *args);

#endif
