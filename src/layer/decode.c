/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding: the next tokens of sequences whose keys and values so far are in a cache of the caller's. */
#include "layer/layer.h"

#include <ringattn/transport.h>
#include <string.h>

static ra_status check_call(const ra_layer *layer, const float *x, const float *y, const ra_layer_cache *cache)
{
    if (!layer || !cache || !cache->k || !cache->v)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "%s is NULL", layer ? "the cache" : "the layer");
    if (!layer->o.cache || cache->capacity != layer->o.cache)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "the cache has room for %lld keys, the layer's option is %lld",
                                 (long long)cache->capacity, (long long)layer->o.cache);
    if (cache->length < 0 || cache->length > cache->capacity - layer->rows)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "the cache has %lld keys of %lld: no room for %lld more",
                                 (long long)cache->length, (long long)cache->capacity, (long long)layer->rows);
    if (layer->tokens && (!x || !y))
        return ra_transport_fail(RA_ERROR_ARGUMENT, "%s is NULL, and the layer has %lld tokens", x ? "y" : "x",
                                 (long long)layer->tokens);
    return RA_OK;
}

/* The new rows of each batch element, behind its old ones. */
static void append(const ra_layer *layer, const float *rows, const ra_layer_cache *cache, float *all)
{
    int64_t width = layer->kv_width;
    for (int64_t b = 0; b < layer->o.batch; b++)
        memcpy(all + (b * cache->capacity + cache->length) * width, rows + b * layer->rows * width,
               (size_t)(layer->rows * width) * sizeof(float));
}

ra_status ra_layer_decode(const ra_layer *layer, const ra_layer_parameters *parameters, const float *x, float *y,
                          ra_layer_cache *cache, ra_layer_stats *stats)
{
    double begin = ra_layer_clock();
    ra_layer_parameters p;
    ra_layer_forward_parts parts;
    ra_layer_attention did = {0};
    ra_arena arena;
    ra_status status = check_call(layer, x, y, cache);
    if (!status)
        status = ra_layer_check_parameters(layer, parameters, &p);
    if (!status && stats)
        status = ra_layer_check_sized(stats, &ra_layer_sized_stats);
    if (!status)
        status =
            ra_arena_open(&arena, layer->spare, layer->info.forward_bytes - layer->attention_forward_bytes, "decoding");
    if (status)
        return status;
    ra_layer_forward_take(layer, &arena, NULL, &parts);
    double flops = ra_layer_project(layer, &p, x, cache->length, parts.raw, parts.ready);
    append(layer, parts.ready.k, cache, cache->k);
    append(layer, parts.ready.v, cache, cache->v);
    ra_layer_qkv ready = {parts.ready.q, cache->k, cache->v};
    status =
        ra_layer_attend(layer, ready, cache->length + layer->rows, cache->capacity, parts.o, NULL, parts.stats, &did);
    if (!status) {
        flops += ra_layer_project_output(layer, &p, parts.o, parts.normed, y);
        cache->length += layer->rows;
    }
    ra_arena_close(&arena, layer->spare);
    return status ? status : ra_layer_tell(stats, begin, flops, layer->info.forward_bytes, arena.used, &did);
}
