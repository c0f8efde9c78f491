/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What suites measure: one attention problem, run in one way: in one piece, over virtual ranks, over ranks that are
 * threads, or over the processes of an mpirun.
 */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H

#include "results.h"
#include "sampling.h"
#include "tensors.h"

typedef enum subject_how { IN_ONE_PIECE, OVER_SIM, OVER_THREADS, OVER_MPI } subject_how;

typedef struct subject_spec {
    const char *name;
    int number; /* among its suite's cases */
    bench_shape shape;
    const char *pattern;
    const char *scores;            /* NULL: none, */
    const ra_score_arrays *arrays; /* with these */
    subject_how how;
    ra_strategy strategy; /* and the rest of these: unless it is in one piece */
    ra_order order;
    int ranks;
    int threads; /* of each rank */
    ra_kernel_id kernel;
    ra_tile_order tiles;
    double enough; /* seconds for a sample: shorter runs are repeated; not over MPI */
} subject_spec;

/* Of one run. */
typedef struct subject_time {
    double seconds;         /* on the slowest rank; of a problem in one piece, of the attention alone */
    double processor, busy; /* of all ranks: processor time, and the time that their threads were not waiting */
    double compute, wait;   /* in tiles, and for others: of the slowest rank; of virtual ranks, together */
} subject_time;

typedef struct subject {
    subject_spec spec;
    bench_tensors *whole; /* somebody else's */
    ra_problem problem;   /* what it was planned from */
    ra_options options;
    ra_ring_options ring_options;
    ra_plan *plan;      /* in one piece, */
    ra_ring_plan *ring; /* or over ranks */
    ra_comm **comms;    /* as many as ranks of their own are here: all, or this process's */
    bench_tensors *parts;
    int here;
    ra_rank_stats *stats; /* [ranks], of the last run */
    int64_t peak_bytes;   /* of the last run in one piece */
    double flops;
    bool checked;
    double error; /* against the oracle */
    double compute[SAMPLING_MOST], wait[SAMPLING_MOST];
    int timed;
} subject;

/* Plans, and for ranks of their own splits the tensors, which must stay. The message is the library's, or was written.
 */
ra_status subject_prepare(subject *s, const subject_spec *spec, bench_tensors *whole);
void subject_give(subject *s);

/* Runs it once; the first time it compares rows with the oracle. Over MPI all processes come here. */
ra_status subject_run(subject *s, subject_time *time);

/*
 * A sampling_work with the subject as `user`: the rate is that of its floating-point operations. It keeps what each run
 * computed and waited. Of several runs the time is the median: one of a few milliseconds says little.
 */
ra_status subject_sample(void *subject, sample *s);

/* The problem's plan. */
const ra_plan *subject_plan(const subject *s);

/* Whether what it computes is right: compared with the oracle, and in tolerance. */
bool subject_right(const subject *s);

/* Problem, way, memory, error and flops of a row. */
void subject_describe(const subject *s, result_row *row);

/* Most pairs of a rank to the mean. */
double subject_balance(const subject *s);

#endif
