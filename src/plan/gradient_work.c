/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays out the tasks of a backward pass. See plan.h. How much work they are: count.c.
 *
 * The order of additions to a row of d_key and d_value must not depend on how tasks are divided. So groups end
 * at every 64th query, tasks of one chain are in the order of their queries, and where heads share keys but see them
 * differently a task has one group. Groups of a dilated branch begin with their tile: its size follows from the problem
 * alone.
 */
#include "base/checked.h"
#include "base/memory.h"
#include "plan/plan.h"

enum {
    MOST_ROWS = 1024,
    UNIT_BYTES = 2560 << 10, /* of all units of a task, at most */
    TASKS_OF_THREAD = 8,
    RATE_MOST = 64
};

int64_t ra_gradient_unit_floats(const ra_plan *p)
{
    int64_t lanes = p->blocking.lanes, width = lanes - p->blocking.narrow;
    int64_t keys = ra_ceil_div(p->head_dim, width) * width, values = ra_ceil_div(p->value_dim, width) * width;
    return lanes * (p->head_dim + p->value_dim + keys + values + 3) + ra_group_state_floats(lanes, p->head_dim);
}

/* Heads whose groups see the same keys are worked together. */
static int64_t heads_of_task(const ra_plan *p)
{
    return ra_pattern_is_interval(&p->pattern) ? p->group_heads : 1;
}

/*
 * A pass over the keys costs the time to reach their rows and the rows of their gradients. If heads lie side by side,
 * each row is on a page of its own, so tiles are long.
 */
static int64_t groups_of_tile(const ra_plan *p, const ra_workload *w)
{
    if ((p->pattern.blocks || p->pattern.mask) && p->group_heads > 1)
        return 1;
    if (p->tiles != RA_TILES_ROW)
        return ra_min(RA_SUPER_TILE, w->groups);
    int64_t bytes = ra_gradient_unit_floats(p) * (int64_t)sizeof(float) * w->task_heads;
    int64_t most = ra_max(1, ra_min(MOST_ROWS / p->blocking.lanes, UNIT_BYTES / bytes));
    if (!p->pattern.dilation)
        most = ra_min(most, ra_max(1, p->batch * p->kv_heads * w->groups / (TASKS_OF_THREAD * (int64_t)w->threads)));
    return ra_ceil_div(w->groups, ra_ceil_div(w->groups, most));
}

/* Members of a branch that lie together are one run in a share of one or two ranges: tiles can have more groups. */
static bool few_ranges(const ra_share *queries)
{
    return !queries->step && queries->ranges <= 2;
}

void ra_workload_lay_out_gradient(ra_workload *w, const ra_plan *p, ra_share queries, int threads)
{
    enum { EDGES = 3 }; /* groups that a tile of a branch may have more, because runs of members end */
    *w = (ra_workload){.queries = queries, .threads = threads, .stack = 1, .states_elsewhere = true};
    w->grouping = (ra_grouping){p->blocking.lanes, p->blocking.narrow, p->offset, RA_KEY_BLOCK, 0};
    if (queries.rows == 0)
        return;
    w->groups = ra_group_count(&queries, &w->grouping);
    w->units = p->batch * p->heads * w->groups;
    w->blocks = p->tiles == RA_TILES_ROW ? 1 : RA_SUPER_TILE;
    w->task_heads = heads_of_task(p);
    w->by_rate = p->pattern.dilation && few_ranges(&queries);
    w->tile_groups = groups_of_tile(p, w);
    w->tile_units = w->tile_groups + (w->by_rate ? EDGES : 0);
    w->q_tiles = ra_ceil_div(w->groups, w->tile_groups);
    for (int64_t head = 0; head < p->kv_heads; head++)
        w->tasks += p->batch * ra_chain_tasks(w, p, head);
    w->threads = (int)ra_min(threads, w->tasks);
}

ra_branch_tiles ra_tiles_of_branch(const ra_workload *w, const ra_lattice *lattice)
{
    /* Positions to a member at least: fewer than the rate if that does not divide the segment. */
    int64_t apart = lattice->segment / lattice->members;
    int64_t groups = w->tile_groups * (w->by_rate ? ra_min(apart, RATE_MOST) : 1);
    return (ra_branch_tiles){groups, ra_ceil_div(w->groups, groups)};
}

/* ---- Chains ------------------------------------------------------------------------------------------------------ */

static ra_branch_tiles tiles_of(const ra_workload *w, const ra_plan *p, int64_t head, int branch)
{
    ra_lattice lattice = ra_pattern_lattice(&p->pattern, head, branch);
    return ra_tiles_of_branch(w, &lattice);
}

int64_t ra_chain_tasks(const ra_workload *w, const ra_plan *p, int64_t kv_head)
{
    if (!p->pattern.dilation)
        return w->q_tiles * (p->group_heads / w->task_heads);
    int64_t tasks = 0, first = kv_head * p->group_heads;
    for (int64_t head = first; head < first + p->group_heads; head++)
        for (int branch = 0; branch < ra_pattern_branches(&p->pattern, head); branch++)
            tasks += tiles_of(w, p, head, branch).tiles;
    return tasks;
}

static ra_gradient_tile tile_of(const ra_workload *w, const ra_branch_tiles *tiles, int64_t head, int64_t heads,
                                int branch, int64_t tile)
{
    int64_t first = ra_first_of_branch_tile(w, tiles, tile);
    return (ra_gradient_tile){head, heads, branch, first, ra_first_of_branch_tile(w, tiles, tile + 1) - first};
}

ra_gradient_tile ra_gradient_tile_at(const ra_workload *w, const ra_plan *p, int64_t kv_head, int64_t task)
{
    int64_t first = kv_head * p->group_heads, turns = p->group_heads / w->task_heads;
    if (!p->pattern.dilation) {
        const ra_branch_tiles tiles = {w->tile_groups, w->q_tiles};
        return tile_of(w, &tiles, first + task % turns * w->task_heads, w->task_heads, 0, task / turns);
    }
    for (int64_t head = first;; head++)
        for (int branch = 0; branch < ra_pattern_branches(&p->pattern, head); branch++) {
            ra_branch_tiles tiles = tiles_of(w, p, head, branch);
            if (task < tiles.tiles)
                return tile_of(w, &tiles, head, 1, branch, task);
            task -= tiles.tiles;
        }
}

/* ---- A problem in one piece -------------------------------------------------------------------------------------- */

ra_status ra_gradient_lay_out(ra_gradient_work *work, const ra_plan *p, int threads,
                              int64_t (*scratch_bytes)(const ra_plan *plan, const ra_workload *work))
{
    *work = (ra_gradient_work){.peak_bytes = ra_plan_bytes(p)};
    work->all.threads = 1;
    if (p->batch == 0 || p->q_len == 0 || p->kv_len == 0)
        return RA_OK;
    ra_workload_lay_out_gradient(&work->all, p, ra_share_of_range(0, p->q_len), threads);
    work->all.scratch_bytes = scratch_bytes(p, &work->all);
    ra_status status = ra_workload_count(&work->all, p);
    work->flops = 2 * work->all.pairs_visible * (3.0 * p->head_dim + 2.0 * p->value_dim);
    int64_t deltas = p->batch * p->heads * p->q_len * (int64_t)sizeof(float);
    work->peak_bytes += work->all.threads * work->all.scratch_bytes + ra_memory_rounded(deltas);
    return status;
}
