/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HOW a run happens: tasks taken by threads, each over some query rows and the keys that are here.
 *
 *     executor.c     threads, merging, finishing; a whole problem in one piece
 *     scratch.c      where things are in a worker's scratch memory
 *     keys.c         where the keys and values of a block are
 *     cache_rows.c   the same in the pages of a cache, and scales of 8 bits
 *     tile_task.c    a tile of queries: groups in the vector lanes
 *     decode_task.c  few queries: one row at a time against streamed keys
 *     reference.c    the oracle, which shares none of this
 */
#ifndef RA_EXEC_EXEC_H
#define RA_EXEC_EXEC_H

#include "exec/scratch.h"
#include "kernel/kernel.h"
#include "plan/plan.h"

typedef struct ra_counts {
    double tiles, pairs_visible, pairs_worked;
    int threads; /* threads that worked */
} ra_counts;

/*
 * Keys and values that are here: the positions of a share. Where they lie:
 *     words NULL, owners NULL   k and v hold the whole sequence
 *     owners                    k[rank] and v[rank] hold that rank's share of it
 *     words                     k and v hold, one after the other, the positions whose bits are set: one word for each
 *                               block of `share`, and in `before` the rows that come before the block's first. Where
 *                               key/value heads differ in what is here, head h has words, rows before them and tensors
 *                               of its own: words + h * head_words, k[h]
 */
typedef struct ra_keys {
    ra_share share;
    const ra_tensor *k, *v;
    const ra_partition *owners;
    const uint64_t *words;
    const int64_t *before;
    int64_t head_words; /* 0: heads do not differ */
    const ra_cache
        *cache; /* NULL, or k and v are those of a cache with pages or scales, which has the whole sequence */
} ra_keys;

/* Called by the calling thread between key blocks, with the visible pairs done so far; non-zero: stop. */
typedef int (*ra_poll)(void *user, double pairs);

typedef struct ra_run {
    const ra_plan *plan;
    const ra_workload *work;
    const ra_kernel *kernel;
    const ra_tensor *q, *output, *lse; /* lse may be NULL */
    bool whole;                        /* q holds the whole sequence, not the workload's rows alone */
    bool whole_output;                 /* output and lse hold the whole sequence */
    int64_t output_first;              /* if they do not: the row of the workload that is their first */
    const ra_keys *keys;               /* [key_sets]: sets of keys that are worked one after the other */
    int64_t key_sets;
    ra_interval within; /* the positions of these keys to work on */
    int64_t spans;      /* parts of the keys that are tasks of their own */
    float *states;      /* NULL: in scratch, and rows are finished with their task; else [spans][units] */
    bool resume;        /* states hold the result of earlier keys */
    ra_poll poll;       /* NULL: none */
    void *poll_user;
    ra_counts *counts;        /* the counts of the run are added to them */
    ra_scratch scratch;       /* of each thread; filled by ra_run_tasks */
    double busy;              /* seconds in its tasks, added up over threads */
    struct ra_run *next;      /* NULL, or the run whose tasks are taken after those of this one */
    struct ra_shared *shared; /* between threads: see executor.c */
} ra_run;

/* One thread of a run. */
typedef struct ra_worker {
    const ra_run *run;
    char *scratch;
    ra_counts counts; /* of the run, by this thread */
    double busy;
    bool calling; /* the thread that called: the only one that polls */
} ra_worker;

/* Run `kernel` over the plan in one piece and fill everything of `stats` but its size. */
ra_status ra_execute(const ra_plan *plan, const ra_kernel *kernel, const ra_tensor *q, const ra_cache *cache,
                     const ra_tensor *output, const ra_tensor *lse, ra_stats *stats);

/* The same for a plan without rows, or without keys: all rows are empty. */
ra_status ra_execute_nothing(const ra_plan *plan, const ra_kernel *kernel, const ra_tensor *output,
                             const ra_tensor *lse, ra_stats *stats);

/*
 * Work through the tasks of `run` and of the runs that follow it (run.next). All have one span and the same poll. The
 * threads are those of the run with most threads; `scratch` has scratch_bytes of the run with most for each thread.
 * False: the poll asked to stop.
 */
bool ra_run_tasks(ra_run *run, char *scratch);

/* into = merge(into, from) for all units, then clear `from`. */
void ra_run_merge(const ra_run *run, float *into, float *from);

/* Write the rows of groups first .. first + count - 1, of all batches and heads, from the states. Destroys these. */
void ra_run_finish(const ra_run *run, int64_t first, int64_t count);

