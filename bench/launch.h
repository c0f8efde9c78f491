/* SPDX-License-Identifier: Apache-2.0 */
/* This very command again, in processes of its own: alone, or under mpirun. */
#ifndef BENCH_LAUNCH_H
#define BENCH_LAUNCH_H

#include <limits.h>
#include <stdbool.h>

typedef struct launch {
    char self[PATH_MAX];       /* this program */
    char mpirun[PATH_MAX];     /* of the MPI that is built in; "": there is none */
    bool open_mpi;             /* which wants to be asked for what the others do anyhow */
    bool (*interrupted)(void); /* asked while a process runs, which is then asked to end too */
} launch;

/* `mpi`: the MPI that is built in, NULL: none. 0; on failure -1, with a message. */
int launch_find(launch *l, const char *mpi, bool (*interrupted)(void));

enum { LAUNCH_MOST_ARGUMENTS = 40 };

/* What is heard of a process: nothing, its talk on standard error, or its results on standard output as well. */
typedef enum launch_heard { LAUNCH_NOTHING, LAUNCH_TALK, LAUNCH_RESULTS_TOO } launch_heard;

/*
 * Run `ringattn ARGUMENTS...` (up to a NULL) and wait for it; processes > 0: as many of it, under mpirun, not bound to
 * cores. Returns its exit code, 128 + N when signal N ended it, -1 with a message when it could not be started.
 */
int launch_run(const launch *l, int processes, launch_heard heard, const char *const *arguments);

/*
 * The same as one process of which nothing is heard, as the last arguments of another program, found on PATH, with
 * those before it that `program` lists (up to a NULL). 127: there is no such program.
 */
int launch_under(const launch *l, const char *const *program, const char *const *arguments);

#endif
