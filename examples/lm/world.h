/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a run: the processes of an mpirun, or this one alone. Sums over ranks are in the order of ranks. */
#ifndef LM_WORLD_H
#define LM_WORLD_H

#include <ringattn/ringattn.h>
#include <stdint.h>

typedef struct lm_world {
    int rank, ranks;
    ra_comm *comm;   /* NULL for one process */
    double *parcels; /* [2, PARCEL]: what a sum over ranks has in flight */
} lm_world;

/* 0, or an exit code; it has said why. */
int lm_world_open(lm_world *world, int *argc, char ***argv);
void lm_world_close(lm_world *world);

/* Ends all ranks. */
void lm_world_abort(const lm_world *world, int code);

/* values [count] become their sums over ranks, on every rank. Returns the bytes that this rank has sent. */
int64_t lm_world_sum(const lm_world *world, double *values, int64_t count);

int64_t lm_world_sum_integer(const lm_world *world, int64_t value);

/* `bytes` of each rank, one after the other, on every rank. */
void lm_world_gather(const lm_world *world, const void *mine, int bytes, void *all);

/* Rank 0's bytes on every rank. */
void lm_world_share(const lm_world *world, void *values, int bytes);

/* Seconds from some point on. */
double lm_clock(void);

#endif
