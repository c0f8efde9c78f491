#include "exec/exec.h"

#include "base/checked.h"

/* The memory of a task, out of the worker's scratch. */
typedef struct tile_memory {
    float *query, *key, *staging, *value, *state;
    ra_tile_call call; /* what is the same for every tile is set once */
    int32_t *lo, *hi;
} tile_memory;

static tile_memory lay_out(const ra_worker *w)
{
    const ra_plan *p = w->run->plan;
    const ra_scratch *s = &p->scratch;
    char *at = w->scratch;
    tile_memory m = {(float *)(at + s->query), (float *)(at + s->key),   (float *)(at + s->staging),
                     (float *)(at + s->value), (float *)(at + s->state), {0},
                     (int32_t *)(at + s->lo),  (int32_t *)(at + s->hi)};
    m.call.head_dim = p->head_dim;
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

/* Ask for the rows from `begin` to `end` of a block that comes later, while this one is worked. */
static void fetch_rows(const ra_tensor *t, int64_t batch, int64_t seq, int64_t head, int64_t begin, int64_t end)
{
    enum { LINE = 64 };
    int64_t bytes = t->dim * (int64_t)ra_dtype_size(t->dtype);
    for (int64_t row = begin; row < end; row++) {
        const char *at = ra_rows_at(t, batch, seq + row, head).data;
        for (int64_t i = 0; i < bytes; i += LINE)
            __builtin_prefetch(at + i, 0, 2);
    }
}

/* The share of group `group` in fetching the block after `block`. */
static void fetch_share(const ra_run *run, const ra_tiles *tiles, int64_t batch, int64_t head, const ra_block *block,
                        int group)
{
    int64_t first = block->first + RA_KEY_BLOCK, rows = ra_min(RA_KEY_BLOCK, tiles->end - first);
    int64_t begin = rows * group / tiles->group_count, end = rows * (group + 1) / tiles->group_count;
    fetch_rows(run->k, batch, first, head, begin, end);
    fetch_rows(run->v, batch, first, head, begin, end);
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
    if (tile.masked) {
        visible = ra_tiles_mask(tiles, group, block, m->lo, m->hi);
        c->lo = m->lo;
        c->hi = m->hi;
    }
    c->query = m->query + (int64_t)group * tiles->lanes * c->head_dim;
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
        run->kernel->pack_query(&query, ra_tiles_rows(&tiles, g), p->head_dim, p->factor,
                                m.query + (int64_t)g * lanes * p->head_dim);
        ra_state_clear(state + g * p->unit_floats, lanes, p->unit_floats);
    }

    ra_block block;
    while (ra_tiles_next(&tiles, &block)) {
        double visible = 0;
        take_block(run, &m, batch, kv_head, &block);
        for (int g = 0; g < tiles.group_count; g++) {
            fetch_share(run, &tiles, batch, kv_head, &block, g);
            visible += work_tile(w, &m, &tiles, g, &block, state + g * p->unit_floats);
        }
        if (ra_worker_done(w, visible))
            return;
    }
    for (int g = 0; !run->parts && g < tiles.group_count; g++)
        ra_finish(run, batch, head, first + (int64_t)g * lanes, ra_tiles_rows(&tiles, g), state + g * p->unit_floats);
}
