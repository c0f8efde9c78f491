/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer's inside: what a layer holds, and the steps that its passes are made of. Tokens are rows of all batch
 * elements, [batch, rows]; they are worked in blocks, each by one thread.
 */
#ifndef RA_LAYER_LAYER_H
#define RA_LAYER_LAYER_H

#include "layer/arena.h"

#include <ringattn/multihead.h>

/* A tile of a weight's gradient is computed by one thread. */
enum {
    RA_LAYER_MAX_DIM = 1024,
    RA_LAYER_TILE_TALL = 192,
    RA_LAYER_TILE_WIDE = 768,
    RA_LAYER_TILE = RA_LAYER_TILE_TALL * RA_LAYER_TILE_WIDE
};

struct ra_layer {
    ra_layer_options o; /* with RA_SAME resolved; texts and arrays are the plan's */
    int threads;
    int64_t rows, tokens, blocks;           /* here: of a rank, its own */
    int64_t block;                          /* tokens of a block; some may have fewer */
    int64_t *cuts;                          /* [blocks + 1]: first token of each, with sum_rows; else NULL */
    int64_t q_width, kv_width;              /* heads * head_dim */
    double *frequencies;                    /* [head_dim / 2]: angle per position; NULL without rotary positions */
    int64_t *positions;                     /* [rows]: index in the sequence */
    float *turns;                           /* [rows, head_dim]: of each row, without a cache; else NULL */
    ra_plan *plan;                          /* in one process, */
    ra_ring_plan *ring_forward, *ring_back; /* or on a rank */
    ra_comm *comm;
    int rank, ranks; /* rank -1: all of them, in a simulation */
    int64_t attention_forward_bytes, attention_backward_bytes;
    ra_layer_info info;
    ra_arena_spare *spare; /* NULL: a pass frees its memory */
};

/* Queries, keys and values of all tokens. */
typedef struct ra_layer_qkv {
    float *q, *k, *v;
} ra_layer_qkv;

/* What a backward pass needs of the forward pass: kept in the caller's memory. */
typedef struct ra_layer_kept {
    ra_layer_qkv raw; /* before norm and rotation if there is a norm, else ready; NULL with recompute */
    float *o, *lse;
} ra_layer_kept;

/* The parts of `saved`; returns their bytes. */
int64_t ra_layer_kept_parts(const ra_layer *layer, void *saved, ra_layer_kept *kept);

/* Parts of an arena. */
ra_layer_qkv ra_layer_take_qkv(const ra_layer *layer, ra_arena *arena);

/* What a forward pass hands out of its arena; `kept` says what is in `saved` and need not be. */
typedef struct ra_layer_forward_parts {
    ra_layer_qkv raw, ready; /* the same memory without a norm, or without a backward pass */
    float *o, *lse;
    float *normed; /* [threads, block, q_width] with an output norm */
    ra_rank_stats *stats;
} ra_layer_forward_parts;

void ra_layer_forward_take(const ra_layer *layer, ra_arena *arena, const ra_layer_kept *kept,
                           ra_layer_forward_parts *parts);

typedef struct ra_layer_backward_parts {
    ra_layer_qkv raw, ready;
    ra_layer_qkv d;   /* gradients by queries, keys and values; d.q is first the normed output */
    float *d_o;       /* gradient by the attention's output */
    double *partials; /* [blocks, partial_width]: sums over the tokens of a block */
    int64_t partial_width;
    float *tiles; /* [threads, RA_LAYER_TILE]: products of a block, with sum_rows */
    ra_rank_stats *stats;
} ra_layer_backward_parts;

void ra_layer_backward_take(const ra_layer *layer, ra_arena *arena, const ra_layer_kept *kept,
                            ra_layer_backward_parts *parts);

/* First token of a block, and the one after its last. */
static inline int64_t ra_layer_block_first(const ra_layer *layer, int64_t block)
{
    return layer->cuts ? layer->cuts[block] : block * layer->block;
}

static inline int64_t ra_layer_block_end(const ra_layer *layer, int64_t block)
{
    int64_t end = ra_layer_block_first(layer, block + 1);
    return end < layer->tokens ? end : layer->tokens;
}

/* ---- project.c: from x to queries, keys and values, and what is between projection and attention --------------- */

