/*
 * Fills the score stage of a tile (ra_score_stage in kernel.h) from the scores of a plan: what is added to each pair of
 * a key and a lane, and the keys of dropout's draws. Forward and backward tasks use the same.
 */
#ifndef RA_EXEC_SCORE_TILE_H
#define RA_EXEC_SCORE_TILE_H

#include "kernel/kernel.h"
#include "plan/plan.h"

/* One for each task. */
typedef struct ra_score_tiles {
    const ra_plan *plan;
    const ra_kernel *kernel;
    int64_t batch;
    int lanes;
    float *strip, *matrix, *window; /* in scratch */
    uint32_t *row_draws, *key_draws;
    ra_score_stage stage;
} ra_score_tiles;

/* A group of queries and a part of a key block, as members of a lattice: keys first + begin .. first + end - 1. */
typedef struct ra_score_place {
    int64_t head; /* query head */
    ra_lattice lattice;
    int64_t member;
    int rows;
    int64_t first;
    int begin, end;
} ra_score_place;

/* Bytes of scratch that begin needs; 0 without scores. */
int64_t ra_score_tiles_bytes(const ra_plan *plan, int lanes);

/* For tasks of one batch. `memory` has that many bytes. */
void ra_score_tiles_begin(ra_score_tiles *tiles, const ra_plan *plan, const ra_kernel *kernel, int64_t batch, int lanes,
                          char *memory);

/* The stage of a tile, valid until the next call. */
const ra_score_stage *ra_score_tile(ra_score_tiles *tiles, const ra_score_place *place);

#endif
