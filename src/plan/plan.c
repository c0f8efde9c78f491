/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays out the tasks of a problem: variant, query tiles, spans, scratch. How much work they are: count.c. See plan.h.
 */
#include "plan/plan.h"

#include "base/checked.h"
#include "base/memory.h"

/*
 * Tasks a run should have, whatever machine it is on, before the keys are split: enough to keep many cores busy. It
 * must not depend on the number of threads, because a split changes the order of a row's arithmetic.
 */
enum { ENOUGH_TASKS = 64, DECODE_ROWS = 64 };

/*
 * Parts that the keys should be split into, as far as tasks are few. Where batch elements have keys of different
 * lengths, a task should not be much more than one part in ENOUGH_TASKS of the work, whatever element it is of.
 */
static int64_t parts_wanted(const ra_plan *p, int64_t tasks)
{
    const ra_lengths *l = p->pattern.lengths;
    if (!l)
        return ENOUGH_TASKS / tasks;
    double keys = 0;
    for (int64_t i = 0; i < l->batch; i++)
        keys += (double)(ra_lengths_value(l, i, 1) - ra_lengths_value(l, i, 0));
    double work = keys * ((double)tasks / (double)p->batch); /* keys of all tasks */
    return work > 0 ? (int64_t)(ENOUGH_TASKS * (double)p->kv_len / work) : 1;
}

/* Queries of a head that a decoding task works at a time: those of a packed sequence see the same keys, or nearly. */
static int64_t queries_at_once(const ra_plan *p)
{
    return p->pattern.ragged ? ra_ragged_most_queries(p->pattern.ragged) : p->q_len;
}

static int64_t decode_task_heads(const ra_plan *p)
{
    int64_t rows = ra_max(1, p->group_heads * queries_at_once(p));
    return ra_max(1, ra_min(ra_min(RA_DECODE_HEADS, p->kv_heads), DECODE_ROWS / rows));
}

/*
 * Query heads whose rows fit a group together. Stages of scores are filled for one head at a time, and heads must see
 * the same keys.
 */
static int64_t heads_of_stack(const ra_plan *p)
{
    int64_t fit = p->q_len > 0 ? p->blocking.lanes / p->q_len : 1;
    if (p->staged || fit < 2 || !ra_pattern_is_interval(&p->pattern))
        return 1;
    int64_t stacks = ra_ceil_div(p->group_heads, fit);
    return ra_ceil_div(p->group_heads, stacks);
}

/*
 * Few queries are worked one row at a time, unless those of several heads fill a group. Of packed sequences, few of
 * each are enough: a group of several sequences would work each block of keys for all of its lanes, though few see it.
 */
static bool decodes(const ra_plan *p)
{
    bool filled = !p->pattern.ragged && 4 * p->q_len * heads_of_stack(p) >= 3 * (int64_t)p->blocking.lanes;
    return queries_at_once(p) <= p->blocking.decode_queries && ra_pattern_is_interval(&p->pattern) && !filled;
}

/* Tasks of the whole problem if each had one group. */
static int64_t smallest_tasks(const ra_plan *p)
{
    if (p->variant == RA_VARIANT_DECODE)
        return p->batch * ra_ceil_div(p->kv_heads, decode_task_heads(p));
    int64_t stacks = p->kv_heads * ra_ceil_div(p->group_heads, heads_of_stack(p));
    return p->batch * stacks * ra_ceil_div(p->q_len, p->blocking.lanes);
}

/*
 * Spans of which the states, one for each query in each span, take a sixteenth of the floats that keys and values have.
 * Packed sequences have many queries for their keys.
 */
static int64_t spans_of_small_states(const ra_plan *p)
{
    double read = (double)p->kv_len * (double)p->kv_heads * (double)(p->head_dim + p->value_dim);
    double states = (double)p->q_len * (double)p->heads * (double)p->unit_floats;
    return (int64_t)ra_max(1, read / (16 * states) < ENOUGH_TASKS ? (int64_t)(read / (16 * states)) : ENOUGH_TASKS);
}

/* The tasks of the whole problem decide, whatever share of it is worked here. */
static void split_keys(ra_plan *p)
{
    int64_t tasks = smallest_tasks(p);
    int64_t blocks = ra_ceil_div(p->kv_len, RA_KEY_BLOCK);
    int64_t wanted = ra_max(1, ra_min(parts_wanted(p, tasks), blocks / RA_SMALLEST_SPAN_BLOCKS));
    if (p->variant == RA_VARIANT_DECODE && p->pattern.ragged)
        wanted = ra_min(wanted, spans_of_small_states(p));
    if (p->pattern.dilation) /* a span would cut through blocks of a lattice's members */
        wanted = 1;
    int64_t span_blocks = ra_ceil_div(blocks, wanted);
    p->span_keys = span_blocks * RA_KEY_BLOCK;
    p->spans = ra_ceil_div(blocks, span_blocks);
}

