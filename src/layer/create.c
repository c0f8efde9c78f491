/* SPDX-License-Identifier: Apache-2.0 */
/* A layer is made: options are checked, attention is planned, and the bytes and flops of every pass are counted. */
#include "layer/blas.h"
#include "layer/layer.h"

#include <limits.h>
#include <math.h>
#include <ringattn/transport.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static ra_status check_shape(ra_layer_options *o)
{
    if (o->batch < 0 || o->rows < 0 || o->embed < 1 || o->embed > INT_MAX || o->heads < 1)
        return ra_transport_fail(RA_ERROR_ARGUMENT,
                                 "batch %lld, rows %lld, embed %lld, heads %lld: the first two must be >= 0, the "
                                 "others >= 1, and embed below 2^31",
                                 (long long)o->batch, (long long)o->rows, (long long)o->embed, (long long)o->heads);
    if (o->kv_heads == RA_SAME)
        o->kv_heads = o->heads;
    if (o->kv_heads < 1 || o->heads % o->kv_heads)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "kv_heads %lld: must be >= 1 and divide heads, which is %lld",
                                 (long long)o->kv_heads, (long long)o->heads);
    if (o->head_dim == RA_SAME) {
        if (o->embed % o->heads)
            return ra_transport_fail(RA_ERROR_ARGUMENT,
                                     "embed %lld is no multiple of heads %lld: set head_dim, or change one of them",
                                     (long long)o->embed, (long long)o->heads);
        o->head_dim = o->embed / o->heads;
    }
    if (o->head_dim < 1 || o->head_dim > RA_LAYER_MAX_DIM)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "head_dim %lld: must be 1..%d", (long long)o->head_dim,
                                 RA_LAYER_MAX_DIM);
    double tokens = (double)o->batch * (double)o->rows, width = (double)o->heads * (double)o->head_dim;
    if (tokens > INT_MAX || width > INT_MAX || (tokens + 1) * (width + (double)o->embed) > 0x1p52)
        return ra_transport_fail(RA_ERROR_MEMORY, "%.0f tokens with %lld x %lld: more than a BLAS can address", tokens,
                                 (long long)o->heads, (long long)o->head_dim);
    return RA_OK;
}

/* A flag that is neither 0 nor 1 is most often a struct that was not set up, or a value in the wrong field. */
static ra_status check_flags(const ra_layer_options *o)
{
    const struct {
        const char *name;
        int value;
    } all[] = {{"input_bias", o->input_bias},
               {"output_bias", o->output_bias},
               {"rotary_interleaved", o->rotary_interleaved},
               {"query_key_norm", o->query_key_norm},
               {"output_norm", o->output_norm},
               {"recompute", o->recompute},
               {"keep_memory", o->keep_memory}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value != 0 && all[i].value != 1)
            return ra_transport_fail(RA_ERROR_ARGUMENT, "%s %d: must be 0 or 1", all[i].name, all[i].value);
    return RA_OK;
}

static ra_status check_options(ra_layer_options *o)
{
    ra_status status = check_shape(o);
    if (!status)
        status = check_flags(o);
    if (status)
        return status;
    if (!(o->rotary_base >= 0) || isinf(o->rotary_base) || !(o->rotary_scale > 0) || isinf(o->rotary_scale))
        return ra_transport_fail(RA_ERROR_ARGUMENT,
                                 "rotary_base %g, rotary_scale %g: the base must be 0 (none) or positive, the scale "
                                 "positive",
                                 o->rotary_base, o->rotary_scale);
    if (o->rotary_base > 0 && o->head_dim % 2)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "head_dim %lld is odd: rotary positions turn pairs of elements",
                                 (long long)o->head_dim);
    if (!(o->norm_epsilon >= 0) || isinf(o->norm_epsilon))
        return ra_transport_fail(RA_ERROR_ARGUMENT, "norm_epsilon %g: must be finite and >= 0", o->norm_epsilon);
    if (o->sum_rows < 0)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "sum_rows %lld: must be >= 0", (long long)o->sum_rows);
    if (o->cache < 0 || (o->cache && o->rows > o->cache))
        return ra_transport_fail(RA_ERROR_ARGUMENT, "cache %lld: must be 0 (none) or at least rows, which is %lld",
                                 (long long)o->cache, (long long)o->rows);
    return RA_OK;
}

