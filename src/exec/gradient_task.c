/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task of a backward pass: a query tile against its key blocks, one after the other. A unit is a group of one query
 * head, packed twice: with rows in the lanes for the products by keys, with columns in the lanes for those that are
 * summed over rows. The sums of a key block are taken from where they lie when the task before has left them, and put
 * back before the next task may have them.
 *
 *     scratch   unit | unit | ... | block | block | ... | sums | ... | staging | weights | d_scores | rows | groups |
 *               sieve | lo | hi | seen | stage | cap_slope | score sums
 *     unit      query | d_output | query columns | d_output columns | lse | rest | delta | d_query
 *     block     key | value | panels
 *     sums      d_key | d_value
 */
#include "exec/gradient_worker.h"

#include "base/checked.h"
#include "base/memory.h"
#include "base/tensor.h"
#include "plan/curve.h"
#include "score/scores.h"

#include <math.h>
#include <string.h>

/* A group of one head, packed. */
typedef struct unit {
    float *query, *d_output, *query_columns, *d_output_columns, *lse, *lse_rest, *delta, *d_query;
} unit;

/* A block of keys, packed, with its sums. */
typedef struct gradient_block {
    ra_key_block from;
    int64_t index[RA_KEY_BLOCK]; /* of its rows, where `from` has one */
    const float *key, *value;
    int64_t key_stride, value_stride;
    float *widened_key, *widened_value; /* NULL: read in place */
    float *panels, *d_key, *d_value;
    int packed; /* rows of the block so far */
    bool guard;
} gradient_block;

/* Blocks at a time: those of a square, or one that is worked and the one ahead. */
enum { PLACES = RA_SUPER_TILE };
_Static_assert(PLACES >= 2, "the block ahead needs a place of its own");

typedef struct gradient_task {
    ra_gradient_worker *worker;
    const ra_claim *claim;
    int64_t batch, kv_head;
    ra_gradient_tile tile;
    int64_t head_stride, value_stride; /* floats of a row of packed columns and sums */
    uint64_t guards;                   /* units with elements that are not finite: bit unit % 64 */
    int32_t *lo, *hi;
    uint64_t *seen;
    float *staging;
    ra_tiles tiles;
    ra_key_walk walk;
    ra_gradient_call call; /* what is the same for every tile is set once */
    bool scored;           /* scores have a stage: */
    ra_score_tiles stages;
    ra_array_task array_sums; /* of the task, if the run has such sums */
    int64_t rows[RA_LANES_MOST];
    gradient_block blocks[PLACES];
    ra_key_block ahead; /* the block after those that are worked, */
    bool more;          /* if there is one, */
    int ahead_number;   /* its place, */
    int portion;        /* and the rows of it that are packed after each group */
} gradient_task;

/* ---- Scratch ----------------------------------------------------------------------------------------------------- */

static int64_t in_vectors(const ra_plan *p, int64_t dim)
{
    int64_t width = p->blocking.lanes - p->blocking.narrow;
    return ra_ceil_div(dim, width) * width;
}

static void lay_out_block(ra_gradient_scratch *s, const ra_plan *p)
{
    int64_t row = RA_KEY_BLOCK * (int64_t)sizeof(float);
    s->key = ra_scratch_place(&s->block_bytes, row * p->head_dim);
    s->value = ra_scratch_place(&s->block_bytes, row * p->value_dim);
    s->panels = ra_scratch_place(&s->block_bytes, row * ra_ceil_div(p->head_dim, RA_PANEL) * RA_PANEL);
    s->d_key = ra_scratch_place(&s->sum_bytes, row * in_vectors(p, p->head_dim));
    s->d_value = ra_scratch_place(&s->sum_bytes, row * in_vectors(p, p->value_dim));
}

static bool has_softcap(const ra_plan *p)
{
    for (int i = 0; p->scores && i < p->scores->count; i++)
        if (p->scores->terms[i] == RA_SCORE_SOFTCAP)
            return true;
    return false;
}

static void lay_out_scores(ra_gradient_scratch *s, const ra_plan *p, const ra_workload *w)
{
    int64_t lanes = w->grouping.lanes;
    if (!ra_scores_staged(p->scores))
        return;
    s->stage = ra_scratch_place(&s->bytes, ra_score_tiles_bytes(p, (int)lanes, w->tile_units * w->task_heads));
    s->cap_slope = ra_scratch_place(&s->bytes, has_softcap(p) ? RA_KEY_BLOCK * lanes * (int64_t)sizeof(float) : 0);
    s->array_sum_bytes = ra_array_task_bytes(p, w->task_heads);
    s->array_sums = ra_scratch_place(&s->bytes, s->array_sum_bytes);
}

