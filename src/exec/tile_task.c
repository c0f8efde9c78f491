#include "exec/exec.h"

#include "base/checked.h"

/* The memory of a task, out of the worker's scratch. */
typedef struct tile_memory {
    float *query, *key, *staging, *value, *edge, *state;
    ra_tile_call call; /* what is the same for every tile is set once */
    int32_t *lo, *hi;
    ra_fetch fetch_key, fetch_value; /* of the next block */
} tile_memory;

static tile_memory lay_out(const ra_worker *w)
{
    const ra_plan *p = w->run->plan;
    const ra_scratch *s = &w->run->work->scratch;
    char *at = w->scratch;
    tile_memory m = {0};
    m.query = (float *)(at + s->query);
    m.key = (float *)(at + s->key);
    m.staging = (float *)(at + s->staging);
    m.value = (float *)(at + s->value);
    m.edge = (float *)(at + s->edge);
    m.state = (float *)(at + s->state);
    m.lo = (int32_t *)(at + s->lo);
    m.hi = (int32_t *)(at + s->hi);
    m.call.head_dim = p->head_dim;
    m.call.factor = p->score_factor;
    m.call.value_dim = p->value_dim;
    m.call.value = m.value;
    m.call.scores = (float *)(at + s->scores);
    return m;
}

/* Widen the rows of a block into `packed`, at their places, with zeros in front as far as a tile can reach. */
static void pack_edge(const ra_run *run, const ra_rows *rows, const ra_block *block, int dim, float *packed)
{
    for (int64_t i = (int64_t)(block->skip / RA_KEY_UNIT * RA_KEY_UNIT) * dim; i < (int64_t)block->skip * dim; i++)
        packed[i] = 0.0f;
    run->kernel->pack_rows(rows, block->rows - block->skip, dim, packed + (int64_t)block->skip * dim);
}

/* Keys in place where a kernel can read them, else widened; values always packed. */
static void take_block(const ra_run *run, tile_memory *m, int64_t batch, int64_t head, const ra_key_block *b)
{
    ra_rows key = ra_rows_at(b->k, batch, b->row, head), value = ra_rows_at(b->v, batch, b->row, head);
    m->call.key_rows = b->block.rows;
    m->call.key = key.data;
    m->call.key_stride = key.row_stride;
    if (b->block.skip || key.dtype != RA_F32 || key.dim_stride != 1 || key.row_stride != m->call.head_dim) {
        pack_edge(run, &key, &b->block, m->call.head_dim, m->key);
        m->call.key = m->key;
        m->call.key_stride = m->call.head_dim;
    }
    if (b->block.skip) {
        /* Values are packed from the first row of the block on; rows that are not here must be zeros. */
        pack_edge(run, &value, &b->block, m->call.value_dim, m->edge);
        int64_t zeros = (int64_t)(b->block.skip / RA_KEY_UNIT * RA_KEY_UNIT) * m->call.value_dim;
        for (int64_t i = 0; i < zeros; i++)
            m->edge[i] = 0.0f;
        value = (ra_rows){m->edge, RA_F32, m->call.value_dim, 1};
    }
    m->call.guard = !run->kernel->pack_value(&value, b->block.rows, m->call.value_dim, m->staging, m->value);
}

/* The rows after this block's, which the next block most likely has, to be asked for in `bursts` bursts. */
static ra_fetch fetch_plan(const ra_tensor *t, int64_t batch, int64_t head, int64_t first, int64_t bursts)
{
    enum { LINE = 64 };
    int64_t size = (int64_t)ra_dtype_size(t->dtype), rows = ra_max(0, ra_min(RA_KEY_BLOCK, t->seq - first));
    ra_fetch f = {NULL, t->seq_stride * size, (int)rows, (int)(t->dim * size), 0, 0};
    if (rows > 0 && t->dim_stride == 1)
        f.row = ra_rows_at(t, batch, first, head).data;
    else
        f.rows = 0;
    f.burst = (int)ra_ceil_div(rows * ra_ceil_div(f.bytes, LINE), bursts);
    return f;
}

static void plan_fetches(const ra_run *run, tile_memory *m, const ra_tiles *tiles, int64_t batch, int64_t head,
                         const ra_key_block *b)
{
    int64_t next = b->row + b->block.rows - b->block.skip, groups = tiles->group_count;
    m->fetch_key = fetch_plan(b->k, batch, head, next, groups * (RA_KEY_BLOCK / RA_KEY_UNIT));
    m->fetch_value = fetch_plan(b->v, batch, head, next, groups * ra_ceil_div(run->plan->value_dim, RA_PANEL));
}