static void describe_problem(const ra_layer *layer, ra_problem *problem, ra_options *options)
{
    const ra_layer_options *o = &layer->o;
    problem->batch = o->batch, problem->q_len = o->rows, problem->heads = o->heads, problem->kv_heads = o->kv_heads;
    problem->kv_len = o->cache ? o->cache : o->rows;
    problem->head_dim = o->head_dim, problem->scale = o->scale, problem->pattern = o->pattern;
    problem->scores = o->scores, problem->score_arrays = o->score_arrays, problem->key_position = o->first_position;
    options->threads = o->threads;
}

static ra_status make_frequencies(ra_layer *layer)
{
    int64_t half = layer->o.head_dim / 2;
    if (layer->o.rotary_base == 0)
        return RA_OK;
    layer->frequencies = malloc((size_t)half * sizeof(double));
    if (!layer->frequencies)
        return ra_transport_fail(RA_ERROR_MEMORY, "no memory for %lld frequencies", (long long)half);
    for (int64_t i = 0; i < half; i++)
        layer->frequencies[i] =
            pow(layer->o.rotary_base, -2.0 * (double)i / (double)layer->o.head_dim) / layer->o.rotary_scale;
    return RA_OK;
}

/*
 * A BLAS is faster with long blocks; short ones keep more threads busy. It never goes by the number of threads, on
 * which no bit may depend.
 */
enum { SHORT_BLOCK = 256, LONG_BLOCK = 512, MANY_TOKENS = 16384 };

/* Room for the index of each row, in order until a rank says otherwise. */
static ra_status make_rows(ra_layer *layer, int64_t rows)
{
    layer->rows = rows, layer->tokens = layer->o.batch * rows;
    layer->block = layer->tokens < MANY_TOKENS ? SHORT_BLOCK : LONG_BLOCK;
    layer->blocks = (layer->tokens + layer->block - 1) / layer->block;
    layer->q_width = layer->o.heads * layer->o.head_dim, layer->kv_width = layer->o.kv_heads * layer->o.head_dim;
    layer->positions = calloc((size_t)rows + 1, sizeof(int64_t));
    if (!layer->positions)
        return ra_transport_fail(RA_ERROR_MEMORY, "no memory for the positions of %lld rows", (long long)rows);
    for (int64_t i = 0; i < rows; i++)
        layer->positions[i] = i;
    return RA_OK;
}

/* With sum_rows: whether a block ends before this token. */
static bool cut_before(const ra_layer *layer, int64_t token)
{
    int64_t row = token % layer->rows, position = layer->positions[row];
    return row == 0 || position % layer->o.sum_rows == 0 || position != layer->positions[row - 1] + 1;
}

/* With sum_rows, blocks go by positions in the sequence, which are known now. */
static ra_status make_cuts(ra_layer *layer)
{
    if (!layer->o.sum_rows)
        return RA_OK;
    layer->block = layer->o.sum_rows, layer->blocks = 0;
    for (int64_t token = 0; token < layer->tokens; token++)
        layer->blocks += cut_before(layer, token);
    layer->cuts = malloc((size_t)(layer->blocks + 1) * sizeof(int64_t));
    if (!layer->cuts)
        return ra_transport_fail(RA_ERROR_MEMORY, "no memory for %lld blocks of rows", (long long)layer->blocks);
    for (int64_t token = 0, block = 0; token < layer->tokens; token++)
        if (cut_before(layer, token))
            layer->cuts[block++] = token;
    layer->cuts[layer->blocks] = layer->tokens;
    return RA_OK;
}

/* (query, key) pairs of the two passes. On a rank they may differ: a backward pass may go by its keys. */
typedef struct layer_pairs {
    double forward, backward;
} layer_pairs;

static ra_status plan_whole(ra_layer *layer, layer_pairs *pairs)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    describe_problem(layer, &problem, &options);
    ra_plan_info forward = RA_PLAN_INFO_INIT, backward = RA_PLAN_INFO_INIT;
    ra_status status = ra_plan_create(&problem, &options, &layer->plan);
    if (!status)
        status = ra_plan_describe(layer->plan, &forward);
    if (!status && !layer->o.cache)
        status = ra_plan_describe_backward(layer->plan, &backward);
    if (!status)
        status = make_rows(layer, layer->o.rows);
    layer->threads = layer->o.threads ? layer->o.threads : forward.threads;
    layer->attention_forward_bytes = forward.peak_bytes, layer->attention_backward_bytes = backward.peak_bytes;
    pairs->forward = pairs->backward = forward.pairs_visible;
    return status;
}

