#include "exec/exec.h"

#include "base/checked.h"

/* A task: some key/value heads of one batch over a span of keys, for all queries of all their query heads. */
typedef struct decode_task {
    int64_t batch, first_head, heads, span; /* key/value heads */
    float *query;                           /* [heads][group_heads][q_len][head_dim] */
    float *state;                           /* the same order, unit_floats each; NULL when in ra_run.parts */
    ra_decode_call call;
} decode_task;

static decode_task lay_out(const ra_worker *w, int64_t task)
{
    const ra_plan *p = w->run->plan;
    int64_t head_tasks = ra_ceil_div(p->kv_heads, p->task_heads);
    decode_task t = {0};
    t.span = task % p->spans;
    t.first_head = task / p->spans % head_tasks * p->task_heads;
    t.batch = task / p->spans / head_tasks;
    t.heads = ra_min(p->task_heads, p->kv_heads - t.first_head);
    t.query = (float *)(w->scratch + p->scratch.query);
    t.state = w->run->parts ? NULL : (float *)(w->scratch + p->scratch.state);
    t.call.head_dim = p->head_dim;
    t.call.value_dim = p->value_dim;
    t.call.scores = (float *)(w->scratch + p->scratch.scores);
    return t;
}

/* Rows of a task are numbered [head of the task][query head of its group][query]. */
static float *state_of(const ra_run *run, const decode_task *t, int64_t row)
{
    const ra_plan *p = run->plan;
    if (t->state)
        return t->state + row * p->unit_floats;
    return ra_part(run, t->span, (t->batch * p->heads + t->first_head * p->group_heads) * p->q_len + row);
}

static void start_rows(const ra_run *run, const decode_task *t)
{
    const ra_plan *p = run->plan;
    for (int64_t row = 0; row < t->heads * p->group_heads * p->q_len; row++) {
        int64_t head = t->first_head * p->group_heads + row / p->q_len;
        ra_rows from = ra_rows_at(run->q, t->batch, row % p->q_len, head);
        float *query = t->query + row * p->head_dim;
        run->kernel->pack_rows(&from, 1, p->head_dim, query);
        for (int d = 0; d < p->head_dim; d++)
            query[d] *= p->factor;
        ra_state_clear(state_of(run, t, row), 1, p->unit_floats);
    }
}

/* Rows as the kernel reads them: in place, or widened into `packed`. */
static const float *readable(const ra_run *run, const ra_rows *rows, int count, int dim, float *packed, int64_t *stride)
{
    if (rows->dtype == RA_F32 && rows->dim_stride == 1) {
        *stride = rows->row_stride;
        return rows->data;
    }
    run->kernel->pack_rows(rows, count, dim, packed);
    *stride = dim;
    return packed;
}

/* The rows of one key/value head against one block; returns the visible pairs. */
static double work_head(ra_worker *w, decode_task *t, const ra_tiles *tiles, const ra_block *block, int64_t head)
{
    const ra_run *run = w->run;
    const ra_plan *p = run->plan;
    ra_decode_call *c = &t->call;
    ra_rows key = ra_rows_at(run->k, t->batch, block->first, t->first_head + head);
    ra_rows value = ra_rows_at(run->v, t->batch, block->first, t->first_head + head);
    c->key = readable(run, &key, block->rows, p->head_dim, (float *)(w->scratch + p->scratch.key), &c->key_stride);
    c->value =
        readable(run, &value, block->rows, p->value_dim, (float *)(w->scratch + p->scratch.value), &c->value_stride);
    /* What comes next: the same block of the next head, or the next block of the first. */
    bool last = head + 1 == t->heads, in_place = c->key == key.data;
    c->next_key = NULL;
    if (in_place && !last)
        c->next_key = c->key + run->k->head_stride;
    else if (in_place && block->first + 2 * RA_KEY_BLOCK <= p->kv_len)
        c->next_key = ra_rows_at(run->k, t->batch, block->first + RA_KEY_BLOCK, t->first_head).data;
    c->cold = c->value == value.data;

    double visible = 0;
    int64_t rows = p->group_heads * p->q_len;
    for (int64_t row = 0; row < rows; row++) {
        ra_tile tile;
        int query = (int)(row % p->q_len);
        if (!ra_tiles_part(tiles, query, block, &tile))
            continue;
        c->begin = (int)ra_max(tiles->rows[query].lo - block->first, 0);
        c->end = (int)ra_min(tiles->rows[query].hi - block->first, block->rows);
        c->query = t->query + (head * rows + row) * p->head_dim;
        c->state = state_of(run, t, head * rows + row);
        run->kernel->decode(c);
        c->cold = false;
        c->next_key = NULL;
        visible += c->end - c->begin;
        w->counts.tiles += 1;
        w->counts.pairs_worked += tile.end - tile.begin;
    }
    return visible;
}

void ra_decode_task(ra_worker *w, int64_t task)
{
    const ra_run *run = w->run;
    const ra_plan *p = run->plan;
    decode_task t = lay_out(w, task);
    start_rows(run, &t);

    ra_interval keys = ra_span_keys(p, t.span);
    ra_tiles tiles;
    ra_block block;
    ra_tiles_begin(&tiles, &p->pattern, p->offset, (int)p->q_len, 1, keys.lo, keys.hi,
                   (ra_interval *)(w->scratch + p->scratch.rows), (ra_group_bounds *)(w->scratch + p->scratch.groups));
    while (ra_tiles_next(&tiles, &block)) {
        double visible = 0;
        for (int64_t head = 0; head < t.heads; head++)
            visible += work_head(w, &t, &tiles, &block, head);
        if (ra_worker_done(w, visible))
            return;
    }
    for (int64_t row = 0; t.state && row < t.heads * p->group_heads * p->q_len; row++)
        ra_finish(run, t.batch, t.first_head * p->group_heads + row / p->q_len, row % p->q_len, 1,
                  state_of(run, &t, row));
}
