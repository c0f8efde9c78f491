/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass; how gradients of parameters are summed over tokens is in gradients.c. */
#include "layer/blas.h"
#include "layer/gradients.h"

#include <ringattn/transport.h>
#include <stdbool.h>
#include <string.h>

void ra_layer_backward_take(const ra_layer *layer, ra_arena *arena, const ra_layer_kept *kept,
                            ra_layer_backward_parts *parts)
{
    int64_t q = layer->q_width, kv = layer->kv_width, dim = layer->o.head_dim;
    int64_t output = layer->o.embed + 2 * q, input = q + 2 * kv + 2 * dim;
    parts->raw = layer->o.recompute ? ra_layer_take_qkv(layer, arena) : kept->raw;
    parts->ready = parts->raw;
    if (layer->o.query_key_norm) {
        parts->ready.q = ra_arena_take(arena, layer->tokens * q, sizeof(float));
        parts->ready.k = ra_arena_take(arena, layer->tokens * kv, sizeof(float));
    }
    parts->d = ra_layer_take_qkv(layer, arena);
    parts->d_o = ra_arena_take(arena, layer->tokens * q, sizeof(float));
    parts->partial_width = output > input ? output : input;
    parts->partials = ra_arena_take(arena, layer->blocks * parts->partial_width, sizeof(double));
    parts->tiles = layer->cuts ? ra_arena_take(arena, layer->threads * RA_LAYER_TILE, sizeof(float)) : NULL;
    parts->stats = ra_arena_take(arena, layer->ranks, sizeof(ra_rank_stats));
}

static void add_columns(int64_t rows, int64_t width, const float *values, double *sums)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++)
            sums[i] += values[r * width + i];
}

static double *clear_partials(const ra_layer_backward_parts *parts, int64_t block)
{
    double *sums = parts->partials + block * parts->partial_width;
    memset(sums, 0, (size_t)parts->partial_width * sizeof(double));
    return sums;
}

/* d_y -> d_o, and the gradients of the output projection and its norm. */
static double output_backward(const ra_layer *layer, const ra_layer_parameters *p, const ra_layer_kept *kept,
                              const float *d_y, const ra_layer_backward_parts *parts, const ra_layer_outlets *g)
{
    double flops = 0;
    int64_t embed = layer->o.embed, q = layer->q_width;
    double epsilon = layer->o.norm_epsilon;
    ra_blas_single_begin();
#pragma omp parallel for num_threads(layer->threads) schedule(dynamic) reduction(+ : flops)
    for (int64_t block = 0; block < layer->blocks; block++) {
        int64_t first = ra_layer_block_first(layer, block), end = ra_layer_block_end(layer, block);
        double *sums = clear_partials(parts, block);
        flops += ra_blas_rows_by_columns(end - first, q, embed, d_y + first * embed, p->w_o, 0, parts->d_o + first * q);
        if (layer->o.output_bias)
            add_columns(end - first, embed, d_y + first * embed, sums);
        for (int64_t t = first; layer->o.output_norm && t < end; t++) {
            const float *o = kept->o + t * q;
            ra_layer_norm(q, epsilon, o, p->norm_o_weight, p->norm_o_bias, parts->d.q + t * q);
            ra_layer_norm_backward(q, epsilon, o, p->norm_o_weight, parts->d_o + t * q, sums + embed, sums + embed + q);
        }
    }
    ra_blas_single_end();
    const ra_layer_weight w_o = {embed, q, d_y, layer->o.output_norm ? parts->d.q : kept->o, g->w_o};
    flops += ra_layer_weight_gradients(layer, &w_o, 1, parts->tiles);
    ra_layer_add_blocks(layer, parts, 0, embed, g->b_o);
    ra_layer_add_blocks(layer, parts, embed, q, g->norm_o_weight);
    ra_layer_add_blocks(layer, parts, embed + q, q, g->norm_o_bias);
    return flops;
}