/*
 * Of a tile of queries a branch of rate R has one in R, and packs all keys of their segments for these: longer tiles
 * have more groups to share them. What a segment's groups hold at a time is less than the whole tile.
 */
static int64_t dilated_tiles(const ra_pattern *pattern)
{
    enum { MOST = 3 };
    int64_t rate = 1;
    for (int i = 0; pattern->dilation && i < pattern->dilation->count; i++)
        rate = ra_max(rate, pattern->dilation->rate[i]);
    return ra_min(rate, MOST);
}

/* Groups that can share a pass over the keys: as many as fit the cache. */
static int64_t groups_that_fit(const ra_plan *p)
{
    const ra_blocking *b = &p->blocking;
    int64_t state_bytes = ra_group_state_floats(b->lanes, p->value_dim) * (int64_t)sizeof(float);
    int64_t group_bytes = (int64_t)b->lanes * p->head_dim * (int64_t)sizeof(float) + state_bytes;
    int64_t most = ra_max(1, ra_min(b->tile_groups, b->tile_bytes / group_bytes));
    if (!p->pattern.dilation)
        return most;
    /* There are states of the branch that is worked, too. */
    return ra_max(most, ra_min(most * dilated_tiles(&p->pattern), 2 * b->tile_bytes / (group_bytes + state_bytes)));
}

/* Those that do, leaving several tasks for every thread. */
static int64_t groups_of_tile(const ra_plan *p, int64_t groups, int threads, int64_t shares)
{
    if (p->tiles != RA_TILES_ROW)
        return ra_min(RA_SUPER_TILE, groups);
    int64_t most = groups_that_fit(p);
    int64_t per_thread = ra_max(1, p->batch * p->heads * groups * shares / (8 * (int64_t)threads));
    most = ra_min(most, per_thread);
    int64_t tiles = ra_ceil_div(groups, most);
    /* The tile that is worked last has half of what the others have, where that makes no tile too large. */
    int64_t uneven = ra_min(most, ra_ceil_div(2 * groups, 2 * tiles - 1));
    return ra_ceil_div(groups, uneven) == tiles ? uneven : ra_ceil_div(groups, tiles);
}

/*
 * Query heads of a task. Where each has one group at most, those of a key/value head share its packed blocks, as long
 * as every thread has something to do.
 */
static int64_t heads_of_task(const ra_workload *w, const ra_plan *p)
{
    if (w->groups > 1 || p->tiles != RA_TILES_ROW || !ra_pattern_is_interval(&p->pattern))
        return w->stack;
    int64_t stacks = ra_stacks_of_head(w, p), groups = p->batch * p->kv_heads * stacks * p->spans;
    int64_t most = ra_max(1, ra_min(groups_that_fit(p), groups / (4 * (int64_t)w->threads)));
    return ra_ceil_div(stacks, ra_ceil_div(stacks, most)) * w->stack;
}

static void lay_out_tiles(ra_workload *w, const ra_plan *p, int64_t shares)
{
    /* A bias has a row for each query, on pages of its own: a group takes several blocks while these are looked up. */
    w->blocks = p->tiles == RA_TILES_ROW && !p->has_bias ? 1 : RA_SUPER_TILE;
    w->task_heads = 1;
    w->tile_groups = w->tile_units = groups_of_tile(p, w->groups, w->threads, shares);
    w->q_tiles = ra_ceil_div(w->groups, w->tile_groups);
    w->tasks = p->batch * p->heads * w->q_tiles;
}

/* Heads that share keys and values are worked together: of all queries in one piece, where these are few. */
static void stack_heads(ra_workload *w, const ra_plan *p)
{
    if (p->variant == RA_VARIANT_DECODE || w->groups > 1)
        return;
    w->stack = heads_of_stack(p);
    w->task_heads = heads_of_task(w, p);
    w->units = p->batch * p->kv_heads * ra_stacks_of_head(w, p);
    w->tile_groups = w->tile_units = w->task_heads / w->stack;
    w->tasks = p->batch * p->kv_heads * ra_ceil_div(p->group_heads, w->task_heads);
    w->scratch_bytes = p->scratch_bytes(p, w);
}

ra_stack ra_stack_at(const ra_workload *w, const ra_plan *p, int64_t number)
{
    int64_t each = ra_stacks_of_head(w, p), kv_head = number / each, first = number % each * w->stack;
    return (ra_stack){kv_head * p->group_heads + first, ra_min(w->stack, p->group_heads - first)};
}

