/* The public functions for one sequence over many ranks: validate, resolve defaults, hand on. */
#include "base/checked.h"
#include "base/overlap.h"
#include "base/sized.h"
#include "base/tensor.h"
#include "base/threads.h"
#include "ring/checkpoint.h"
#include "ring/engine.h"
#include "ring/link.h"
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
    return status ? status : check_dtype("o_dtype", o->o_dtype);
}

static ra_status make_ring_plan(ra_ring_plan *ring, const ra_problem *problem, const ra_options *options)
{
    ra_ring_options *o = &ring->options;
    ra_status status = check_ring_options(o);
    if (!status)
        status = ra_plan_create(problem, options, &ring->plan);
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
    ra_status status = ra_ring_find_smallest(plan, memory, &ranks);
    if (!status && ranks)
        snprintf(advice, size, "; the smallest ring that fits is %d", ranks);
    else if (!status && !(status = ra_ring_find_least(plan, &least, &ranks)))
        snprintf(advice, size, "; the least that this can be run with is %lld bytes, in a ring of %d", (long long)least,
                 ranks);
    return status;
}

/* The plan is of no more use afterwards. */
static ra_status refuse_budget(ra_ring_plan *plan, int64_t needed)
{
    char advice[128] = "";
    int ranks = plan->options.ranks;
    int64_t memory = plan->options.memory;
    ra_status status = plan->own_split ? RA_OK : advise(plan, memory, advice, sizeof advice);
    if (status)
        return status;
    return ra_fail(RA_ERROR_BUDGET, "memory %lld bytes: a ring of %d needs %lld bytes in a process%s",
                   (long long)memory, ranks, (long long)needed, advice);
}