/* The gradient by a row's heads goes back through rotation and norm. */
static void heads_backward(const ra_layer *layer, const float *turn, int64_t heads, const float *weight,
                           const float *raw, float *d, double *d_weight)
{
    int64_t dim = layer->o.head_dim;
    if (layer->frequencies)
        ra_rotary_apply(layer, turn, -1, heads, d);
    for (int64_t h = 0; layer->o.query_key_norm && h < heads; h++)
        ra_rms_norm_backward(dim, layer->o.norm_epsilon, raw + h * dim, weight, d + h * dim, d_weight);
}

static double block_backward(const ra_layer *layer, const ra_layer_parameters *p, int64_t block,
                             const ra_layer_backward_parts *parts, float *d_x)
{
    float own[RA_LAYER_MAX_DIM];
    int64_t embed = layer->o.embed, q = layer->q_width, kv = layer->kv_width, dim = layer->o.head_dim;
    int64_t first = ra_layer_block_first(layer, block), end = ra_layer_block_end(layer, block), rows = end - first;
    double *sums = clear_partials(parts, block), *norms = sums + q + 2 * kv;
    for (int64_t t = first; t < end; t++) {
        const float *turn = ra_rotary_turn(layer, t % layer->rows, 0, own);
        heads_backward(layer, turn, layer->o.heads, p->norm_q, parts->raw.q + t * q, parts->d.q + t * q, norms);
        heads_backward(layer, turn, layer->o.kv_heads, p->norm_k, parts->raw.k + t * kv, parts->d.k + t * kv,
                       norms + dim);
    }
    const float *d_q = parts->d.q + first * q, *d_k = parts->d.k + first * kv, *d_v = parts->d.v + first * kv;
    if (layer->o.input_bias) {
        add_columns(rows, q, d_q, sums);
        add_columns(rows, kv, d_k, sums + q);
        add_columns(rows, kv, d_v, sums + q + kv);
    }
    if (!d_x)
        return 0;
    float *out = d_x + first * embed;
    double flops = ra_blas_rows_by_columns(rows, embed, q, d_q, p->w_q, 0, out);
    flops += ra_blas_rows_by_columns(rows, embed, kv, d_k, p->w_k, 1, out);
    return flops + ra_blas_rows_by_columns(rows, embed, kv, d_v, p->w_v, 1, out);
}

/* Gradients by queries, keys and values -> d_x, and the gradients of their projections and norms. */
static double input_backward(const ra_layer *layer, const ra_layer_parameters *p, const float *x,
                             const ra_layer_backward_parts *parts, float *d_x, const ra_layer_outlets *g)
{
    double flops = 0;
    int64_t embed = layer->o.embed, q = layer->q_width, kv = layer->kv_width, dim = layer->o.head_dim;
    ra_blas_single_begin();
#pragma omp parallel for num_threads(layer->threads) schedule(dynamic) reduction(+ : flops)
    for (int64_t block = 0; block < layer->blocks; block++)
        flops += block_backward(layer, p, block, parts, d_x);
    ra_blas_single_end();
    const ra_layer_weight weights[] = {
        {q, embed, parts->d.q, x, g->w_q}, {kv, embed, parts->d.k, x, g->w_k}, {kv, embed, parts->d.v, x, g->w_v}};
    flops += ra_layer_weight_gradients(layer, weights, 3, parts->tiles);
    ra_layer_add_blocks(layer, parts, 0, q, g->b_q);
    ra_layer_add_blocks(layer, parts, q, kv, g->b_k);
    ra_layer_add_blocks(layer, parts, q + kv, kv, g->b_v);
    ra_layer_add_blocks(layer, parts, q + 2 * kv, dim, g->norm_q);
    ra_layer_add_blocks(layer, parts, q + 2 * kv + dim, dim, g->norm_k);
    return flops;
}

