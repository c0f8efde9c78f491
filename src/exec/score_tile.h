/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills score stages (ra_score_stage in kernel.h) from the scores of a plan: what is added to each pair of a key and a
 * query, and the keys of dropout's draws. Here for a group of queries in the lanes against a part of a key block:
 * forward and backward tasks of tiles use the same. Decoding tasks have score_rows.h.
 *
 * Memory of tiles: alibi, relative (strips) | alibi, relative, bias (matrices) | row draws | key draws | windows
 */
#ifndef RA_EXEC_SCORE_TILE_H
#define RA_EXEC_SCORE_TILE_H

#include "kernel/kernel.h"
#include "plan/plan.h"
#include "score/scores.h"

/* What scores in base 2 are multiplied by. */
#define RA_LOG2_E 1.44269504088896340736

/* One for each task. */
typedef struct ra_score_tiles {
    const ra_plan *plan;
    const ra_kernel *kernel;
    int64_t batch;
    int lanes;
    float *strip[RA_SCORE_KINDS];  /* [lanes + RA_KEY_BLOCK] each */
    float *matrix[RA_SCORE_KINDS]; /* [RA_KEY_BLOCK][lanes] each */
    uint32_t *row_draws, *key_draws;
    float *windows;     /* of a bias in a file: [slots][lanes][keys of a window] */
    int64_t *window_of; /* [slots][5]: head, segment and rate of the branch, member, window */
    ra_fetch fetch;     /* of what the next group will need */
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
    int64_t slot; /* of the groups that are worked in turn; see below */
} ra_score_place;

/*
 * Bytes of scratch that begin needs for tasks of `slots` groups of one head each. Every group has a slot, because a
 * task goes through all groups for each block. 0 if the plan has no score stage.
 */
int64_t ra_score_tiles_bytes(const ra_plan *plan, int lanes, int64_t slots);

/* For a task of one batch. `memory` has that many bytes. */
void ra_score_tiles_begin(ra_score_tiles *tiles, const ra_plan *plan, const ra_kernel *kernel, int64_t batch, int lanes,
                          int64_t slots, char *memory);

/* The stage of a tile, valid until the next call. */
const ra_score_stage *ra_score_tile(ra_score_tiles *tiles, const ra_score_place *place);

/*
 * What alibi or relative adds in base 2; `distance` is the query's position minus the key's. A pair has the same bits
 * whichever rows share its tile.
 */
float ra_score_by_distance(const ra_scores *scores, ra_score_kind kind, int64_t head, int64_t distance);

/* A row of the bias for keys first .. first + keys - 1, every step-th; in base 2. */
ra_rows ra_score_bias_row(const ra_scores *scores, int64_t batch, int64_t query, int64_t head, int64_t key,
                          int64_t step);

/* Bytes for `rows` rows of a decoding task: see score_rows.h. */
int64_t ra_score_rows_bytes(const ra_plan *plan, int64_t rows);

#endif