ra_status ra_ring_plan_create(const ra_problem *problem, const ra_options *options, const ra_ring_options *ring,
                              ra_ring_plan **plan)
{
    if (!plan)
        return ra_fail(RA_ERROR_ARGUMENT, "plan: where to put it is NULL");
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

/* ---- Running ----------------------------------------------------------------------------------------------------- */

/* One of the tensors of a run. */
typedef struct role {
    const char *name;
    int64_t heads, dim;
    bool keys;
    const ra_dtype *dtype; /* that the plan counted with; NULL: any */
} role;

static ra_status check_comm(const ra_ring_plan *ring, const ra_comm *comm)
{
    if (!ring || !comm)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", ring ? "comm" : "plan");
    if (comm->broken)
        return ra_fail(RA_ERROR_ARGUMENT, "a run on this communicator has failed: make a new one");
    if (comm->transport.ranks != ring->options.ranks)
        return ra_fail(RA_ERROR_ARGUMENT, "the plan is for %d ranks, the communicator has %d", ring->options.ranks,
                       comm->transport.ranks);
    ra_transport_kind kind = ring->options.transport;
    if (comm->simulated != (kind == RA_TRANSPORT_SIM))
        return ra_fail(RA_ERROR_ARGUMENT, "the plan is for transport %s, the communicator is %s",
                       ra_transport_name(kind), comm->transport.name);
    if (kind == RA_TRANSPORT_THREADS && !comm->transport.shared)
        return ra_fail(RA_ERROR_ARGUMENT,
                       "the plan is for transport threads, but ranks of transport %s share no memory",
                       comm->transport.name);
    return RA_OK;
}

/* `rows`: of the tensor; 0 when the rank has none, and then anything will do. */
static ra_status check_tensor(const ra_ring_plan *ring, const role *r, const ra_tensor *t, int64_t rows)
{
    if (rows == 0)
        return RA_OK;
    if (!t)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", r->name);
    ra_tensor shape = *t;
    if (!shape.data)
        shape.data = &shape; /* in a file: there is only a shape to check */
    ra_status status = ra_tensor_check(&shape, r->name, ring->plan->batch, rows, r->heads, r->dim);
    if (!status && r->dtype && t->dtype != *r->dtype)
        status = ra_fail(RA_ERROR_ARGUMENT, "%s is %s, and the plan is for %s", r->name, ra_dtype_name(t->dtype),
                         ra_dtype_name(*r->dtype));
    return status;
}

enum { ROLES = 5, INPUTS = 3 };
static const ra_dtype LSE_DTYPE = RA_F32;

/* Check all tensors of a rank, or the whole ones; no output in memory may share any with another tensor. */
static ra_status check_tensors(const ra_ring_plan *ring, int rank, bool parts, const ra_tensor *const tensors[ROLES])
{
    const ra_plan *p = ring->plan;
    const ra_ring_options *o = &ring->options;
    const role roles[ROLES] = {{"query", p->heads, p->head_dim, false, &o->q_dtype},
                               {"key", p->kv_heads, p->head_dim, true, &o->k_dtype},
                               {"value", p->kv_heads, p->value_dim, true, &o->v_dtype},
                               {"output", p->heads, p->value_dim, false, o->lent ? NULL : &o->o_dtype},
                               {"lse", p->heads, 1, false, &LSE_DTYPE}};
    const ra_tensor *in_memory[ROLES];
    const char *names[ROLES];
    ra_status status = RA_OK;
    for (int i = 0; i < ROLES && !status; i++) {
        const ra_partition *partition = roles[i].keys ? &ring->keys : &ring->queries;
        int64_t rows = parts ? ra_partition_share(partition, rank).rows : partition->length;
        if (i < ROLES - 1 || tensors[i])
            status = check_tensor(ring, &roles[i], tensors[i], rows);
        in_memory[i] = rows > 0 && tensors[i] && tensors[i]->data ? tensors[i] : NULL;
        names[i] = roles[i].name;
    }
    return status ? status : ra_check_apart(in_memory, names, INPUTS, ROLES);
}

static ra_status execute(const ra_ring_plan *ring, ra_comm *comm, const ra_tensors *tensors, ra_rank_stats *stats)
{
    const ra_kernel *kernel = NULL;
    int ranks = ring->options.ranks;
    ra_rank_stats *all = NULL;
    ra_status status = stats ? ra_check_sized(stats, &ra_sized_rank_stats) : RA_OK;
    size_t size = stats ? stats->size : 0;
    if (!status && stats && !(all = calloc((size_t)ranks, sizeof *all)))
        status = ra_fail(RA_ERROR_MEMORY, "out of memory: statistics of %d ranks", ranks);
    if (!status)
        status = ra_threads_check(ring->asked.threads);
    if (!status)
        status = ra_kernel_find(ring->plan->kernel, &kernel);
    if (!status)
        status = ra_ring_execute(ring, kernel, comm, tensors, all);
    for (int rank = 0; rank < ranks && stats && !status; rank++) {
        ra_rank_stats *their = (ra_rank_stats *)((char *)stats + (size_t)rank * size);
        their->size = size;
        status = ra_copy_out(their, &all[rank], &ra_sized_rank_stats);
    }
    free(all);
    return status;
}

ra_status ra_ring_run(const ra_ring_plan *ring, ra_comm *comm, ra_storage *q, ra_storage *k, ra_storage *v,
                      ra_storage *output, ra_storage *lse, ra_rank_stats *stats)
{
    return ra_ring_run_saved(ring, comm, q, k, v, output, lse, NULL, stats);
}

static ra_status check_checkpoint(const ra_comm *comm, const ra_checkpoint *checkpoint)
{
    int rank = comm->simulated ? -1 : comm->transport.rank, opened = ra_checkpoint_rank(checkpoint);
    if (rank == opened)
        return RA_OK;
    return ra_fail(RA_ERROR_ARGUMENT, "checkpoint: was opened for rank %d, and this is rank %d (-1: virtual ranks)",
                   opened, rank);
}

ra_status ra_ring_run_saved(const ra_ring_plan *ring, ra_comm *comm, ra_storage *q, ra_storage *k, ra_storage *v,
                            ra_storage *output, ra_storage *lse, ra_checkpoint *checkpoint, ra_rank_stats *stats)
{
    ra_status status = check_comm(ring, comm);
    if (!status && (!q || !k || !v || !output))
        status = ra_fail(RA_ERROR_ARGUMENT, "a storage is NULL");
    if (!status && ring->options.lent)
        status = ra_fail(RA_ERROR_ARGUMENT, "the plan is for tensors in memory (lent): use ra_ring_forward");
    if (!status && lse && !ring->options.lse)
        status = ra_fail(RA_ERROR_ARGUMENT, "the plan is for a run without a log-sum-exp (lse 0)");
    if (!status && checkpoint)
        status = check_checkpoint(comm, checkpoint);
    if (status)
        return status;
    const ra_tensor *const views[ROLES] = {ra_storage_view(q), ra_storage_view(k), ra_storage_view(v),
                                           ra_storage_view(output), lse ? ra_storage_view(lse) : NULL};
    status = check_tensors(ring, 0, false, views);
    ra_tensors tensors = {q, k, v, output, lse, false, lse != NULL, checkpoint};
    if (checkpoint)
        ra_checkpoint_attach(checkpoint, ring, &tensors);
    return status ? status : execute(ring, comm, &tensors, stats);
}

ra_status ra_ring_forward(const ra_ring_plan *ring, ra_comm *comm, const ra_tensor *q, const ra_tensor *k,
                          const ra_tensor *v, const ra_tensor *output, const ra_tensor *lse, ra_rank_stats *stats)
{
    ra_status status = check_comm(ring, comm);
    if (!status && !ring->options.lent)
        status = ra_fail(RA_ERROR_ARGUMENT, "the plan is for tensors in files (not lent): use ra_ring_run");
    if (status)
        return status;
    bool parts = !comm->simulated;
    const ra_tensor *const views[ROLES] = {q, k, v, output, lse};
    ra_storage *storages[ROLES] = {NULL};
    status = check_tensors(ring, comm->transport.rank, parts, views);
    const ra_tensor nothing = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 0, 0, 1, 1);
    for (int i = 0; i < ROLES && !status; i++) {
        bool keys = i == 1 || i == 2, empty = (keys ? ring->keys : ring->queries).length == 0;
        if (!parts && empty && (i < ROLES - 1 || lse)) /* virtual ranks look at all of them, and may not read any */
            status = ra_storage_memory(&nothing, &storages[i]);
        else if (views[i] && views[i]->seq > 0)
            status = ra_storage_memory(views[i], &storages[i]);
    }
    ra_tensors tensors = {storages[0], storages[1], storages[2], storages[3], storages[4], parts, lse != NULL, NULL};
    if (!status)
        status = execute(ring, comm, &tensors, stats);
    for (int i = 0; i < ROLES; i++)
        ra_storage_free(storages[i]);
    return status;
}

ra_status ra_comm_agree(ra_comm *comm, ra_status mine, double timeout)
{
    if (!comm)
        return ra_fail(RA_ERROR_ARGUMENT, "comm is NULL");
    if (comm->simulated || comm->broken)
        return mine || !comm->broken ? mine : ra_fail(RA_ERROR_PEER, "a run on this communicator has failed");
    ra_link link = {.transport = &comm->transport,
                    .broken = &comm->broken,
                    .timeout = timeout > 0 ? timeout : DEFAULT_TIMEOUT,
                    .what = "an agreement",
                    .hop = -1};
    if (mine) {
        ra_link_fail(&link, mine);
        return mine;
    }
    int32_t ok = 1;
    int32_t *all = calloc((size_t)comm->transport.ranks, sizeof *all);
    ra_status status = all ? ra_link_exchange(&link, RA_TAG_AGREEMENT, &ok, all, sizeof ok)
                           : ra_fail(RA_ERROR_MEMORY, "out of memory: an agreement of %d ranks", comm->transport.ranks);
    free(all);
    if (status)
        ra_link_fail(&link, status);
    return status;
}
