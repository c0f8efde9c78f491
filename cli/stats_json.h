/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics of a run as JSON. Fields are only ever added: programs read them. */
#ifndef CLI_STATS_JSON_H
#define CLI_STATS_JSON_H

#include "null_outputs.h"

#include <jansson.h>
#include <stdio.h>

typedef struct run_record {
    const ra_problem *problem; /* complete: no RA_SAME */
    const ra_plan *problem_plan;
    ra_tile_order tiles;
    const ra_stats *stats; /* of a run in one piece; NULL: it was over ranks, */
    const ra_ring_options *ring;
    const ra_ring_plan *plan;
    const ra_rank_stats *ranks; /* [ring->ranks] */
    double seconds_compute;
    bool backward;          /* a gradient; else a forward pass */
    double seconds_forward; /* of the forward pass that a gradient had to run first */
    ra_dtype dtype;         /* of the output */
    ra_layout layout;
    const null_outputs *nulls; /* what is known of outputs that are kept nowhere */
    double seconds_total;
} run_record;

/* Counts are doubles in the API, because they may pass 2^63; up to there they are written as the integers they are. */
json_t *stats_json_count(double value);

/* Writes the record and a newline; returns 0, or -1 when memory or the stream fails. */
int stats_json_write(const run_record *record, FILE *stream);

#endif
