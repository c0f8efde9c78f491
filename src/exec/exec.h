/*
 * HOW a run happens: tasks taken by threads, each over some query rows and a span of keys.
 *
 *     executor.c     threads, memory, merging of spans, counts
 *     tile_task.c    a tile of queries: groups in the vector lanes
 *     decode_task.c  few queries: one row at a time against streamed keys
 *     reference.c    the oracle, which shares none of this
 */
#ifndef RA_EXEC_EXEC_H
#define RA_EXEC_EXEC_H

#include "kernel/kernel.h"
#include "plan/plan.h"

typedef struct ra_counts {
    double tiles, pairs_visible, pairs_worked;
} ra_counts;

typedef struct ra_run {
    const ra_plan *plan;
    const ra_kernel *kernel;
    const ra_tensor *q, *k, *v, *output, *lse; /* lse may be NULL */
    float *parts;                              /* NULL, or states [spans][units] */
    struct ra_shared *shared;                  /* between threads: see executor.c */
} ra_run;

/* One thread of a run. */
typedef struct ra_worker {
    const ra_run *run;
    char *scratch;
    ra_counts counts;
    bool calling; /* the thread that called: the only one that polls */
} ra_worker;

/* Run `kernel` over the plan and fill everything of `stats` but its size. */
ra_status ra_execute(const ra_plan *plan, const ra_kernel *kernel, const ra_tensor *q, const ra_tensor *k,
                     const ra_tensor *v, const ra_tensor *output, const ra_tensor *lse, ra_stats *stats);

void ra_tile_task(ra_worker *worker, int64_t task);
void ra_decode_task(ra_worker *worker, int64_t task);

/* After each block of keys: count, let the calling thread poll; true when the run has been cancelled. */
bool ra_worker_done(ra_worker *worker, double pairs);

/* ---- Shared by both kinds of task ------------------------------------------------------------------------------ */

/* The keys of a span. */
static inline ra_interval ra_span_keys(const ra_plan *plan, int64_t span)
{
    int64_t first = span * plan->span_keys, end = first + plan->span_keys;
    return (ra_interval){first, end < plan->kv_len ? end : plan->kv_len};
}

/* The state of a unit in a span, for runs with several spans. */
static inline float *ra_part(const ra_run *run, int64_t span, int64_t unit)
{
    return run->parts + (span * run->plan->units + unit) * run->plan->unit_floats;
}

/* Rows of a tensor from (batch, seq, head) on. */
ra_rows ra_rows_at(const ra_tensor *tensor, int64_t batch, int64_t seq, int64_t head);

/* Set the states of `lanes` rows, interleaved as in ra_tile_call, to "nothing seen". */
void ra_state_clear(float *state, int lanes, int64_t floats);

/*
 * Write the output and log-sum-exp of `rows` queries from `query` on, whose states are in `state`: a group's, or one
 * decoding row's. Rows that see no key become zeros and -INFINITY. Destroys the state.
 */
void ra_finish(const ra_run *run, int64_t batch, int64_t head, int64_t query, int rows, float *state);

#endif