/* The rank's rows from the plan; queries and keys must be the same ones. */
static ra_status read_rows(ra_layer *layer)
{
    int64_t filled = 0;
    for (int64_t i = 0; filled < layer->rows; i++) {
        ra_piece q, k;
        ra_status status = ra_ring_plan_queries(layer->ring_forward, layer->rank, i, &q);
        if (!status)
            status = ra_ring_plan_keys(layer->ring_forward, layer->rank, i, &k);
        if (status)
            return status;
        if (q.first != k.first || q.end != k.end)
            return ra_transport_fail(
                RA_ERROR_ARGUMENT, "rank %d has queries %lld..%lld and keys %lld..%lld: a layer has both of a row",
                layer->rank, (long long)q.first, (long long)q.end, (long long)k.first, (long long)k.end);
        for (int64_t row = q.first; row < q.end; row++)
            layer->positions[filled++] = row;
    }
    return RA_OK;
}

static ra_status plan_pass(ra_layer *layer, const ra_ring_options *ring, int backward, ra_ring_plan **plan,
                           int64_t *bytes, ra_rank_info *info)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    describe_problem(layer, &problem, &options);
    ra_ring_options pass = *ring;
    pass.rank = layer->rank < 0 ? RA_ALL_RANKS : layer->rank;
    pass.lent = 1, pass.backward = backward, pass.gradients = 7, pass.lse = 1, pass.d_lse = 0;
    pass.q_dtype = pass.k_dtype = pass.v_dtype = pass.o_dtype = RA_F32;
    pass.d_output_dtype = pass.d_q_dtype = pass.d_k_dtype = pass.d_v_dtype = RA_F32;
    ra_status status = ra_ring_plan_create(&problem, &options, &pass, plan);
    if (!status)
        status = ra_ring_plan_rank(*plan, layer->rank < 0 ? 0 : layer->rank, info);
    if (!status)
        *bytes = layer->rank < 0 ? ra_ring_plan_process_bytes(*plan) : info->peak_bytes;
    return status;
}

/* Whether any of the texts' terms is one of those that go by index: the rows of a rank alone would begin at 0. */
static bool goes_by_index(const ra_layer_options *o)
{
    static const char *const TERMS[] = {"documents", "lengths", "mask", "blocks", "bias"};
    for (size_t i = 0; i < sizeof TERMS / sizeof *TERMS; i++)
        if ((o->pattern && strstr(o->pattern, TERMS[i])) || (o->scores && strstr(o->scores, TERMS[i])))
            return true;
    return false;
}

static bool nothing_travels(const ra_ring_plan *plan, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        ra_rank_info info = RA_RANK_INFO_INIT;
        if (ra_ring_plan_rank(plan, rank, &info) || info.bytes_sent || info.bytes_received)
            return false;
    }
    return true;
}

/*
 * Whether no row sees a key of another rank, as in segments and windows that ranks do not divide. Then each rank has a
 * problem of its own, without the chunks and row states of a ring. All ranks must answer the same, so nothing here
 * depends on which one this is. With broadcast the bits are those of the whole problem, which a part may not have.
 */
static bool each_alone(const ra_layer *layer, const ra_ring_options *ring)
{
    const ra_score_arrays *arrays = layer->o.score_arrays;
    bool summed = arrays && (arrays->d_slopes || arrays->d_table || arrays->d_bias || arrays->d_sinks);
    return layer->rank >= 0 && ring->strategy == RA_STRATEGY_RING && ring->order == RA_ORDER_CONTIGUOUS &&
           !ring->q_pieces && !ring->kv_pieces && !ring->watch && !summed && !goes_by_index(&layer->o) &&
           nothing_travels(layer->ring_forward, ring->ranks) && nothing_travels(layer->ring_back, ring->ranks);
}