ra_gradient_scratch ra_gradient_lay_out_scratch(const ra_plan *p, const ra_workload *w)
{
    enum { ARRAYS = 8 }; /* of a unit, each with a gap */
    ra_gradient_scratch s = {0};
    int64_t lanes = w->grouping.lanes, f = sizeof(float);
    if (w->groups == 0)
        return s;
    s.unit_bytes = ra_memory_rounded(ra_gradient_unit_floats(p) * f) + ARRAYS * 256;
    lay_out_block(&s, p);
    s.units = ra_scratch_place(&s.bytes, s.unit_bytes * w->tile_units * w->task_heads);
    s.blocks = ra_scratch_place(&s.bytes, s.block_bytes * ra_max(2, w->blocks));
    s.sums = ra_scratch_place(&s.bytes, s.sum_bytes * w->blocks);
    s.staging = ra_scratch_place(&s.bytes, (int64_t)RA_KEY_BLOCK * ra_max(p->head_dim, p->value_dim) * f);
    s.weights = ra_scratch_place(&s.bytes, RA_KEY_BLOCK * lanes * f);
    s.d_scores = ra_scratch_place(&s.bytes, RA_KEY_BLOCK * lanes * f);
    s.rows = ra_scratch_place(&s.bytes, w->tile_units * lanes * (int64_t)sizeof(ra_interval));
    s.groups = ra_scratch_place(&s.bytes, w->tile_units * (int64_t)sizeof(ra_group_bounds));
    s.sieve = ra_scratch_place(&s.bytes, ra_sieve_bytes(&p->pattern, (int)lanes, w->tile_units));
    s.lo = ra_scratch_place(&s.bytes, lanes * (int64_t)sizeof(int32_t));
    s.hi = ra_scratch_place(&s.bytes, lanes * (int64_t)sizeof(int32_t));
    s.seen = ra_scratch_place(&s.bytes, RA_KEY_BLOCK * (int64_t)sizeof(uint64_t));
    lay_out_scores(&s, p, w);
    return s;
}

int64_t ra_gradient_scratch_bytes(const ra_plan *p, const ra_workload *w)
{
    return ra_gradient_lay_out_scratch(p, w).bytes + (int64_t)sizeof(ra_post);
}

static float *take(char **at, int64_t floats)
{
    enum { GAP = 192 };
    float *array = (float *)*at;
    *at += ra_memory_rounded(floats * (int64_t)sizeof(float)) + GAP;
    return array;
}

static unit unit_at(const gradient_task *t, int64_t number)
{
    const ra_gradient_worker *w = t->worker;
    const ra_plan *p = w->run->plan;
    int64_t lanes = w->run->work->grouping.lanes;
    char *at = w->scratch + w->layout->units + number * w->layout->unit_bytes;
    unit u;
    u.query = take(&at, lanes * p->head_dim);
    u.d_output = take(&at, lanes * p->value_dim);
    u.query_columns = take(&at, lanes * t->head_stride);
    u.d_output_columns = take(&at, lanes * t->value_stride);
    u.lse = take(&at, lanes);
    u.lse_rest = take(&at, lanes);
    u.delta = take(&at, lanes);
    u.d_query = take(&at, ra_group_state_floats(lanes, p->head_dim));
    return u;
}

static void begin_scores(gradient_task *t, const ra_plan *p)
{
    const ra_gradient_worker *w = t->worker;
    t->scored = ra_scores_staged(p->scores);
    if (!t->scored)
        return;
    const ra_workload *work = w->run->work;
    ra_score_tiles_begin(&t->stages, p, w->run->kernel, t->batch, work->grouping.lanes,
                         work->tile_units * work->task_heads, w->scratch + w->layout->stage);
    ra_array_task_begin(&t->array_sums, p, w->run->array_sums, t->batch, t->tile.first_head, t->tile.heads,
                        w->scratch + w->layout->array_sums);
    t->call.cap_slope = has_softcap(p) ? (float *)(w->scratch + w->layout->cap_slope) : NULL;
}

