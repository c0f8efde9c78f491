/* SPDX-License-Identifier: Apache-2.0 */
/* A model's memory: planned from its settings for any number of ranks, and taken. */
#include "lm.h"
#include "memory.h"
#include "products.h"

#include <stdlib.h>

static const int64_t FLOAT = sizeof(float);

/* ---- Stretches and pieces ---------------------------------------------------------------------------------------- */

enum { SHORT = 64, LONG = 256, PARTS = 32 }; /* tokens of a stretch; stretches of a sequence where it is short */

/* Stretches end at multiples of this, and where a rank's rows do not follow each other. */
static int64_t stretch_rows(const lm_config *c)
{
    int64_t rows = SHORT;
    while (rows < LONG && rows * PARTS < c->context)
        rows *= 2;
    return rows;
}

/* Parts of ranks are 64 rows or more. */
static int64_t most_stretches(const lm_config *c, int64_t tokens)
{
    return tokens / SHORT + 2 * c->batch;
}

/* Who has part i of the parts that an order makes. */
static int owner(ra_order order, int64_t part, int ranks)
{
    if (order == RA_ORDER_ZIGZAG && part >= ranks)
        return (int)(2 * ranks - 1 - part);
    return (int)(part % ranks);
}

/*
 * With broadcast, ranks divide the sequence where stretches end: then no bit depends on how many ranks there are. Sets
 * the ring's pieces, which are to be freed. False: no memory.
 */
static bool choose_pieces(const lm_config *c, const lm_spread *spread, ra_ring_options *ring)
{
    int64_t rows = stretch_rows(c), stretches = (c->context + rows - 1) / rows;
    int64_t parts = spread->order == RA_ORDER_STRIPED  ? stretches
                    : spread->order == RA_ORDER_ZIGZAG ? (int64_t)2 * ring->ranks
                                                       : ring->ranks;
    if (spread->strategy != RA_STRATEGY_BROADCAST)
        return true;
    ra_piece *pieces = malloc((size_t)parts * sizeof *pieces);
    for (int64_t i = 0; i < parts && pieces; i++) {
        int64_t first = stretches * i / parts * rows, end = stretches * (i + 1) / parts * rows;
        pieces[i] = (ra_piece){first, end < c->context ? end : c->context, owner(spread->order, i, ring->ranks)};
    }
    ring->q_pieces = ring->kv_pieces = pieces;
    ring->q_piece_count = ring->kv_piece_count = parts;
    return pieces != NULL;
}

/* From the rows that the layer says this rank has. */
static void cut(lm_model *m)
{
    int64_t most = stretch_rows(&m->config);
    m->stretches = 0;
    for (int64_t t = 0; t < m->tokens; t++) {
        int64_t row = t % m->rows, position = ra_layer_row(m->layer, row);
        if (row == 0 || position % most == 0 || position != ra_layer_row(m->layer, row - 1) + 1)
            m->cuts[m->stretches++] = t;
    }
    m->cuts[m->stretches] = m->tokens;
}

/* ---- The plan ------------------------------------------------------------------------------------------------------
 */

static ra_layer_options layer_options(const lm_config *c, const lm_spread *spread, int64_t rows)
{
    ra_layer_options o = RA_LAYER_OPTIONS_INIT;
    o.batch = c->batch, o.rows = rows, o.embed = c->embed, o.heads = c->heads;
    o.rotary_base = 10000, o.pattern = c->pattern, o.threads = spread->threads;
    o.keep_memory = 1, o.sum_rows = stretch_rows(c);
    return o;
}

/* A pass over this many arrays: [tokens, embed] of the model, which the backward pass needs or not. */
static int64_t streams(const lm_config *c, bool train)
{
    return train ? 2 * c->layers + 1 : 2;
}

static int64_t piece_tokens(int64_t tokens)
{
    return tokens < LM_PIECE ? tokens : LM_PIECE;
}

static int64_t wide(const lm_config *c)
{
    return LM_WIDER * c->embed > LM_BYTES ? LM_WIDER * c->embed : LM_BYTES;
}

