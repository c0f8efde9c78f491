#include "exec/exec.h"

#include "base/checked.h"

/* The memory of a task, out of the worker's scratch. */
typedef struct tile_memory {
    float *query, *key, *staging, *value, *state;
    ra_tile_call call; /* what is the same for every tile is set once */
    int32_t *lo, *hi;
    ra_fetch fetch_key, fetch_value; /* of the next block */
} tile_memory;

static tile_memory lay_out(const ra_worker *w)
{
    const ra_plan *p = w->run->plan;
    const ra_scratch *s = &p->scratch;
    char *at = w->scratch;
    tile_memory m = {0};
    m.query = (float *)(at + s->query);
    m.key = (float *)(at + s->key);
    m.staging = (float *)(at + s->staging);
    m.value = (float *)(at + s->value);
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

/* Keys in place where a kernel can read them, else widened; values always packed. */
static void take_block(const ra_run *run, tile_memory *m, int64_t batch, int64_t head, const ra_block *block)
{
    ra_rows key = ra_rows_at(run->k, batch, block->first, head), value = ra_rows_at(run->v, batch, block->first, head);
    m->call.key_rows = block->rows;
    m->call.key = key.data;
    m->call.key_stride = key.row_stride;
    if (key.dtype != RA_F32 || key.dim_stride != 1 || key.row_stride != m->call.head_dim) {
        run->kernel->pack_rows(&key, block->rows, m->call.head_dim, m->key);
        m->call.key = m->key;
        m->call.key_stride = m->call.head_dim;
    }
    m->call.guard = !run->kernel->pack_value(&value, block->rows, m->call.value_dim, m->staging, m->value);
}

/* The rows of the block after this one, to be asked for in `bursts` bursts. */
static ra_fetch fetch_plan(const ra_tensor *t, int64_t batch, int64_t head, int64_t first, int64_t end, int64_t bursts)
{
    enum { LINE = 64 };
    int64_t size = (int64_t)ra_dtype_size(t->dtype), rows = ra_max(0, ra_min(RA_KEY_BLOCK, end - first));
    ra_fetch f = {NULL, t->seq_stride * size, (int)rows, (int)(t->dim * size), 0, 0};
    if (rows > 0 && t->dim_stride == 1)
        f.row = ra_rows_at(t, batch, first, head).data;
    else
        f.rows = 0;
    f.burst = (int)ra_ceil_div(rows * ra_ceil_div(f.bytes, LINE), bursts);
    return f;
}

static void plan_fetches(const ra_run *run, tile_memory *m, const ra_tiles *tiles, int64_t batch, int64_t head,
                         const ra_block *block)
{
    int64_t next = block->first + RA_KEY_BLOCK, groups = tiles->group_count;
    m->fetch_key = fetch_plan(run->k, batch, head, next, tiles->end, groups * (RA_KEY_BLOCK / RA_KEY_UNIT));
    m->fetch_value =
        fetch_plan(run->v, batch, head, next, tiles->end, groups * ra_ceil_div(run->plan->value_dim, RA_PANEL));
}

/* One group against one block; returns the visible pairs. */
static double work_tile(ra_worker *w, tile_memory *m, const ra_tiles *tiles, int group, const ra_block *block,
                        float *state)
{
    ra_tile tile;
    if (!ra_tiles_part(tiles, group, block, &tile))
        return 0;
    int64_t keys = tile.end - tile.begin, visible = keys * ra_tiles_rows(tiles, group);
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

void ra_tile_task(ra_worker *w, int64_t task)
{
    const ra_run *run = w->run;
    const ra_plan *p = run->plan;
    int lanes = p->blocking.lanes;

    /* The last queries first: with a causal pattern they see the most keys. */
    int64_t span = task % p->spans, rest = task / p->spans;
    int64_t head = rest % p->heads, kv_head = head / p->group_heads, batch = rest / p->heads % p->batch;
    int64_t tile = p->q_tiles - 1 - rest / p->heads / p->batch, first = tile * p->tile_rows;
    int rows = (int)ra_min(p->tile_rows, p->q_len - first);

    tile_memory m = lay_out(w);
    ra_interval keys = ra_span_keys(p, span);
    ra_tiles tiles;
    ra_tiles_begin(&tiles, &p->pattern, first + p->offset, rows, lanes, keys.lo, keys.hi,
                   (ra_interval *)(w->scratch + p->scratch.rows), (ra_group_bounds *)(w->scratch + p->scratch.groups));
    float *state = m.state;
    if (run->parts)
        state = ra_part(run, span, (batch * p->heads + head) * ra_ceil_div(p->q_len, lanes) + first / lanes);
    for (int g = 0; g < tiles.group_count; g++) {
        ra_rows query = ra_rows_at(run->q, batch, first + (int64_t)g * lanes, head);
        run->kernel->pack_query(&query, ra_tiles_rows(&tiles, g), p->head_dim, p->query_factor,
                                m.query + (int64_t)g * lanes * p->head_dim);
        ra_state_clear(state + g * p->unit_floats, lanes, p->unit_floats);
    }

    ra_block block;
    while (ra_tiles_next(&tiles, &block)) {
        double visible = 0;
        take_block(run, &m, batch, kv_head, &block);
        plan_fetches(run, &m, &tiles, batch, kv_head, &block);
        for (int g = 0; g < tiles.group_count; g++)
            visible += work_tile(w, &m, &tiles, g, &block, state + g * p->unit_floats);
        if (ra_worker_done(w, visible))
            return;
    }
    for (int g = 0; !run->parts && g < tiles.group_count; g++)
        ra_finish(run, batch, head, first + (int64_t)g * lanes, ra_tiles_rows(&tiles, g), state + g * p->unit_floats);
}