/* The rank's rows as a problem of their own, at their true positions. */
static ra_status plan_alone(ra_layer *layer, layer_pairs *pairs)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    ra_plan_info forward = RA_PLAN_INFO_INIT, backward = RA_PLAN_INFO_INIT;
    describe_problem(layer, &problem, &options);
    problem.q_len = problem.kv_len = layer->rows;
    problem.key_position += layer->rows ? layer->positions[0] : 0;
    options.threads = layer->threads;
    ra_status status = ra_plan_create(&problem, &options, &layer->plan);
    if (!status)
        status = ra_plan_describe(layer->plan, &forward);
    if (!status)
        status = ra_plan_describe_backward(layer->plan, &backward);
    if (!status && forward.pairs_visible != pairs->forward)
        return ra_transport_fail(RA_ERROR_INTERNAL, "rank %d: %.0f pairs by themselves, %.0f as a part of the whole",
                                 layer->rank, forward.pairs_visible, pairs->forward);
    pairs->backward = pairs->forward;
    layer->attention_forward_bytes = forward.peak_bytes, layer->attention_backward_bytes = backward.peak_bytes;
    ra_ring_plan_free(layer->ring_forward);
    ra_ring_plan_free(layer->ring_back);
    layer->ring_forward = layer->ring_back = NULL;
    return status;
}

static ra_status plan_rank(ra_layer *layer, const ra_ring_options *ring, layer_pairs *pairs)
{
    ra_rank_info forward = RA_RANK_INFO_INIT, backward = RA_RANK_INFO_INIT;
    ra_plan_info whole = RA_PLAN_INFO_INIT;
    layer->ranks = ring->ranks;
    layer->rank = ring->transport == RA_TRANSPORT_SIM ? -1 : ra_comm_rank(layer->comm);
    ra_status status = plan_pass(layer, ring, 0, &layer->ring_forward, &layer->attention_forward_bytes, &forward);
    if (!status)
        status = plan_pass(layer, ring, 1, &layer->ring_back, &layer->attention_backward_bytes, &backward);
    if (!status)
        status = ra_plan_describe(ra_ring_plan_problem(layer->ring_forward), &whole);
    if (!status)
        status = make_rows(layer, layer->rank < 0 ? layer->o.rows : forward.q_rows);
    if (!status && layer->rank >= 0)
        status = read_rows(layer);
    int share = layer->rank < 0 ? whole.threads : whole.threads / layer->ranks;
    layer->threads = layer->o.threads ? layer->o.threads : share > 1 ? share : 1;
    pairs->forward = layer->rank < 0 ? whole.pairs_visible : forward.pairs_visible;
    pairs->backward = layer->rank < 0 ? whole.pairs_visible : backward.pairs_visible;
    if (!status && each_alone(layer, ring))
        status = plan_alone(layer, pairs);
    return status;
}

static void count(ra_layer *layer, const layer_pairs *pairs)
{
    ra_layer_kept kept = {{NULL, NULL, NULL}, NULL, NULL};
    ra_layer_forward_parts forward;
    ra_layer_backward_parts backward;
    ra_arena plain = {NULL, 0, 0}, training = plain, back = plain;
    ra_layer_forward_take(layer, &plain, NULL, &forward);
    ra_layer_forward_take(layer, &training, &kept, &forward);
    ra_layer_backward_take(layer, &back, &kept, &backward);
    double inputs =
        2.0 * (double)layer->tokens * (double)layer->o.embed * (double)(layer->q_width + 2 * layer->kv_width);
    double outputs = 2.0 * (double)layer->tokens * (double)layer->o.embed * (double)layer->q_width;
    double dim = (double)layer->o.head_dim;
    ra_layer_info info = RA_LAYER_INFO_INIT;
    info.threads = layer->threads, info.rows = layer->rows;
    info.layer_bytes = (int64_t)sizeof *layer + (layer->spare ? (int64_t)sizeof *layer->spare : 0) +
                       (layer->rows + 1 + (layer->cuts ? layer->blocks + 1 : 0)) * (int64_t)sizeof(int64_t) +
                       (layer->turns ? (layer->rows * layer->o.head_dim + 1) * (int64_t)sizeof(float) : 0) +
                       (layer->frequencies ? layer->o.head_dim / 2 * (int64_t)sizeof(double) : 0);
    info.saved_bytes = layer->o.cache ? 0 : ra_layer_kept_parts(layer, NULL, &kept);
    info.forward_bytes = plain.used + layer->attention_forward_bytes;
    info.training_bytes = layer->o.cache ? 0 : training.used + layer->attention_forward_bytes;
    info.backward_bytes = layer->o.cache ? 0 : back.used + layer->attention_backward_bytes;
    info.forward_flops = inputs + outputs + 4 * dim * pairs->forward;
    info.backward_flops =
        layer->o.cache ? 0 : (layer->o.recompute ? 3 : 2) * inputs + 2 * outputs + 10 * dim * pairs->backward;
    layer->info = info;
}

