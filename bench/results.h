/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a benchmark found, as lines of JSON in the form of docs/results.schema.json, added to a file as they come. A
 * suite fills one of these structs for each case; what is 0, NULL or NAN was not measured, and is left out.
 */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include "bench.h"
#include "published.h"
#include "sampling.h"

#include <ringattn/ringattn.h>

enum { RESULT_FIGURES = 8 };

typedef struct result_row {
    const char *suite, *name;
    const char *method; /* NULL: this library */
    const char *reason; /* NULL: right; else why the row counts nowhere */
    bool backward;      /* gradients, not attention itself */
    ra_problem problem;
    ra_dtype dtype;
    const char *strategy, *transport; /* NULL: in one piece */
    ra_order order;
    ra_tile_order tiles;
    int ring_size; /* that took part; 0: 1 */
    int64_t hops, bytes_received;
    ra_kernel_id kernel;
    int threads;             /* of each rank */
    sampling_result seconds; /* count 0: nothing was timed */
    double flops;
    bool of_peak; /* whether the ratio of `seconds` is one to the peak */
    int64_t planned_bytes, peak_bytes, resident_bytes;
    double error, tolerance;
    int rows; /* that were compared with the oracle */
    const char *against;
    double against_value, goal;
    double predicted_seconds;
    const published_figure *published;
    struct {
        const char *name;
        double value;
    } figures[RESULT_FIGURES];
} result_row;

/* A file of them, and what is the same in every row. */
typedef struct results results;

/* Adds to options->output; without one rows go nowhere. 0; on failure 2, with a message. */
int results_open(const bench_options *options, results **opened);

/* The same, once it is known what machine this is. */
int results_open_here(const bench_options *options, ra_system_info *machine, results **opened);

/* What reading memory gives, for all rows to come: bytes per second. */
void results_bandwidth(results *r, double bandwidth);

/* Writes the row to its end before it returns. On failure a message, once, and results_close says so. */
void results_add(results *r, const result_row *row);

/* 0; 1 when a row could not be written. NULL is 0. */
int results_close(results *r);

/* One more figure that only this suite has. */
void result_figure(result_row *row, const char *name, double value);

#endif