static ra_status check_call(const ra_layer *layer, const float *x, const float *d_y, const void *saved)
{
    if (!layer)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "the layer is NULL");
    if (layer->o.cache)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "the layer has a cache of %lld keys: it has no backward pass",
                                 (long long)layer->o.cache);
    if (layer->tokens && (!x || !d_y || !saved))
        return ra_transport_fail(RA_ERROR_ARGUMENT, "%s is NULL, and the layer has %lld tokens",
                                 !x     ? "x"
                                 : !d_y ? "d_y"
                                        : "saved",
                                 (long long)layer->tokens);
    return RA_OK;
}

/* With sum_rows, gradients go to `sums` alone; without, there are none. */
static ra_status copy_gradients(const ra_layer *layer, const ra_layer_gradients *theirs, ra_layer_gradients *ours)
{
    ra_status status = ra_layer_copy_in(ours, theirs, &ra_layer_sized_gradients);
    if (status)
        return status;
    bool values = ours->w_q || ours->w_k || ours->w_v || ours->w_o || ours->b_q || ours->b_k || ours->b_v ||
                  ours->b_o || ours->norm_q || ours->norm_k || ours->norm_o_weight || ours->norm_o_bias;
    if (layer->o.sum_rows ? values : ours->sums != NULL)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "gradients: with sum_rows %lld, parameters' go to %s alone",
                                 (long long)layer->o.sum_rows, layer->o.sum_rows ? "sums" : "arrays of their own");
    return RA_OK;
}

static ra_status run(const ra_layer *layer, const ra_layer_parameters *p, const float *x, const float *d_y, float *d_x,
                     const ra_layer_outlets *g, const ra_layer_kept *kept, const ra_layer_backward_parts *parts,
                     ra_layer_attention *did, double *flops)
{
    *flops = 0;
    if (layer->o.recompute)
        *flops = ra_layer_project(layer, p, x, 0, parts->raw, parts->ready);
    else if (layer->o.query_key_norm)
        ra_layer_make_ready(layer, p, parts->raw, parts->ready);
    ra_layer_qkv ready = {parts->ready.q, parts->ready.k, parts->raw.v};
    *flops += output_backward(layer, p, kept, d_y, parts, g);
    ra_status status = ra_layer_attend_backward(layer, ready, kept, parts->d_o, parts->d, parts->stats, did);
    if (!status)
        *flops += input_backward(layer, p, x, parts, d_x, g);
    return status;
}

ra_status ra_layer_backward(const ra_layer *layer, const ra_layer_parameters *parameters, const float *x,
                            const float *d_y, float *d_x, const ra_layer_gradients *d_parameters, const void *saved,
                            ra_layer_stats *stats)
{
    double begin = ra_layer_clock();
    ra_layer_parameters p;
    ra_layer_gradients g = RA_LAYER_GRADIENTS_INIT;
    ra_layer_kept kept;
    ra_layer_backward_parts parts;
    ra_layer_attention did = {0};
    ra_arena arena;
    ra_status status = check_call(layer, x, d_y, saved);
    if (!status)
        status = ra_layer_check_parameters(layer, parameters, &p);
    if (!status && d_parameters)
        status = copy_gradients(layer, d_parameters, &g);
    if (!status && stats)
        status = ra_layer_check_sized(stats, &ra_layer_sized_stats);
    if (!status)
        status = ra_arena_open(&arena, layer->spare, layer->info.backward_bytes - layer->attention_backward_bytes,
                               "backward pass");
    if (status)
        return status;
    ra_layer_kept_parts(layer, (void *)saved, &kept);
    ra_layer_backward_take(layer, &arena, &kept, &parts);
    const ra_layer_outlets outlets = ra_layer_outlets_of(layer, &g);
    double flops;
    status = run(layer, &p, x, d_y, d_x, &outlets, &kept, &parts, &did, &flops);
    ra_arena_close(&arena, layer->spare);
    return status ? status : ra_layer_tell(stats, begin, flops, layer->info.backward_bytes, arena.used, &did);
}
