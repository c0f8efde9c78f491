/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task of the tile variant: a query tile against a span of keys. Blocks are packed once for all groups of the tile,
 * the next one while this one is worked. Few queries are worked in decode_task.c.
 */
#include "exec/cache_rows.h"
#include "exec/exec.h"
#include "exec/score_tile.h"

#include "base/checked.h"
#include "plan/curve.h"

/*
 * In problems with fewer keys, weights are not rounded where products are of bfloat16: there is little to gain, and
 * results are as good as those of exact products.
 */
enum { MANY_KEYS = 1024 };

/* A block of keys as kernels take it. */
typedef struct packed_block {
    ra_block block;
    const float *key;
    int64_t key_stride;
    float *widened; /* where the keys are packed; NULL: they are read in place */
    float *value;
    bool guard;
} packed_block;

/*
 * The block that comes next. A few of its rows are packed after each tile of the block before it: asked for all at
 * once, they would drive out of the second-level cache what the tiles of that block work on.
 */
typedef struct block_ahead {
    ra_key_block from;
    bool known;                                               /* there is one */
    float key_scale[RA_KEY_BLOCK], value_scale[RA_KEY_BLOCK]; /* of its rows, in a cache of 8 bits */
    bool whole;                                               /* it is only asked for, and packed when it is taken */
    int place;                                                /* of blocks, where it goes */
    int rows, done, portion; /* of it: that are here; asked for and packed so far; after each tile */
} block_ahead;

/* Blocks that are packed at the same time: those of a square, or one that is worked and the one ahead. */
enum { PLACES = RA_SUPER_TILE };
_Static_assert(PLACES >= 2, "the block ahead needs a place of its own");

/*
 * A task: a tile of queries of one head; or all queries of some heads that share keys, where each has one group at
 * most. A group then has the rows of a stack of them.
 */
typedef struct tile_task {
    ra_worker *worker;
    int64_t batch, head, kv_head, span; /* head: the first one */
    int64_t first_stack, stacks;
    int64_t first_group, groups; /* of a stack */
    float *state;                /* of the groups; finished, or kept from step to step */
    /* out of the worker's scratch */
    float *query, *key, *staging, *value, *edge, *branch_state;
    int32_t *lo, *hi;
    uint64_t *seen;
    ra_tile_call call;                      /* what is the same for every tile is set once */
    ra_fetch fetch_key, fetch_value;        /* of what is packed next */
    void (*work)(const ra_tile_call *call); /* kernel->tile, or tile_scored */
    bool staged;                            /* that one, with stages from: */
    ra_score_tiles scores;
    ra_tiles tiles;
    ra_key_walk walk;
    int64_t set; /* of keys, that is walked */
    packed_block blocks[PLACES];
    block_ahead ahead;
} tile_task;

/* Tasks that the query heads of a batch element are divided into. */
static int64_t head_tasks(const ra_run *run)
{
    return run->plan->kv_heads * ra_ceil_div(run->plan->group_heads, run->work->task_heads);
}

int64_t ra_tile_task_batch(const ra_run *run, int64_t task)
{
    return task / run->spans / head_tasks(run) % run->plan->batch;
}

/* The heads of a task, as stacks. */
static void lay_out_heads(tile_task *t, const ra_run *run, int64_t number)
{
    const ra_workload *work = run->work;
    const ra_plan *p = run->plan;
    int64_t turns = ra_ceil_div(p->group_heads, work->task_heads), stacks = ra_stacks_of_head(work, p);
    int64_t each = work->task_heads / work->stack, first = number % turns * each;
    t->kv_head = number / turns;
    t->first_stack = t->kv_head * stacks + first;
    t->stacks = ra_min(each, stacks - first);
    t->head = ra_stack_at(work, p, t->first_stack).head;
}

/* The first unit of the task. */
static int64_t unit_of(const tile_task *t, const ra_run *run)
{
    int64_t stacks = run->plan->kv_heads * ra_stacks_of_head(run->work, run->plan);
    return (t->batch * stacks + t->first_stack) * run->work->groups + t->first_group;
}