static void begin(gradient_task *t, ra_gradient_worker *w, const ra_claim *claim)
{
    const ra_gradient_run *run = w->run;
    const ra_plan *p = run->plan;
    const ra_gradient_scratch *s = w->layout;
    t->worker = w;
    t->claim = claim;
    t->batch = claim->chain / p->kv_heads;
    t->kv_head = claim->chain % p->kv_heads;
    t->tile = ra_gradient_tile_at(run->work, p, t->kv_head, claim->in_chain);
    t->head_stride = in_vectors(p, p->head_dim);
    t->value_stride = in_vectors(p, p->value_dim);
    t->guards = 0;
    t->lo = (int32_t *)(w->scratch + s->lo);
    t->hi = (int32_t *)(w->scratch + s->hi);
    t->seen = (uint64_t *)(w->scratch + s->seen);
    t->staging = (float *)(w->scratch + s->staging);
    t->call = (ra_gradient_call){
        .head_dim = p->head_dim, .value_dim = p->value_dim, .query_factor = p->query_factor, .factor = p->score_factor};
    t->call.scale = (float)p->scale;
    t->call.weights = (float *)(w->scratch + s->weights);
    t->call.d_scores = (float *)(w->scratch + s->d_scores);
    begin_scores(t, p);
}

/* ---- Queries ----------------------------------------------------------------------------------------------------- */

/* The tensors of the chain's query rows, and which of their heads a query head is. */
typedef struct query_tensors {
    int64_t number, head;
} query_tensors;

static query_tensors tensors_of(const gradient_task *t, int64_t head)
{
    const ra_query_rows *q = &t->worker->run->queries;
    if (!q->words || !q->head_words)
        return (query_tensors){0, head};
    return (query_tensors){t->kv_head, head % t->worker->run->plan->group_heads};
}

/* The row of a query that is in the share, in tensors that have some rows alone; -1: it is not here. */
static int64_t marked_row(const gradient_task *t, int64_t query)
{
    const ra_query_rows *q = &t->worker->run->queries;
    ra_range range = ra_share_range(&q->share, ra_share_find(&q->share, query));
    int64_t word = range.block + query / RA_KEY_BLOCK - range.first / RA_KEY_BLOCK + t->kv_head * q->head_words;
    uint64_t bit = UINT64_C(1) << (query % RA_KEY_BLOCK);
    return q->words[word] & bit ? q->before[word] + __builtin_popcountll(q->words[word] & (bit - 1)) : -1;
}

/* Where the rows of a group are; true if they lie one after the other. */
static bool find_rows(gradient_task *t, const ra_members *m)
{
    const ra_query_rows *q = &t->worker->run->queries;
    bool plain = ra_lattice_plain(&t->tiles.lattice) && !q->words;
    for (int i = 0; i < m->rows; i++) {
        int64_t row = ra_member_row(m, &t->tiles.lattice, t->worker->run->plan->offset, i);
        int64_t query = m->query + row - m->row;
        t->rows[i] = q->words ? marked_row(t, query) : q->whole ? query : row;
    }
    return plain;
}

static ra_rows rows_of(const gradient_task *t, const ra_tensor *tensors, query_tensors at, bool plain)
{
    ra_rows rows = ra_rows_at(tensors + at.number, t->batch, plain ? t->rows[0] : 0, at.head);
    rows.index = plain ? NULL : t->rows;
    return rows;
}

/*
 * The log-sum-exp in base 2 as a sum of two floats, so that scores near to it keep all their digits; and delta, times
 * scale unless scores have a stage. If all scores of a row are the lowest there are, its log-sum-exp does not
 * determine its weights: the row gives no gradients.
 */
static void pack_statistics(const gradient_task *t, const unit *u, query_tensors at, int rows)
{
    const double log2e = 1.44269504088896340736, lowest = -0x1p127;
    const ra_gradient_run *run = t->worker->run;
    const ra_tensor *lse = run->queries.lse + at.number, *delta = run->queries.delta + at.number;
    const double scale = t->scored ? 1 : run->plan->scale;
    for (int i = 0; i < run->work->grouping.lanes; i++) {
        bool here = i < rows && t->rows[i] >= 0;
        double both = here ? ra_tensor_get(lse, t->batch, t->rows[i], at.head, 0) * log2e : 0;
        both = t->scored && both < lowest ? INFINITY : both;
        u->lse[i] = (float)both;
        u->lse_rest[i] = isfinite(both) ? (float)(both - (double)u->lse[i]) : 0;
        u->delta[i] = here ? (float)(ra_tensor_get(delta, t->batch, t->rows[i], at.head, 0) * scale) : 0;
    }
}

