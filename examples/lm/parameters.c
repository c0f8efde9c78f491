/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parameters lie in their array, and their first values. */
#include "lm.h"

#include <math.h>

/* Arrays of a block, in their order: norm, w_q, w_k, w_v, w_o, norm, w_up, w_down. */
enum { BLOCK_ARRAYS = 8 };

static int64_t square(const lm_config *c)
{
    return c->embed * c->embed;
}

static int64_t block_count(const lm_config *c)
{
    return 2 * c->embed + 4 * square(c) + 2 * LM_WIDER * square(c);
}

int64_t lm_parameter_count(const lm_config *c)
{
    return LM_BYTES * c->embed + c->layers * block_count(c) + c->embed;
}

int64_t lm_last_norm(const lm_config *c)
{
    return lm_parameter_count(c) - c->embed;
}

lm_block lm_block_at(const lm_config *c, int64_t layer)
{
    lm_block b;
    b.norm_attention = LM_BYTES * c->embed + layer * block_count(c);
    b.w_q = b.norm_attention + c->embed;
    b.w_k = b.w_q + square(c);
    b.w_v = b.w_k + square(c);
    b.w_o = b.w_v + square(c);
    b.norm_mlp = b.w_o + square(c);
    b.w_up = b.norm_mlp + c->embed;
    b.w_down = b.w_up + LM_WIDER * square(c);
    return b;
}

/* Weights keep the size of what they are applied to; those that add to x share its growth. */
static lm_tensor block_array(const lm_config *c, int64_t which)
{
    double size = 1 / sqrt((double)c->embed), share = 1 / sqrt(2.0 * (double)c->layers);
    lm_tensor t = {.count = c->embed};
    if (which >= 1 && which <= 4)
        t = (lm_tensor){.count = square(c), .deviation = which == 4 ? size * share : size};
    else if (which >= 6)
        t = (lm_tensor){.count = LM_WIDER * square(c), .deviation = which == 7 ? size * share / LM_WIDER : size};
    return t;
}

bool lm_tensor_at(const lm_config *c, int64_t index, lm_tensor *tensor)
{
    if (index == 0) {
        *tensor = (lm_tensor){0, LM_BYTES * c->embed, 0.02}; /* small: a byte must not predict itself at first */
        return true;
    }
    int64_t layer = (index - 1) / BLOCK_ARRAYS, which = (index - 1) % BLOCK_ARRAYS;
    if (layer > c->layers || (layer == c->layers && which > 0))
        return false;
    *tensor = block_array(c, which); /* behind the last block comes a norm, too */
    tensor->first = LM_BYTES * c->embed + layer * block_count(c);
    for (int64_t before = 0; before < which; before++)
        tensor->first += block_array(c, before).count;
    return true;
}

void lm_initialise(const lm_config *c, float *all)
{
    lm_tensor t;
    for (int64_t index = 0; lm_tensor_at(c, index, &t); index++) {
        float *values = all + t.first;
        if (t.deviation > 0)
            ra_generate(RA_NORMAL, c->seed, t.first, t.count, values);
        for (int64_t i = 0; i < t.count; i++)
            values[i] = t.deviation > 0 ? values[i] * (float)t.deviation : 1;
    }
}
