/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task of the decoding variant: all query rows of some key/value heads against a span of keys, one block after the
 * other. Of packed sequences, the rows of one sequence after the other. Many queries are worked in tile_task.c.
 */
#include "exec/cache_rows.h"
#include "exec/score_rows.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/* What a block has beside its rows where keys and values are those of a cache. */
typedef struct cached_block {
    float key_scale[RA_DECODE_HEADS][RA_KEY_BLOCK], value_scale[RA_DECODE_HEADS][RA_KEY_BLOCK];
    int64_t next_at[RA_KEY_BLOCK]; /* the keys of the next block, in pages */
} cached_block;

/* A task: some key/value heads of one batch over a span of keys, for all queries of all their query heads. */
typedef struct decode_task {
    int64_t batch, first_head, heads, span; /* key/value heads */
    int64_t first, queries;                 /* that are worked now: the first one's number, and how many there are */
    int64_t head_rows;                      /* rows of these that share a head */
    bool apart;                             /* states are worked on in a copy */
    float *query;                           /* [heads][head_rows][head_dim] */
    float *state;                           /* [heads][head_rows][unit_floats] */
    int *begin, *end;                       /* [queries] each */
    float *key, *value;                     /* room for a block of one head, widened */
    cached_block *cached;                   /* of use with a cache */
    ra_decode_call call;                    /* fields that are the same for every block are set once */
    bool staged;
    ra_score_rows scores;
} decode_task;

int64_t ra_decode_task_batch(const ra_run *run, int64_t task)
{
    return task / run->spans / ra_ceil_div(run->plan->kv_heads, run->work->task_heads);
}

static decode_task lay_out(const ra_worker *w, int64_t task)
{
    const ra_plan *p = w->run->plan;
    const ra_workload *work = w->run->work;
    const ra_scratch *s = &w->run->scratch;
    char *at = w->scratch;
    int64_t head_tasks = ra_ceil_div(p->kv_heads, work->task_heads), spans = w->run->spans;
    decode_task t = {0};
    t.span = task % spans;
    t.first_head = task / spans % head_tasks * work->task_heads;
    t.batch = ra_decode_task_batch(w->run, task);
    t.heads = ra_min(work->task_heads, p->kv_heads - t.first_head);
    t.query = (float *)(at + s->query);
    t.state = (float *)(at + s->state);
    t.apart = w->run->states && p->pattern.ragged;
    if (w->run->states && !t.apart)
        t.state = ra_unit_state(w->run, t.span, (t.batch * p->kv_heads + t.first_head) * p->group_heads * work->groups);
    t.begin = (int *)(at + s->lo);
    t.end = (int *)(at + s->hi);
    t.key = (float *)(at + s->key);
    t.value = (float *)(at + s->value);
    t.call.begin = t.begin;
    t.call.end = t.end;
    t.call.head_dim = p->head_dim;
    t.call.factor = p->score_factor;
    t.call.value_dim = p->value_dim;
    t.call.scores = (float *)(at + s->scores);
    t.call.sums = (float *)(at + s->staging);
    t.staged = ra_scores_staged(p->scores);
    return t;
}

/* Turn to some queries of the task, from number `first` on. */
static void turn_to(const ra_worker *w, decode_task *t, int64_t first, int64_t queries)
{
    t->first = first;
    t->queries = queries;
    t->head_rows = w->run->plan->group_heads * queries;
    t->call.rows = (int)t->head_rows;
    t->call.queries = (int)queries;
    ra_score_rows_begin(&t->scores, w->run, t->batch, t->first_head, t->heads, first, queries,
                        w->scratch + w->run->scratch.stage);
}

/* A query by its number: of a single range without a search, because small problems have as many as they have work. */
static ra_group query_of(const ra_run *run, int64_t number)
{
    const ra_share *queries = &run->work->queries;
    if (!queries->list && !queries->step)
        return (ra_group){queries->whole.first + number, queries->whole.row + number, 1};
    return ra_group_at(&run->work->queries, &run->work->grouping, number);
}

/* The query head of a row, and where its state is kept if that is not in scratch. */
static int64_t head_of(const ra_plan *p, const decode_task *t, int64_t row)
{
    return t->first_head * p->group_heads + row / t->queries;
}

static float *kept_state(const ra_run *run, const decode_task *t, int64_t row)
{
    int64_t head = t->batch * run->plan->heads + head_of(run->plan, t, row);
    return ra_unit_state(run, t->span, head * run->work->groups + t->first + row % t->queries);
}

static void start_rows(const ra_run *run, const decode_task *t)
{
    const ra_plan *p = run->plan;
    for (int64_t row = 0; row < t->heads * t->head_rows; row++) {
        ra_group query_row = query_of(run, t->first + row % t->queries);
        int64_t head = head_of(p, t, row);
        ra_rows from = ra_rows_at(run->q, t->batch, ra_query_row(run, &query_row), head);
        float *query = t->query + row * p->head_dim;
        run->kernel->pack_rows(&from, 1, p->head_dim, query);
        for (int d = 0; d < p->head_dim; d++)
            query[d] *= p->query_factor;
        if (!run->resume)
            ra_state_clear(t->state + row * p->unit_floats, 1, p->unit_floats);
        else if (t->apart)
            memcpy(t->state + row * p->unit_floats, kept_state(run, t, row), (size_t)p->unit_floats * sizeof(float));
    }
}