/* The rows of a group in d_q, of one head. */
static ra_rows d_query_rows(const gradient_task *t, int64_t head, bool plain)
{
    const ra_gradient_run *run = t->worker->run;
    int64_t heads = run->plan->group_heads;
    ra_rows rows = rows_of(t, run->queries.d_q, tensors_of(t, head), plain);
    if (run->d_q_slots)
        rows.data = ra_tensor_at(run->queries.d_q, 0, plain ? t->rows[0] : 0,
                                 t->claim->chain % run->slots * heads + head % heads, 0);
    return rows;
}

/*
 * Whether rows of d_q go on from the sums that are there, key block after key block, as if all keys were here. Several
 * branches of a row may be worked at the same time: those start from zero, and are added in their order.
 */
static bool goes_on(const ra_gradient_run *run)
{
    return !run->finish && !run->plan->pattern.dilation;
}

static void start_sums(const gradient_task *t, const unit *u, int64_t head, int rows, bool plain)
{
    const ra_gradient_run *run = t->worker->run;
    int64_t lanes = run->work->grouping.lanes;
    memset(u->d_query, 0, (size_t)ra_group_state_floats(lanes, run->plan->head_dim) * sizeof *u->d_query);
    if (!goes_on(run))
        return;
    ra_rows sums = d_query_rows(t, head, plain);
    run->kernel->turn_rows(&sums, rows, run->plan->head_dim, 1.0f, u->d_query + 2 * lanes);
}

static void pack_unit(gradient_task *t, int64_t number, int64_t head, const ra_members *m)
{
    const ra_gradient_run *run = t->worker->run;
    const ra_plan *p = run->plan;
    const unit u = unit_at(t, number);
    bool plain = find_rows(t, m);
    query_tensors at = tensors_of(t, head);
    ra_rows query = rows_of(t, run->queries.q, at, plain), d_output = rows_of(t, run->queries.d_output, at, plain);
    run->kernel->pack_query(&query, m->rows, p->head_dim, p->query_factor, u.query);
    run->kernel->pack_query(&d_output, m->rows, p->value_dim, 1.0f, u.d_output);
    bool finite = run->kernel->pack_columns(&query, m->rows, p->head_dim, u.query_columns);
    finite &= run->kernel->pack_columns(&d_output, m->rows, p->value_dim, u.d_output_columns);
    t->guards |= (uint64_t)!finite << (number % 64);
    pack_statistics(t, &u, at, m->rows);
    if (run->queries.d_q)
        start_sums(t, &u, head, m->rows, plain);
}

static ra_members_walk members_of(const gradient_task *t)
{
    const ra_workload *work = t->worker->run->work;
    return ra_members_begin(&work->queries, &work->grouping, t->tiles.lattice, t->tile.first_group, t->tile.groups);
}

static void pack_units(gradient_task *t)
{
    const ra_gradient_worker *w = t->worker;
    const ra_gradient_scratch *s = w->layout;
    const ra_workload *work = w->run->work;
    const ra_tiles_memory memory = {(ra_interval *)(w->scratch + s->rows), (ra_group_bounds *)(w->scratch + s->groups),
                                    w->scratch + s->sieve, work->tile_units};
    ra_tiles_begin(&t->tiles, &w->run->plan->pattern, t->tile.first_head, t->tile.branch, work->grouping.lanes,
                   &memory);
    ra_members_walk walk = members_of(t);
    for (ra_members m; ra_members_next(&walk, &m);) {
        for (int64_t head = 0; head < t->tile.heads; head++)
            pack_unit(t, t->tiles.group_count * t->tile.heads + head, t->tile.first_head + head, &m);
        ra_tiles_add(&t->tiles, m.member, m.rows);
    }
}

/* Write the rows of d_q, or add to them. */
static void finish_units(gradient_task *t)
{
    const ra_gradient_run *run = t->worker->run;
    ra_members_walk walk = members_of(t);
    int64_t lanes = run->work->grouping.lanes, number = 0;
    for (ra_members m; ra_members_next(&walk, &m);) {
        bool plain = find_rows(t, &m);
        for (int64_t head = 0; head < t->tile.heads; head++, number++) {
            ra_rows rows = d_query_rows(t, t->tile.first_head + head, plain);
            const float *acc = unit_at(t, number).d_query + 2 * lanes;
            (run->finish || goes_on(run) ? run->kernel->store_group
                                         : run->kernel->add_group)(acc, m.rows, run->plan->head_dim, &rows);
        }
    }
}

