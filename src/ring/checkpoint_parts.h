/* SPDX-License-Identifier: Apache-2.0 */
/* The struct of a checkpoint, and the functions that checkpoint*.c share. */
#ifndef RA_RING_CHECKPOINT_PARTS_H
#define RA_RING_CHECKPOINT_PARTS_H

#include "io/saved_file.h"
#include "ring/point.h"
#include "ring/ring_plan.h"
#include "ring/tensors.h"

enum { RA_CHECKPOINT_LINE = 512 };

/* A finished rank: its statistics, and a checksum of its results. */
typedef struct ra_finished {
    ra_rank_stats stats;
    uint64_t sum;
} ra_finished;

struct ra_checkpoint {
    char *path;          /* the caller's; */
    char *own_path;      /* the file of states: the same, or PATH.RANK */
    char *rows_path;     /* PATH.rows */
    double every, saved; /* seconds; when */
    int (*stop)(void *user);
    void *stop_user;
    void (*failed)(void *user, const char *message);
    void *failed_user;
    void (*saving)(void *user, int begins);
    void *saving_user;
    void (*between)(void *user); /* NULL: nobody waits */
    void *between_user;

    int lines, own_lines; /* lines that describe the run; further lines of the file of states */
    char (*line)[RA_CHECKPOINT_LINE];

    int rank; /* -1: virtual ones */
    int64_t ranks;
    uint64_t set;    /* of a rank: the number of the files that belong together */
    bool incomplete; /* of a rank: as far as it knows there is no PATH yet, because a rank could not save */

    /* Of virtual ranks. */
    int64_t done;
    ra_finished *finished; /* [ranks] */
    int rows_file;         /* -1: not yet */
    int64_t batch, q_len, heads, row_bytes, lse_at;
    bool rows_changed;        /* since they were flushed */
    int64_t flushed;          /* ranks whose rows are on the disk */
    int64_t missing;          /* the first rank some of whose rows are not in the file; -1: none */
    const ra_ring_plan *ring; /* of the run, */
    const ra_tensors *tensors;

    bool continues;
    ra_point point;
    ra_saved_file file; /* from which states are to be read */
};

/* A text with an end of its own, in memory of the caller's; NULL: there is none. */
char *ra_checkpoint_name(const char *path, const char *end);

/* The first `lines` facts, to a file or against those that are in one. */
ra_status ra_checkpoint_write_lines(const ra_checkpoint *c, ra_saved_file *f, int lines);
ra_status ra_checkpoint_compare_lines(const ra_checkpoint *c, ra_saved_file *f, int lines);

/* checkpoint_rows.c: make sure that the results of all finished ranks are in the file and on the disk. */
ra_status ra_checkpoint_flush_rows(ra_checkpoint *c);

/* RA_ERROR_FILE if the file of rows exists and cannot be written. */
ra_status ra_checkpoint_probe_rows(const ra_checkpoint *c);

/* checkpoint_set.c: find the set and this rank's file in it; *found is false if a new set will be begun. */
ra_status ra_checkpoint_read_set(ra_checkpoint *c, bool *found);
void ra_checkpoint_remove_set(const ra_checkpoint *c);

/* For rank 0, after it has saved: write PATH if all ranks have saved by now, else return RA_ERROR_FILE. */
ra_status ra_checkpoint_complete_set(ra_checkpoint *c);

/* Tell the caller that something was not saved, with the last message (ra_checkpoint_options.failed). */
void ra_checkpoint_tell_failure(const ra_checkpoint *c);

#endif