/* Bytes that are taken here and by the training for `tokens` tokens on a rank, without the layer. */
static int64_t own_bytes(const lm_config *c, int64_t tokens, int64_t saved, bool train)
{
    int64_t count = lm_parameter_count(c), piece = piece_tokens(tokens), bytes = lm_taken();
    bytes += lm_block_bytes(count, FLOAT) * (train ? 3 : 1); /* Adam's means and squares, and gradients: */
    bytes += train ? lm_block_bytes(count, sizeof(double)) : 0;
    bytes += lm_block_bytes(streams(c, train) * tokens * c->embed, FLOAT);
    bytes += lm_block_bytes(tokens * c->embed, FLOAT) * (train ? 3 : 1);
    bytes += train ? lm_block_bytes(c->layers * saved, 1) : 0;
    bytes += lm_block_bytes(piece * c->embed, FLOAT) * 2 + lm_block_bytes(piece * wide(c), FLOAT) * 3;
    bytes += lm_block_bytes(most_stretches(c, tokens) * c->embed, FLOAT);
    bytes += lm_block_bytes(most_stretches(c, tokens) + 1, sizeof(int64_t));
    return bytes + 2 * lm_block_bytes(tokens, 1); /* bytes and those after them */
}

static int64_t layer_bytes(const ra_layer_info *info, bool train)
{
    int64_t pass = info->backward_bytes > info->training_bytes ? info->backward_bytes : info->training_bytes;
    return info->layer_bytes + (train ? pass : info->forward_bytes);
}

static ra_problem problem_of(const lm_config *c, int64_t rows)
{
    ra_problem p = RA_PROBLEM_INIT;
    p.batch = c->batch, p.q_len = rows, p.heads = c->heads, p.head_dim = c->embed / c->heads, p.pattern = c->pattern;
    return p;
}

/*
 * What attention of the largest of `ranks` holds; *rows: the most that a rank has. -1: it cannot be planned. Of many
 * ranks the first, the last and the middle one are looked at: they differ little.
 */
static int64_t ring_bytes(const lm_config *c, const lm_spread *spread, int ranks, bool backward, int64_t *rows)
{
    enum { FEW = 32 };
    ra_problem problem = problem_of(c, c->context);
    ra_options options = RA_OPTIONS_INIT;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan = NULL;
    ra_rank_info info = RA_RANK_INFO_INIT;
    int64_t most = -1;
    options.threads = spread->threads;
    ring.ranks = ranks, ring.order = spread->order, ring.strategy = spread->strategy, ring.transport = RA_TRANSPORT_MPI;
    ring.backward = backward, ring.rank = ranks > FEW ? 0 : RA_ALL_RANKS;
    bool good = choose_pieces(c, spread, &ring) && !ra_ring_plan_create(&problem, &options, &ring, &plan);
    free((void *)ring.q_pieces);
    if (!good)
        return -1;
    *rows = 0;
    for (int rank = 0; rank<ranks; rank += ranks> FEW ? (ranks - 1) / 2 : 1)
        if (ra_ring_plan_rank(plan, rank, &info) == RA_OK) {
            *rows = info.q_rows > *rows ? info.q_rows : *rows;
            most = info.peak_bytes > most ? info.peak_bytes : most;
        }
    ra_ring_plan_free(plan);
    return most;
}

/* The bytes of a layer of `rows` rows in one process, with `ring` in place of its attention's bytes. */
static bool layer_of_rows(const lm_config *c, const lm_spread *spread, int64_t rows, const int64_t ring[2],
                          ra_layer_info *info)
{
    ra_layer_options options = layer_options(c, spread, rows);
    ra_problem problem = problem_of(c, rows);
    ra_options own = RA_OPTIONS_INIT;
    ra_plan_info forward = RA_PLAN_INFO_INIT, backward = RA_PLAN_INFO_INIT;
    ra_layer *layer = NULL;
    ra_plan *plan = NULL;
    own.threads = spread->threads;
    bool good = !ra_layer_create(&options, &layer) && !ra_layer_describe(layer, info) &&
                !ra_plan_create(&problem, &own, &plan) && !ra_plan_describe(plan, &forward) &&
                !ra_plan_describe_backward(plan, &backward);
    if (good && ring) {
        info->forward_bytes += ring[0] - forward.peak_bytes;
        info->training_bytes += ring[0] - forward.peak_bytes;
        info->backward_bytes += ring[1] - backward.peak_bytes;
    }
    ra_plan_free(plan);
    ra_layer_free(layer);
    return good;
}

int64_t lm_least_bytes(const lm_config *c)
{
    return own_bytes(c, c->batch, 0, true);
}