/* A run of one batch element, for patterns in which elements see different keys. */
typedef struct ra_element_run {
    ra_run run;
    ra_plan plan;
    ra_workload work;
} ra_element_run;

/* The run that a task works with: the run itself, or the one of its batch element, in `element`. */
const ra_run *ra_run_of_batch(const ra_run *run, int64_t batch, ra_element_run *element);

/* ---- Shared by both kinds of task ------------------------------------------------------------------------------ */

void ra_tile_task(ra_worker *worker, int64_t task);
void ra_decode_task(ra_worker *worker, int64_t task);

/* The batch element of a task. */
int64_t ra_tile_task_batch(const ra_run *run, int64_t task);
int64_t ra_decode_task_batch(const ra_run *run, int64_t task);

/* After each block of keys: count, let the calling thread poll; true when the run has been cancelled. */
bool ra_worker_done(ra_worker *worker, double pairs);

/* The keys of a task's span. */
ra_interval ra_span_keys(const ra_run *run, int64_t span);

/*
 * The spans in which a query may see keys, spans lo <= i < hi. Of packed sequences in the decoding variant, rows have
 * no states in other spans.
 */
ra_interval ra_query_spans(const ra_run *run, int64_t query);

/* The states of a unit in a span. */
static inline float *ra_unit_state(const ra_run *run, int64_t span, int64_t unit)
{
    return run->states + (span * run->work->units + unit) * run->plan->unit_floats;
}

/* Rows of a tensor from (batch, seq, head) on. */
ra_rows ra_rows_at(const ra_tensor *tensor, int64_t batch, int64_t seq, int64_t head);

/* The place of a group's first row in q. */
static inline int64_t ra_query_row(const ra_run *run, const ra_group *group)
{
    return run->whole ? group->query : group->row;
}

/* A walk over the blocks of the keys that are here and that the tiles' groups need, in order. */
typedef struct ra_key_walk {
    const ra_keys *keys;
    const ra_tensor *k, *v; /* tensors of the head */
    int64_t head;           /* its number in these tensors */
    const uint64_t *words;
    const int64_t *before;
    ra_tiles *tiles;
    ra_interval within; /* positions */
    int64_t next_range;
    ra_range range;
    ra_block block; /* the block now */
    uint64_t left;  /* its members that are still to come */
    int64_t index[RA_KEY_BLOCK];
    int64_t batch;
    int64_t key_at[RA_KEY_BLOCK], value_at[RA_KEY_BLOCK]; /* of the rows of a block of a cache with pages */
} ra_key_walk;

/*
 * A block with its rows. Without an index, member block.first + block.skip is row `row` of k and v, and the next
 * members follow `step` rows apart. With an index, it gives the row of each member from that one on; a row below 0 is
 * not here, and no query sees it.
 */
typedef struct ra_key_block {
    ra_block block;
    const ra_tensor *k, *v;
    int64_t head;
    int64_t row, step;
    const int64_t *index; /* NULL, or valid until the next block */
    /* NULL, or the same of a cache with pages: where these rows are in k and v, as ra_cache_places says. */
    const int64_t *key_at, *value_at;
} ra_key_block;

/* Of a batch element and a key/value head; `within` are positions. */
void ra_key_walk_begin(ra_key_walk *walk, const ra_keys *keys, int64_t batch, int64_t head, ra_tiles *tiles,
                       ra_interval within);
bool ra_key_walk_next(ra_key_walk *walk, ra_key_block *block);

/* The rows of a block in k, v or a tensor that lies as they do, from its first one that is here on. */
ra_rows ra_block_rows(const ra_tensor *tensor, int64_t batch, const ra_key_block *block);

/* The keys and values of a block of a forward pass, in pages or not, from the first one that is here on. */
ra_rows ra_block_keys(int64_t batch, const ra_key_block *block);
ra_rows ra_block_values(int64_t batch, const ra_key_block *block);

/* Set the states of `lanes` rows, interleaved as in ra_tile_call, to "nothing seen". */
void ra_state_clear(float *state, int lanes, int64_t floats);

/*
 * The rows of a stack of heads, head after head: `rows` of each from `seq` on. `index` has room for all of them; it may
 * become a part of the result.
 */
ra_rows ra_stacked_rows(const ra_tensor *tensor, int64_t batch, int64_t seq, int rows, ra_stack stack, int64_t *index);

/*
 * Write the output and log-sum-exp of a group, of all heads of a stack, whose state is in `state`: a group's, or one
 * decoding row's. Rows that see no key become zeros and -INFINITY. Destroys the state.
 */
void ra_finish(const ra_run *run, int64_t batch, ra_stack stack, const ra_group *group, float *state);

#endif
