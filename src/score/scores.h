/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scores: what happens to the scaled score of a query and a key between the product and the mask, and to the row's
 * softmax: softcap, alibi, relative, bias in the order written; sinks; dropout. Text is parsed once, in scores.c. The
 * oracle's arithmetic is in score_of_pair.c. Kernels have their own, filled by exec/score_tile.c.
 *
 * Arrays are views. Those of files are loaded when the text is parsed and owned here, except a bias, which is read
 * tile by tile. Those of the caller are read where they are by every run: their values may change between runs.
 */
#ifndef RA_SCORE_SCORES_H
#define RA_SCORE_SCORES_H

#include "base/status.h"

#include <float.h>
#include <stdbool.h>

/* Terms that change a score. */
typedef enum ra_score_kind { RA_SCORE_SOFTCAP, RA_SCORE_ALIBI, RA_SCORE_RELATIVE, RA_SCORE_BIAS } ra_score_kind;

enum { RA_SCORE_KINDS = RA_SCORE_BIAS + 1 };

/* Arrays of scores. */
enum { RA_SCORE_SLOPES, RA_SCORE_TABLE, RA_SCORE_BIASES, RA_SCORE_SINKS, RA_SCORE_ARRAYS };

/* A bias that is in a file: reads a part of it. */
typedef struct ra_bias_file ra_bias_file;
typedef struct ra_bias_source {
    /*
     * Queries first_query .. + queries - 1 (one, if the bias has one row for all) and keys first_key .. + keys - 1 of
     * a slice, as floats: row i begins at to + i * stride. Called by several threads.
     */
    void (*read)(ra_bias_file *file, int64_t batch, int64_t head, int64_t first_query, int64_t queries,
                 int64_t first_key, int64_t keys, float *to, int64_t stride);
    /* Returns the first failed read since the last call, with its message. Its elements were NaN. */
    ra_status (*failed)(ra_bias_file *file);
    void (*close)(ra_bias_file *file);
    ra_bias_file *file;
} ra_bias_source;

typedef struct ra_scores {
    int count;                           /* number of terms; each is used at most once */
    ra_score_kind terms[RA_SCORE_KINDS]; /* in the order in which they apply */
    double cap;                          /* softcap: C */
    /*
     * Views; data is NULL where there is no such array. Sizes of 1 are read for every index of that dimension: their
     * strides are 0.
     */
    ra_tensor slopes; /* alibi: heads */
    ra_tensor table;  /* relative: heads or 1, dim 2 * reach + 1 */
    int64_t reach;
    ra_tensor bias;             /* batch or 1, seq q_len or 1, heads or 1, dim kv_len; of a file without data */
    ra_bias_source bias_source; /* read is NULL: bias has data */
    ra_tensor sinks;            /* heads */
    double dropout;             /* probability; 0: none */
    uint64_t seed;
    /* Where gradients go: as the caller's views are, or NULL. */
    const ra_tensor *d_slopes, *d_table, *d_bias, *d_sinks;
    ra_tensor gradients[RA_SCORE_ARRAYS]; /* what these point to */
    float *owned[RA_SCORE_ARRAYS];        /* arrays that were loaded or computed */
    int64_t bytes;                        /* that it holds */
} ra_scores;

