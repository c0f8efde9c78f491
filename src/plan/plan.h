/* SPDX-License-Identifier: Apache-2.0 */
/* WHAT a run does: tiles, counts and bytes, from integers alone. No input or output, no threads. */
#ifndef RA_PLAN_PLAN_H
#define RA_PLAN_PLAN_H

#include "base/checked.h"
#include "plan/groups.h"
#include "plan/tiles.h"

/* Tile orders other than row go through squares of this many groups and key blocks, for any number of threads. */
enum { RA_SUPER_TILE = 8 };

/* Blocks of keys below which a span of them is not worth a task of its own. */
enum { RA_SMALLEST_SPAN_BLOCKS = 32 };

/* Key/value heads that a task of the decoding variant works together, at most. */
enum { RA_DECODE_HEADS = 8 };

/* Some queries of the problem, all or a rank's, and how they are divided into tasks. */
typedef struct ra_workload {
    ra_share queries;
    int threads;
    ra_grouping grouping;  /* with one lane for decoding */
    int64_t groups;        /* of a head */
    int64_t tile_groups;   /* of a task */
    int64_t tile_units;    /* groups that a task works on in one branch, at most */
    int64_t q_tiles;       /* tasks along the queries */
    int64_t blocks;        /* of keys that are packed at a time */
    int64_t task_heads;    /* of a task: key/value heads (decoding variant) or query heads that share one (tiles) */
    int64_t at_once;       /* queries of a head that a decoding task works at a time, at most */
    int64_t stack;         /* query heads whose rows share the lanes of a group */
    int64_t tasks;         /* with one span of keys */
    int64_t units;         /* states: groups over batch and stacks */
    bool by_rate;          /* query tiles of a branch have as many more groups as its rate says (backward passes) */
    bool states_elsewhere; /* the rows' states are not in the workers' scratch */
    int64_t scratch_bytes; /* of each worker */
    double tiles, pairs_visible, pairs_worked;
} ra_workload;

struct ra_plan {
    int64_t batch, q_len, kv_len, heads, kv_heads, group_heads; /* group_heads: query heads to a key/value head */
    int head_dim, value_dim;
    double scale;
    float query_factor; /* what queries and scores are multiplied by; the product is scale * log2(e) */
    float score_factor;
    int64_t offset; /* position of query 0, counted from key 0: kv_len - q_len unless the problem says another */
    int64_t key_position;
    bool placed;        /* it does: queries stay there when there are fewer keys */
    ra_pattern pattern; /* owned */
    /* NULL: scores are as they are. Owned; see score/scores.h. The planner only counts its bytes. */
    struct ra_scores *scores;
    int64_t scores_bytes;
    bool has_bias; /* scores have one: it is for kv_len keys alone */
    bool staged;   /* scores change between the product and the mask */

    ra_kernel_id kernel;
    ra_precision precision; /* that was asked for, be it by the name of a kernel */
    bool kernel_open;       /* neither was: a run of tiles in bfloat16 takes a fast kernel where there is one */
    int threads_asked;      /* 0: as many as there are cores */
    ra_blocking blocking;
    int64_t (*scratch_bytes)(const ra_plan *plan, const ra_workload *work); /* that a worker needs: exec says it */
    ra_variant variant;
    ra_tile_order tiles;
    ra_progress progress;
    void *progress_user;

    int64_t spans;       /* parts of the keys that are worked independently and merged in order */
    int64_t span_keys;   /* keys of a span, a multiple of RA_KEY_BLOCK */
    int64_t unit_floats; /* state of one group (tile) or of one row (decoding) */
    ra_workload all;     /* every query, for a run in one piece */
    int64_t part_bytes;  /* states of all spans, when there are several */

    double flops;
    int64_t peak_bytes;
};

/*
 * Everything below the variant. The caller has set what is above: the problem's figures, the pattern, the kernel, its
 * blocking and scratch_bytes.
 */
ra_status ra_plan_lay_out(ra_plan *plan, int threads);

/*
 * Threads that a run in one piece takes of those that it may: as many as have enough to do. Needs the tasks and counts
 * of plan->all. The bits of a result do not depend on it.
 */
int ra_plan_threads(const ra_plan *plan, int threads);

