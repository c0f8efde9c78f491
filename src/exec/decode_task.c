#include "exec/exec.h"

#include "base/checked.h"

#include <stdlib.h>

/* A task: some key/value heads of one batch over a span of keys, for all queries of all their query heads. */
typedef struct decode_task {
    int64_t batch, first_head, heads, span; /* key/value heads */
    int64_t head_rows;                      /* query rows that share a head */
    float *query;                           /* [heads][head_rows][head_dim] */
    float *state;                           /* [heads][head_rows][unit_floats] */
    int *begin, *end;                       /* [q_len] */
    float *key, *value;                     /* room for a block of one head, widened */
    ra_decode_call call;                    /* what is the same for every block is set once */
} decode_task;

static decode_task lay_out(const ra_worker *w, int64_t task)
{
    const ra_plan *p = w->run->plan;
    const ra_scratch *s = &p->scratch;
    char *at = w->scratch;
    int64_t head_tasks = ra_ceil_div(p->kv_heads, p->task_heads);
    decode_task t = {0};
    t.span = task % p->spans;
    t.first_head = task / p->spans % head_tasks * p->task_heads;
    t.batch = task / p->spans / head_tasks;
    t.heads = ra_min(p->task_heads, p->kv_heads - t.first_head);
    t.head_rows = p->group_heads * p->q_len;
    t.query = (float *)(at + s->query);
    t.state = (float *)(at + s->state);
    if (w->run->parts)
        t.state = ra_part(w->run, t.span, (t.batch * p->kv_heads + t.first_head) * t.head_rows);
    t.begin = (int *)(at + s->lo);
    t.end = (int *)(at + s->hi);
    t.key = (float *)(at + s->key);
    t.value = (float *)(at + s->value);
    t.call.rows = (int)t.head_rows;
    t.call.queries = (int)p->q_len;
    t.call.begin = t.begin;
    t.call.end = t.end;
    t.call.head_dim = p->head_dim;
    t.call.factor = p->score_factor;
    t.call.value_dim = p->value_dim;
    t.call.scores = (float *)(at + s->scores);
    t.call.sums = (float *)(at + s->staging);
    return t;
}

static void start_rows(const ra_run *run, const decode_task *t)
{
    const ra_plan *p = run->plan;
    for (int64_t row = 0; row < t->heads * t->head_rows; row++) {
        int64_t head = t->first_head * p->group_heads + row / p->q_len;
        ra_rows from = ra_rows_at(run->q, t->batch, row % p->q_len, head);
        float *query = t->query + row * p->head_dim;
        run->kernel->pack_rows(&from, 1, p->head_dim, query);
        for (int d = 0; d < p->head_dim; d++)
            query[d] *= p->query_factor;
        ra_state_clear(t->state + row * p->unit_floats, 1, p->unit_floats);
    }
}

static bool in_place(const ra_tensor *t)
{
    return t->dtype == RA_F32 && t->dim_stride == 1;
}

/* Whether all heads of a position lie closer together than the positions of a head. */
static bool heads_inside(const ra_tensor *t)
{
    return in_place(t) && llabs(t->head_stride) <= llabs(t->seq_stride);
}

/* Rows of one head as the kernel reads them: in place, or widened into `packed`. */
static const float *readable(const ra_run *run, const ra_tensor *t, int64_t batch, int64_t seq, int64_t head, int rows,
                             float *packed, int64_t *stride)
{
    ra_rows from = ra_rows_at(t, batch, seq, head);
    *stride = t->seq_stride;
    if (in_place(t))
        return from.data;
    *stride = t->dim;
    run->kernel->pack_rows(&from, rows, (int)t->dim, packed);
    return packed;
}

/* What each query sees of a block; counts the pairs of `heads` key/value heads. */
static double see_block(ra_worker *w, const decode_task *t, const ra_tiles *tiles, const ra_block *block, int64_t heads)
{
    const ra_plan *p = w->run->plan;
    double visible = 0, query_heads = (double)(heads * p->group_heads);
    for (int q = 0; q < p->q_len; q++) {
        ra_tile tile;
        t->begin[q] = t->end[q] = 0;
        if (!ra_tiles_part(tiles, q, block, &tile))
            continue;
        t->begin[q] = (int)ra_max(tiles->rows[q].lo - block->first, 0);
        t->end[q] = (int)ra_min(tiles->rows[q].hi - block->first, block->rows);
        visible += t->end[q] - t->begin[q];
        w->counts.tiles += query_heads;
        w->counts.pairs_worked += (tile.end - tile.begin) * query_heads;
    }
    return visible * query_heads;
}

/* `heads` heads of the task, from its `head`-th on, against one block. */
static void work_heads(const ra_run *run, decode_task *t, const ra_block *block, int64_t head, int64_t heads)
{
    ra_decode_call *c = &t->call;
    int64_t row = head * t->head_rows;
    c->heads = (int)heads;
    c->key = readable(run, run->k, t->batch, block->first, t->first_head + head, block->rows, t->key, &c->key_stride);
    c->value =
        readable(run, run->v, t->batch, block->first, t->first_head + head, block->rows, t->value, &c->value_stride);
    c->next_key = c->key + RA_KEY_BLOCK * c->key_stride;
    c->key_head_stride = run->k->head_stride;
    c->value_head_stride = run->v->head_stride;
    c->query = t->query + row * c->head_dim;
    c->state = t->state + row * run->plan->unit_floats;
    run->kernel->decode(c);
}

void ra_decode_task(ra_worker *w, int64_t task)
{
    const ra_run *run = w->run;
    const ra_plan *p = run->plan;
    decode_task t = lay_out(w, task);
    start_rows(run, &t);

    /* In the order of memory: all heads of a block together, or one head after the other through the span. */
    int64_t step = heads_inside(run->k) && heads_inside(run->v) ? t.heads : 1;
    ra_interval keys = ra_span_keys(p, t.span);
    for (int64_t head = 0; head < t.heads; head += step) {
        ra_tiles tiles;
        ra_block block;
        ra_tiles_begin(&tiles, &p->pattern, p->offset, (int)p->q_len, 1, keys.lo, keys.hi,
                       (ra_interval *)(w->scratch + p->scratch.rows),
                       (ra_group_bounds *)(w->scratch + p->scratch.groups));
        while (ra_tiles_next(&tiles, &block)) {
            double visible = see_block(w, &t, &tiles, &block, step);
            work_heads(run, &t, &block, head, step);
            if (ra_worker_done(w, visible))
                return;
        }
    }
    for (int64_t row = 0; !run->parts && row < t.heads * t.head_rows; row++)
        ra_finish(run, t.batch, t.first_head * p->group_heads + row / p->q_len, row % p->q_len, 1,
                  t.state + row * p->unit_floats);
}