/* x -> raw -> ready, block by block. Positions are `shift` more than those of the layer. Returns flops of products. */
double ra_layer_project(const ra_layer *layer, const ra_layer_parameters *p, const float *x, int64_t shift,
                        ra_layer_qkv raw, ra_layer_qkv ready);

/* raw -> ready alone. */
void ra_layer_make_ready(const ra_layer *layer, const ra_layer_parameters *p, ra_layer_qkv raw, ra_layer_qkv ready);

/* o -> y: norm, projection and bias. `normed` as in ra_layer_forward_parts. Returns flops of products. */
double ra_layer_project_output(const ra_layer *layer, const ra_layer_parameters *p, const float *o, float *normed,
                               float *y);

/* ---- rotary.c -------------------------------------------------------------------------------------------------- */

/* layer->turns, once the positions are known. */
ra_status ra_rotary_prepare(ra_layer *layer);

/*
 * Cosines and sines of a row, `shift` positions further: [head_dim], cosines first. NULL without rotary positions. With
 * a cache, computed into `own`.
 */
const float *ra_rotary_turn(const ra_layer *layer, int64_t row, int64_t shift, float *own);

/* Turn the heads of a row forward (1) or back (-1). */
void ra_rotary_apply(const ra_layer *layer, const float *turn, int direction, int64_t heads, float *row);

/* ---- norms.c --------------------------------------------------------------------------------------------------- */

/* A head: out = x / rms(x) * weight. x and out may be the same. */
void ra_rms_norm(int64_t dim, double epsilon, const float *x, const float *weight, float *out);

/* Its gradient: d is the gradient by out and becomes that by x; d_weight, if not NULL, grows by that of the weight. */
void ra_rms_norm_backward(int64_t dim, double epsilon, const float *x, const float *weight, float *d, double *d_weight);

/* A row: out = (x - mean) / deviation * weight + bias. */
void ra_layer_norm(int64_t width, double epsilon, const float *x, const float *weight, const float *bias, float *out);
void ra_layer_norm_backward(int64_t width, double epsilon, const float *x, const float *weight, float *d,
                            double *d_weight, double *d_bias);

/* ---- attention.c ----------------------------------------------------------------------------------------------- */

/* What attention did; bytes by the library's own accountant. */
typedef struct ra_layer_attention {
    double seconds, wait, flops;
    int64_t bytes, sent, received;
} ra_layer_attention;

/* `keys` of them, rows of a batch element `stride` keys apart: all of this layer's own, or those of a cache. */
ra_status ra_layer_attend(const ra_layer *layer, ra_layer_qkv ready, int64_t keys, int64_t stride, float *o, float *lse,
                          ra_rank_stats *stats, ra_layer_attention *did);
ra_status ra_layer_attend_backward(const ra_layer *layer, ra_layer_qkv ready, const ra_layer_kept *kept,
                                   const float *d_o, ra_layer_qkv d, ra_rank_stats *stats, ra_layer_attention *did);

/* ---- layer.c --------------------------------------------------------------------------------------------------- */

/* RA_OK if the parameters are those that the options have. */
ra_status ra_layer_check_parameters(const ra_layer *layer, const ra_layer_parameters *theirs,
                                    ra_layer_parameters *ours);

/* Seconds from some point on. */
double ra_layer_clock(void);

/* What a call did that began at `begin`, if `stats` is not NULL: products and what else it held, and attention. */
ra_status ra_layer_tell(ra_layer_stats *stats, double begin, double flops, int64_t planned, int64_t bytes,
                        const ra_layer_attention *did);

/* ---- sized.c: structs that grow -------------------------------------------------------------------------------- */

typedef struct ra_layer_sized {
    const char *name, *set_up;
    size_t first, size; /* of the first version, and of this one */
} ra_layer_sized;

extern const ra_layer_sized ra_layer_sized_options, ra_layer_sized_parameters, ra_layer_sized_gradients,
    ra_layer_sized_info, ra_layer_sized_stats;

ra_status ra_layer_copy_in(void *ours, const void *theirs, const ra_layer_sized *kind);
ra_status ra_layer_copy_out(void *theirs, const void *ours, const ra_layer_sized *kind);
ra_status ra_layer_check_sized(const void *theirs, const ra_layer_sized *kind);

#endif
