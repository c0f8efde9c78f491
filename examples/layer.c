/* SPDX-License-Identifier: Apache-2.0 */
#include <ringattn/multihead.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    enum { ROWS = 300, EMBED = 96, HEADS = 6, COUNT = ROWS * EMBED, WEIGHT = EMBED * EMBED };
    float *w = malloc(4 * (size_t)WEIGHT * sizeof(float)), *x = malloc(2 * (size_t)COUNT * sizeof(float));
    if (!w || !x)
        return 1;
    ra_generate(RA_NORMAL, 1, 0, 4 * WEIGHT, w);
    ra_generate(RA_NORMAL, 2, 0, COUNT, x);

    ra_layer_options options = RA_LAYER_OPTIONS_INIT;
    options.rows = ROWS, options.embed = EMBED, options.heads = HEADS;
    options.rotary_base = 10000, options.pattern = "causal";
    ra_layer_parameters parameters = RA_LAYER_PARAMETERS_INIT;
    parameters.w_q = w, parameters.w_k = w + WEIGHT;
    parameters.w_v = w + 2 * WEIGHT, parameters.w_o = w + 3 * WEIGHT;
    ra_layer *layer = NULL;
    ra_layer_stats stats = RA_LAYER_STATS_INIT;
    if (ra_layer_create(&options, &layer) || ra_layer_forward(layer, &parameters, x, x + COUNT, NULL, &stats)) {
        fprintf(stderr, "%s\n", ra_last_message());
        return 1;
    }
    printf("%.3f ms, %.0f flops, %s\n", 1e3 * stats.seconds_total, stats.flops, ra_layer_blas());
    ra_layer_free(layer);
    free(w);
    free(x);
    return 0;
}