static void lay_out(tile_task *t, ra_worker *w, int64_t task)
{
    const ra_run *run = w->run;
    const ra_plan *p = run->plan;
    const ra_workload *work = run->work;
    const ra_scratch *s = &run->scratch;
    char *at = w->scratch;

    /* The last queries first: with a causal pattern they see the most keys. */
    int64_t rest = task / run->spans, tile = work->q_tiles - 1 - rest / head_tasks(run) / p->batch;
    t->worker = w;
    t->span = task % run->spans;
    lay_out_heads(t, run, rest % head_tasks(run));
    t->batch = ra_tile_task_batch(run, task);
    t->first_group = ra_first_of_tile(work, tile);
    t->groups = ra_first_of_tile(work, tile + 1) - t->first_group;

    t->query = (float *)(at + s->query);
    t->key = (float *)(at + s->key);
    t->staging = (float *)(at + s->staging);
    t->value = (float *)(at + s->value);
    t->edge = (float *)(at + s->edge);
    t->branch_state = (float *)(at + s->branch);
    t->lo = (int32_t *)(at + s->lo);
    t->hi = (int32_t *)(at + s->hi);
    t->seen = (uint64_t *)(at + s->seen);
    t->state = (float *)(at + s->state);
    if (run->states)
        t->state = ra_unit_state(run, t->span, unit_of(t, run));
    t->call = (ra_tile_call){
        .head_dim = p->head_dim, .query_factor = p->query_factor, .factor = p->score_factor, .value_dim = p->value_dim};
    t->call.split = p->kv_len < MANY_KEYS;
    t->call.scores = (float *)(at + s->scores);
    t->call.fetch_key = &t->fetch_key;
    t->call.fetch_value = &t->fetch_value;
    t->staged = ra_scores_staged(p->scores);
    t->work = t->staged ? run->kernel->tile_scored : run->kernel->tile;
    ra_score_tiles_begin(&t->scores, p, run->kernel, t->batch, work->grouping.lanes, work->tile_groups, at + s->stage);
}

/* ---- Keys and values --------------------------------------------------------------------------------------------- */

static ra_rows keys_of(const tile_task *t, const ra_key_block *b)
{
    const ra_cache *cache = t->worker->run->keys->cache;
    ra_rows rows = ra_block_keys(t->batch, b);
    rows.scale = cache && cache->k_scale ? t->ahead.key_scale : NULL;
    return rows;
}

static ra_rows values_of(const tile_task *t, const ra_key_block *b)
{
    const ra_cache *cache = t->worker->run->keys->cache;
    ra_rows rows = ra_block_values(t->batch, b);
    rows.scale = cache && cache->v_scale ? t->ahead.value_scale : NULL;
    return rows;
}

/* Zeros in front of the rows of a block, which take `places` each, as far as a tile can reach; to where they begin. */
static float *clear_front(const ra_block *block, int places, float *packed)
{
    for (int64_t i = (int64_t)(block->skip / RA_KEY_UNIT * RA_KEY_UNIT) * places; i < (int64_t)block->skip * places;
         i++)
        packed[i] = 0.0f;
    return packed + (int64_t)block->skip * places;
}

/* Where a block's keys and values will be; keys in place where a kernel can read them, which takes whole units. */
static void place_block(tile_task *t, const ra_key_block *b, int place)
{
    const ra_plan *p = t->worker->run->plan;
    ra_rows key = keys_of(t, b);
    packed_block *taken = &t->blocks[place];
    *taken = (packed_block){.block = b->block, .key = key.data, .key_stride = key.row_stride};
    taken->value = t->value + (int64_t)place * RA_KEY_BLOCK * ra_ceil_div(p->value_dim, RA_PANEL) * RA_PANEL;
    const ra_kernel *kernel = t->worker->run->kernel;
    bool readable = !b->block.skip && b->block.rows % RA_KEY_UNIT == 0 && kernel->pair == 1;
    if (!readable || key.index || key.dtype != RA_F32 || key.dim_stride != 1) {
        taken->widened = t->key + (int64_t)place * RA_KEY_BLOCK * p->head_dim;
        taken->key = taken->widened;
        taken->key_stride = ra_words(kernel, p->head_dim);
    }
}