/*
 * Divide a share of the queries into tasks for `threads` threads, which work through those of `shares` such shares
 * without a stop. `states`: the rows' states live elsewhere, not in the workers' scratch. The counts are left to
 * ra_workload_count.
 */
void ra_workload_lay_out(ra_workload *work, const ra_plan *plan, ra_share queries, int threads, int64_t shares,
                         bool states);

/*
 * Query heads head .. head + heads - 1, which share a key/value head. Where queries are few, the rows of all of them
 * are in one group, head after head. Rows keep their bits: lanes know nothing of each other.
 */
typedef struct ra_stack {
    int64_t head, heads;
} ra_stack;

/* Stacks of a key/value head. */
static inline int64_t ra_stacks_of_head(const ra_workload *work, const ra_plan *plan)
{
    return ra_ceil_div(plan->group_heads, work->stack);
}

ra_stack ra_stack_at(const ra_workload *work, const ra_plan *plan, int64_t number);

/* The problem's position of a query that is at a place, its index + offset. */
static inline int64_t ra_plan_position(const ra_plan *plan, int64_t place)
{
    return ra_pattern_position(&plan->pattern, place) + plan->key_position;
}

/* The problem's position of a key. */
static inline int64_t ra_plan_key_position(const ra_plan *plan, int64_t key)
{
    return key + plan->key_position;
}

/* Bytes that the plan holds, its pattern and scores with it. */
int64_t ra_plan_bytes(const ra_plan *plan);

/* Tiles and pairs, from the pattern alone: what a run counts tile by tile must come out the same. */
ra_status ra_workload_count(ra_workload *work, const ra_plan *plan);

/* Visible pairs of a share of the keys, the same way: what all queries, of all batches and heads, see of them. */
ra_status ra_count_key_pairs(const ra_plan *plan, const ra_share *keys, double *pairs);

/*
 * The first group of a query tile. Tile 0 is worked last and has what is left over: threads that end with small tasks
 * end at nearly the same time.
 */
static inline int64_t ra_first_of_tile(const ra_workload *work, int64_t tile)
{
    return tile ? work->groups - (work->q_tiles - tile) * work->tile_groups : 0;
}

/* ---- Backward passes (gradient_work.c) --------------------------------------------------------------------------- */

/*
 * Divide a share of the queries into tasks of a backward pass. Tasks of a key/value head form a chain: they add to the
 * gradients of its keys in their order. A task is a query tile of all query heads of the chain where these see the same
 * keys, else of one of them in one branch.
 */
void ra_workload_lay_out_gradient(ra_workload *work, const ra_plan *plan, ra_share queries, int threads);

/* Groups of the share that make a query tile of a branch, and how many such tiles there are. */
typedef struct ra_branch_tiles {
    int64_t groups, tiles;
} ra_branch_tiles;

ra_branch_tiles ra_tiles_of_branch(const ra_workload *work, const ra_lattice *lattice);

static inline int64_t ra_first_of_branch_tile(const ra_workload *work, const ra_branch_tiles *t, int64_t tile)
{
    return tile ? work->groups - (t->tiles - tile) * t->groups : 0;
}

/* Tasks of a key/value head. */
int64_t ra_chain_tasks(const ra_workload *work, const ra_plan *plan, int64_t kv_head);

/* One of them: query heads first_head .. first_head + heads - 1 in a branch, and a query tile. */
typedef struct ra_gradient_tile {
    int64_t first_head, heads;
    int branch;
    int64_t first_group, groups;
} ra_gradient_tile;

ra_gradient_tile ra_gradient_tile_at(const ra_workload *work, const ra_plan *plan, int64_t kv_head, int64_t task);

/* Floats of one unit, a group of one query head: packed twice, with its sums. */
int64_t ra_gradient_unit_floats(const ra_plan *plan);

/* The whole problem in one piece: its tasks, counts and flops. */
typedef struct ra_gradient_work {
    ra_workload all;
    int64_t peak_bytes; /* with gradients of RA_F32 */
    double flops;
} ra_gradient_work;

ra_status ra_gradient_lay_out(ra_gradient_work *work, const ra_plan *plan, int threads,
                              int64_t (*scratch_bytes)(const ra_plan *plan, const ra_workload *work));

#endif