/* What the layer has for sums of as many stretches as there can be: it was asked about one process, which has fewer. */
static int64_t sums_of_stretches(const lm_config *c, int64_t tokens)
{
    enum { WIDTHS = 5 }; /* a sum for each of queries, keys, values and so on */
    return most_stretches(c, tokens) * (WIDTHS * c->embed + 1) * (int64_t)sizeof(double);
}

int64_t lm_planned_bytes(const lm_config *c, const lm_spread *spread, int ranks, bool train)
{
    ra_layer_info info = RA_LAYER_INFO_INIT;
    int64_t rows = c->context, ring[2] = {0, 0};
    for (int backward = 0; backward < 2 && ranks > 1; backward++) {
        ring[backward] = ring_bytes(c, spread, ranks, backward, &rows);
        if (ring[backward] < 0)
            return 0;
        ring[backward] += ranks * (int64_t)sizeof(ra_rank_stats);
    }
    ring[1] += ranks > 1 ? sums_of_stretches(c, c->batch * rows) : 0;
    if (!layer_of_rows(c, spread, rows, ranks > 1 ? ring : NULL, &info))
        return 0;
    return own_bytes(c, c->batch * rows, info.saved_bytes, train) + layer_bytes(&info, train);
}

static bool take_all(lm_model *m)
{
    const lm_config *c = &m->config;
    int64_t count = lm_parameter_count(c), width = m->tokens * c->embed, piece = piece_tokens(m->tokens);
    m->parameters = lm_take(count, FLOAT);
    m->x = lm_take(streams(c, m->train) * width, FLOAT);
    m->normed = lm_take(width, FLOAT);
    m->piece.normed = lm_take(piece * c->embed, FLOAT);
    m->piece.d_normed = lm_take(piece * c->embed, FLOAT);
    m->piece.hidden = lm_take(piece * wide(c), FLOAT);
    m->piece.active = lm_take(piece * wide(c), FLOAT);
    m->piece.d_hidden = lm_take(piece * wide(c), FLOAT);
    m->norm_sums = lm_take(most_stretches(c, m->tokens) * c->embed, FLOAT);
    m->cuts = lm_take(most_stretches(c, m->tokens) + 1, sizeof(int64_t));
    bool good = m->parameters && m->x && m->normed && m->piece.normed && m->piece.d_normed && m->piece.hidden &&
                m->piece.active && m->piece.d_hidden && m->norm_sums && m->cuts;
    if (!m->train || !good)
        return good;
    m->gradients = lm_take(count, sizeof(double));
    m->saved = lm_take(c->layers * m->info.saved_bytes, 1);
    m->d = lm_take(width, FLOAT);
    m->d_normed = lm_take(width, FLOAT);
    return m->gradients && m->saved && m->d && m->d_normed;
}

const char *lm_model_open(lm_model *m, const lm_config *config, const lm_spread *spread, const lm_world *world,
                          bool train)
{
    ra_layer_options options = layer_options(config, spread, config->context);
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    *m = (lm_model){.config = *config, .world = world, .train = train, .info = RA_LAYER_INFO_INIT};
    ring.ranks = world->ranks, ring.order = spread->order, ring.strategy = spread->strategy;
    ring.transport = RA_TRANSPORT_MPI, ring.rank = world->rank;
    if (!choose_pieces(config, spread, &ring))
        return "no memory for the pieces of ranks";
    ra_status status = world->ranks > 1 ? ra_layer_create_on_rank(&options, &ring, world->comm, &m->layer)
                                        : ra_layer_create(&options, &m->layer);
    free((void *)ring.q_pieces);
    if (status || ra_layer_describe(m->layer, &m->info))
        return ra_last_message();
    lm_products_begin();
    m->threads = m->info.threads, m->rows = m->info.rows, m->tokens = m->rows * config->batch;
    m->planned_bytes = own_bytes(config, m->tokens, m->info.saved_bytes, train) + layer_bytes(&m->info, train);
    m->layer_peak = 0;
    if (!take_all(m))
        return "no memory for the model: take more ranks, or a shorter --context";
    cut(m);
    return NULL;
}

void lm_model_close(lm_model *m)
{
    void *all[] = {m->parameters,   m->gradients,    m->x,
                   m->saved,        m->normed,       m->d,
                   m->d_normed,     m->piece.normed, m->piece.d_normed,
                   m->piece.hidden, m->piece.active, m->piece.d_hidden,
                   m->norm_sums,    m->cuts};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lm_give(all[i]);
    ra_layer_free(m->layer);
}