/* ---- Keys and values --------------------------------------------------------------------------------------------- */

/*
 * Whether rows are read where they lie: whole units of RA_F32, one row right after the other. Rows that are far apart
 * are in a page each, and all groups of all heads would go through these pages.
 */
static bool in_place(const ra_kernel *kernel, const ra_rows *rows, const ra_block *b, int dim)
{
    return kernel->pair == 1 && !b->skip && b->rows % RA_KEY_UNIT == 0 && !rows->index && rows->dtype == RA_F32 &&
           rows->dim_stride == 1 && rows->row_stride == dim;
}

/* Zeros in rows of a packed block that are not there, as far as a tile can reach. */
static void clear_edges(const ra_block *b, int64_t places, float *rows)
{
    int64_t end = ra_ceil_div(b->rows, RA_KEY_UNIT) * RA_KEY_UNIT;
    memset(rows, 0, (size_t)(b->skip * places) * sizeof *rows);
    memset(rows + b->rows * places, 0, (size_t)((end - b->rows) * places) * sizeof *rows);
}

/* Where the keys and values of a block will be; `sums` is the place of its sums. */
static void place_block(gradient_task *t, const ra_key_block *from, int number, int64_t sums)
{
    const ra_gradient_run *run = t->worker->run;
    const ra_plan *p = run->plan;
    const ra_gradient_scratch *s = t->worker->layout;
    char *at = t->worker->scratch + s->blocks + number * s->block_bytes;
    char *sums_at = t->worker->scratch + s->sums + sums * s->sum_bytes;
    gradient_block *b = &t->blocks[number];
    b->from = *from;
    if (from->index) {
        memcpy(b->index, from->index, sizeof b->index);
        b->from.index = b->index;
    }
    ra_rows key = ra_block_rows(from->k, t->batch, &b->from), value = ra_block_rows(from->v, t->batch, &b->from);
    b->widened_key = in_place(run->kernel, &key, &from->block, p->head_dim) ? NULL : (float *)(at + s->key);
    b->widened_value = in_place(run->kernel, &value, &from->block, p->value_dim) ? NULL : (float *)(at + s->value);
    b->key = b->widened_key ? b->widened_key : key.data;
    b->value = b->widened_value ? b->widened_value : value.data;
    b->key_stride = ra_words(run->kernel, p->head_dim);
    b->value_stride = ra_words(run->kernel, p->value_dim);
    if (b->widened_key)
        clear_edges(&from->block, b->key_stride, b->widened_key);
    if (b->widened_value)
        clear_edges(&from->block, b->value_stride, b->widened_value);
    b->panels = (float *)(at + s->panels);
    b->d_key = run->keys.d_k ? (float *)(sums_at + s->d_key) : NULL;
    b->d_value = run->keys.d_v ? (float *)(sums_at + s->d_value) : NULL;
    b->packed = 0;
    b->guard = false;
}

/* Rows first .. end - 1 of a block, packed in memory of their own. */
static void widen(const ra_kernel *kernel, ra_rows rows, int skip, int first, int end, int dim, float *to)
{
    first = (int)ra_max(first, skip);
    if (first >= end)
        return;
    if (rows.index)
        rows.index += first - skip;
    else
        rows.data = (const char *)rows.data + (first - skip) * rows.row_stride * (int64_t)ra_dtype_size(rows.dtype);
    kernel->pack_key(&rows, end - first, dim, to + (int64_t)first * ra_words(kernel, dim));
}

/* Pack the rows of a block up to `end`, a multiple of RA_KEY_UNIT or the end of the block. */
static void pack_until(gradient_task *t, gradient_block *b, int end)
{
    const ra_gradient_run *run = t->worker->run;
    const ra_plan *p = run->plan;
    int first = b->packed, skip = b->from.block.skip;
    if (first >= end)
        return;
    if (b->widened_key)
        widen(run->kernel, ra_block_rows(b->from.k, t->batch, &b->from), skip, first, end, p->head_dim, b->widened_key);
    if (b->widened_value)
        widen(run->kernel, ra_block_rows(b->from.v, t->batch, &b->from), skip, first, end, p->value_dim,
              b->widened_value);
    const ra_rows rows = ra_rows_of_words(run->kernel, b->key + first * b->key_stride, b->key_stride);
    if (run->queries.d_q && !run->kernel->pack_value(&rows, end - first, p->head_dim, t->staging,
                                                     b->panels + (ptrdiff_t)(first / run->kernel->pair) * RA_PANEL))
        b->guard = true;
    b->packed = end;
}