/* Rows of a block, from one on. */
static ra_rows rows_from(ra_rows rows, int first)
{
    if (rows.scale)
        rows.scale += first;
    if (rows.index)
        rows.index += first;
    else
        rows.data = (const char *)rows.data + first * rows.row_stride * (int64_t)ra_dtype_size(rows.dtype);
    return rows;
}

/* Pack rows first .. end - 1 of a block that begins with its first row; `first` is a multiple of RA_KEY_UNIT. */
static void pack_part(tile_task *t, const ra_key_block *b, int place, int first, int end)
{
    const ra_run *run = t->worker->run;
    const ra_plan *p = run->plan;
    packed_block *taken = &t->blocks[place];
    ra_rows key = rows_from(keys_of(t, b), first);
    ra_rows value = rows_from(values_of(t, b), first);
    if (taken->widened)
        run->kernel->pack_key(&key, end - first, p->head_dim, taken->widened + first * taken->key_stride);
    if (!run->kernel->pack_value(&value, end - first, p->value_dim, t->staging,
                                 taken->value + (ptrdiff_t)(first / run->kernel->pair) * RA_PANEL))
        taken->guard = true;
}

/* Pack a block whose first rows are not here. Values are packed from its first row on; those must be zeros. */
static void pack_rest(tile_task *t, const ra_key_block *b, int place)
{
    const ra_run *run = t->worker->run;
    const ra_plan *p = run->plan;
    packed_block *taken = &t->blocks[place];
    ra_rows key = keys_of(t, b), value = values_of(t, b);
    int rows = b->block.rows - b->block.skip;
    run->kernel->pack_key(&key, rows, p->head_dim,
                          clear_front(&b->block, ra_words(run->kernel, p->head_dim), taken->widened));
    run->kernel->pack_rows(&value, rows, p->value_dim, clear_front(&b->block, p->value_dim, t->edge));
    int64_t zeros = (int64_t)(b->block.skip / RA_KEY_UNIT * RA_KEY_UNIT) * p->value_dim;
    for (int64_t i = 0; i < zeros; i++)
        t->edge[i] = 0.0f;
    value = (ra_rows){t->edge, RA_F32, p->value_dim, 1, NULL, NULL};
    taken->guard = !run->kernel->pack_value(&value, b->block.rows, p->value_dim, t->staging, taken->value);
}

static void take_block(tile_task *t, const ra_key_block *b, int place)
{
    place_block(t, b, place);
    if (b->block.skip)
        pack_rest(t, b, place);
    else
        pack_part(t, b, place, 0, b->block.rows);
}

/* ---- The block ahead --------------------------------------------------------------------------------------------- */

/* Through all sets of keys, one after the other; false when there is no block any more. */
static bool next_block(tile_task *t, ra_key_block *b)
{
    const ra_run *run = t->worker->run;
    while (t->set < 0 || !ra_key_walk_next(&t->walk, b)) {
        if (++t->set >= run->key_sets)
            return false;
        ra_key_walk_begin(&t->walk, &run->keys[t->set], t->batch, t->kv_head, &t->tiles, ra_span_keys(run, t->span));
    }
    return true;
}

/* The scales of its rows, where they have any. */
static void find_scales(tile_task *t)
{
    const ra_cache *cache = t->worker->run->keys->cache;
    block_ahead *a = &t->ahead;
    if (cache && cache->k_scale)
        ra_cache_scales(cache, cache->k_scale, t->batch, &a->from, t->kv_head, a->key_scale);
    if (cache && cache->v_scale)
        ra_cache_scales(cache, cache->v_scale, t->batch, &a->from, t->kv_head, a->value_scale);
}

/* The next block becomes the block ahead. Where blocks are taken several at a time, it has no place until then. */
static void find_ahead(tile_task *t, int place)
{
    block_ahead *a = &t->ahead;
    a->place = place;
    a->done = a->portion = 0;
    a->known = next_block(t, &a->from);
    if (a->known)
        find_scales(t);
    a->rows = a->known ? a->from.block.rows - a->from.block.skip : 0;
    a->whole = a->known && (t->worker->run->work->blocks > 1 || a->from.block.skip);
    if (a->known && !a->whole)
        place_block(t, &a->from, place);
}

