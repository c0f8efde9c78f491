/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel table offers. Kernels see counts, pointers and strides; they know no patterns, problems or threads, and
 * touch nothing but what a call hands them.
 *
 * Scores are in base 2: queries are already multiplied by a part of scale * log2(e), and `factor` is the rest,
 * mostly 1. The state of a query row is max (base 2, -INFINITY before the first key), sum of exp2(score - max),
 * acc[value column] of the same weights. A row's arithmetic depends on the row alone: every lane does the same
 * operations in the same order whatever its neighbours hold, and a masked key is an exact no-op.
 */
#ifndef RA_KERNEL_KERNEL_H
#define RA_KERNEL_KERNEL_H

#include "base/blocking.h"
#include "base/status.h"

#include <float.h>
#include <stdbool.h>

/* Rows that will be wanted later, asked for a few cache lines at a time between other work. */
typedef struct ra_fetch {
    const char *row; /* the next one */
    int64_t stride;  /* to the one after it, in bytes */
    int rows;        /* still to be fetched; 0: nothing to do */
    int bytes;       /* of a row */
    int at;          /* within the row */
    int burst;       /* lines at a time */
} ra_fetch;

/* ---- What happens to scores between the product and the mask ----------------------------------------------------- */

typedef enum ra_score_op {
    RA_STEP_SOFTCAP,  /* cap * tanh(score / cap) */
    RA_STEP_ADD,      /* + add[k * stride + i] for key k and lane i: a matrix, or with stride -1 a strip */
    RA_STEP_ADD_KEY,  /* + add[k] */
    RA_STEP_ADD_ROWS, /* + factor * add[i * stride + k], for keys and lanes that `add` has */
} ra_score_op;

enum { RA_SCORE_STEPS = 4 };

/*
 * Values are in base 2, as scores are, except the rows of RA_STEP_ADD_ROWS. In decoding, `add` is
 * [heads][rows][RA_KEY_BLOCK], and there is no other step than RA_STEP_SOFTCAP and RA_STEP_ADD.
 */
typedef struct ra_score_step {
    ra_score_op op;
    float cap;
    const float *add;
    int64_t stride;
    float factor;
    int rows, begin, end; /* RA_STEP_ADD_ROWS: lanes 0 .. rows - 1 and keys begin .. end - 1 can be read */
} ra_score_step;

/*
 * The number that is added to a score, in base 2. The lowest floats would become -inf: they stay finite, so that a row
 * with no other scores has a softmax.
 */
static inline float ra_added_in_base_2(float factor, float x)
{
    float product = factor * x, least = x < -FLT_MAX ? x : -FLT_MAX;
    return product < least ? least : product;
}

/* Steps in the order in which they apply, then dropout of weights: see base/dropout.h. */
typedef struct ra_score_stage {
    int count;
    ra_score_step step[RA_SCORE_STEPS];
    float kept;                    /* factor of the weights that are kept; 0: no dropout */
    uint32_t threshold;            /* a weight is dropped if its draw is below */
    const uint32_t *row_a, *row_b; /* [lanes]; in decoding [heads][rows] */
    const uint32_t *key_a, *key_b; /* [RA_KEY_BLOCK] */
    ra_fetch *fetch;               /* in tiles: a burst every RA_KEY_UNIT keys */
} ra_score_stage;

/* One group of `lanes` queries against one block of keys. */
typedef struct ra_tile_call {
    const float *query; /* [head_dim][lanes] */
    const float *key;   /* row k at key + k * key_stride, begin <= k < end; rows that no lane sees may hold anything */
    int64_t key_stride;
    int begin, end;     /* keys to work: multiples of RA_KEY_UNIT, end at most RA_KEY_BLOCK */
    const float *value; /* panels [value_dim / 4, rounded up][RA_KEY_BLOCK][4], zero in rows past the last key */
    int head_dim, value_dim;
    float query_factor;     /* what scores are multiplied by before that, where pack_query has not done it */
    float factor;           /* what scores are multiplied by */
    const int32_t *lo, *hi; /* NULL, or [lanes]: lane i sees keys lo[i] <= k < hi[i] */
    const uint64_t *seen;   /* NULL, or [RA_KEY_BLOCK] in place of lo and hi: lane i sees key k if bit i is set */
    bool narrow;            /* the group has no more than blocking.narrow rows: lanes from there on are left alone */
    bool guard;             /* some value is not finite, so 0 * value is not 0 */
    bool split;             /* with pairs: a weight becomes a sum of two numbers, not one: slower, and not rounded */
    ra_fetch *fetch_key;    /* a burst every RA_KEY_UNIT keys */
    ra_fetch *fetch_value;  /* a burst every panel of values */
    float *scores;          /* scratch [RA_KEY_BLOCK][lanes] */
    float *state;           /* of the group, read and written */
    const ra_score_stage *stage; /* for tile_scored */
} ra_tile_call;

