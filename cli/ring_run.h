/* SPDX-License-Identifier: Apache-2.0 */
/* A ring over files, on whatever transport. */
#ifndef CLI_RING_RUN_H
#define CLI_RING_RUN_H

#include "fingerprint.h"
#include "progress.h"
#include "ring_args.h"
#include "tensor_file.h"

#include <pthread.h>

typedef struct ring_run {
    const char *label; /* of the progress: "attend" */
    const ra_problem *problem;
    const ring_args *args;
    ra_ring_options options; /* ranks 0: the smallest ring that fits is taken */
    int ranks;
    bool chosen; /* for a budget */
    ra_ring_plan *plan;
    pthread_t first; /* the thread whose rank shows how far it is */
    progress bar;
    ra_checkpoint *checkpoint; /* NULL: the run is not saved */
    double save_every;         /* seconds */
    ra_rank_stats *stats;      /* [ranks] after a run */
    double seconds;            /* of the attention: of all ranks one after the other, or of the slowest */
} ring_run;

/* Of a forward pass, and of a backward pass. */
enum { RING_FORWARD_FILES = 5, RING_FILES = 10 };

/* Resolve the ring size and plan, by the options. Returns an exit code and reports, as the others do. */
int ring_run_plan(ring_run *run);

/* Save the run every `every` seconds, and begin with what was saved before. Call it after planning. */
int ring_run_save(ring_run *run, const char *path, double every, const fingerprints *inputs);

/*
 * files: query, key, value, output, log-sum-exp, and of a backward pass the gradients by output and log-sum-exp, then
 * those by query, key and value (path NULL: none). The checksum of a file that is kept nowhere is of
 * the rows that this process has written.
 */
int ring_run_execute(ring_run *run, tensor_file *const files[]);

void ring_run_free(ring_run *run);

#endif