/* ---- Sums of keys and values ------------------------------------------------------------------------------------- */

/* The sums of a block where they lie: `sums` are of the rows that are in `like`, the block's, out of `first`. */
static ra_rows sums_at(const gradient_task *t, const ra_tensor *sums, const ra_tensor *like, const ra_tensor *first,
                       const ra_key_block *b)
{
    const ra_gradient_run *run = t->worker->run;
    ra_key_block from = *b;
    if (run->slots == 0)
        return ra_block_rows(sums + (like - first), t->batch, &from);
    from.head = t->claim->chain % run->slots;
    return ra_block_rows(sums, 0, &from);
}

static float *sum_row(const ra_rows *sums, int row)
{
    int64_t at = sums->index ? sums->index[row] : row;
    return at < 0 ? NULL : (float *)sums->data + at * sums->row_stride;
}

static void load_sums(const ra_rows *sums, const ra_block *b, int64_t dim, int64_t stride, float *to)
{
    for (int i = 0; i < RA_KEY_BLOCK; i++, to += stride) {
        const float *from = i < b->skip || i >= b->rows ? NULL : sum_row(sums, i - b->skip);
        int64_t d = 0;
        if (from && sums->dim_stride == 1)
            memcpy(to, from, (size_t)dim * sizeof *to), d = dim;
        for (; from && d < dim; d++)
            to[d] = from[d * sums->dim_stride];
        memset(to + d, 0, (size_t)(stride - d) * sizeof *to);
    }
}

static void store_sums(const ra_rows *sums, const ra_block *b, int64_t dim, int64_t stride, const float *from)
{
    for (int i = b->skip; i < b->rows; i++) {
        float *to = sum_row(sums, i - b->skip);
        if (to && sums->dim_stride == 1)
            memcpy(to, from + i * stride, (size_t)dim * sizeof *to);
        else
            for (int64_t d = 0; to && d < dim; d++)
                to[d * sums->dim_stride] = from[i * stride + d];
    }
}

/* The sums of a block from where they lie, or back. */
static void move_sums(gradient_task *t, gradient_block *b, bool back)
{
    const ra_gradient_run *run = t->worker->run;
    const ra_key_rows *k = &run->keys;
    const ra_plan *p = run->plan;
    if (b->d_key) {
        ra_rows sums = sums_at(t, k->d_k, b->from.k, k->keys.k, &b->from);
        if (back)
            store_sums(&sums, &b->from.block, p->head_dim, t->head_stride, b->d_key);
        else
            load_sums(&sums, &b->from.block, p->head_dim, t->head_stride, b->d_key);
    }
    if (b->d_value) {
        ra_rows sums = sums_at(t, k->d_v, b->from.v, k->keys.v, &b->from);
        if (back)
            store_sums(&sums, &b->from.block, p->value_dim, t->value_stride, b->d_value);
        else
            load_sums(&sums, &b->from.block, p->value_dim, t->value_stride, b->d_value);
    }
}

/* ---- The block ahead --------------------------------------------------------------------------------------------- */

/* Ask for rows first .. end - 1 of a block. */
static void fetch_rows(const ra_rows *rows, const ra_block *b, int64_t dim, int first, int end)
{
    enum { LINE = 64 };
    int64_t size = (int64_t)ra_dtype_size(rows->dtype);
    for (int i = (int)ra_max(first, b->skip); i < end; i++) {
        int64_t at = rows->index ? rows->index[i - b->skip] : i - b->skip;
        const char *row = (const char *)rows->data + at * rows->row_stride * size;
        for (int64_t byte = 0; at >= 0 && byte < dim * size; byte += LINE)
            __builtin_prefetch(row + byte, 0, 2);
    }
}

/* The next block that some group needs becomes the block ahead. In a square it has no place until it is taken. */
static void find_ahead(gradient_task *t, int number)
{
    const ra_workload *work = t->worker->run->work;
    t->more = ra_key_walk_next(&t->walk, &t->ahead);
    t->ahead_number = number;
    t->portion = (int)(ra_ceil_div(ra_ceil_div(RA_KEY_BLOCK, RA_KEY_UNIT), t->tiles.group_count) * RA_KEY_UNIT);
    if (t->more && work->blocks == 1)
        place_block(t, &t->ahead, number, 0);
}