/* How much of the block ahead is done after each tile of a block that is about to be worked. */
static void portion_ahead(tile_task *t, const ra_block *block)
{
    int64_t groups = 0;
    ra_tile tile;
    for (int g = 0; g < t->tiles.group_count; g++)
        groups += ra_tiles_part(&t->tiles, g, block, &tile);
    t->ahead.portion = (int)ra_ceil_div(ra_ceil_div(t->ahead.rows, RA_KEY_UNIT), ra_max(1, groups)) * RA_KEY_UNIT;
}

/* The rows that will be packed after a tile, to be asked for in `bursts` bursts while it is worked. */
static ra_fetch fetch_portion(const tile_task *t, const ra_tensor *tensor, int64_t bursts)
{
    enum { LINE = 64 };
    const block_ahead *a = &t->ahead;
    ra_fetch f = {.rows = (int)ra_min(a->portion, a->rows - a->done)};
    if (f.rows == 0 || a->from.index || a->from.key_at || tensor->dim_stride != 1)
        return (ra_fetch){0};
    int64_t size = (int64_t)ra_dtype_size(tensor->dtype);
    f.row = rows_from(ra_block_rows(tensor, t->batch, &a->from), a->done).data;
    f.stride = tensor->seq_stride * a->from.step * size;
    f.bytes = (int)(tensor->dim * size);
    f.burst = (int)ra_ceil_div(f.rows * ra_ceil_div(f.bytes, LINE), bursts);
    return f;
}

static void fetch_ahead(tile_task *t, const ra_tile *tile)
{
    t->fetch_key = fetch_portion(t, t->ahead.from.k, (tile->end - tile->begin) / RA_KEY_UNIT);
    t->fetch_value = fetch_portion(t, t->ahead.from.v, ra_ceil_div(t->call.value_dim, RA_PANEL));
}

static void pack_ahead(tile_task *t, int rows)
{
    block_ahead *a = &t->ahead;
    int end = (int)ra_min(a->rows, a->done + rows);
    if (a->done < end && !a->whole)
        pack_part(t, &a->from, a->place, a->done, end);
    a->done = end;
}

