/* SPDX-License-Identifier: Apache-2.0 */
/* The model's passes: what is between attention (the layer), the MLP (mlp.c) and the loss (loss.c). */
#include "lm.h"
#include "memory.h"
#include "pieces.h"
#include "products.h"

#include <math.h>
#include <string.h>

/* x before the attention (0) or the MLP (1) of a block. Without a backward pass two are enough. */
static float *stream(const lm_model *m, int64_t layer, int which)
{
    int64_t index = 2 * layer + which;
    return m->x + (m->train ? index : index % 2) * m->tokens * m->config.embed;
}

static ra_layer_parameters layer_parameters(const lm_model *m, const lm_block *b)
{
    ra_layer_parameters p = RA_LAYER_PARAMETERS_INIT;
    p.w_q = m->parameters + b->w_q, p.w_k = m->parameters + b->w_k;
    p.w_v = m->parameters + b->w_v, p.w_o = m->parameters + b->w_o;
    return p;
}

static void count_layer(lm_model *m, const ra_layer_stats *stats)
{
    m->times.wait += stats->seconds_wait;
    m->times.bytes_sent += stats->bytes_sent;
    m->layer_peak = stats->peak_bytes > m->layer_peak ? stats->peak_bytes : m->layer_peak;
}

static void embed(const lm_model *m, const unsigned char *bytes)
{
    int64_t width = m->config.embed;
    float *x = stream(m, 0, 0), scale = sqrtf((float)width);
#pragma omp parallel for num_threads(m->threads)
    for (int64_t t = 0; t < m->tokens; t++)
        for (int64_t i = 0; i < width; i++)
            x[t * width + i] = scale * m->parameters[bytes[t] * width + i];
}

/* The gradients by some columns of the embedding, of all tokens. */
LM_VECTORS static void columns_backward(const lm_model *m, const unsigned char *bytes, int64_t first, int64_t count,
                                        float scale)
{
    int64_t width = m->config.embed;
    for (int64_t t = 0; t < m->tokens; t++) {
        const float *d = m->d + t * width + first;
        double *sums = m->gradients + bytes[t] * width + first;
        for (int64_t i = 0; i < count; i++)
            sums[i] += lm_rounded(scale * d[i]);
    }
}

/* One thread has some columns and goes through all tokens. */
static void embed_backward(const lm_model *m, const unsigned char *bytes)
{
    enum { COLUMNS = 16 };
    int64_t width = m->config.embed;
    float scale = sqrtf((float)width);
#pragma omp parallel for num_threads(m->threads)
    for (int64_t first = 0; first < width; first += COLUMNS)
        columns_backward(m, bytes, first, width - first < COLUMNS ? width - first : COLUMNS, scale);
}

/* normed = norm(x) of all tokens. */
static void norm_all(const lm_model *m, const float *x, int64_t weight)
{
    int64_t embed = m->config.embed;
#pragma omp parallel for num_threads(m->threads) schedule(dynamic)
    for (int64_t i = 0; i < m->stretches; i++) {
        int64_t first = m->cuts[i], count = m->cuts[i + 1] - first;
        lm_norm(count, embed, x + first * embed, m->parameters + weight, m->normed + first * embed);
    }
}

/* What attention gives, which the MLP adds to x. */
static ra_status attention(lm_model *m, int64_t layer)
{
    float *x = stream(m, layer, 0), *y = stream(m, layer, 1);
    lm_block b = lm_block_at(&m->config, layer);
    ra_layer_parameters p = layer_parameters(m, &b);
    ra_layer_stats stats = RA_LAYER_STATS_INIT;
    norm_all(m, x, b.norm_attention);
    ra_status status =
        ra_layer_forward(m->layer, &p, m->normed, y, m->train ? m->saved + layer * m->info.saved_bytes : NULL, &stats);
    count_layer(m, &stats);
    return status;
}

/* d is the gradient by what attention has been added to, and becomes that by x before it. */
static ra_status attention_backward(lm_model *m, int64_t layer)
{
    const float *x = stream(m, layer, 0);
    int64_t embed = m->config.embed;
    lm_block b = lm_block_at(&m->config, layer);
    ra_layer_parameters p = layer_parameters(m, &b);
    ra_layer_gradients d = RA_LAYER_GRADIENTS_INIT;
    ra_layer_stats stats = RA_LAYER_STATS_INIT;
    d.sums = m->gradients + b.w_q;
    norm_all(m, x, b.norm_attention);
    ra_status status = ra_layer_backward(m->layer, &p, m->normed, m->d, m->d_normed, &d,
                                         m->saved + layer * m->info.saved_bytes, &stats);
    count_layer(m, &stats);
#pragma omp parallel for num_threads(m->threads) schedule(dynamic)
    for (int64_t i = 0; i < m->stretches; i++) {
        int64_t at = m->cuts[i] * embed;
        lm_norm_backward(m->cuts[i + 1] - m->cuts[i], embed, x + at, m->parameters + b.norm_attention, m->d_normed + at,
                         m->d + at, m->norm_sums + i * embed);
    }
    lm_add_norms(m, m->gradients + b.norm_attention);
    return status;
}

/* All but the loss. */
static ra_status run_blocks(lm_model *m, const unsigned char *bytes)
{
    ra_status status = RA_OK;
    embed(m, bytes);
    for (int64_t layer = 0; layer < m->config.layers && !status; layer++) {
        status = attention(m, layer);
        if (!status)
            lm_mlp(m, layer, stream(m, layer, 0), stream(m, layer, 1), stream(m, layer + 1, 0));
    }
    return status;
}

ra_status lm_forward(lm_model *m, const unsigned char *bytes, const unsigned char *next, double *loss)
{
    m->times = (lm_times){0};
    ra_status status = run_blocks(m, bytes);
    if (!status)
        *loss = lm_loss(m, stream(m, m->config.layers, 0), next, false);
    return status;
}

ra_status lm_backward(lm_model *m, const unsigned char *bytes, const unsigned char *next, double *loss)
{
    m->times = (lm_times){0};
    memset(m->gradients, 0, (size_t)lm_parameter_count(&m->config) * sizeof(double));
    ra_status status = run_blocks(m, bytes);
    if (status)
        return status;
    *loss = lm_loss(m, stream(m, m->config.layers, 0), next, true);
    for (int64_t layer = m->config.layers - 1; layer >= 0 && !status; layer--) {
        lm_mlp_backward(m, layer, stream(m, layer, 1));
        status = attention_backward(m, layer);
    }
    embed_backward(m, bytes);
    return status;
}
