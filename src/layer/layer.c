/* SPDX-License-Identifier: Apache-2.0 */
/* What callers ask of a layer: its plan, its rows, and whether parameters are those that it has. */
#include "layer/layer.h"

#include <ringattn/transport.h>
#include <time.h>

double ra_layer_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

ra_status ra_layer_describe(const ra_layer *layer, ra_layer_info *info)
{
    if (!layer)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "the layer to describe is NULL");
    return ra_layer_copy_out(info, &layer->info, &ra_layer_sized_info);
}

int64_t ra_layer_row(const ra_layer *layer, int64_t row)
{
    return layer && row >= 0 && row < layer->rows ? layer->positions[row] : -1;
}

ra_status ra_layer_tell(ra_layer_stats *stats, double begin, double flops, int64_t planned, int64_t bytes,
                        const ra_layer_attention *did)
{
    ra_layer_stats all = RA_LAYER_STATS_INIT;
    all.seconds_total = ra_layer_clock() - begin;
    all.seconds_attention = did->seconds, all.seconds_wait = did->wait;
    all.flops = flops + did->flops;
    all.planned_peak_bytes = planned, all.peak_bytes = bytes + did->bytes;
    all.bytes_sent = did->sent, all.bytes_received = did->received;
    return stats ? ra_layer_copy_out(stats, &all, &ra_layer_sized_stats) : RA_OK;
}

ra_status ra_layer_check_parameters(const ra_layer *layer, const ra_layer_parameters *theirs, ra_layer_parameters *ours)
{
    *ours = (ra_layer_parameters)RA_LAYER_PARAMETERS_INIT;
    ra_status status = ra_layer_copy_in(ours, theirs, &ra_layer_sized_parameters);
    if (status)
        return status;
    const ra_layer_options *o = &layer->o;
    const struct {
        const char *name, *option;
        const float *values;
        int wanted;
    } all[] = {
        {"w_q", "", ours->w_q, 1},
        {"w_k", "", ours->w_k, 1},
        {"w_v", "", ours->w_v, 1},
        {"w_o", "", ours->w_o, 1},
        {"b_q", "input_bias", ours->b_q, o->input_bias},
        {"b_k", "input_bias", ours->b_k, o->input_bias},
        {"b_v", "input_bias", ours->b_v, o->input_bias},
        {"b_o", "output_bias", ours->b_o, o->output_bias},
        {"norm_q", "query_key_norm", ours->norm_q, o->query_key_norm},
        {"norm_k", "query_key_norm", ours->norm_k, o->query_key_norm},
        {"norm_o_weight", "output_norm", ours->norm_o_weight, o->output_norm},
        {"norm_o_bias", "output_norm", ours->norm_o_bias, o->output_norm},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].wanted && !all[i].values)
            return ra_transport_fail(RA_ERROR_ARGUMENT, "parameter %s is NULL, and the layer has it", all[i].name);
        if (!all[i].wanted && all[i].values)
            return ra_transport_fail(RA_ERROR_ARGUMENT, "parameter %s is given, and the layer has no %s", all[i].name,
                                     all[i].option);
    }
    return RA_OK;
}
