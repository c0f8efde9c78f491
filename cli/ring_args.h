/* SPDX-License-Identifier: Apache-2.0 */
/* The options that say how a sequence is spread over ranks: what `attend` and `plan` share. */
#ifndef CLI_RING_ARGS_H
#define CLI_RING_ARGS_H

#include "args.h"

typedef struct ring_args {
    int64_t ring;                   /* 0: not given */
    int strategy, transport, order; /* indices, -1: not given */
    int64_t memory;                 /* 0: not given */
    double timeout;
    int64_t threads; /* 0: not given */
    int kernel;      /* -1: not given */
    int tiles;       /* an ra_tile_order */
    int precision;   /* an ra_precision */
} ring_args;

enum {
    RING_OPTIONS = 10,
    RING_TIMEOUT = 60 /* seconds */
};

/* The defaults, and the options that change them. */
void ring_args_options(ring_args *args, arg_option options[RING_OPTIONS]);

/* Whether the sequence is to be spread at all. */
bool ring_args_given(const ring_args *args);

/* The library's options. `ranks` is the ring size that is in force. */
ra_ring_options ring_args_library(const ring_args *args, int ranks);
ra_options ring_args_run(const ring_args *args);

/* Refuse what does not go together; `processes` is how many there are. Sets *ranks. Returns an exit code, reports. */
int ring_args_check(const ring_args *args, int processes, int *ranks);

#endif