static ra_status make(const ra_layer_options *options, const ra_ring_options *ring, ra_comm *comm, ra_layer **made)
{
    if (!made)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "there is no place for the layer: NULL");
    *made = NULL;
    ra_layer *layer = calloc(1, sizeof *layer);
    if (!layer)
        return ra_transport_fail(RA_ERROR_MEMORY, "no memory for a layer");
    layer->o = (ra_layer_options)RA_LAYER_OPTIONS_INIT, layer->comm = comm;
    layer_pairs pairs = {0, 0};
    ra_status status = ra_blas_check();
    if (!status)
        status = ra_layer_copy_in(&layer->o, options, &ra_layer_sized_options);
    if (!status)
        status = check_options(&layer->o);
    if (!status && ring && layer->o.cache)
        status = ra_transport_fail(RA_ERROR_UNSUPPORTED, "cache %lld: a layer on a rank has none",
                                   (long long)layer->o.cache);
    if (!status)
        status = make_frequencies(layer);
    if (!status && layer->o.keep_memory) {
        layer->spare = ra_arena_spare_create();
        status = layer->spare ? RA_OK : ra_transport_fail(RA_ERROR_MEMORY, "no memory for a layer");
    }
    if (!status)
        status = ring ? plan_rank(layer, ring, &pairs) : plan_whole(layer, &pairs);
    if (!status)
        status = make_cuts(layer);
    if (!status)
        status = ra_rotary_prepare(layer);
    if (status) {
        ra_layer_free(layer);
        return status;
    }
    layer->o.pattern = layer->o.scores = NULL, layer->o.score_arrays = NULL;
    count(layer, &pairs);
    *made = layer;
    return RA_OK;
}

ra_status ra_layer_create(const ra_layer_options *options, ra_layer **layer)
{
    return make(options, NULL, NULL, layer);
}

/* Ring options of this version's size, from those of a caller with this version's header or an older one. */
static ra_status copy_ring(const ra_ring_options *theirs, ra_ring_options *ours)
{
    ra_status status = ra_ring_options_init(ours, sizeof *ours);
    if (status)
        return status;
    if (theirs->size > sizeof *ours)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "ra_ring_options: size %zu: set the struct up with %s",
                                 theirs->size, "RA_RING_OPTIONS_INIT");
    status = ra_ring_options_init(ours, theirs->size); /* which refuses a size that no version has had */
    if (status)
        return status;
    status = ra_ring_options_init(ours, sizeof *ours);
    memcpy((char *)ours + sizeof ours->size, (const char *)theirs + sizeof theirs->size,
           theirs->size - sizeof theirs->size);
    return status;
}

ra_status ra_layer_create_on_rank(const ra_layer_options *options, const ra_ring_options *ring, ra_comm *comm,
                                  ra_layer **layer)
{
    if (!ring || !comm)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "a layer on a rank needs ring options and a communicator: NULL");
    ra_ring_options ours;
    ra_status status = copy_ring(ring, &ours);
    if (status)
        return status;
    if (ours.ranks != ra_comm_ranks(comm))
        return ra_transport_fail(RA_ERROR_ARGUMENT, "ring options have %d ranks, the communicator %d", ours.ranks,
                                 ra_comm_ranks(comm));
    return make(options, &ours, comm, layer);
}

void ra_layer_free(ra_layer *layer)
{
    if (!layer)
        return;
    ra_plan_free(layer->plan);
    ra_ring_plan_free(layer->ring_forward);
    ra_ring_plan_free(layer->ring_back);
    ra_arena_spare_free(layer->spare);
    free(layer->frequencies);
    free(layer->positions);
    free(layer->turns);
    free(layer->cuts);
    free(layer);
}
