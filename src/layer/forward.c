/* SPDX-License-Identifier: Apache-2.0 */
/* The forward pass, and what it keeps for the backward pass. */
#include "layer/layer.h"

#include <ringattn/transport.h>

static float *take_rows(const ra_layer *layer, ra_arena *arena, int64_t width)
{
    return ra_arena_take(arena, layer->tokens * width, sizeof(float));
}

ra_layer_qkv ra_layer_take_qkv(const ra_layer *layer, ra_arena *arena)
{
    ra_layer_qkv qkv;
    qkv.q = take_rows(layer, arena, layer->q_width);
    qkv.k = take_rows(layer, arena, layer->kv_width);
    qkv.v = take_rows(layer, arena, layer->kv_width);
    return qkv;
}

int64_t ra_layer_kept_parts(const ra_layer *layer, void *saved, ra_layer_kept *kept)
{
    ra_arena arena = {saved, 0, 0};
    *kept = (ra_layer_kept){{NULL, NULL, NULL}, NULL, NULL};
    kept->o = take_rows(layer, &arena, layer->q_width);
    kept->lse = take_rows(layer, &arena, layer->o.heads);
    if (!layer->o.recompute)
        kept->raw = ra_layer_take_qkv(layer, &arena);
    return arena.used;
}

void ra_layer_forward_take(const ra_layer *layer, ra_arena *arena, const ra_layer_kept *kept,
                           ra_layer_forward_parts *parts)
{
    int keeps = kept && !layer->o.recompute;
    parts->raw = keeps ? kept->raw : ra_layer_take_qkv(layer, arena);
    parts->ready = parts->raw;
    if (keeps && layer->o.query_key_norm) {
        parts->ready.q = take_rows(layer, arena, layer->q_width);
        parts->ready.k = take_rows(layer, arena, layer->kv_width);
    }
    parts->o = kept ? kept->o : take_rows(layer, arena, layer->q_width);
    parts->lse = kept ? kept->lse : NULL;
    parts->normed = NULL;
    if (layer->o.output_norm)
        parts->normed = ra_arena_take(arena, layer->threads * layer->block * layer->q_width, sizeof(float));
    parts->stats = ra_arena_take(arena, layer->ranks, sizeof(ra_rank_stats));
}

static ra_status check_call(const ra_layer *layer, const ra_layer_parameters *parameters, const float *x,
                            const float *y, const ra_layer_stats *stats, ra_layer_parameters *p)
{
    if (!layer)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "the layer is NULL");
    if (layer->o.cache)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "the layer has a cache of %lld keys: call ra_layer_decode",
                                 (long long)layer->o.cache);
    if (layer->tokens && (!x || !y))
        return ra_transport_fail(RA_ERROR_ARGUMENT, "%s is NULL, and the layer has %lld tokens", x ? "y" : "x",
                                 (long long)layer->tokens);
    ra_status status = ra_layer_check_parameters(layer, parameters, p);
    return status || !stats ? status : ra_layer_check_sized(stats, &ra_layer_sized_stats);
}

ra_status ra_layer_forward(const ra_layer *layer, const ra_layer_parameters *parameters, const float *x, float *y,
                           void *saved, ra_layer_stats *stats)
{
    double begin = ra_layer_clock();
    ra_layer_parameters p;
    ra_layer_kept kept;
    ra_layer_forward_parts parts;
    ra_layer_attention did = {0};
    ra_arena arena;
    ra_status status = check_call(layer, parameters, x, y, stats, &p);
    if (status)
        return status;
    int64_t planned = saved ? layer->info.training_bytes : layer->info.forward_bytes;
    status = ra_arena_open(&arena, layer->spare, planned - layer->attention_forward_bytes, "forward pass of a layer");
    if (status)
        return status;
    ra_layer_kept_parts(layer, saved, &kept);
    ra_layer_forward_take(layer, &arena, saved ? &kept : NULL, &parts);
    double flops = ra_layer_project(layer, &p, x, 0, parts.raw, parts.ready);
    status = ra_layer_attend(layer, parts.ready, layer->rows, layer->rows, parts.o, parts.lse, parts.stats, &did);
    if (!status)
        flops += ra_layer_project_output(layer, &p, parts.o, parts.normed, y);
    ra_arena_close(&arena, layer->spare);
    return status ? status : ra_layer_tell(stats, begin, flops, planned, arena.used, &did);
}