static bool in_place(const ra_tensor *t)
{
    return t->dim_stride == 1;
}

/* Whether all heads of a position lie closer together than the positions of a head. */
static bool heads_inside(const ra_tensor *t)
{
    return in_place(t) && llabs(t->head_stride) <= llabs(t->seq_stride);
}

/* Rows of one head, and of those beside it, as the kernel reads them. */
typedef struct readable {
    const void *rows; /* the row of the block's first position, present or not: rows below `skip` are not read */
    ra_dtype dtype;
    int64_t stride;
    const int64_t *at;  /* NULL, or where rows are in pages */
    const float *scale; /* NULL, or of 8 bits */
} readable;

/* In place, or widened into `packed`, which is one head. `from` are the block's rows of the first head. */
static readable readable_rows(const ra_run *run, const ra_tensor *t, ra_rows from, const ra_block *block,
                              const float *scale, float *packed)
{
    int skip = block->skip;
    if (in_place(t)) {
        readable r = {from.data, t->dtype, t->seq_stride, from.index ? from.index - skip : NULL, scale};
        if (!from.index)
            r.rows = (const char *)from.data - skip * t->seq_stride * (int64_t)ra_dtype_size(t->dtype);
        return r;
    }
    from.scale = scale ? scale + skip : NULL;
    run->kernel->pack_rows(&from, block->rows - skip, (int)t->dim, packed + skip * t->dim);
    return (readable){packed, RA_F32, t->dim, NULL, NULL};
}

/* The scales of some heads; NULL: rows have none. */
static const float *find_scales(const ra_cache *cache, const ra_tensor *scale, const decode_task *t,
                                const ra_key_block *b, int64_t head, int64_t heads, float scales[][RA_KEY_BLOCK])
{
    if (!scale)
        return NULL;
    memset(scales, 0, (size_t)heads * sizeof *scales);
    for (int64_t h = 0; h < heads; h++)
        ra_cache_scales(cache, scale, t->batch, b, t->first_head + head + h, scales[h] + b->block.skip);
    return scales[0];
}

static const int64_t *find_next(const ra_cache *cache, const decode_task *t, const ra_key_block *b)
{
    const ra_key_block next = {.row = b->row - b->block.skip + RA_KEY_BLOCK, .step = 1, .block.rows = RA_KEY_BLOCK};
    ra_cache_places(cache, cache->k, t->batch, &next, t->cached->next_at);
    return t->cached->next_at;
}

/* Where the kernel finds the keys and values of `heads` heads of the task, from its `head`-th on. */
static void hand_rows(const ra_run *run, decode_task *t, const ra_key_block *b, int64_t head, int64_t heads)
{
    ra_decode_call *c = &t->call;
    const ra_cache *cache = run->keys->cache;
    const float *key_scale = NULL, *value_scale = NULL;
    if (cache) {
        key_scale = find_scales(cache, cache->k_scale, t, b, head, heads, t->cached->key_scale);
        value_scale = find_scales(cache, cache->v_scale, t, b, head, heads, t->cached->value_scale);
    }
    ra_key_block of_head = *b;
    of_head.head = t->first_head + head;
    readable key = readable_rows(run, b->k, ra_block_keys(t->batch, &of_head), &b->block, key_scale, t->key);
    readable value = readable_rows(run, b->v, ra_block_values(t->batch, &of_head), &b->block, value_scale, t->value);
    c->key = key.rows;
    c->key_dtype = key.dtype;
    c->key_stride = key.stride;
    c->key_at = key.at;
    c->key_scale = key.scale;
    c->value = value.rows;
    c->value_dtype = value.dtype;
    c->value_stride = value.stride;
    c->value_at = value.at;
    c->value_scale = value.scale;
    c->next_at = key.at ? find_next(cache, t, b) : NULL;
    c->next_key =
        key.at ? key.rows : (const char *)key.rows + RA_KEY_BLOCK * key.stride * (int64_t)ra_dtype_size(key.dtype);
}

/* Find the keys of a block that each query sees, and count the pairs of `heads` key/value heads. */
static double see_block(ra_worker *w, const decode_task *t, const ra_tiles *tiles, const ra_block *block, int64_t heads)
{
    const ra_plan *p = w->run->plan;
    double visible = 0, query_heads = (double)(heads * p->group_heads);
    for (int q = 0; q < tiles->group_count; q++) {
        ra_tile tile;
        t->begin[q] = t->end[q] = 0;
        if (!ra_tiles_part(tiles, q, block, &tile))
            continue;
        t->begin[q] = (int)ra_max(tiles->rows[q].lo - block->first, block->skip);
        t->end[q] = (int)ra_min(tiles->rows[q].hi - block->first, block->rows);
        visible += t->end[q] - t->begin[q];
        w->counts.tiles += query_heads;
        w->counts.pairs_worked += (tile.end - tile.begin) * query_heads;
    }
    return visible * query_heads;
}

