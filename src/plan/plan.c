#include "plan/plan.h"

#include "base/checked.h"
#include "base/memory.h"

/*
 * Tasks a run should have, whatever machine it is on, before the keys are split: enough to keep many cores busy. It
 * must not depend on the number of threads, because a split changes the order of a row's arithmetic.
 */
enum { ENOUGH_TASKS = 64, SMALLEST_SPAN_BLOCKS = 32, DECODE_HEADS = 8, DECODE_ROWS = 64 };

/* Arrays at distances of a power of two would fall on the same cache sets; a few lines in between avoid it. */
static int64_t place(int64_t *bytes, int64_t size)
{
    enum { GAP = 192 };
    int64_t at = *bytes;
    *bytes += ra_memory_rounded(size) + GAP;
    return at;
}

static void split_keys(ra_plan *p, int64_t tasks)
{
    int64_t blocks = ra_ceil_div(p->kv_len, RA_KEY_BLOCK);
    int64_t wanted = ra_max(1, ra_min(ENOUGH_TASKS / tasks, blocks / SMALLEST_SPAN_BLOCKS));
    int64_t span_blocks = ra_ceil_div(blocks, wanted);
    p->span_keys = span_blocks * RA_KEY_BLOCK;
    p->spans = ra_ceil_div(blocks, span_blocks);
}

/* Groups that share a pass over the keys: as many as fit the cache, but leaving several tasks for every thread. */
static int64_t groups_of_tile(const ra_plan *p, int64_t groups)
{
    const ra_blocking *b = &p->blocking;
    int64_t group_bytes = (int64_t)b->lanes * (p->head_dim + p->value_dim + 2) * (int64_t)sizeof(float);
    int64_t most = ra_max(1, ra_min(b->tile_groups, b->tile_bytes / group_bytes));
    int64_t per_thread = ra_max(1, p->batch * p->heads * groups / (8 * (int64_t)p->threads));
    int64_t tiles = ra_ceil_div(groups, ra_min(most, per_thread));
    return ra_ceil_div(groups, tiles);
}

static void lay_out_tiles(ra_plan *p)
{
    int lanes = p->blocking.lanes;
    int64_t groups = ra_ceil_div(p->q_len, lanes);
    split_keys(p, p->batch * p->heads * groups);
    int64_t tile_groups = groups_of_tile(p, groups);
    p->tile_rows = tile_groups * lanes;
    p->q_tiles = ra_ceil_div(groups, tile_groups);
    p->tasks = p->batch * p->heads * p->q_tiles * p->spans;
    p->unit_floats = ra_group_state_floats(lanes, p->value_dim);
    p->units = p->batch * p->heads * groups;

    int64_t f = sizeof(float), columns = ra_ceil_div(p->value_dim, RA_PANEL) * RA_PANEL;
    ra_scratch *s = &p->scratch;
    s->query = place(&s->bytes, tile_groups * lanes * p->head_dim * f);
    s->state = place(&s->bytes, p->spans > 1 ? 0 : tile_groups * p->unit_floats * f);
    s->key = place(&s->bytes, (int64_t)RA_KEY_BLOCK * p->head_dim * f);
    s->staging = place(&s->bytes, (int64_t)RA_KEY_BLOCK * p->value_dim * f);
    s->value = place(&s->bytes, RA_KEY_BLOCK * columns * f);
    s->scores = place(&s->bytes, (int64_t)RA_KEY_BLOCK * lanes * f);
    s->rows = place(&s->bytes, p->tile_rows * (int64_t)sizeof(ra_interval));
    s->groups = place(&s->bytes, tile_groups * (int64_t)sizeof(ra_group_bounds));
    s->lo = place(&s->bytes, lanes * (int64_t)sizeof(int32_t));
    s->hi = place(&s->bytes, lanes * (int64_t)sizeof(int32_t));
}

