/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmark suites of the command. They use the public headers only. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

enum { BENCH_MOST_LENGTHS = 8 };

typedef struct bench_options {
    int threads;               /* of the kernels measured; 0: the suite's own number */
    int rounds;                /* samples of each case at most; SAMPLING_MOST or fewer */
    int short_rounds;          /* compare: the same of short sequences, on which noise tells most */
    double seconds;            /* after which a suite begins no further round; 0: no limit */
    const char *only;          /* NULL, or a text that the names of the cases to run contain */
    bool (*interrupted)(void); /* asked between samples: whether to stop */
    int64_t length;            /* of the sequence; 0: the suite's own */
    uint64_t seed;             /* of the queries; keys and values have the next two */
    bool quick;
    int64_t lengths[BENCH_MOST_LENGTHS]; /* of suites that take several, */
    int length_count;                    /* 0: the lengths of the suite */
    int64_t memory;                      /* bytes that a process may hold; 0: the suite's own */
    const char *output;                  /* a file to which results are added, one JSON object a line; NULL: none */
    bool seed_table;                     /* compare: the configurations of published reports, too */
    const char *mpi;                     /* the MPI that is built in, with its version; NULL: none */
} bench_options;

/*
 * Each returns 0; 1 when a case failed; 2 when nothing could be begun. No speed makes a case fail. After an
 * interruption what was measured so far is printed.
 */

/* ringattn bench kernel: the kernels against the machine's arithmetic peak. */
int bench_kernel(const bench_options *options);

/* ringattn bench decode: few queries against long caches, to the memory bandwidth. */
int bench_decode(const bench_options *options);

/* ringattn bench backward: gradients against the machine's arithmetic peak. */
int bench_backward(const bench_options *options);

/* ringattn bench compare: every strategy, order and pattern side by side, and attention as one would first write it. */
int bench_compare(const bench_options *options);

/* ringattn bench memory: what a rank holds, as planned, as accounted and as the system saw it. */
int bench_memory(const bench_options *options);

/* ringattn bench ring: the same problem over ranks and in one piece. Starts itself under mpirun where it can. */
int bench_ring(const bench_options *options);

/* ringattn bench ring-rank: that, as one of the processes that an mpirun has started. */
int bench_ring_rank(const bench_options *options);

/* ringattn bench sparse: dilated, block-sparse and windowed attention against the peak and against all pairs. */
int bench_sparse(const bench_options *options);

/* ringattn bench scores: what the terms of scores cost, beside a plain run. */
int bench_scores(const bench_options *options);

/* ringattn bench layer: the multi-head layer of a published table. Starts itself under mpirun where it can. */
int bench_layer(const bench_options *options);

/* ringattn bench layer-rank: that, as one of the processes that an mpirun has started. */
int bench_layer_rank(const bench_options *options);

/* The BLAS of the layer, by its own words; NULL: this build has no layer. */
const char *bench_layer_blas(void);

/* ringattn bench extreme: up to a billion tokens in a budget. */
int bench_extreme(const bench_options *options);

/* ringattn bench tiles: the orders in which tiles are worked, by time and by cache misses. */
int bench_tiles(const bench_options *options);

/* ringattn bench tiles-run: one run of it, to be counted by an emulator. */
int bench_tiles_run(const bench_options *options);

#endif