/* The block ahead, with what is left to pack of it. */
static void take_ahead(tile_task *t)
{
    const block_ahead *a = &t->ahead;
    if (a->whole)
        take_block(t, &a->from, a->place);
    else
        pack_ahead(t, RA_KEY_BLOCK);
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

/* What happens to the scores of a tile. */
static const ra_score_stage *stage_of(tile_task *t, int group, const packed_block *b, const ra_tile *tile)
{
    const ra_group_bounds *g = &t->tiles.groups[group];
    int64_t head = t->head + (t->stacks > 1 ? group : 0); /* with stages a stack is one head */
    ra_score_place place = {head, t->tiles.lattice, g->member, g->rows, b->block.first, tile->begin, tile->end, group};
    return ra_score_tile(&t->scores, &place);
}

/* One group against its part of one block; returns the visible pairs. */
static double work_tile(tile_task *t, int group, const packed_block *b, const ra_tile *tile, float *state)
{
    const ra_tiles *tiles = &t->tiles;
    const ra_run *run = t->worker->run;
    int64_t keys = tile->end - tile->begin, visible = keys * tiles->groups[group].rows;
    ra_tile_call *c = &t->call;
    c->key = b->key;
    c->key_stride = b->key_stride;
    c->value = b->value;
    c->guard = b->guard;
    c->narrow = tiles->groups[group].rows <= run->work->grouping.narrow;
    c->begin = tile->begin;
    c->end = tile->end;
    c->lo = c->hi = NULL;
    c->seen = NULL;
    if (tile->masked) {
        visible = ra_tiles_mask(tiles, group, &b->block, tile, t->lo, t->hi, t->seen);
        c->lo = tile->bits ? NULL : t->lo;
        c->hi = tile->bits ? NULL : t->hi;
        c->seen = tile->bits ? t->seen : NULL;
    }
    c->query = t->query + (int64_t)group * tiles->lanes * c->head_dim;
    c->state = state + group * run->plan->unit_floats;
    if (t->staged)
        c->stage = stage_of(t, group, b, tile);
    t->work(c);
    t->worker->counts.tiles += 1;
    t->worker->counts.pairs_worked += (double)(keys * ra_lanes_worked(&run->work->grouping, tiles->groups[group].rows));
    return (double)visible;
}

/* All groups against the blocks that were taken, in the order of a curve; false when cancelled. */
static bool work_along(tile_task *t, int blocks, float *state)
{
    ra_tile_order order = t->worker->run->plan->tiles;
    int last = blocks - 1;
    double visible = 0;
    ra_tiles_look(&t->tiles, &t->blocks[last].block);
    portion_ahead(t, &t->blocks[last].block);
    for (int cell = 0; cell < ra_curve_cells(order, blocks, t->tiles.group_count); cell++) {
        ra_cell at = ra_curve_at(order, blocks, t->tiles.group_count, cell);
        if (at.block >= blocks || at.group >= t->tiles.group_count)
            continue;
        if (at.block != last) {
            ra_tiles_look(&t->tiles, &t->blocks[at.block].block);
            last = at.block;
        }
        ra_tile tile;
        if (!ra_tiles_part(&t->tiles, at.group, &t->blocks[at.block].block, &tile))
            continue;
        fetch_ahead(t, &tile);
        visible += work_tile(t, at.group, &t->blocks[at.block], &tile, state);
        pack_ahead(t, t->ahead.portion);
    }
    return !ra_worker_done(t->worker, visible);
}

/* All groups against one block, and the block ahead meanwhile; false when cancelled. */
static bool work_block(tile_task *t, const packed_block *b, float *state)
{
    double visible = 0;
    ra_tile tile;
    ra_tiles_look(&t->tiles, &b->block);
    portion_ahead(t, &b->block);
    for (int g = 0; g < t->tiles.group_count; g++)
        if (ra_tiles_part(&t->tiles, g, &b->block, &tile)) {
            fetch_ahead(t, &tile);
            visible += work_tile(t, g, b, &tile, state);
            pack_ahead(t, t->ahead.portion);
        }
    return !ra_worker_done(t->worker, visible);
}

/* All groups through all keys that are here; false when cancelled. */
static bool work_keys(tile_task *t, float *state)
{
    int most = (int)t->worker->run->work->blocks, places = most > 1 ? most : 2;
    t->set = -1;
    find_ahead(t, 0);
    while (t->ahead.known) {
        int first = t->ahead.place, taken = 0;
        do {
            take_ahead(t);
            find_ahead(t, (t->ahead.place + 1) % places);
        } while (++taken < most && t->ahead.known);
        if (most == 1 ? !work_block(t, &t->blocks[first], state) : !work_along(t, taken, state))
            return false;
    }
    return true;
}

/* ---- Branches ---------------------------------------------------------------------------------------------------- */

static ra_members_walk members_of(const tile_task *t)
{
    const ra_workload *work = t->worker->run->work;
    return ra_members_begin(&work->queries, &work->grouping, t->tiles.lattice, t->first_group, t->groups);
}

/* The queries of a group, one lane after the other. */
static void pack_queries(tile_task *t, const ra_members *m, ra_stack stack, float *packed)
{
    const ra_run *run = t->worker->run;
    const ra_plan *p = run->plan;
    int64_t index[RA_LANES_MOST] = {0};
    /* From rows of the share to rows of q. */
    int64_t shift = run->whole ? m->query - m->row : 0;
    ra_rows query;
    if (ra_lattice_plain(&t->tiles.lattice)) {
        int64_t first = ra_member_row(m, &t->tiles.lattice, p->offset, 0) + shift;
        query = ra_stacked_rows(run->q, t->batch, first, m->rows, stack, index);
    } else {
        for (int i = 0; i < m->rows; i++)
            index[i] = ra_member_row(m, &t->tiles.lattice, p->offset, i) + shift;
        query = ra_rows_at(run->q, t->batch, 0, stack.head);
        query.index = index;
    }
    run->kernel->pack_query(&query, (int)(m->rows * stack.heads), p->head_dim, p->query_factor, packed);
}

/* The groups of a stack, with their queries packed. */
static void start_stack(tile_task *t, ra_stack stack)
{
    const ra_run *run = t->worker->run;
    ra_members_walk walk = members_of(t);
    for (ra_members m; ra_members_next(&walk, &m);) {
        int64_t before = (int64_t)t->tiles.group_count * t->tiles.lanes;
        pack_queries(t, &m, stack, t->query + before * run->plan->head_dim);
        ra_tiles_add(&t->tiles, m.member, m.rows);
        ra_tiles_repeat(&t->tiles, (int)stack.heads);
    }
}

/* A branch's groups of the tile, with their queries packed. */
static void start_branch(tile_task *t, int branch)
{
    const ra_run *run = t->worker->run;
    const ra_plan *p = run->plan;
    const ra_workload *work = run->work;
    const ra_scratch *s = &run->scratch;
    char *at = t->worker->scratch;
    ra_tiles_memory memory = {(ra_interval *)(at + s->rows), (ra_group_bounds *)(at + s->groups), at + s->sieve,
                              work->tile_groups};
    ra_tiles_begin(&t->tiles, &p->pattern, t->head, branch, work->grouping.lanes, &memory);
    for (int64_t i = 0; i < t->stacks; i++)
        start_stack(t, ra_stack_at(work, p, t->first_stack + i));
}

static void clear_states(const tile_task *t, float *state, int64_t groups)
{
    const ra_run *run = t->worker->run;
    for (int64_t g = 0; g < groups; g++)
        ra_state_clear(state + g * run->plan->unit_floats, run->work->grouping.lanes, run->plan->unit_floats);
}

/* The states of a branch's rows into those of the rows themselves. */
static void merge_branch(const tile_task *t)
{
    const ra_run *run = t->worker->run;
    const ra_plan *p = run->plan;
    const ra_workload *work = run->work;
    ra_members_walk walk = members_of(t);
    int64_t number = 0;
    ra_group group = ra_group_at(&work->queries, &work->grouping, t->first_group);
    const float *from = t->branch_state;
    for (ra_members m; ra_members_next(&walk, &m); from += p->unit_floats)
        for (int i = 0; i < m.rows; i++) {
            int64_t row = ra_member_row(&m, &t->tiles.lattice, p->offset, i);
            while (row >= group.row + group.rows)
                group = ra_group_at(&work->queries, &work->grouping, t->first_group + ++number);
            run->kernel->merge_lane(t->state + number * p->unit_floats + (row - group.row), from + i, p->value_dim);
        }
}

/* One branch of the tile's rows through all keys that are here; false when cancelled. */
static bool work_branch(tile_task *t, int branch)
{
    start_branch(t, branch);
    if (t->tiles.group_count == 0)
        return true;
    /* Members that are all positions are the tile's own groups, and need no states of their own. */
    bool own = ra_lattice_plain(&t->tiles.lattice);
    float *state = own ? t->state : t->branch_state;
    if (!own)
        clear_states(t, state, t->tiles.group_count);
    if (!work_keys(t, state))
        return false;
    if (!own)
        merge_branch(t);
    return true;
}

void ra_tile_task(ra_worker *w, int64_t task)
{
    const ra_run *run = w->run;
    const ra_workload *work = run->work;
    tile_task t;
    lay_out(&t, w, task);
    if (!run->resume)
        clear_states(&t, t.state, t.stacks * t.groups);
    for (int branch = 0; branch < ra_pattern_branches(&run->plan->pattern, t.head); branch++)
        if (!work_branch(&t, branch))
            return;
    for (int64_t i = 0; !run->states && i < t.stacks * t.groups; i++) {
        ra_group group = ra_group_at(&work->queries, &work->grouping, t.first_group + i % t.groups);
        ra_stack stack = ra_stack_at(work, run->plan, t.first_stack + i / t.groups);
        ra_finish(run, t.batch, stack, &group, t.state + i * run->plan->unit_floats);
    }
}
