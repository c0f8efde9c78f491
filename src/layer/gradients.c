/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of parameters. That of a weight is cut into tiles, each computed by one thread: one product over all
 * tokens, or with sum_rows one for each block. Other parameters have sums over the tokens of each block. Blocks are
 * added in their order. So no bit depends on the number of threads.
 */
#include "layer/gradients.h"

#include "layer/blas.h"

#include <omp.h>
#include <string.h>

/* Rounded to a multiple of RA_LAYER_SUM_UNIT: next to `LARGE`, a double has no digits below the unit. */
static inline double rounded(double value)
{
    static const double LARGE = RA_LAYER_SUM_UNIT * 0x1.8p52;
    return value + LARGE - LARGE;
}

ra_layer_outlets ra_layer_outlets_of(const ra_layer *layer, const ra_layer_gradients *g)
{
    int64_t embed = layer->o.embed, q = layer->q_width, kv = layer->kv_width, dim = layer->o.head_dim;
    ra_layer_outlets out;
    const struct {
        ra_layer_outlet *outlet;
        float *values;
        int64_t count;
    } all[] = {{&out.w_q, g->w_q, q * embed},
               {&out.w_k, g->w_k, kv * embed},
               {&out.w_v, g->w_v, kv * embed},
               {&out.w_o, g->w_o, embed * q},
               {&out.b_q, g->b_q, layer->o.input_bias ? q : 0},
               {&out.b_k, g->b_k, layer->o.input_bias ? kv : 0},
               {&out.b_v, g->b_v, layer->o.input_bias ? kv : 0},
               {&out.b_o, g->b_o, layer->o.output_bias ? embed : 0},
               {&out.norm_q, g->norm_q, layer->o.query_key_norm ? dim : 0},
               {&out.norm_k, g->norm_k, layer->o.query_key_norm ? dim : 0},
               {&out.norm_o_weight, g->norm_o_weight, layer->o.output_norm ? q : 0},
               {&out.norm_o_bias, g->norm_o_bias, layer->o.output_norm ? q : 0}};
    double *sums = g->sums;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].outlet = (ra_layer_outlet){all[i].values, sums && all[i].count ? sums : NULL};
        sums = sums ? sums + all[i].count : NULL;
    }
    return out;
}

/* ---- Weights ----------------------------------------------------------------------------------------------------- */

/* Tall enough for the product to be fast; of a small weight there are still tiles for some threads. */
static int64_t tile_rows(const ra_layer_weight *w)
{
    enum { STEP = 64, PARTS = 4 };
    int64_t rows = (w->outputs + PARTS * STEP - 1) / (PARTS * STEP) * STEP;
    return rows < RA_LAYER_TILE_TALL ? rows : RA_LAYER_TILE_TALL;
}

static int64_t tiles_of(const ra_layer_weight *w)
{
    int64_t tall = tile_rows(w), across = (w->inputs + RA_LAYER_TILE_WIDE - 1) / RA_LAYER_TILE_WIDE;
    return w->to.values || w->to.sums ? (w->outputs + tall - 1) / tall * across : 0;
}

/* A tile: m outputs from i on, n inputs from j on. */
typedef struct tile {
    int64_t i, j, m, n;
} tile;

static double add_block(const ra_layer *layer, const ra_layer_weight *w, tile t, int64_t block, float *product)
{
    int64_t first = ra_layer_block_first(layer, block), rows = ra_layer_block_end(layer, block) - first;
    double flops = ra_blas_columns_by_columns(t.m, t.n, rows, w->d + first * w->outputs + t.i, w->outputs,
                                              w->in + first * w->inputs + t.j, w->inputs, product, t.n);
    for (int64_t row = 0; row < t.m; row++) {
        double *sums = w->to.sums + (t.i + row) * w->inputs + t.j;
        for (int64_t i = 0; i < t.n; i++)
            sums[i] += rounded(product[row * t.n + i]);
    }
    return flops;
}

static double weight_tile(const ra_layer *layer, const ra_layer_weight *w, int64_t index, float *product)
{
    int64_t across = (w->inputs + RA_LAYER_TILE_WIDE - 1) / RA_LAYER_TILE_WIDE, tall = tile_rows(w);
    tile t = {.i = index / across * tall, .j = index % across * RA_LAYER_TILE_WIDE};
    t.m = w->outputs - t.i < tall ? w->outputs - t.i : tall;
    t.n = w->inputs - t.j < RA_LAYER_TILE_WIDE ? w->inputs - t.j : RA_LAYER_TILE_WIDE;
    if (!w->to.sums)
        return ra_blas_columns_by_columns(t.m, t.n, layer->tokens, w->d + t.i, w->outputs, w->in + t.j, w->inputs,
                                          w->to.values + t.i * w->inputs + t.j, w->inputs);
    double flops = 0;
    for (int64_t block = 0; block < layer->blocks; block++)
        flops += add_block(layer, w, t, block, product);
    return flops;
}

/* The tiles of all in one loop, so that no thread waits at the end of each. */
double ra_layer_weight_gradients(const ra_layer *layer, const ra_layer_weight *all, int count, float *tiles)
{
    int64_t total = 0;
    double flops = 0;
    for (int i = 0; i < count; i++) {
        total += tiles_of(&all[i]);
        if (!layer->tokens && all[i].to.values)
            memset(all[i].to.values, 0, (size_t)(all[i].outputs * all[i].inputs) * sizeof(float));
    }
    if (!layer->tokens)
        return 0;
    ra_blas_single_begin();
#pragma omp parallel for num_threads(layer->threads) schedule(dynamic) reduction(+ : flops)
    for (int64_t index = 0; index < total; index++) {
        int64_t left = index;
        const ra_layer_weight *w = all;
        for (; left >= tiles_of(w); w++)
            left -= tiles_of(w);
        flops += weight_tile(layer, w, left, tiles ? tiles + (int64_t)omp_get_thread_num() * RA_LAYER_TILE : NULL);
    }
    ra_blas_single_end();
    return flops;
}

/* ---- Biases and norms ----------------------------------------------------------------------------------------------
 */

void ra_layer_add_blocks(const ra_layer *layer, const ra_layer_backward_parts *parts, int64_t from, int64_t width,
                         ra_layer_outlet to)
{
    const double *partials = parts->partials + from;
    for (int64_t i = 0; i < width && (to.values || to.sums); i++) {
        double sum = 0;
        for (int64_t block = 0; block < layer->blocks; block++) {
            double partial = partials[block * parts->partial_width + i];
            sum += to.sums ? rounded(partial) : partial;
        }
        if (to.sums)
            to.sums[i] += sum;
        else
            to.values[i] = (float)sum;
    }
}