static void lay_out_decoding(ra_plan *p)
{
    int64_t head_rows = p->group_heads * p->q_len; /* rows that share the keys and values of one head */
    p->task_heads = ra_max(1, ra_min(ra_min(DECODE_HEADS, p->kv_heads), DECODE_ROWS / head_rows));
    int64_t head_tasks = ra_ceil_div(p->kv_heads, p->task_heads);
    split_keys(p, p->batch * head_tasks);
    p->tile_rows = p->q_len;
    p->q_tiles = 1;
    p->tasks = p->batch * head_tasks * p->spans;
    p->unit_floats = 2 + p->value_dim;
    p->units = p->batch * p->heads * p->q_len;

    int64_t f = sizeof(float), rows = p->task_heads * head_rows;
    ra_scratch *s = &p->scratch;
    s->query = place(&s->bytes, rows * p->head_dim * f);
    s->state = place(&s->bytes, p->spans > 1 ? 0 : rows * p->unit_floats * f);
    s->key = place(&s->bytes, (int64_t)RA_KEY_BLOCK * p->head_dim * f);
    s->value = place(&s->bytes, (int64_t)RA_KEY_BLOCK * p->value_dim * f);
    s->staging = place(&s->bytes, rows * (1 + p->value_dim) * f);
    s->scores = place(&s->bytes, rows * RA_KEY_BLOCK * f);
    s->rows = place(&s->bytes, p->q_len * (int64_t)sizeof(ra_interval));
    s->groups = place(&s->bytes, p->q_len * (int64_t)sizeof(ra_group_bounds));
    s->lo = place(&s->bytes, p->q_len * (int64_t)sizeof(int));
    s->hi = place(&s->bytes, p->q_len * (int64_t)sizeof(int));
}

/*
 * Counts, from the pattern alone: what the run counts tile by tile must come out the same. A group sees the keys from
 * its first to its last in one piece, so its tiles need not be walked.
 */
static void count(ra_plan *p, int lanes)
{
    ra_interval rows[64];
    double tiles = 0, visible = 0, worked = 0;
    for (int64_t first = 0; first < p->q_len; first += lanes) {
        int n = (int)ra_min(lanes, p->q_len - first);
        for (int i = 0; i < n; i++) {
            rows[i] = ra_pattern_interval(&p->pattern, first + p->offset + i);
            visible += (double)ra_max(0, rows[i].hi - rows[i].lo);
        }
        ra_group_bounds b = ra_group_bounds_of(rows, n);
        if (b.min_lo >= b.max_hi)
            continue;
        tiles += (double)(ra_ceil_div(b.max_hi, RA_KEY_BLOCK) - b.min_lo / RA_KEY_BLOCK);
        worked += (double)(ra_ceil_div(b.max_hi, RA_KEY_UNIT) - b.min_lo / RA_KEY_UNIT) * RA_KEY_UNIT * lanes;
    }
    double heads = (double)p->batch * (double)p->heads;
    p->tiles = tiles * heads;
    p->pairs_visible = visible * heads;
    p->pairs_worked = worked * heads;
    p->flops = 2 * p->pairs_visible * (double)(p->head_dim + p->value_dim);
}

ra_status ra_plan_lay_out(ra_plan *p, int threads)
{
    p->threads = threads;
    p->variant = p->q_len <= p->blocking.decode_queries ? RA_VARIANT_DECODE : RA_VARIANT_TILE;
    if (p->variant == RA_VARIANT_DECODE)
        lay_out_decoding(p);
    else
        lay_out_tiles(p);
    count(p, p->variant == RA_VARIANT_DECODE ? 1 : p->blocking.lanes);
    p->threads = (int)ra_min(threads, p->tasks);
    int64_t part_floats = 0, scratch;
    if (p->spans > 1 && (!ra_mul_ok(p->units, p->spans, &part_floats) ||
                         !ra_mul_ok(part_floats, p->unit_floats * (int64_t)sizeof(float), &part_floats)))
        return ra_fail(RA_ERROR_MEMORY, "%lld row states do not fit the address space", (long long)p->units);
    p->part_bytes = part_floats ? ra_memory_rounded(part_floats) : 0;
    if (!ra_mul_ok(p->scratch.bytes, p->threads, &scratch) || !ra_add_ok(scratch, p->part_bytes, &p->peak_bytes))
        return ra_fail(RA_ERROR_MEMORY, "scratch for %d threads does not fit the address space", p->threads);
    return RA_OK;
}