/* `heads` heads of the task, from its `head`-th on, against one block. */
static void work_heads(const ra_run *run, decode_task *t, const ra_key_block *b, int64_t head, int64_t heads)
{
    ra_decode_call *c = &t->call;
    int64_t row = head * t->head_rows;
    c->heads = (int)heads;
    hand_rows(run, t, b, head, heads);
    c->key_head_stride = b->k->head_stride;
    c->value_head_stride = b->v->head_stride;
    c->query = t->query + row * c->head_dim;
    c->state = t->state + row * run->plan->unit_floats;
    if (t->staged)
        c->stage = ra_score_rows_block(&t->scores, head, heads, &b->block, t->begin, t->end);
    (t->staged ? run->kernel->decode_scored : run->kernel->decode)(c);
}

/* `heads` heads of the task, from its `head`-th on, through all keys that are here; false when cancelled. */
static bool work_keys(ra_worker *w, decode_task *t, int64_t head, int64_t heads)
{
    const ra_run *run = w->run;
    const ra_workload *work = run->work;
    ra_tiles_memory memory = {(ra_interval *)(w->scratch + run->scratch.rows),
                              (ra_group_bounds *)(w->scratch + run->scratch.groups), NULL, work->at_once};
    ra_tiles tiles;
    ra_tiles_begin(&tiles, &run->plan->pattern, 0, 0, 1, &memory);
    for (int64_t q = 0; q < t->queries; q++)
        ra_tiles_add(&tiles, query_of(run, t->first + q).query + run->plan->offset, 1);
    for (int64_t set = 0; set < run->key_sets; set++) {
        ra_key_walk walk;
        ra_key_walk_begin(&walk, &run->keys[set], t->batch, 0, &tiles, ra_span_keys(run, t->span));
        ra_key_block block;
        while (ra_key_walk_next(&walk, &block)) {
            double visible = see_block(w, t, &tiles, &block.block, heads);
            work_heads(run, t, &block, head, heads);
            if (ra_worker_done(w, visible))
                return false;
        }
    }
    return true;
}

/* What becomes of the states of the rows that were worked. */
static void end_rows(const ra_run *run, const decode_task *t)
{
    const ra_plan *p = run->plan;
    for (int64_t row = 0; row < t->heads * t->head_rows && (t->apart || !run->states); row++) {
        float *state = t->state + row * p->unit_floats;
        ra_group group = query_of(run, t->first + row % t->queries);
        if (t->apart)
            memcpy(kept_state(run, t, row), state, (size_t)p->unit_floats * sizeof *state);
        else
            ra_finish(run, t->batch, (ra_stack){head_of(p, t, row), 1}, &group, state);
    }
}

/* Queries from number `first` on that are worked at a time: all, or those of a packed sequence. */
static int64_t queries_at(const ra_run *run, int64_t first)
{
    const ra_workload *work = run->work;
    const ra_ragged *ragged = run->plan->pattern.ragged;
    if (!ragged)
        return work->groups;
    int64_t end = ra_ragged_at(ragged, query_of(run, first).query).end, count = 1;
    while (count < work->at_once && first + count < work->groups && query_of(run, first + count).query < end)
        count++;
    return count;
}

/* The first query that is worked: packed sequences that end before the task's span have nothing here. */
static int64_t first_query(const ra_run *run, const decode_task *t)
{
    const ra_ragged *ragged = run->plan->pattern.ragged;
    int64_t low = 0, high = run->spans > 1 && ragged ? run->work->groups : 0;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (ra_ragged_at(ragged, query_of(run, middle).query).end_key > t->span * run->plan->span_keys)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void ra_decode_task(ra_worker *w, int64_t task)
{
    const ra_run *run = w->run;
    decode_task t = lay_out(w, task);
    cached_block cached;
    t.cached = &cached;

    /* In the order of memory: all heads of a block together, or one head after the other through the span. */
    bool inside = run->key_sets && heads_inside(run->keys->k) && heads_inside(run->keys->v);
    int64_t step = inside ? t.heads : 1;
    for (int64_t first = first_query(run, &t); first < run->work->groups; first += t.queries) {
        turn_to(w, &t, first, queries_at(run, first));
        ra_interval spans = ra_query_spans(run, query_of(run, first).query);
        if (run->spans > 1 && spans.lo > t.span)
            return;
        if (run->spans > 1 && spans.hi <= t.span)
            continue;
        start_rows(run, &t);
        for (int64_t head = 0; head < t.heads; head += step)
            if (!work_keys(w, &t, head, step))
                return;
        end_rows(run, &t);
    }
}