/* One group against one block; returns the visible pairs. */
static double work_tile(ra_worker *w, tile_memory *m, const ra_tiles *tiles, int group, const ra_block *block,
                        float *state)
{
    ra_tile tile;
    if (!ra_tiles_part(tiles, group, block, &tile))
        return 0;
    int64_t keys = tile.end - tile.begin, visible = keys * tiles->groups[group].rows;
    ra_tile_call *c = &m->call;
    c->begin = tile.begin;
    c->end = tile.end;
    c->lo = c->hi = NULL;
    c->fetch_key = &m->fetch_key;
    c->fetch_value = &m->fetch_value;
    if (tile.masked) {
        visible = ra_tiles_mask(tiles, group, block, m->lo, m->hi);
        c->lo = m->lo;
        c->hi = m->hi;
    }
    c->query = m->query + (int64_t)group * tiles->lanes * c->head_dim;
    c->next_query = m->query + (int64_t)((group + 1) % tiles->group_count) * tiles->lanes * c->head_dim;
    c->state = state;
    w->run->kernel->tile(c);
    w->counts.tiles += 1;
    w->counts.pairs_worked += (double)(keys * tiles->lanes);
    return (double)visible;
}

/* A task's groups, with their queries packed and their states ready. */
static void start_groups(ra_worker *w, tile_memory *m, ra_tiles *tiles, int64_t batch, int64_t head,
                         int64_t first_group, int groups, float *state)
{
    const ra_run *run = w->run;
    const ra_plan *p = run->plan;
    for (int g = 0; g < groups; g++) {
        ra_group group = ra_group_at(&run->work->queries, tiles->lanes, first_group + g);
        ra_tiles_add(tiles, &p->pattern, group.query + p->offset, group.rows);
        ra_rows query = ra_rows_at(run->q, batch, ra_query_row(run, &group), head);
        run->kernel->pack_query(&query, group.rows, p->head_dim, p->query_factor,
                                m->query + (int64_t)g * tiles->lanes * p->head_dim);
        if (!run->resume)
            ra_state_clear(state + g * p->unit_floats, tiles->lanes, p->unit_floats);
    }
}

/* All groups through one set of keys; false when cancelled. */
static bool work_keys(ra_worker *w, tile_memory *m, ra_tiles *tiles, int64_t batch, int64_t kv_head,
                      const ra_keys *keys, ra_interval within, float *state)
{
    const ra_run *run = w->run;
    ra_key_walk walk = ra_key_walk_begin(keys, tiles, within);
    ra_key_block block;
    while (ra_key_walk_next(&walk, &block)) {
        double visible = 0;
        take_block(run, m, batch, kv_head, &block);
        plan_fetches(run, m, tiles, batch, kv_head, &block);
        for (int g = 0; g < tiles->group_count; g++)
            visible += work_tile(w, m, tiles, g, &block.block, state + g * run->plan->unit_floats);
        if (ra_worker_done(w, visible))
            return false;
    }
    return true;
}

/* Tile 0 is worked last and has what is left over: threads that end with small tasks end at nearly the same time. */
static int64_t first_of_tile(const ra_workload *work, int64_t tile)
{
    return tile ? work->groups - (work->q_tiles - tile) * work->tile_groups : 0;
}

void ra_tile_task(ra_worker *w, int64_t task)
{
    const ra_run *run = w->run;
    const ra_plan *p = run->plan;
    const ra_workload *work = run->work;

    /* The last queries first: with a causal pattern they see the most keys. */
    int64_t span = task % run->spans, rest = task / run->spans;
    int64_t head = rest % p->heads, kv_head = head / p->group_heads, batch = rest / p->heads % p->batch;
    int64_t tile = work->q_tiles - 1 - rest / p->heads / p->batch, first_group = first_of_tile(work, tile);
    int groups = (int)(first_of_tile(work, tile + 1) - first_group);

    tile_memory m = lay_out(w);
    float *state = m.state;
    if (run->states)
        state = ra_unit_state(run, span, (batch * p->heads + head) * work->groups + first_group);
    ra_tiles tiles = {work->lanes,
                      0,
                      (ra_interval *)(w->scratch + work->scratch.rows),
                      (ra_group_bounds *)(w->scratch + work->scratch.groups),
                      0,
                      0};
    start_groups(w, &m, &tiles, batch, head, first_group, groups, state);

    for (int64_t set = 0; set < run->key_sets; set++)
        if (!work_keys(w, &m, &tiles, batch, kv_head, &run->keys[set], ra_span_keys(run, span), state))
            return;
    for (int g = 0; !run->states && g < groups; g++) {
        ra_group group = ra_group_at(&work->queries, work->lanes, first_group + g);
        ra_finish(run, batch, head, &group, state + g * p->unit_floats);
    }
}
