/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lm generate: the prompt and what the model goes on with, byte by byte, with a cache of keys and values. Over ranks
 * each has some heads and their part of the cache; what they give is summed.
 */
#include "lm.h"
#include "memory.h"
#include "products.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { AT_ONCE = 64 }; /* bytes of the prompt */

typedef struct generator {
    const lm_world *world;
    lm_config config;
    int64_t first, heads, dim; /* heads of this rank */
    ra_layer *one, *many;      /* for 1 and AT_ONCE tokens; NULL without heads */
    ra_layer_cache *caches;    /* [layers] */
    float *parameters, *w_o;   /* w_o: [layers, embed, heads * dim], columns of this rank's heads */
    float *keys, *values;      /* [layers, capacity, heads, dim] */
    float *x, *normed, *y;     /* [AT_ONCE, embed] */
    float *hidden;             /* [AT_ONCE, 4 embed] */
    double *sums;              /* [AT_ONCE, embed]: of y over ranks */
    float logits[LM_BYTES];
} generator;

static ra_status make_layer(const generator *g, const lm_spread *spread, int64_t rows, int64_t capacity,
                            ra_layer **layer)
{
    ra_layer_options o = RA_LAYER_OPTIONS_INIT;
    o.rows = rows, o.embed = g->config.embed, o.heads = g->heads, o.head_dim = g->dim;
    o.rotary_base = 10000, o.pattern = g->config.pattern, o.threads = spread->threads, o.cache = capacity;
    return ra_layer_create(&o, layer);
}

static bool take_all(generator *g, int64_t capacity)
{
    const lm_config *c = &g->config;
    int64_t width = g->heads * g->dim, wide = LM_WIDER * c->embed;
    g->caches = lm_take(c->layers, sizeof *g->caches);
    g->parameters = lm_take(lm_parameter_count(c), sizeof(float));
    g->w_o = lm_take(c->layers * c->embed * width, sizeof(float));
    g->keys = lm_take(c->layers * capacity * width, sizeof(float));
    g->values = lm_take(c->layers * capacity * width, sizeof(float));
    g->x = lm_take(AT_ONCE * c->embed, sizeof(float));
    g->normed = lm_take(AT_ONCE * c->embed, sizeof(float));
    g->y = lm_take(AT_ONCE * c->embed, sizeof(float));
    g->hidden = lm_take(AT_ONCE * wide, sizeof(float));
    g->sums = lm_take(AT_ONCE * c->embed, sizeof(double));
    if (!g->caches || !g->parameters || !g->w_o || !g->keys || !g->values || !g->x || !g->normed || !g->y ||
        !g->hidden || !g->sums)
        return false;
    for (int64_t l = 0; l < c->layers; l++)
        g->caches[l] = (ra_layer_cache){g->keys + l * capacity * width, g->values + l * capacity * width, capacity, 0};
    return true;
}

static void give_all(generator *g)
{
    void *all[] = {g->caches, g->parameters, g->w_o, g->keys, g->values, g->x, g->normed, g->y, g->hidden, g->sums};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lm_give(all[i]);
    ra_layer_free(g->one);
    ra_layer_free(g->many);
}

static void choose_columns(const generator *g)
{
    int64_t embed = g->config.embed, width = g->heads * g->dim;
    for (int64_t l = 0; l < g->config.layers; l++) {
        const float *from = g->parameters + lm_block_at(&g->config, l).w_o + g->first * g->dim;
        for (int64_t row = 0; row < embed; row++)
            memcpy(g->w_o + (l * embed + row) * width, from + row * embed, (size_t)width * sizeof(float));
    }
}

/* y = attention of this rank's heads, summed over ranks. */
static ra_status attend(generator *g, int64_t l, int64_t count)
{
    int64_t embed = g->config.embed, skipped = g->first * g->dim * embed;
    lm_block b = lm_block_at(&g->config, l);
    ra_layer_parameters p = RA_LAYER_PARAMETERS_INIT;
    ra_status status = RA_OK;
    const float *all = g->parameters;
    p.w_q = all + b.w_q + skipped, p.w_k = all + b.w_k + skipped, p.w_v = all + b.w_v + skipped;
    p.w_o = g->w_o + l * embed * g->heads * g->dim;
    lm_norm(count, embed, g->x, all + b.norm_attention, g->normed);
    memset(g->y, 0, (size_t)(count * embed) * sizeof(float));
    if (g->heads)
        status = ra_layer_decode(count == 1 ? g->one : g->many, &p, g->normed, g->y, &g->caches[l], NULL);
    for (int64_t i = 0; i < count * embed; i++)
        g->sums[i] = g->y[i];
    lm_world_sum(g->world, g->sums, count * embed);
    return status;
}

static void run_mlp(const generator *g, int64_t l, int64_t count)
{
    int64_t embed = g->config.embed, wide = LM_WIDER * embed;
    lm_block b = lm_block_at(&g->config, l);
    lm_norm(count, embed, g->x, g->parameters + b.norm_mlp, g->normed);
    lm_rows_by_rows(count, wide, embed, g->normed, g->parameters + b.w_up, 0, g->hidden);
    for (int64_t i = 0; i < count * wide; i++)
        g->hidden[i] = g->hidden[i] > 0 ? g->hidden[i] * g->hidden[i] : 0;
    lm_rows_by_rows(count, embed, wide, g->hidden, g->parameters + b.w_down, 1, g->x);
}

