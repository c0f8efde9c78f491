/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multihead.h - the multi-head attention layer that models are made of, in a library of its own (libringattn_multihead)
 * that links a CBLAS: projections, rotary positions, norms and attention, forward and backward, in one process, on a
 * rank's own rows of a ring, or one token after the other with a cache of keys and values.
 *
 *     q, k, v = x w_q' + b_q, x w_k' + b_k, x w_v' + b_v       x is [batch, rows, embed]
 *     q, k    = rotate(rms_norm(q)), rotate(rms_norm(k))       head by head; both steps are optional
 *     o       = attention(q, k, v)                             any pattern and scores of ringattn.h
 *     y       = layer_norm(o) w_o' + b_o                       the norm is optional
 *
 * All arrays are dense float32 in the caller's memory. Outputs share no memory with inputs or with each other. The
 * rules of ringattn.h hold. Bits do not depend on the number of threads (docs/LAYER.md, "Bits").
 *
 * A complete program: 6 heads with rotary positions over 300 tokens.
 *
 *     #include <ringattn/multihead.h>
 *     #include <stdio.h>
 *     #include <stdlib.h>
 *
 *     int main(void)
 *     {
 *         enum { ROWS = 300, EMBED = 96, HEADS = 6, COUNT = ROWS * EMBED, WEIGHT = EMBED * EMBED };
 *         float *w = malloc(4 * (size_t)WEIGHT * sizeof(float)), *x = malloc(2 * (size_t)COUNT * sizeof(float));
 *         if (!w || !x)
 *             return 1;
 *         ra_generate(RA_NORMAL, 1, 0, 4 * WEIGHT, w);
 *         ra_generate(RA_NORMAL, 2, 0, COUNT, x);
 *
 *         ra_layer_options options = RA_LAYER_OPTIONS_INIT;
 *         options.rows = ROWS, options.embed = EMBED, options.heads = HEADS;
 *         options.rotary_base = 10000, options.pattern = "causal";
 *         ra_layer_parameters parameters = RA_LAYER_PARAMETERS_INIT;
 *         parameters.w_q = w, parameters.w_k = w + WEIGHT;
 *         parameters.w_v = w + 2 * WEIGHT, parameters.w_o = w + 3 * WEIGHT;
 *         ra_layer *layer = NULL;
 *         ra_layer_stats stats = RA_LAYER_STATS_INIT;
 *         if (ra_layer_create(&options, &layer) || ra_layer_forward(layer, &parameters, x, x + COUNT, NULL, &stats)) {
 *             fprintf(stderr, "%s\n", ra_last_message());
 *             return 1;
 *         }
 *         printf("%.3f ms, %.0f flops, %s\n", 1e3 * stats.seconds_total, stats.flops, ra_layer_blas());
 *         ra_layer_free(layer);
 *         free(w);
 *         free(x);
 *         return 0;
 *     }
 */
#ifndef RINGATTN_MULTIHEAD_H
#define RINGATTN_MULTIHEAD_H

#include <ringattn/ringattn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ra_layer_options {
    size_t size;
    int64_t batch;    /* >= 0 */
    int64_t rows;     /* tokens of the whole sequence, >= 0; of a layer with a cache, new tokens of each call */
    int64_t embed;    /* >= 1 */
    int64_t heads;    /* >= 1, a multiple of kv_heads */
    int64_t kv_heads; /* >= 1, or RA_SAME */
    int64_t head_dim; /* 1..1024; RA_SAME: embed / heads, which must divide */
    int input_bias;   /* 1: the projections to queries, keys and values have biases */
    int output_bias;  /* 1: the output projection has a bias */
    /*
     * Rotary positions: 0 for none, or the base (10000). Frequency i of head_dim / 2 turns the pair (i, i + head_dim/2)
     * by position / rotary_scale * base^(-2i / head_dim); interleaved: the pair (2i, 2i + 1). Row i of the sequence is
     * at first_position + i, on whichever rank it is.
     */
    double rotary_base, rotary_scale;
    int rotary_interleaved;
    int64_t first_position; /* of row 0; of a layer with a cache, of its first key */
    int query_key_norm;     /* 1: RMS norm of each head of queries and keys, before the rotation */
    int output_norm;        /* 1: layer norm of all heads together, before the output projection */
    double norm_epsilon;
    double scale; /* of the scores, or RA_SCALE_DEFAULT */
    const char *pattern, *scores;
    const ra_score_arrays *score_arrays;
    int threads;   /* 0: as in ra_options; on a rank, as in ra_ring_plan_create */
    int recompute; /* 1: the backward pass projects x again instead of keeping queries, keys and values */
    int64_t cache; /* 0, or the keys that the caches of ra_layer_decode have room for */
    /*
     * 1: the layer keeps the memory of its largest pass so far for the next one, until it is freed. The system takes
     * up to a tenth of a pass to hand out memory anew. 0: it holds layer_bytes alone between passes.
     */
    int keep_memory;
    /*
     * 0, or N: gradients of parameters go to ra_layer_gradients.sums alone. They are summed over blocks of rows that
     * end at multiples of N in the sequence, and the sums of blocks are rounded to multiples of RA_LAYER_SUM_UNIT, so
     * that adding them up is exact. If ranks divide the sequence at such multiples only, the totals over all ranks have
     * the same bits whoever has which block.
     */
    int64_t sum_rows;
} ra_layer_options;

