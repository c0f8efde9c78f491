#include "exec/exec.h"

#include "base/checked.h"
#include "plan/curve.h"

/* A block of keys as kernels take it. */
typedef struct packed_block {
    ra_block block;
    const float *key;
    int64_t key_stride;
    const float *value;
    bool guard;
} packed_block;

enum { BLOCKS_MOST = 8 };

/* A task: a tile of queries of one head. */
typedef struct tile_task {
    ra_worker *worker;
    int64_t batch, head, kv_head, span;
    int64_t first_group, groups;
    float *state; /* of the groups; finished, or kept from step to step */
    /* out of the worker's scratch */
    float *query, *key, *staging, *value, *edge, *branch_state;
    int32_t *lo, *hi;
    uint64_t *seen;
    ra_tile_call call;               /* what is the same for every tile is set once */
    ra_fetch fetch_key, fetch_value; /* of the next block */
    ra_tiles tiles;
    ra_key_walk walk;
    packed_block blocks[BLOCKS_MOST];
} tile_task;

static void lay_out(tile_task *t, ra_worker *w, int64_t task)
{
    const ra_run *run = w->run;
    const ra_plan *p = run->plan;
    const ra_workload *work = run->work;
    const ra_scratch *s = &work->scratch;
    char *at = w->scratch;

    /* The last queries first: with a causal pattern they see the most keys. */
    int64_t rest = task / run->spans, tile = work->q_tiles - 1 - rest / p->heads / p->batch;
    t->worker = w;
    t->span = task % run->spans;
    t->head = rest % p->heads;
    t->kv_head = t->head / p->group_heads;
    t->batch = rest / p->heads % p->batch;
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
        t->state = ra_unit_state(run, t->span, (t->batch * p->heads + t->head) * work->groups + t->first_group);
    t->call = (ra_tile_call){.head_dim = p->head_dim, .factor = p->score_factor, .value_dim = p->value_dim};
    t->call.scores = (float *)(at + s->scores);
    t->call.fetch_key = &t->fetch_key;
    t->call.fetch_value = &t->fetch_value;
}

/* ---- Keys and values --------------------------------------------------------------------------------------------- */

/* The rows of a block, from its first one that is here on. */
static ra_rows block_rows(const ra_tensor *t, int64_t batch, const ra_key_block *b)
{
    ra_rows rows = ra_rows_at(t, batch, b->index ? 0 : b->row, b->head);
    rows.row_stride *= b->index ? 1 : b->step;
    rows.index = b->index;
    return rows;
}

/* Widen the rows of a block into `packed`, at their places, with zeros in front as far as a tile can reach. */
static void pack_edge(const ra_run *run, const ra_rows *rows, const ra_block *block, int dim, float *packed)
{
    for (int64_t i = (int64_t)(block->skip / RA_KEY_UNIT * RA_KEY_UNIT) * dim; i < (int64_t)block->skip * dim; i++)
        packed[i] = 0.0f;
    run->kernel->pack_rows(rows, block->rows - block->skip, dim, packed + (int64_t)block->skip * dim);
}

/* Keys in place where a kernel can read them, else widened; values always packed. */
static void take_block(tile_task *t, const ra_key_block *b, int place)
{
    const ra_run *run = t->worker->run;
    const ra_plan *p = run->plan;
    packed_block *taken = &t->blocks[place];
    ra_rows key = block_rows(b->k, t->batch, b), value = block_rows(b->v, t->batch, b);
    float *packed = t->value + (int64_t)place * RA_KEY_BLOCK * ra_ceil_div(p->value_dim, RA_PANEL) * RA_PANEL;
    *taken = (packed_block){b->block, key.data, key.row_stride, packed, false};
    if (b->block.skip || key.index || key.dtype != RA_F32 || key.dim_stride != 1 || key.row_stride != p->head_dim) {
        float *widened = t->key + (int64_t)place * RA_KEY_BLOCK * p->head_dim;
        pack_edge(run, &key, &b->block, p->head_dim, widened);
        taken->key = widened;
        taken->key_stride = p->head_dim;
    }
    if (b->block.skip) {
        /* Values are packed from the first row of the block on; rows that are not here must be zeros. */
        pack_edge(run, &value, &b->block, p->value_dim, t->edge);
        int64_t zeros = (int64_t)(b->block.skip / RA_KEY_UNIT * RA_KEY_UNIT) * p->value_dim;
        for (int64_t i = 0; i < zeros; i++)
            t->edge[i] = 0.0f;
        value = (ra_rows){t->edge, RA_F32, p->value_dim, 1, NULL};
    }
    taken->guard = !run->kernel->pack_value(&value, b->block.rows, p->value_dim, t->staging, packed);
}