/* Puts `count` bytes, 1 or AT_ONCE, behind those so far; the logits are those after the last. */
static ra_status advance(generator *g, const unsigned char *bytes, int64_t count)
{
    int64_t embed = g->config.embed;
    ra_status status = RA_OK;
    for (int64_t t = 0; t < count; t++)
        for (int64_t i = 0; i < embed; i++)
            g->x[t * embed + i] = sqrtf((float)embed) * g->parameters[bytes[t] * embed + i];
    for (int64_t l = 0; l < g->config.layers && !status; l++) {
        status = attend(g, l, count);
        for (int64_t i = 0; i < count * embed; i++)
            g->x[i] += (float)g->sums[i];
        run_mlp(g, l, count);
    }
    lm_norm(1, embed, g->x + (count - 1) * embed, g->parameters + lm_last_norm(&g->config), g->normed);
    lm_rows_by_rows(1, LM_BYTES, embed, g->normed, g->parameters, 0, g->logits);
    return status;
}

/* A byte by its probability at this temperature; 0: the most probable. */
static unsigned char draw(const float *logits, double temperature, uint64_t seed, int64_t index)
{
    uint64_t key[2] = {seed, (uint64_t)index};
    double sum = 0, most = logits[0];
    int best = 0;
    for (int i = 1; i < LM_BYTES; i++)
        if (logits[i] > most)
            most = logits[i], best = i;
    if (!(temperature > 0))
        return (unsigned char)best;
    uint64_t mixed = lm_mix(14695981039346656037u, key, sizeof key);
    mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
    double at = (double)((mixed ^ mixed >> 32) >> 11) / 9007199254740992.0;
    for (int i = 0; i < LM_BYTES; i++)
        sum += exp((logits[i] - most) / temperature);
    at *= sum;
    for (int i = 0; i < LM_BYTES; i++) {
        at -= exp((logits[i] - most) / temperature);
        if (at < 0)
            return (unsigned char)i;
    }
    return (unsigned char)best;
}

static void show(const generator *g, const void *bytes, size_t count)
{
    if (g->world->rank == 0) {
        fwrite(bytes, 1, count, stdout);
        fflush(stdout);
    }
}

static ra_status go_on(generator *g, const lm_options *o)
{
    const unsigned char *prompt = (const unsigned char *)o->prompt;
    int64_t length = (int64_t)strlen(o->prompt), done = 0;
    ra_status status = RA_OK;
    while (done < length && !status) {
        int64_t count = length - done >= AT_ONCE ? AT_ONCE : 1;
        status = advance(g, prompt + done, count);
        done += count;
    }
    show(g, prompt, (size_t)length);
    for (int64_t i = 0; i < o->length && !status; i++) {
        unsigned char next = draw(g->logits, o->temperature, o->config.seed, i);
        show(g, &next, 1);
        status = advance(g, &next, 1);
    }
    show(g, "\n", 1);
    return status;
}

static int set_up(generator *g, const lm_options *o, const lm_state *state)
{
    char why[512];
    int64_t capacity = (int64_t)strlen(o->prompt) + o->length;
    g->dim = g->config.embed / g->config.heads;
    g->first = g->config.heads * g->world->rank / g->world->ranks;
    g->heads = g->config.heads * (g->world->rank + 1) / g->world->ranks - g->first;
    if (g->heads && (make_layer(g, &o->spread, 1, capacity, &g->one) ||
                     make_layer(g, &o->spread, AT_ONCE, capacity > AT_ONCE ? capacity : AT_ONCE, &g->many)))
        return lm_say(g->world, LM_USAGE, "%s", ra_last_message());
    lm_products_begin();
    if (!take_all(g, capacity))
        return lm_say(g->world, LM_WORK, "no memory for a cache of %lld bytes of text", (long long)capacity);
    if (!lm_checkpoint_load(o->checkpoint, state, g->parameters, NULL, why, sizeof why))
        return lm_say(g->world, LM_USAGE, "%s", why);
    choose_columns(g);
    return LM_OK;
}

int lm_generate(const lm_options *o, const lm_world *world)
{
    char why[512];
    lm_state state;
    lm_found found = lm_checkpoint_read(o->checkpoint, &state, why, sizeof why);
    if (found != LM_FOUND)
        return lm_say(world, LM_USAGE, found == LM_BAD ? "%s" : "--checkpoint '%s': there is none",
                      found == LM_BAD ? why : o->checkpoint);
    if (world->ranks > 1 && strstr(state.config.pattern, "dilated"))
        return lm_say(world, LM_USAGE,
                      "--pattern '%s': what a head sees depends on its number, and over ranks heads are divided: "
                      "generate in one process",
                      state.config.pattern);
    generator g = {.world = world, .config = state.config};
    int code = lm_agree(world, set_up(&g, o, &state));
    if (!code && go_on(&g, o)) {
        fprintf(stderr, "lm: rank %d: %s\n", world->rank, ra_last_message());
        lm_world_abort(world, LM_WORK);
    }
    give_all(&g);
    return code;
}