#define RA_LAYER_SUM_UNIT 0x1p-42 /* sums are exact below 2^11 */

#define RA_LAYER_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(ra_layer_options), 1, 0, 0, 0, RA_SAME, RA_SAME, 0, 0, 0, 1, 0, 0, 0, 0, 1e-5, RA_SCALE_DEFAULT, NULL,  \
            NULL, NULL, 0, 0, 0, 0, 0                                                                                  \
    }

RA_API ra_status ra_layer_options_init(ra_layer_options *options, size_t size);

/*
 * The parameters, as PyTorch has them: a weight is [outputs, inputs]. Those that the options do not have are NULL. With
 * Q = heads * head_dim and K = kv_heads * head_dim:
 */
typedef struct ra_layer_parameters {
    size_t size;
    const float *w_q, *w_k, *w_v, *w_o;       /* [Q, embed], [K, embed], [K, embed], [embed, Q] */
    const float *b_q, *b_k, *b_v, *b_o;       /* [Q], [K], [K], [embed] */
    const float *norm_q, *norm_k;             /* weights of the RMS norms: [head_dim] each, common to all heads */
    const float *norm_o_weight, *norm_o_bias; /* of the layer norm: [Q] each */
} ra_layer_parameters;

#define RA_LAYER_PARAMETERS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(ra_layer_parameters), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL            \
    }

RA_API ra_status ra_layer_parameters_init(ra_layer_parameters *parameters, size_t size);

/* Where gradients of the parameters go, in the same shapes. They are written, not added to. NULL: not computed. */
typedef struct ra_layer_gradients {
    size_t size;
    float *w_q, *w_k, *w_v, *w_o;
    float *b_q, *b_k, *b_v, *b_o;
    float *norm_q, *norm_k;
    float *norm_o_weight, *norm_o_bias;
    /*
     * With sum_rows, instead of those above: the gradients of all parameters that the layer has, one after the other in
     * this order. They are added to what is here.
     */
    double *sums;
} ra_layer_gradients;

#define RA_LAYER_GRADIENTS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(ra_layer_gradients), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL       \
    }

RA_API ra_status ra_layer_gradients_init(ra_layer_gradients *gradients, size_t size);

/* Known before anything runs. Bytes are those beside the caller's own arrays; what the BLAS holds inside is its own. */
typedef struct ra_layer_info {
    size_t size;
    int threads;
    int64_t rows;                         /* of x and y here: all, or those of this rank */
    int64_t layer_bytes;                  /* that the layer itself holds */
    int64_t saved_bytes;                  /* of the caller's `saved` */
    int64_t forward_bytes;                /* peak of a forward pass without `saved`, or of ra_layer_decode */
    int64_t training_bytes;               /* peak of a forward pass with it, `saved` aside */
    int64_t backward_bytes;               /* peak of a backward pass, `saved` aside */
    double forward_flops, backward_flops; /* products and attention; biases, norms and rotations aside */
} ra_layer_info;

#define RA_LAYER_INFO_INIT                                                                                             \
    {                                                                                                                  \
        sizeof(ra_layer_info), 0, 0, 0, 0, 0, 0, 0, 0, 0                                                               \
    }

