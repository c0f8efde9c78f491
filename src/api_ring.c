/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions for plans of one sequence over many ranks: validate, resolve defaults, hand on. Running them is
 * in api_ring_run.c.
 */
#include "base/checked.h"
#include "base/sized.h"
#include "base/tensor.h"
#include "ring/array_bytes.h"
#include "ring/planning.h"
#include "ring/ring_rows.h"
#include "ring/ring_search.h"
#include "ring/strategy_table.h"
#include "ringattn/ringattn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 1 << 20 };

static const double DEFAULT_TIMEOUT = 60;

/* ---- Names ------------------------------------------------------------------------------------------------------- */

const char *ra_strategy_name(ra_strategy strategy)
{
    const ra_strategy_kind *kind = ra_strategy_find(strategy);
    return kind ? kind->name : NULL;
}

const char *ra_order_name(ra_order order)
{
    switch (order) {
    case RA_ORDER_CONTIGUOUS: return "contiguous";
    case RA_ORDER_ZIGZAG: return "zigzag";
    case RA_ORDER_STRIPED: return "striped";
    }
    return NULL;
}

const char *ra_transport_name(ra_transport_kind transport)
{
    switch (transport) {
    case RA_TRANSPORT_SIM: return "sim";
    case RA_TRANSPORT_THREADS: return "threads";
    case RA_TRANSPORT_MPI: return "mpi";
    }
    return NULL;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

static ra_status check_dtype(const char *name, ra_dtype dtype)
{
    if (dtype != RA_F32 && dtype != RA_F16 && dtype != RA_BF16)
        return ra_fail(RA_ERROR_ARGUMENT, "%s %d: must be float32, float16 or bfloat16", name, (int)dtype);
    return RA_OK;
}

static ra_status check_backward(const ra_ring_options *o)
{
    enum { ALL = 1 << RA_GRADIENT_QUERY | 1 << RA_GRADIENT_KEY | 1 << RA_GRADIENT_VALUE };
    if (o->gradients > ALL)
        return ra_fail(RA_ERROR_ARGUMENT, "gradients %u: must be bits 1 << ra_gradient", o->gradients);
    if (o->gradients_kept > ALL)
        return ra_fail(RA_ERROR_ARGUMENT, "gradients_kept %u: must be bits 1 << ra_gradient", o->gradients_kept);
    ra_status status = check_dtype("d_output_dtype", o->d_output_dtype);
    if (!status)
        status = check_dtype("d_q_dtype", o->d_q_dtype);
    if (!status)
        status = check_dtype("d_k_dtype", o->d_k_dtype);
    return status ? status : check_dtype("d_v_dtype", o->d_v_dtype);
}

static ra_status check_ring_options(ra_ring_options *o)
{
    if (o->ranks < 1 || o->ranks > MAX_RANKS)
        return ra_fail(RA_ERROR_ARGUMENT, "ranks %d: must be 1..%d", o->ranks, (int)MAX_RANKS);
    if (o->rank < RA_ALL_RANKS || o->rank >= o->ranks)
        return ra_fail(RA_ERROR_ARGUMENT, "rank %d: must be 0..%d, or RA_ALL_RANKS", o->rank, o->ranks - 1);
    if (!ra_strategy_name(o->strategy))
        return ra_fail(RA_ERROR_ARGUMENT, "strategy %d: must be ring, allgather or broadcast", (int)o->strategy);
    if (!ra_order_name(o->order))
        return ra_fail(RA_ERROR_ARGUMENT, "order %d: must be contiguous, zigzag or striped", (int)o->order);
    if (!ra_transport_name(o->transport))
        return ra_fail(RA_ERROR_ARGUMENT, "transport %d: must be sim, threads or mpi", (int)o->transport);
    if (o->memory < 0)
        return ra_fail(RA_ERROR_ARGUMENT, "memory %lld: must be >= 0", (long long)o->memory);
    if (!isfinite(o->timeout) || o->timeout < 0)
        return ra_fail(RA_ERROR_ARGUMENT, "timeout %g: must be a number of seconds, or 0 for %g", o->timeout,
                       DEFAULT_TIMEOUT);
    if (o->timeout == 0)
        o->timeout = DEFAULT_TIMEOUT;
    ra_status status = check_dtype("q_dtype", o->q_dtype);
    if (!status)
        status = check_dtype("k_dtype", o->k_dtype);
    if (!status)
        status = check_dtype("v_dtype", o->v_dtype);
    if (!status)
        status = check_dtype("o_dtype", o->o_dtype);
    return status || !o->backward ? status : check_backward(o);
}

/* A backward pass has something to compute. */
static ra_status check_any_gradient(const ra_ring_plan *ring)
{
    if (!ring->options.backward || ring->options.gradients || ra_arrays_wanted(ring))
        return RA_OK;
    return ra_fail(RA_ERROR_ARGUMENT, "gradients 0: must have a bit 1 << ra_gradient, because score_arrays ask for no "
                                      "gradient either");
}

static ra_status make_ring_plan(ra_ring_plan *ring, const ra_problem *problem, const ra_options *options)
{
    ra_ring_options *o = &ring->options;
    ra_status status = check_ring_options(o);
    if (!status)
        status = ra_plan_create(problem, options, &ring->plan);
    if (!status)
        status = check_any_gradient(ring);
    if (!status)
        status = ra_partition_make(&ring->queries, "query", ring->plan->q_len, o->ranks, o->order, o->q_pieces,
                                   o->q_piece_count);
    if (!status)
        status = ra_partition_make(&ring->keys, "key", ring->plan->kv_len, o->ranks, o->order, o->kv_pieces,
                                   o->kv_piece_count);
    if (status)
        return status;
    ring->own_split = o->q_pieces || o->kv_pieces;
    o->q_pieces = o->kv_pieces = NULL;
    if (options)
        status = ra_copy_in(&ring->asked, options, &ra_sized_options);
    return status ? status : ra_ring_plan_fill(ring);
}

/* A plan without regard to the budget. */
static ra_status create(const ra_problem *problem, const ra_options *options, const ra_ring_options *their_ring,
                        int ranks, ra_ring_plan **plan)
{
    ra_ring_plan *ring = calloc(1, sizeof *ring);
    if (!ring)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes for a plan", sizeof *ring);
    ring->options = (ra_ring_options)RA_RING_OPTIONS_INIT;
    ring->asked = (ra_options)RA_OPTIONS_INIT;
    ra_status status = RA_OK;
    if (their_ring)
        status = ra_copy_in(&ring->options, their_ring, &ra_sized_ring_options);
    if (ranks)
        ring->options.ranks = ranks;
    if (!status)
        status = make_ring_plan(ring, problem, options);
    if (status) {
        ra_ring_plan_free(ring);
        return status;
    }
    *plan = ring;
    return RA_OK;
}

int64_t ra_ring_plan_process_bytes(const ra_ring_plan *ring)
{
    return ring ? ra_ring_largest(ring) : 0;
}

ra_status ra_ring_smallest(const ra_problem *problem, const ra_options *options, const ra_ring_options *their_ring,
                           int *ranks)
{
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    if (!their_ring || !ranks)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", their_ring ? "ranks" : "ring");
    *ranks = 0;
    ra_status status = ra_copy_in(&ring, their_ring, &ra_sized_ring_options);
    if (!status && (ring.q_pieces || ring.kv_pieces))
        status = ra_fail(RA_ERROR_ARGUMENT, "q_pieces, kv_pieces: a split of one's own is for one number of ranks");
    ra_ring_plan *plan = NULL;
    if (!status)
        status = create(problem, options, &ring, 1, &plan);
    if (!status && ring.memory == 0)
        *ranks = 1;
    else if (!status)
        status = ra_ring_find_smallest(plan, ring.memory, ranks);
    ra_ring_plan_free(plan);
    return status;
}

/* What to do about a budget that is too small. */
static ra_status advise(ra_ring_plan *plan, int64_t memory, char advice[], size_t size)
{
    int ranks = 0;
    int64_t least;
    char text[RA_BYTES_TEXT];
    ra_status status = ra_ring_find_smallest(plan, memory, &ranks);
    if (!status && ranks)
        snprintf(advice, size, "; the smallest ring that fits is %d", ranks);
    else if (!status && !(status = ra_ring_find_least(plan, &least, &ranks)))
        snprintf(advice, size, "; the least that this can be run with is %s (%lld bytes), in a ring of %d",
                 ra_bytes_text(least, text), (long long)least, ranks);
    return status;
}

/* The plan is of no more use afterwards. */
static ra_status refuse_budget(ra_ring_plan *plan, int64_t needed)
{
    char advice[128] = "", allowed[RA_BYTES_TEXT], needs[RA_BYTES_TEXT], more[RA_BYTES_TEXT];
    int ranks = plan->options.ranks;
    int64_t memory = plan->options.memory;
    ra_status status = plan->own_split ? RA_OK : advise(plan, memory, advice, sizeof advice);
    if (status)
        return status;
    return ra_fail(RA_ERROR_BUDGET, "memory %s: a ring of %d needs %s in a process, %s too much%s",
                   ra_bytes_text(memory, allowed), ranks, ra_bytes_text(needed, needs),
                   ra_bytes_text(needed - memory, more), advice);
}

ra_status ra_ring_plan_create(const ra_problem *problem, const ra_options *options, const ra_ring_options *ring,
                              ra_ring_plan **plan)
{
    if (!plan)
        return ra_fail(RA_ERROR_ARGUMENT, "plan: the pointer to the result is NULL");
    *plan = NULL;
    ra_ring_plan *made = NULL;
    ra_status status = create(problem, options, ring, 0, &made);
    if (status)
        return status;
    int64_t needed = ra_ring_plan_process_bytes(made);
    if (made->options.memory && needed > made->options.memory) {
        status = refuse_budget(made, needed);
        ra_ring_plan_free(made);
        return status;
    }
    *plan = made;
    return RA_OK;
}

void ra_ring_plan_free(ra_ring_plan *ring)
{
    if (!ring)
        return;
    ra_partition_clear(&ring->queries);
    ra_partition_clear(&ring->keys);
    ra_plan_free(ring->plan);
    free(ring->ranks);
    free(ring);
}

const ra_plan *ra_ring_plan_problem(const ra_ring_plan *ring)
{
    return ring ? ring->plan : NULL;
}

static ra_status check_rank(const ra_ring_plan *ring, int rank)
{
    if (!ring)
        return ra_fail(RA_ERROR_ARGUMENT, "plan is NULL");
    if (rank < 0 || rank >= ring->options.ranks)
        return ra_fail(RA_ERROR_ARGUMENT, "rank %d: must be 0..%d", rank, ring->options.ranks - 1);
    return RA_OK;
}

ra_status ra_ring_plan_rank(const ra_ring_plan *ring, int rank, ra_rank_info *info)
{
    ra_status status = check_rank(ring, rank);
    if (!status && !info)
        status = ra_fail(RA_ERROR_ARGUMENT, "info is NULL");
    ra_rank_info ours;
    if (!status)
        status = ra_ring_plan_one(ring, rank, &ours);
    return status ? status : ra_copy_out(info, &ours, &ra_sized_rank_info);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static ra_status piece_of(const ra_ring_plan *ring, const ra_partition *partition, int rank, int64_t index,
                          ra_piece *piece)
{
    ra_status status = check_rank(ring, rank);
    if (status)
        return status;
    ra_share share = ra_partition_share(partition, rank);
    if (!piece)
        return ra_fail(RA_ERROR_ARGUMENT, "piece is NULL");
    if (index < 0 || index >= share.ranges)
        return ra_fail(RA_ERROR_ARGUMENT, "index %lld: rank %d has %lld runs of rows", (long long)index, rank,
                       (long long)share.ranges);
    ra_range range = ra_share_range(&share, index);
    *piece = (ra_piece){range.first, range.end, rank};
    return RA_OK;
}

ra_status ra_ring_plan_queries(const ra_ring_plan *ring, int rank, int64_t index, ra_piece *piece)
{
    return piece_of(ring, ring ? &ring->queries : NULL, rank, index, piece);
}

ra_status ra_ring_plan_keys(const ra_ring_plan *ring, int rank, int64_t index, ra_piece *piece)
{
    return piece_of(ring, ring ? &ring->keys : NULL, rank, index, piece);
}

/* Copy rows between a whole tensor and a rank's part of it. */
static ra_status move_rows(const ra_ring_plan *ring, int rank, int keys, const ra_tensor *whole, const ra_tensor *part,
                           bool split)
{
    ra_status status = check_rank(ring, rank);
    if (status)
        return status;
    const ra_partition *partition = keys ? &ring->keys : &ring->queries;
    ra_share share = ra_partition_share(partition, rank);
    if (!whole || !part)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", whole ? "part" : "whole");
    status = ra_tensor_check(whole, "whole", whole->batch, partition->length, whole->heads, whole->dim);
    if (!status && share.rows)
        status = ra_tensor_check(part, "part", whole->batch, share.rows, whole->heads, whole->dim);
    if (!status && part->dtype != whole->dtype)
        status = ra_fail(RA_ERROR_ARGUMENT, "part is %s and whole is %s: must be the same", ra_dtype_name(part->dtype),
                         ra_dtype_name(whole->dtype));
    if (status)
        return status;
    ra_ring_move_rows(&share, whole, part, split);
    return RA_OK;
}

ra_status ra_ring_split(const ra_ring_plan *ring, int rank, int keys, const ra_tensor *whole, ra_tensor *part)
{
    return move_rows(ring, rank, keys, whole, part, true);
}

ra_status ra_ring_gather(const ra_ring_plan *ring, int rank, int keys, const ra_tensor *part, ra_tensor *whole)
{
    return move_rows(ring, rank, keys, whole, part, false);
}