static void lay_out_decoding(ra_workload *w, const ra_plan *p)
{
    w->task_heads = decode_task_heads(p);
    w->at_once = ra_min(queries_at_once(p), w->queries.rows);
    w->tile_groups = w->tile_units = w->groups;
    w->q_tiles = 1;
    w->tasks = p->batch * ra_ceil_div(p->kv_heads, w->task_heads);
}

void ra_workload_lay_out(ra_workload *w, const ra_plan *p, ra_share queries, int threads, int64_t shares, bool states)
{
    *w = (ra_workload){.queries = queries, .threads = threads, .stack = 1, .states_elsewhere = states};
    w->grouping = (ra_grouping){1, 1, p->offset, 0, p->offset};
    if (p->variant == RA_VARIANT_TILE)
        w->grouping.lanes = p->blocking.lanes, w->grouping.narrow = p->blocking.narrow;
    /* A group in two rows of blocks would work on what either of them keeps. */
    const ra_blocks *blocks = p->pattern.blocks;
    bool placed = p->pattern.lengths && p->pattern.lengths->columns == 3; /* elements have their queries elsewhere */
    if (blocks && !p->pattern.dilation && !placed && !queries.step && blocks->size >= w->grouping.lanes)
        w->grouping.cut = blocks->size;
    if (queries.rows == 0)
        return;
    w->groups = ra_group_count(&queries, &w->grouping);
    w->units = p->batch * p->heads * w->groups;
    if (p->variant == RA_VARIANT_DECODE)
        lay_out_decoding(w, p);
    else
        lay_out_tiles(w, p, shares);
    w->scratch_bytes = p->scratch_bytes(p, w);
}

int64_t ra_plan_bytes(const ra_plan *p)
{
    return ra_memory_pages((int64_t)sizeof *p + ra_pattern_bytes(&p->pattern) + p->scores_bytes);
}

/* Without rows or without keys nothing is computed: there are no tasks, and the plan is all that is held. */
static void lay_out_nothing(ra_plan *p)
{
    p->spans = 1;
    p->span_keys = RA_KEY_BLOCK;
    p->all = (ra_workload){.threads = 1, .stack = 1, .grouping = {1, 1, p->offset, 0, p->offset}};
    p->part_bytes = 0;
    p->peak_bytes = ra_plan_bytes(p);
    p->flops = 0;
}

int ra_plan_threads(const ra_plan *p, int threads)
{
    /* Operations of one core in about the time that it takes to wake another; those of decoding wait for memory. */
    const double enough = p->variant == RA_VARIANT_DECODE ? 1 << 18 : 1 << 20;
    const ra_workload *w = &p->all;
    double work = 2 * w->pairs_worked * (double)(p->head_dim + p->value_dim);
    int64_t most = ra_min(threads, w->tasks * p->spans);
    return (int)(work < enough * (double)most ? ra_max(1, (int64_t)(work / enough)) : most);
}

ra_status ra_plan_lay_out(ra_plan *p, int threads)
{
    bool decoding = decodes(p);
    p->variant = decoding ? RA_VARIANT_DECODE : RA_VARIANT_TILE;
    p->unit_floats = decoding ? 2 + p->value_dim : ra_group_state_floats(p->blocking.lanes, p->value_dim);
    if (p->batch == 0 || p->q_len == 0 || p->kv_len == 0) {
        lay_out_nothing(p);
        return RA_OK;
    }
    split_keys(p);
    ra_workload *all = &p->all;
    ra_workload_lay_out(all, p, ra_share_of_range(0, p->q_len), threads, 1, p->spans > 1);
    stack_heads(all, p);
    ra_status status = ra_workload_count(all, p);
    if (status)
        return status;
    p->flops = 2 * all->pairs_visible * (double)(p->head_dim + p->value_dim);
    all->threads = ra_plan_threads(p, threads);
    int64_t part_floats = 0, scratch;
    if (p->spans > 1 && (!ra_mul_ok(all->units, p->spans, &part_floats) ||
                         !ra_mul_ok(part_floats, p->unit_floats * (int64_t)sizeof(float), &part_floats)))
        return ra_fail(RA_ERROR_MEMORY, "%lld row states do not fit the address space", (long long)all->units);
    p->part_bytes = part_floats ? ra_memory_rounded(part_floats) : 0;
    if (!ra_mul_ok(all->scratch_bytes, all->threads, &scratch) || !ra_add_ok(scratch, p->part_bytes, &p->peak_bytes) ||
        !ra_add_ok(p->peak_bytes, ra_plan_bytes(p), &p->peak_bytes))
        return ra_fail(RA_ERROR_MEMORY, "scratch for %d threads does not fit the address space", all->threads);
    return RA_OK;
}