RA_API ra_status ra_layer_info_init(ra_layer_info *info, size_t size);

/* What a call did. */
typedef struct ra_layer_stats {
    size_t size;
    double seconds_total;
    double seconds_attention; /* of these, in attention; on a rank with its waiting for others */
    double flops;             /* counted while it ran: as planned, or fewer where gradients were not wanted */
    int64_t planned_peak_bytes;
    int64_t peak_bytes;                 /* counted while it ran: never more than planned */
    double seconds_wait;                /* of seconds_attention, waiting for other ranks */
    int64_t bytes_sent, bytes_received; /* of this rank; 0 without ranks, of a simulation those of all */
} ra_layer_stats;

#define RA_LAYER_STATS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(ra_layer_stats), 0, 0, 0, 0, 0, 0, 0, 0                                                                 \
    }

RA_API ra_status ra_layer_stats_init(ra_layer_stats *stats, size_t size);

/* A layer is read only after it is made. One without ranks may be run by several threads at the same time. */
typedef struct ra_layer ra_layer;

/* On success *layer is the caller's, to be freed with ra_layer_free; on failure it is NULL. */
RA_API ra_status ra_layer_create(const ra_layer_options *options, ra_layer **layer);

/*
 * A rank's layer. Every rank makes its own, with the same options and a communicator of its own, which must outlive the
 * layer. x and y have the rows of ra_ring_plan_queries for this rank, of each batch element; on a simulated
 * communicator they are whole. Forward and backward passes are called by all ranks. Gradients of parameters are those
 * of the rank's own rows: the caller adds them up over ranks. ring->backward, ->gradients and ->lse are ignored, and so
 * are dtypes.
 */
RA_API ra_status ra_layer_create_on_rank(const ra_layer_options *options, const ra_ring_options *ring, ra_comm *comm,
                                         ra_layer **layer);
RA_API void ra_layer_free(ra_layer *layer);

RA_API ra_status ra_layer_describe(const ra_layer *layer, ra_layer_info *info);

/* The sequence's index of a row of x here: on a rank, of its row-th. -1 if there is no such row. */
RA_API int64_t ra_layer_row(const ra_layer *layer, int64_t row);

/*
 * y from x, both [batch, rows, embed]. `saved` is info.saved_bytes of the caller's memory for one backward pass,
 * aligned as floats are, or NULL if there will be none. `stats` may be NULL.
 */
RA_API ra_status ra_layer_forward(const ra_layer *layer, const ra_layer_parameters *parameters, const float *x,
                                  float *y, void *saved, ra_layer_stats *stats);

/*
 * The gradients of a loss by x and by the parameters from d_y, its gradient by y. x, the parameters and `saved` are
 * those of the forward pass. d_x and d_parameters may be NULL. Gradients of the arrays of scores go where
 * ra_score_arrays says.
 */
RA_API ra_status ra_layer_backward(const ra_layer *layer, const ra_layer_parameters *parameters, const float *x,
                                   const float *d_y, float *d_x, const ra_layer_gradients *d_parameters,
                                   const void *saved, ra_layer_stats *stats);

/* Keys and values of the tokens so far, in the caller's memory: [batch, capacity, kv_heads, head_dim] each. */
typedef struct ra_layer_cache {
    float *k, *v;
    int64_t capacity; /* options.cache of the layer */
    int64_t length;   /* tokens in it, 0 at first */
} ra_layer_cache;

/*
 * y from x for the next options.rows tokens of a layer with a cache. Their keys and values are put behind those in the
 * cache, whose length grows by rows; queries are the last rows of the keys. Layers with other rows, for instance one
 * for the prompt and one for single tokens, may share a cache. After a failure the length is as before.
 */
RA_API ra_status ra_layer_decode(const ra_layer *layer, const ra_layer_parameters *parameters, const float *x, float *y,
                                 ra_layer_cache *cache, ra_layer_stats *stats);

/* The BLAS that runs, as far as it says: "OpenBLAS 0.3.21 ...", "MKL", "BLIS 0.9.0", "CBLAS". */
RA_API const char *ra_layer_blas(void);

#ifdef __cplusplus
}
#endif

#endif