/*
 * A few rows of the block ahead are asked for before each group, and packed after it. Asked for all at once, rows that
 * are a power of two apart would drive each other out of the second-level cache.
 */
static void fetch_portion(const gradient_task *t)
{
    const gradient_block *b = &t->blocks[t->ahead_number];
    if (!t->more || t->worker->run->work->blocks > 1)
        return;
    int end = (int)ra_min(b->from.block.rows, b->packed + t->portion);
    ra_rows key = ra_block_rows(b->from.k, t->batch, &b->from), value = ra_block_rows(b->from.v, t->batch, &b->from);
    fetch_rows(&key, &b->from.block, t->call.head_dim, b->packed, end);
    fetch_rows(&value, &b->from.block, t->call.value_dim, b->packed, end);
}

static void pack_portion(gradient_task *t)
{
    gradient_block *b = &t->blocks[t->ahead_number];
    if (t->more && t->worker->run->work->blocks == 1)
        pack_until(t, b, (int)ra_min(b->from.block.rows, b->packed + t->portion));
}

/* The sums of the block ahead are asked for last. */
static void fetch_sums(const gradient_task *t)
{
    const ra_key_rows *k = &t->worker->run->keys;
    const ra_key_block *b = &t->blocks[t->ahead_number].from;
    if (!t->more || t->worker->run->work->blocks > 1)
        return;
    if (k->d_k) {
        ra_rows sums = sums_at(t, k->d_k, b->k, k->keys.k, b);
        fetch_rows(&sums, &b->block, t->call.head_dim, 0, b->block.rows);
    }
    if (k->d_v) {
        ra_rows sums = sums_at(t, k->d_v, b->v, k->keys.v, b);
        fetch_rows(&sums, &b->block, t->call.value_dim, 0, b->block.rows);
    }
}