/* Whether tiles need a score stage: sinks alone do not. */
static inline bool ra_scores_staged(const ra_scores *scores)
{
    return scores && (scores->count > 0 || scores->dropout > 0);
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

/* What scores are for. */
typedef struct ra_score_shape {
    int64_t batch, q_len, kv_len, heads;
} ra_score_shape;

/* How files that scores name are read. *values is malloc'ed for the caller, also when a failure is returned. */
typedef struct ra_score_files {
    /* RA_F32 [count], called `name` in messages. */
    ra_status (*list)(const char *path, const char *name, int64_t count, float **values);
    /* RA_F32 [heads or 1, an odd number]: *rows, *columns. */
    ra_status (*table)(const char *path, int64_t heads, float **values, int64_t *rows, int64_t *columns);
    /* [batch or 1, heads or 1, q_len or 1, kv_len]: the view says which; it has no data. */
    ra_status (*open)(const char *path, const int64_t shape[4], ra_tensor *view, ra_bias_file **file);
    /* As in ra_bias_source. */
    void (*read)(ra_bias_file *file, int64_t batch, int64_t head, int64_t first_query, int64_t queries,
                 int64_t first_key, int64_t keys, float *to, int64_t stride);
    ra_status (*failed)(ra_bias_file *file);
    void (*close)(ra_bias_file *file);
} ra_score_files;

/*
 * Parse `text`, or NULL for no terms, with the caller's arrays. On success *scores is the caller's, to be freed with
 * ra_scores_free; it is NULL if no term changes scores.
 */
ra_status ra_scores_parse(const char *text, const ra_score_shape *shape, const ra_score_arrays *arrays,
                          const ra_score_files *files, ra_scores **scores);
void ra_scores_free(ra_scores *scores);

/* ra_check_apart for a run with these scores, or NULL: for its tensors, the arrays of scores and their gradients. */
ra_status ra_scores_check_apart(const ra_scores *scores, const ra_tensor *const tensors[], const char *const names[],
                                int inputs, int count);

/*
 * One line for ranks and checkpoints, "softcap:30+bias:1a2b3c4d": equal lines mean equal scores, except for
 * elements of a bias between those that are sampled. Terms come in their order, then sinks and dropout.
 */
void ra_scores_describe(const ra_scores *scores, char *text, size_t size);

/* Which gradients are wanted: bits 1 << RA_SCORE_SLOPES and so on. */
unsigned ra_scores_wanted(const ra_scores *scores);

/* The slopes of the ALiBi paper for `heads` heads. */
void ra_alibi_slopes(int64_t heads, float *slopes);

/* The first failed read of a bias since the last call; RA_OK without scores. */
ra_status ra_scores_failed(const ra_scores *scores);

/* ---- The oracle -------------------------------------------------------------------------------------------------- */

/* The element of a view where sizes of 1 stand for all indices. */
double ra_score_at(const ra_tensor *view, int64_t batch, int64_t seq, int64_t head, int64_t dim);

/* The lowest finite score: the lowest float in base 2. A row with no other scores gives no gradients. */
#define RA_SCORE_LOWEST (-(double)FLT_MAX / 1.44269504088896340736)

/* A query and a key. Positions are the problem's; indices count rows of the tensors from 0. */
typedef struct ra_score_pair {
    int64_t batch, head;
    int64_t position, key_position;
    int64_t query, key;
} ra_score_pair;

/* The column of the relative table that a pair takes. */
int64_t ra_score_entry(const ra_scores *scores, const ra_score_pair *pair);

/*
 * For the oracles, in double precision: the score after all terms. Here and below, scores of NULL change nothing.
 * *slope, if not NULL, is its derivative by the scaled score. `changed` if not NULL has for each term in order the
 * derivative by what that term adds.
 */
double ra_score_of_pair(const ra_scores *scores, const ra_score_pair *pair, double score, double *slope,
                        double changed[RA_SCORE_KINDS]);

/*
 * For the oracles: the sum of the absolute values that make up the score after all terms. Its rounding in float32 grows
 * with this. `size` is that of the scaled score.
 */
double ra_score_size_of_pair(const ra_scores *scores, const ra_score_pair *pair, double score, double size);

/* For the oracles: whether rows have a sink, and the sink of a head. */
bool ra_score_has_sinks(const ra_scores *scores);
double ra_score_sink(const ra_scores *scores, int64_t head);

/* For the oracles: what dropout multiplies the weight of a pair by: 0, or 1 / (1 - probability); 1 without dropout. */
double ra_score_kept(const ra_scores *scores, const ra_score_pair *pair);

#endif