/* The rows that the next block most likely has, to be asked for in `bursts` bursts. */
static ra_fetch fetch_plan(const ra_tensor *t, int64_t batch, const ra_key_block *b, int64_t bursts)
{
    enum { LINE = 64 };
    int64_t first = b->next, size = (int64_t)ra_dtype_size(t->dtype);
    int64_t rows = first < 0 ? 0 : ra_min(RA_KEY_BLOCK, ra_ceil_div(ra_max(0, t->seq - first), b->step));
    ra_fetch f = {NULL, t->seq_stride * b->step * size, (int)rows, (int)(t->dim * size), 0, 0};
    if (rows > 0 && t->dim_stride == 1)
        f.row = ra_rows_at(t, batch, first, b->head).data;
    else
        f.rows = 0;
    f.burst = (int)ra_ceil_div(rows * ra_ceil_div(f.bytes, LINE), bursts);
    return f;
}

/* Groups that work on a block. */
static int64_t groups_of_block(const tile_task *t, const ra_block *block)
{
    int64_t groups = 0;
    ra_tile tile;
    for (int g = 0; g < t->tiles.group_count; g++)
        groups += ra_tiles_part(&t->tiles, g, block, &tile);
    return ra_max(1, groups);
}

static void plan_fetches(tile_task *t, const ra_key_block *b)
{
    int64_t groups = groups_of_block(t, &b->block);
    t->fetch_key = fetch_plan(b->k, t->batch, b, groups * (RA_KEY_BLOCK / RA_KEY_UNIT));
    t->fetch_value = fetch_plan(b->v, t->batch, b, groups * ra_ceil_div(t->call.value_dim, RA_PANEL));
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

/* One group against one block; returns the visible pairs. */
static double work_tile(tile_task *t, int group, const packed_block *b, float *state)
{
    const ra_tiles *tiles = &t->tiles;
    const ra_run *run = t->worker->run;
    ra_tile tile;
    if (!ra_tiles_part(tiles, group, &b->block, &tile))
        return 0;
    int64_t keys = tile.end - tile.begin, visible = keys * tiles->groups[group].rows;
    ra_tile_call *c = &t->call;
    c->key = b->key;
    c->key_stride = b->key_stride;
    c->key_rows = b->block.rows;
    c->value = b->value;
    c->guard = b->guard;
    c->narrow = tiles->groups[group].rows <= run->work->grouping.narrow;
    c->begin = tile.begin;
    c->end = tile.end;
    c->lo = c->hi = NULL;
    c->seen = NULL;
    if (tile.masked) {
        visible = ra_tiles_mask(tiles, group, &b->block, &tile, t->lo, t->hi, t->seen);
        c->lo = tile.bits ? NULL : t->lo;
        c->hi = tile.bits ? NULL : t->hi;
        c->seen = tile.bits ? t->seen : NULL;
    }
    c->query = t->query + (int64_t)group * tiles->lanes * c->head_dim;
    c->next_query = t->query + (int64_t)((group + 1) % tiles->group_count) * tiles->lanes * c->head_dim;
    c->state = state + group * run->plan->unit_floats;
    run->kernel->tile(c);
    t->worker->counts.tiles += 1;
    t->worker->counts.pairs_worked += (double)(keys * ra_lanes_worked(&run->work->grouping, tiles->groups[group].rows));
    return (double)visible;
}

/* All groups against the blocks that were taken, in the order of a curve; false when cancelled. */
static bool work_along(tile_task *t, int blocks, float *state)
{
    ra_tile_order order = t->worker->run->plan->tiles;
    int last = -1;
    double visible = 0;
    for (int cell = 0; cell < ra_curve_cells(order, blocks, t->tiles.group_count); cell++) {
        ra_cell at = ra_curve_at(order, blocks, t->tiles.group_count, cell);
        if (at.block >= blocks || at.group >= t->tiles.group_count)
            continue;
        if (at.block != last) {
            ra_tiles_look(&t->tiles, &t->blocks[at.block].block);
            last = at.block;
        }
        visible += work_tile(t, at.group, &t->blocks[at.block], state);
    }
    return !ra_worker_done(t->worker, visible);
}

/* All groups against one block; false when cancelled. */
static bool work_block(tile_task *t, float *state)
{
    double visible = 0;
    for (int g = 0; g < t->tiles.group_count; g++)
        visible += work_tile(t, g, &t->blocks[0], state);
    return !ra_worker_done(t->worker, visible);
}

/* All groups through one set of keys; false when cancelled. */
static bool work_keys(tile_task *t, const ra_keys *keys, float *state)
{
    const ra_run *run = t->worker->run;
    int taken = 0, most = (int)run->work->blocks;
    ra_key_block block;
    ra_key_walk_begin(&t->walk, keys, t->kv_head, &t->tiles, ra_span_keys(run, t->span));
    while (ra_key_walk_next(&t->walk, &block)) {
        take_block(t, &block, taken);
        plan_fetches(t, &block);
        if (most == 1 && !work_block(t, state))
            return false;
        if (most > 1 && ++taken == most) {
            if (!work_along(t, taken, state))
                return false;
            taken = 0;
        }
    }
    return taken == 0 || work_along(t, taken, state);
}

/* ---- Branches ---------------------------------------------------------------------------------------------------- */

static ra_members_walk members_of(const tile_task *t)
{
    const ra_workload *work = t->worker->run->work;
    return ra_members_begin(&work->queries, &work->grouping, t->tiles.lattice, t->first_group, t->groups);
}

/* The queries of a group, one lane after the other. */
static void pack_queries(tile_task *t, const ra_members *m, float *packed)
{
    const ra_run *run = t->worker->run;
    const ra_plan *p = run->plan;
    int64_t index[RA_LANES_MOST] = {0};
    /* From rows of the share to rows of q. */
    int64_t shift = run->whole ? m->query - m->row : 0;
    for (int i = 0; i < m->rows; i++)
        index[i] = ra_member_row(m, &t->tiles.lattice, p->offset, i) + shift;
    bool plain = ra_lattice_plain(&t->tiles.lattice);
    ra_rows query = ra_rows_at(run->q, t->batch, plain ? index[0] : 0, t->head);
    query.index = plain ? NULL : index;
    run->kernel->pack_query(&query, m->rows, p->head_dim, p->query_factor, packed);
}

/* A branch's groups of the tile, with their queries packed. */
static void start_branch(tile_task *t, int branch)
{
    const ra_run *run = t->worker->run;
    const ra_plan *p = run->plan;
    const ra_workload *work = run->work;
    const ra_scratch *s = &work->scratch;
    char *at = t->worker->scratch;
    ra_tiles_memory memory = {(ra_interval *)(at + s->rows), (ra_group_bounds *)(at + s->groups), at + s->sieve,
                              work->tile_groups};
    ra_tiles_begin(&t->tiles, &p->pattern, t->head, branch, work->grouping.lanes, &memory);
    ra_members_walk walk = members_of(t);
    for (ra_members m; ra_members_next(&walk, &m);) {
        pack_queries(t, &m, t->query + (int64_t)t->tiles.group_count * work->grouping.lanes * p->head_dim);
        ra_tiles_add(&t->tiles, m.member, m.rows);
    }
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
    const ra_run *run = t->worker->run;
    start_branch(t, branch);
    if (t->tiles.group_count == 0)
        return true;
    /* Members that are all positions are the tile's own groups, and need no states of their own. */
    bool own = ra_lattice_plain(&t->tiles.lattice);
    float *state = own ? t->state : t->branch_state;
    if (!own)
        clear_states(t, state, t->tiles.group_count);
    for (int64_t set = 0; set < run->key_sets; set++)
        if (!work_keys(t, &run->keys[set], state))
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
        clear_states(&t, t.state, t.groups);
    for (int branch = 0; branch < ra_pattern_branches(&run->plan->pattern, t.head); branch++)
        if (!work_branch(&t, branch))
            return;
    for (int64_t g = 0; !run->states && g < t.groups; g++) {
        ra_group group = ra_group_at(&work->queries, &work->grouping, t.first_group + g);
        ra_finish(run, t.batch, t.head, &group, t.state + g * run->plan->unit_floats);
    }
}