/*
 * A few query rows against one block of keys, for one or several heads. With several, the rows of all heads at a
 * position are read one after the other, as they lie in memory when heads are inside positions.
 */
typedef struct ra_decode_call {
    int heads, rows;         /* key/value heads; query rows of each */
    int queries;             /* row r is of query r % queries */
    const float *query;      /* [heads][rows][head_dim] */
    const void *key, *value; /* head h, key k at element h * key_head_stride + k * key_stride */
    ra_dtype key_dtype, value_dtype;
    int64_t key_stride, key_head_stride, value_stride, value_head_stride;
    /*
     * NULL, or [RA_KEY_BLOCK]: key k is at key_at[k] in place of k * key_stride, and its value at value_at[k]. Rows
     * that lie one behind the other are still a stride apart.
     */
    const int64_t *key_at, *value_at;
    const float *key_scale, *value_scale; /* of RA_I8: [heads][RA_KEY_BLOCK], what rows are multiplied by; else NULL */
    const void *next_key;                 /* the keys of the call after this one, to be fetched; any address will do */
    const int64_t *next_at;               /* of these, with key_at: their key_at */
    const int *begin, *end;               /* [queries]: a row sees keys begin <= k < end of the block, maybe none */
    int head_dim, value_dim;
    float factor;                /* what scores are multiplied by */
    float *scores;               /* scratch [heads][rows][RA_KEY_BLOCK] */
    float *sums;                 /* scratch [heads][rows][1 + value_dim] */
    float *state;                /* [heads][rows][2 + value_dim]: max, sum, acc */
    const ra_score_stage *stage; /* for decode_scored */
} ra_decode_call;

/*
 * The gradients of one group of queries and one block of keys, added to what was there. Weights are
 * exp2(factor * score - lse - lse_rest), gradients of scores weight * (scale * d_weight - delta).
 */
typedef struct ra_gradient_call {
    const float *query;            /* [head_dim][lanes], as in ra_tile_call */
    const float *d_output;         /* [value_dim][lanes] */
    const float *query_columns;    /* the same rows as pack_columns has them, times nothing */
    const float *d_output_columns; /* the same */
    const float *lse, *lse_rest;   /* [lanes]: the log-sum-exp in base 2, as a sum of two */
    const float *delta;            /* [lanes]: times scale */
    int rows;                      /* of the group; lanes behind them may compute anything */
    bool narrow;                   /* as in ra_tile_call */
    bool guard_rows;               /* with a mask: some element of the columns is not finite */
    const float *key, *value;      /* row k at key + k * key_stride, as in ra_tile_call */
    int64_t key_stride, value_stride;
    const float *key_panels; /* as ra_tile_call.value; of no use without d_query */
    bool guard_keys;         /* with a mask: some key is not finite */
    int begin, end;          /* as in ra_tile_call */
    const int32_t *lo, *hi;
    const uint64_t *seen;
    int head_dim, value_dim;
    float query_factor; /* as in ra_tile_call */
    float factor, scale;
    float *weights, *d_scores; /* scratch [RA_KEY_BLOCK][lanes] each */
    float *d_query;            /* NULL, or acc [head_dim, rounded up to RA_PANEL][lanes] behind 2 * lanes floats */
    float *d_key, *d_value;    /* NULL, or [RA_KEY_BLOCK][dim rounded up to a vector] */
    /* For gradient_scores and gradient_products, with which delta is not times scale. */
    const ra_score_stage *stage;
    float *cap_slope; /* scratch [RA_KEY_BLOCK][lanes] if the stage has a softcap, else NULL */
} ra_gradient_call;

/* Rows of any dtype and stride, in elements. */
typedef struct ra_rows {
    const void *data;
    ra_dtype dtype;
    int64_t row_stride, dim_stride;
    const int64_t *index; /* NULL: one after the other; else row i is at index[i] row strides, and below 0 all zeros */
    const float *scale;   /* of RA_I8: the i-th row is multiplied by scale[i]; else NULL */
} ra_rows;

