/* A ring over files, on whatever transport. */
#ifndef CLI_RING_RUN_H
#define CLI_RING_RUN_H

#include "fingerprint.h"
#include "progress.h"
#include "ring_args.h"
#include "tensor_file.h"

#include <pthread.h>

typedef struct ring_run {
    const ra_problem *problem;
    const ring_args *args;
    ra_dtype output_dtype;
    int ranks;
    bool chosen; /* for a budget */
    ra_ring_options options;
    ra_ring_plan *plan;
    pthread_t first; /* the thread whose rank shows how far it is */
    progress bar;
    ra_checkpoint *checkpoint; /* NULL: the run is not saved */
    double save_every;         /* seconds */
    ra_rank_stats *stats;      /* [ranks] after a run */
    double seconds;            /* of the attention: of all ranks one after the other, or of the slowest */
} ring_run;

enum { RING_FILES = 5 };

/* Resolve the ring size and plan. Returns an exit code and reports, as the others do. */
int ring_run_plan(ring_run *run, const tensor_file *query, const tensor_file *key, const tensor_file *value, bool lse);

/* Save the run every so many seconds; it goes on from what was saved before. After planning. */
int ring_run_save(ring_run *run, const char *path, double every, const fingerprints *inputs);

/*
 * files: query, key, value, output, log-sum-exp (path NULL: none). The checksum of a file that is kept nowhere is of
 * the rows that this process has written.
 */
int ring_run_execute(ring_run *run, tensor_file *const files[RING_FILES]);

void ring_run_free(ring_run *run);

#endif
