/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a run will take on this machine: how much there is to do is read from plans; what that costs is learned from
 * a few short runs (calibration.h).
 */
#ifndef BENCH_MODEL_H
#define BENCH_MODEL_H

#include <ringattn/ringattn.h>
#include <stdbool.h>

/* How a tile finds its rows and what they see: a worked pair costs something different in each. */
typedef enum model_kind { MODEL_PLAIN, MODEL_DILATED, MODEL_BLOCKS, MODEL_DECODE, MODEL_KINDS } model_kind;

/*
 * Amounts, without regard to a machine. Rows and keys count their elements, head_dim + value_dim, each time that a run
 * goes through them. Pairs count their multiply-adds: head_dim + value_dim in a forward pass.
 */
typedef struct model_load {
    double pairs;   /* that are worked on, masked lanes included */
    double apart;   /* of these, those of dilated queries that stripes leave in smaller groups */
    double rows;    /* of queries: packed, and finished */
    double members; /* of dilated branches: packed once more for each, and merged */
    double keys;    /* that tasks pack; about, because a plan does not say how many share them */
    double cut;     /* of these, those of dilated blocks that stripes cut into smaller ones */
    double kept;    /* rows whose states are kept from step to step: what that comes to in rows */
    double regions; /* times that threads begin and end together */
    double bytes;   /* that are copied to a rank's own memory or to another rank */
} model_load;

/* What one of each costs: seconds of one thread while all of them work; for regions and bytes, of the run. */
typedef struct machine_model {
    double pair[MODEL_KINDS];
    double row, member, key, apart, cut, region, byte;
    int threads; /* that worked when this was learned */
} machine_model;

/* What a run has to do. */
typedef struct model_work {
    model_kind kind;
    int ranks, threads;      /* of each */
    bool together;           /* ranks work at the same time, not one after the other, */
    int cores;               /* cores that they share */
    double passes;           /* times that all pairs are worked on: 2 in some backward passes */
    model_load all, busiest; /* of all ranks, and of the one that works on most pairs */
} model_work;

/* How long that takes, and what of it for what. */
typedef struct model_prediction {
    double seconds; /* tiles + idle + regions + bytes */
    double tiles;   /* if all ranks had the same work */
    double idle;    /* until the busiest rank has done what it has more */
    double regions, bytes;
} model_prediction;

/*
 * The work of a run in one piece, and over ranks; `options` and `ring` are what was planned with. The work of gradients
 * is counted in the same amounts; what they cost must be learned from gradients.
 */
ra_status model_work_of_plan(const ra_problem *problem, const ra_plan *plan, bool backward, model_work *work);
ra_status model_work_of_ring(const ra_problem *problem, const ra_options *options, const ra_ring_options *ring,
                             const ra_ring_plan *plan, model_work *work);

/* How long work takes. */
model_prediction model_time(const machine_model *model, const model_work *work);

/* All of it: plans the problem, in one piece and forward where `ring` is NULL. */
ra_status model_predict(const machine_model *model, const ra_problem *problem, const ra_options *options,
                        const ra_ring_options *ring, double *seconds);

#endif
