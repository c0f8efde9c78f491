/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the layer's queries, keys and values, in one process or on a rank, by the public headers. */
#include "layer/layer.h"

static ra_tensor view(const ra_layer *layer, const float *data, int64_t heads, int64_t dim)
{
    return ra_tensor_dense(data, RA_F32, RA_BSHD, layer->o.batch, layer->rows, heads, dim);
}

/* What this rank did, or all of a simulation: it holds what the largest of them does. `flops` are those of a pair. */
static void tell_ranks(const ra_layer *layer, const ra_rank_stats *stats, double flops, ra_layer_attention *did)
{
    for (int rank = 0; rank < layer->ranks; rank++) {
        if (layer->rank >= 0 && layer->rank != rank)
            continue;
        did->bytes = stats[rank].peak_bytes > did->bytes ? stats[rank].peak_bytes : did->bytes;
        did->flops += flops * stats[rank].pairs_visible;
        did->wait += stats[rank].seconds_wait;
        did->sent += stats[rank].bytes_sent, did->received += stats[rank].bytes_received;
    }
}

static void set_up(const ra_layer *layer, ra_rank_stats *stats)
{
    for (int rank = 0; rank < layer->ranks; rank++)
        stats[rank] = (ra_rank_stats)RA_RANK_STATS_INIT;
}

ra_status ra_layer_attend(const ra_layer *layer, ra_layer_qkv ready, int64_t keys, int64_t stride, float *o, float *lse,
                          ra_rank_stats *stats, ra_layer_attention *did)
{
    int64_t heads = layer->o.heads, kv_heads = layer->o.kv_heads, dim = layer->o.head_dim;
    ra_tensor q = view(layer, ready.q, heads, dim), out = view(layer, o, heads, dim), sums = view(layer, lse, heads, 1);
    ra_tensor k = ra_tensor_dense(ready.k, RA_F32, RA_BSHD, layer->o.batch, keys, kv_heads, dim), v = k;
    k.batch_stride = v.batch_stride = stride * kv_heads * dim;
    v.data = ready.v;
    ra_stats one = RA_STATS_INIT;
    double begin = ra_layer_clock();
    ra_status status;
    if (layer->plan) {
        status = ra_forward(layer->plan, &q, &k, &v, &out, lse ? &sums : NULL, &one);
        did->bytes = one.peak_bytes, did->flops = one.flops;
    } else {
        set_up(layer, stats);
        status = ra_ring_forward(layer->ring_forward, layer->comm, &q, &k, &v, &out, lse ? &sums : NULL, stats);
        tell_ranks(layer, stats, 4.0 * (double)dim, did);
    }
    did->seconds = ra_layer_clock() - begin;
    return status;
}

ra_status ra_layer_attend_backward(const ra_layer *layer, ra_layer_qkv ready, const ra_layer_kept *kept,
                                   const float *d_o, ra_layer_qkv d, ra_rank_stats *stats, ra_layer_attention *did)
{
    int64_t heads = layer->o.heads, kv_heads = layer->o.kv_heads, dim = layer->o.head_dim;
    ra_tensor q = view(layer, ready.q, heads, dim), k = view(layer, ready.k, kv_heads, dim);
    ra_tensor v = view(layer, ready.v, kv_heads, dim), o = view(layer, kept->o, heads, dim);
    ra_tensor lse = view(layer, kept->lse, heads, 1), d_out = view(layer, d_o, heads, dim);
    ra_tensor d_q = view(layer, d.q, heads, dim), d_k = view(layer, d.k, kv_heads, dim);
    ra_tensor d_v = view(layer, d.v, kv_heads, dim);
    ra_stats one = RA_STATS_INIT;
    double begin = ra_layer_clock();
    ra_status status;
    if (layer->plan) {
        status = ra_backward(layer->plan, &q, &k, &v, &o, &lse, &d_out, NULL, &d_q, &d_k, &d_v, &one);
        did->bytes = one.peak_bytes, did->flops = one.flops;
    } else {
        set_up(layer, stats);
        status = ra_ring_backward(layer->ring_back, layer->comm, &q, &k, &v, &o, &lse, &d_out, NULL, &d_q, &d_k, &d_v,
                                  stats);
        tell_ranks(layer, stats, 10.0 * (double)dim, did);
    }
    did->seconds = ra_layer_clock() - begin;
    return status;
}
