/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From x to queries, keys and values that attention can take, and from its output to y. A block of tokens is projected
 * and finished by one thread while it is in the cache.
 */
#include "layer/blas.h"
#include "layer/layer.h"

#include <omp.h>
#include <string.h>

static void add_bias(int64_t rows, int64_t width, const float *bias, float *out)
{
    if (!bias)
        return;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++)
            out[r * width + i] += bias[i];
}

static double project_block(const float *x, int64_t rows, int64_t embed, int64_t width, const float *weight,
                            const float *bias, float *out)
{
    double flops = ra_blas_rows_by_rows(rows, width, embed, x, weight, 0, out);
    add_bias(rows, width, bias, out);
    return flops;
}

/* Norm and rotation of a row's heads. */
static void finish_row(const ra_layer *layer, const float *turn, int64_t heads, const float *weight, const float *raw,
                       float *ready)
{
    int64_t dim = layer->o.head_dim;
    if (layer->o.query_key_norm)
        for (int64_t h = 0; h < heads; h++)
            ra_rms_norm(dim, layer->o.norm_epsilon, raw + h * dim, weight, ready + h * dim);
    else if (raw != ready)
        memcpy(ready, raw, (size_t)(heads * dim) * sizeof(float));
    if (layer->frequencies)
        ra_rotary_apply(layer, turn, 1, heads, ready);
}

static void finish_block(const ra_layer *layer, const ra_layer_parameters *p, int64_t shift, int64_t block,
                         ra_layer_qkv raw, ra_layer_qkv ready)
{
    float own[RA_LAYER_MAX_DIM];
    int64_t q = layer->q_width, kv = layer->kv_width;
    if (!layer->frequencies && !layer->o.query_key_norm)
        return;
    for (int64_t t = ra_layer_block_first(layer, block); t < ra_layer_block_end(layer, block); t++) {
        const float *turn = ra_rotary_turn(layer, t % layer->rows, shift, own);
        finish_row(layer, turn, layer->o.heads, p->norm_q, raw.q + t * q, ready.q + t * q);
        finish_row(layer, turn, layer->o.kv_heads, p->norm_k, raw.k + t * kv, ready.k + t * kv);
    }
}

double ra_layer_project(const ra_layer *layer, const ra_layer_parameters *p, const float *x, int64_t shift,
                        ra_layer_qkv raw, ra_layer_qkv ready)
{
    double flops = 0;
    int64_t embed = layer->o.embed, q = layer->q_width, kv = layer->kv_width;
    ra_blas_single_begin();
#pragma omp parallel for num_threads(layer->threads) schedule(dynamic) reduction(+ : flops)
    for (int64_t block = 0; block < layer->blocks; block++) {
        int64_t first = ra_layer_block_first(layer, block), rows = ra_layer_block_end(layer, block) - first;
        const float *in = x + first * embed;
        flops += project_block(in, rows, embed, q, p->w_q, p->b_q, raw.q + first * q);
        flops += project_block(in, rows, embed, kv, p->w_k, p->b_k, raw.k + first * kv);
        flops += project_block(in, rows, embed, kv, p->w_v, p->b_v, raw.v + first * kv);
        finish_block(layer, p, shift, block, raw, ready);
    }
    ra_blas_single_end();
    return flops;
}

void ra_layer_make_ready(const ra_layer *layer, const ra_layer_parameters *p, ra_layer_qkv raw, ra_layer_qkv ready)
{
#pragma omp parallel for num_threads(layer->threads) schedule(dynamic)
    for (int64_t block = 0; block < layer->blocks; block++)
        finish_block(layer, p, 0, block, raw, ready);
}

/* The rows of a block that go into the output projection: those of o, or normed ones. */
static const float *output_rows(const ra_layer *layer, const ra_layer_parameters *p, const float *o, int64_t rows,
                                float *normed)
{
    int64_t width = layer->q_width;
    if (!layer->o.output_norm)
        return o;
    for (int64_t r = 0; r < rows; r++)
        ra_layer_norm(width, layer->o.norm_epsilon, o + r * width, p->norm_o_weight, p->norm_o_bias,
                      normed + r * width);
    return normed;
}

double ra_layer_project_output(const ra_layer *layer, const ra_layer_parameters *p, const float *o, float *normed,
                               float *y)
{
    double flops = 0;
    int64_t embed = layer->o.embed, width = layer->q_width;
    ra_blas_single_begin();
#pragma omp parallel for num_threads(layer->threads) schedule(dynamic) reduction(+ : flops)
    for (int64_t block = 0; block < layer->blocks; block++) {
        int64_t first = ra_layer_block_first(layer, block), rows = ra_layer_block_end(layer, block) - first;
        float *mine = normed ? normed + omp_get_thread_num() * layer->block * width : NULL;
        const float *in = output_rows(layer, p, o + first * width, rows, mine);
        flops += ra_blas_rows_by_rows(rows, embed, width, in, p->w_o, 0, y + first * embed);
        add_bias(rows, embed, p->b_o, y + first * embed);
    }
    ra_blas_single_end();
    return flops;
}
