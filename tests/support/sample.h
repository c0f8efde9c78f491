/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up problems with their tensors, and the oracle's word on them. */
#ifndef SUPPORT_SAMPLE_H
#define SUPPORT_SAMPLE_H

#include "ringattn/ringattn.h"
#include "support/placed.h"
#include "support/random.h"

enum { SAMPLE_QUERY, SAMPLE_KEY, SAMPLE_VALUE, SAMPLE_OUTPUT, SAMPLE_LSE, SAMPLE_TENSORS };

typedef struct sample {
    ra_problem problem; /* nothing left at RA_SAME */
    char pattern[512];
    ra_tensor tensors[SAMPLE_TENSORS];
    void *memory[SAMPLE_TENSORS]; /* owned: exactly what the views reach */
    size_t bytes[SAMPLE_TENSORS];
} sample;

/* A pattern of up to three terms for this many keys. None of them names a file. */
void choose_pattern(choices *c, int64_t kv_len, char *text, size_t size);

/* One of interval terms alone, or one with a dilated term, a block-sparse one, or both. */
void choose_intervals(choices *c, int64_t kv_len, char *text, size_t size);
void choose_sparse(choices *c, int64_t kv_len, char *text, size_t size);

/*
 * Positions of the first query and the first key: those that they have by default, or others, so that queries sit
 * before, among or behind the keys. q_len and kv_len are set.
 */
void choose_positions(choices *c, ra_problem *problem);

/* The problem's tensors as dense float32 [batch, seq, heads, dim], inputs standard normal. */
void sample_make(sample *s, const ra_problem *problem);

/* The same with a dtype as for place_any, and an order of axes, padding, direction and broadcasting of its own for
 * every tensor. */
void sample_make_any(sample *s, const ra_problem *problem, int dtype, choices *c);

void sample_free(sample *s);

/* A plan of the sample for a kernel and a number of threads; fails the test when there is none. */
ra_plan *sample_plan(const sample *s, ra_kernel_id kernel, int threads);

/* Plan, run, free; every element of output and lse was set to NaN before. Fails the test on any status. */
void sample_run(const sample *s, ra_kernel_id kernel, int threads);

/* The same with any options; `stats` may be NULL. */
void sample_run_as(const sample *s, const ra_options *options, ra_stats *stats);

/* A copy of output and lse, one after the other, which the caller frees; and whether they are that to the bit. */
char *sample_keep(const sample *s);
bool sample_same(const sample *s, const char *kept);

/* Output and lse to NaN, padding included. */
void sample_wipe(const sample *s);

/* Whether output and lse still have their padding as sample_wipe left it. */
bool sample_padding_kept(const sample *s);

/* Rows of the result as the oracle has them. */
typedef struct oracle_rows {
    int count;
    int64_t (*at)[3]; /* batch, head, query */
    double *output, *lse;
    double *spread, *size, *rounding; /* by oracle_size; else NULL */
    bool fast;                        /* products are of bfloat16: sample_errors_sized allows for that */
} oracle_rows;

/* The first row, the last, and others up to `most`. */
oracle_rows sample_oracle(const sample *s, int most, choices *c);
void oracle_free(oracle_rows *rows);

/* The largest distances (compare.h) of the sample's result from the oracle's. */
void sample_errors(const sample *s, const oracle_rows *rows, double *output_error, double *lse_error);

/*
 * What the rounding of each row grows with (ra_reference_rows_sized); and then the largest error of the sample's result
 * in parts of the tolerance that docs/MATH.md has for it: at most 1.
 */
void oracle_size(const sample *s, oracle_rows *rows);
void sample_errors_sized(const sample *s, const oracle_rows *rows, double *output_part, double *lse_part);

/* What tolerances for scores of unit variance are multiplied by here: the deviation of this problem's, at least 1. */
double sample_score_scale(const sample *s);

/* The kernel after `id` that this machine can run. RA_KERNEL_AUTO stands before the first and after the last. */
ra_kernel_id next_kernel(ra_kernel_id id);

#define FOR_EACH_KERNEL(id)                                                                                            \
    for (ra_kernel_id id = next_kernel(RA_KERNEL_AUTO); (id) != RA_KERNEL_AUTO; (id) = next_kernel(id))

/* Whether two arrays of floats are the same to the bit, signs of zeros and NaN included. */
bool same_bits(const void *a, const void *b, int64_t floats);

/* One line for messages. */
const char *sample_text(const sample *s);

#endif