typedef struct ra_kernel {
    ra_kernel_id id;
    ra_precision precision; /* exact or fast */
    ra_blocking blocking;
    /*
     * Numbers in a place of what tiles and gradients read as float: 1, or a pair of bfloat16 that lies side by side in
     * the dimension that a product sums over. Then rows of keys have ra_words of their columns, queries as many pairs
     * of columns, panels of values 32 pairs of keys, and pack_columns pairs of rows.
     */
    int pair;
    /* dst[row][dim], f32. */
    void (*pack_rows)(const ra_rows *src, int rows, int dim, float *dst);
    /* dst[dim][lanes], f32 multiplied by factor; lanes from `rows` on are zero, and rows whose index is below 0. */
    void (*turn_rows)(const ra_rows *src, int rows, int dim, float factor, float *dst);
    /* Rows and turned rows for products. With pairs the factor is left to query_factor of a call. */
    void (*pack_key)(const ra_rows *src, int rows, int dim, float *dst);
    void (*pack_query)(const ra_rows *src, int rows, int dim, float factor, float *dst);
    /* Panels as in ra_tile_call; `staging` holds [RA_KEY_BLOCK][dim] floats. Returns whether all are finite. */
    bool (*pack_value)(const ra_rows *src, int rows, int dim, float *staging, float *dst);
    void (*tile)(const ra_tile_call *call);
    void (*decode)(const ra_decode_call *call);
    /* The same with a score stage. Functions of their own: plain tiles do not pay for a stage. */
    void (*tile_scored)(const ra_tile_call *call);
    void (*decode_scored)(const ra_decode_call *call);
    /* into = merge(into, from), of the state of a group or of a decoding row. */
    void (*merge_group)(float *into, const float *from, int value_dim);
    void (*merge_row)(float *into, const float *from, int value_dim);
    /* The same for one lane of a group's state each: both point at the lane's maximum. */
    void (*merge_lane)(float *into, const float *from, int value_dim);
    /* acc / sum of the first `rows` lanes, to output[row][dim]; a row with sum 0 becomes NaN. Destroys acc. */
    void (*finish_group)(float *state, int rows, int value_dim, const ra_rows *output);
    /* The same for the state of a decoding row. */
    void (*finish_row)(float *state, int value_dim, const ra_rows *output);
    /*
     * dst: slices of columns that ra_gradient_call sums over rows; lanes * (dim rounded up to a vector) floats at most.
     * Rows whose index is below 0 are zeros. Returns whether all are finite.
     */
    bool (*pack_columns)(const ra_rows *src, int rows, int dim, float *dst);
    void (*gradient)(const ra_gradient_call *call);
    /*
     * The same with a score stage, in two calls. After the first, d_scores has the gradients of scores after the stage,
     * not times scale, and cap_slope the derivative of a softcap: both 0 where a lane does not see a key. The second
     * needs them so.
     */
    void (*gradient_scores)(const ra_gradient_call *call);
    void (*gradient_products)(const ra_gradient_call *call);
    /*
     * acc[column][lane] of the first `rows` lanes to rows of any dtype; or added to rows of RA_F32. Rows whose index is
     * below 0 are left out.
     */
    void (*store_group)(const float *acc, int rows, int dim, const ra_rows *output);
    void (*add_group)(const float *acc, int rows, int dim, const ra_rows *sums);
} ra_kernel;

/* Places that a packed row of keys or values takes. */
static inline int ra_words(const ra_kernel *kernel, int dim)
{
    return (dim + kernel->pair - 1) / kernel->pair;
}

/* Rows that pack_key has packed. */
static inline ra_rows ra_rows_of_words(const ra_kernel *kernel, const float *rows, int64_t stride)
{
    return (ra_rows){rows, kernel->pair == 1 ? RA_F32 : RA_BF16, stride * kernel->pair, 1, NULL, NULL};
}

/*
 * The table for an id and a precision; RA_KERNEL_AUTO takes RA_KERNEL from the environment, else the best. A table is
 * fast only where that or its name is asked for: RA_PRECISION_AUTO takes exact ones, until dtypes say that all is
 * bfloat16.
 */
ra_status ra_kernel_find(ra_kernel_id id, ra_precision precision, const ra_kernel **kernel);

/* Whether neither the kernel nor the precision was asked for: then the dtypes of a run decide. */
bool ra_kernel_is_open(ra_kernel_id id, ra_precision precision);

/* The table of a plan, or of an open one the fast table, if all tensors are RA_BF16 and it has the same blocking. */
ra_status ra_kernel_of_run(ra_kernel_id id, bool open, bool all_bf16, const ra_kernel **kernel);

/* RA_OK unless the precision is fast, and one of these tensors, which may be NULL, is not RA_BF16. */
ra_status ra_precision_check(ra_precision precision, const ra_tensor *const tensors[], const char *const names[],
                             int count);

extern const ra_kernel ra_kernel_generic;
extern const ra_kernel ra_kernel_avx2;
extern const ra_kernel ra_kernel_avx512;
extern const ra_kernel ra_kernel_avx512bf16;

#endif