/* The block ahead, with the rows that were not packed ahead. */
static void take_ahead(gradient_task *t, int64_t sums)
{
    gradient_block *b = &t->blocks[t->ahead_number];
    if (t->worker->run->work->blocks > 1)
        place_block(t, &t->ahead, t->ahead_number, sums);
    pack_until(t, b, b->from.block.rows);
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

/* A tile of one head whose scores have a stage. */
static void work_scored(gradient_task *t, int group, const gradient_block *b, const ra_tile *tile, int64_t head)
{
    const ra_kernel *kernel = t->worker->run->kernel;
    ra_gradient_call *c = &t->call;
    const ra_score_place place = {.head = head,
                                  .lattice = t->tiles.lattice,
                                  .member = t->tiles.groups[group].member,
                                  .rows = c->rows,
                                  .first = b->from.block.first,
                                  .begin = tile->begin,
                                  .end = tile->end,
                                  .slot = group * t->tile.heads + head - t->tile.first_head};
    c->stage = ra_score_tile(&t->stages, &place);
    kernel->gradient_scores(c);
    if (t->worker->run->array_sums)
        ra_array_task_add(&t->array_sums, &place, t->tiles.lanes, c->d_scores, c->cap_slope);
    kernel->gradient_products(c);
}

/* One group of all heads of the task against its part of a block; returns the visible pairs. */
static double work_group(gradient_task *t, int group, const gradient_block *b, const ra_tile *tile)
{
    const ra_gradient_run *run = t->worker->run;
    const ra_tiles *tiles = &t->tiles;
    ra_gradient_call *c = &t->call;
    int64_t keys = tile->end - tile->begin, visible = keys * tiles->groups[group].rows;
    c->key = b->key, c->key_stride = b->key_stride;
    c->value = b->value, c->value_stride = b->value_stride;
    c->key_panels = b->panels;
    c->guard_keys = b->guard;
    c->d_key = b->d_key, c->d_value = b->d_value;
    c->begin = tile->begin, c->end = tile->end;
    c->rows = tiles->groups[group].rows;
    c->narrow = c->rows <= run->work->grouping.narrow;
    c->lo = c->hi = NULL;
    c->seen = NULL;
    if (tile->masked) {
        visible = ra_tiles_mask(tiles, group, &b->from.block, tile, t->lo, t->hi, t->seen);
        c->lo = tile->bits ? NULL : t->lo;
        c->hi = tile->bits ? NULL : t->hi;
        c->seen = tile->bits ? t->seen : NULL;
    }
    for (int64_t head = 0; head < t->tile.heads; head++) {
        int64_t number = group * t->tile.heads + head;
        const unit u = unit_at(t, number);
        c->query = u.query, c->d_output = u.d_output;
        c->query_columns = u.query_columns, c->d_output_columns = u.d_output_columns;
        c->lse = u.lse, c->lse_rest = u.lse_rest, c->delta = u.delta;
        c->d_query = run->queries.d_q ? u.d_query : NULL;
        c->guard_rows = t->guards >> (number % 64) & 1;
        if (t->scored)
            work_scored(t, group, b, tile, t->tile.first_head + head);
        else
            run->kernel->gradient(c);
    }
    double heads = (double)t->tile.heads;
    t->worker->counts.tiles += heads;
    t->worker->counts.pairs_worked += heads * (double)(keys * ra_lanes_worked(&run->work->grouping, c->rows));
    return heads * (double)visible;
}

/* The position behind the last key of a block. */
static int64_t end_of(const gradient_task *t, const gradient_block *b)
{
    const ra_block *block = &b->from.block;
    return ra_lattice_position(&t->tiles.lattice, block->first + block->rows - 1) + 1;
}

static int64_t start_of(const gradient_task *t, const gradient_block *b)
{
    return ra_lattice_position(&t->tiles.lattice, b->from.block.first + b->from.block.skip);
}

/* All groups against the blocks that were taken, from number `first` on, in the order of a curve. */
static double work_along(gradient_task *t, int first, int blocks)
{
    ra_tile_order order = t->worker->run->plan->tiles;
    double visible = 0;
    int last = -1, cells = ra_curve_cells(order, blocks, t->tiles.group_count);
    for (int cell = 0; cell < cells; cell++) {
        ra_cell at = ra_curve_at(order, blocks, t->tiles.group_count, cell);
        ra_tile tile;
        if (at.block >= blocks || at.group >= t->tiles.group_count)
            continue;
        const gradient_block *b = &t->blocks[first + at.block];
        if (at.block != last)
            ra_tiles_look(&t->tiles, &b->from.block);
        last = at.block;
        fetch_portion(t);
        if (cell + 1 == cells)
            fetch_sums(t);
        if (ra_tiles_part(&t->tiles, at.group, &b->from.block, &tile))
            visible += work_group(t, at.group, b, &tile);
        pack_portion(t);
    }
    return visible;
}

/* The blocks that were taken, when the task before has left them; false when cancelled. */
static bool work_blocks(gradient_task *t, int first, int blocks)
{
    const gradient_block *last = &t->blocks[first + blocks - 1];
    if (!ra_gradient_wait(t->worker, t->claim, end_of(t, last)))
        return false;
    ra_gradient_passed(t->worker, start_of(t, &t->blocks[first]));
    for (int i = 0; i < blocks; i++)
        move_sums(t, &t->blocks[first + i], false);
    double visible = work_along(t, first, blocks);
    for (int i = 0; i < blocks; i++)
        move_sums(t, &t->blocks[first + i], true);
    ra_gradient_passed(t->worker, end_of(t, last));
    return !ra_gradient_done(t->worker, visible);
}

/* All groups through all keys that are here; false when cancelled. */
static bool work_keys(gradient_task *t)
{
    const ra_gradient_run *run = t->worker->run;
    int most = (int)run->work->blocks;
    ra_key_walk_begin(&t->walk, &run->keys.keys, t->batch, t->kv_head, &t->tiles, (ra_interval){0, run->plan->kv_len});
    find_ahead(t, 0);
    while (t->more) {
        int first = t->ahead_number, blocks = 0;
        do {
            take_ahead(t, blocks);
            find_ahead(t, most == 1 ? 1 - first : (first + blocks + 1) % most);
        } while (++blocks < most && t->more);
        if (!work_blocks(t, first, blocks))
            return false;
    }
    return true;
}

bool ra_gradient_task(ra_gradient_worker *w, const ra_claim *claim)
{
    gradient_task t;
    begin(&t, w, claim);
    pack_units(&t);
    if (t.tiles.group_count > 0 && !work_keys(&t))
        return false;
    if (t.scored)
        ra_array_task_end(&t.array_sums);
    bool adds = w->run->queries.d_q && !w->run->finish && !goes_on(w->run);
    if (adds && !ra_gradient_wait(w, claim, INT64_MAX))
        return false;
    if (w->run->queries.d_q)
        finish_units(&t);
    return true;
}
