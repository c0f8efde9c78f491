/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions that run a plan over ranks: do the tensors, or storages, fit the plan and the communicator?
 * Plans are made in api_ring.c.
 */
#include "base/sized.h"
#include "base/tensor.h"
#include "base/threads.h"
#include "plan/arrays.h"
#include "plan/batch.h"
#include "ring/checkpoint.h"
#include "ring/engine.h"
#include "ring/link.h"
#include "ringattn/ringattn.h"
#include "score/scores.h"

#include <stdlib.h>

static const double DEFAULT_TIMEOUT = 60;

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/* Those of a forward pass are the first five, and of these the first three are inputs. */
enum { Q, K, V, OUTPUT, LSE, D_OUTPUT, D_LSE, D_Q, D_K, D_V, TENSORS, FORWARD = LSE + 1 };

/* One of the tensors of a run. */
typedef struct tensor_kind {
    const char *name;
    int64_t heads, dim;
    bool keys, optional;
    const ra_dtype *dtype; /* that the plan counted with; NULL: any */
} tensor_kind;

static const ra_dtype STATISTIC = RA_F32;

static void list_kinds(const ra_ring_plan *ring, tensor_kind kinds[TENSORS])
{
    const ra_plan *p = ring->plan;
    const ra_ring_options *o = &ring->options;
    kinds[Q] = (tensor_kind){"query", p->heads, p->head_dim, false, false, &o->q_dtype};
    kinds[K] = (tensor_kind){"key", p->kv_heads, p->head_dim, true, false, &o->k_dtype};
    kinds[V] = (tensor_kind){"value", p->kv_heads, p->value_dim, true, false, &o->v_dtype};
    kinds[OUTPUT] = (tensor_kind){"output", p->heads, p->value_dim, false, false, o->lent ? NULL : &o->o_dtype};
    kinds[LSE] = (tensor_kind){"lse", p->heads, 1, false, !o->backward, &STATISTIC};
    kinds[D_OUTPUT] = (tensor_kind){"d_output", p->heads, p->value_dim, false, false, &o->d_output_dtype};
    kinds[D_LSE] = (tensor_kind){"d_lse", p->heads, 1, false, true, &STATISTIC};
    kinds[D_Q] = (tensor_kind){"d_q", p->heads, p->head_dim, false, true, o->lent ? NULL : &o->d_q_dtype};
    kinds[D_K] = (tensor_kind){"d_k", p->kv_heads, p->head_dim, true, true, o->lent ? NULL : &o->d_k_dtype};
    kinds[D_V] = (tensor_kind){"d_v", p->kv_heads, p->value_dim, true, true, o->lent ? NULL : &o->d_v_dtype};
}

/* `rows`: of the tensor; 0 when the rank has none, and then anything will do. */
static ra_status check_tensor(const ra_ring_plan *ring, const tensor_kind *kind, const ra_tensor *t, int64_t rows)
{
    if (rows == 0 || (!t && kind->optional))
        return RA_OK;
    if (!t)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", kind->name);
    ra_tensor shape = *t;
    if (!shape.data)
        shape.data = &shape; /* in a file: there is only a shape to check */
    ra_status status = ra_tensor_check(&shape, kind->name, ring->plan->batch, rows, kind->heads, kind->dim);
    if (!status && kind->dtype && t->dtype != *kind->dtype)
        status = ra_fail(RA_ERROR_ARGUMENT, "%s is %s, and the plan is for %s", kind->name, ra_dtype_name(t->dtype),
                         ra_dtype_name(*kind->dtype));
    return status;
}

/* Check all tensors of a rank, or the whole ones; no output in memory may share any with another tensor. */
static ra_status check_tensors(const ra_ring_plan *ring, int rank, bool parts, const ra_tensor *const tensors[TENSORS])
{
    tensor_kind kinds[TENSORS];
    const ra_tensor *in_memory[TENSORS];
    const char *names[TENSORS];
    int count = ring->options.backward ? TENSORS : FORWARD;
    ra_status status = RA_OK;
    list_kinds(ring, kinds);
    for (int i = 0; i < count && !status; i++) {
        const ra_partition *partition = kinds[i].keys ? &ring->keys : &ring->queries;
        int64_t rows = parts ? ra_partition_share(partition, rank).rows : partition->length;
        status = check_tensor(ring, &kinds[i], tensors[i], rows);
        in_memory[i] = rows > 0 && tensors[i] && tensors[i]->data ? tensors[i] : NULL;
        names[i] = kinds[i].name;
    }
    int inputs = ring->options.backward ? D_Q : OUTPUT;
    if (!status)
        status = ra_scores_check_apart(ring->plan->scores, in_memory, names, inputs, count);
    return status ? status : ra_pattern_check_apart(&ring->plan->pattern, in_memory, names, inputs, count);
}

/* A forward plan runs forward, and a backward plan backward. */
static ra_status check_direction(const ra_ring_plan *ring, bool backward)
{
    if (!ring->options.backward == !backward)
        return RA_OK;
    return ra_fail(RA_ERROR_ARGUMENT, "the plan is of a %s pass (backward %d), and this is a %s pass",
                   backward ? "forward" : "backward", ring->options.backward, backward ? "backward" : "forward");
}

/* What is there is what the plan was made for. `there`: bits 1 << ra_gradient; on a rank without rows anything is. */
static ra_status check_wanted(const ra_ring_plan *ring, unsigned there, unsigned looked_at, bool d_lse, bool looks)
{
    static const char *const names[] = {"d_q", "d_k", "d_v"};
    const ra_ring_options *o = &ring->options;
    for (int i = RA_GRADIENT_QUERY; i <= RA_GRADIENT_VALUE; i++) {
        unsigned wanted = o->gradients >> i & 1;
        if ((looked_at >> i & 1) && wanted != (there >> i & 1))
            return ra_fail(RA_ERROR_ARGUMENT, "%s is %s, and the plan is for a run with%s it (gradients %u)", names[i],
                           wanted ? "NULL" : "there", wanted ? "" : "out", o->gradients);
    }
    if (looks && d_lse != (o->d_lse != 0))
        return ra_fail(RA_ERROR_ARGUMENT, "d_lse is %s, and the plan is for a run with%s it (d_lse %d)",
                       d_lse ? "there" : "NULL", o->d_lse ? "" : "out", o->d_lse);
    return RA_OK;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

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

static ra_status execute(const ra_ring_plan *ring, ra_comm *comm, const ra_tensors *tensors, ra_rank_stats *stats)
{
    const ra_kernel *kernel = NULL;
    int ranks = ring->options.ranks;
    ra_rank_stats *all = NULL;
    ra_status status = stats ? ra_check_sized(stats, &ra_sized_rank_stats) : RA_OK;
    if (!status)
        status = ra_plan_check_unchanged(ring->plan);
    size_t size = stats ? stats->size : 0;
    if (!status && stats && !(all = calloc((size_t)ranks, sizeof *all)))
        status = ra_fail(RA_ERROR_MEMORY, "out of memory: statistics of %d ranks", ranks);
    if (!status)
        status = ra_threads_check(ring->asked.threads);
    if (!status)
        status = ra_ring_kernel(ring, tensors->output ? ra_storage_view(tensors->output)->dtype : ring->options.o_dtype,
                                &kernel);
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

/* ---- From and to storages ---------------------------------------------------------------------------------------- */

static ra_tensors tensors_of(ra_storage *const s[TENSORS], bool parts, bool wants_lse, ra_checkpoint *checkpoint)
{
    return (ra_tensors){.q = s[Q],
                        .k = s[K],
                        .v = s[V],
                        .output = s[OUTPUT],
                        .lse = s[LSE],
                        .d_output = s[D_OUTPUT],
                        .d_lse = s[D_LSE],
                        .d_q = s[D_Q],
                        .d_k = s[D_K],
                        .d_v = s[D_V],
                        .parts = parts,
                        .wants_lse = wants_lse,
                        .checkpoint = checkpoint};
}

static ra_status check_storages(const ra_ring_plan *ring, ra_storage *const storages[TENSORS])
{
    const ra_tensor *views[TENSORS];
    for (int i = 0; i < TENSORS; i++)
        views[i] = storages[i] ? ra_storage_view(storages[i]) : NULL;
    return check_tensors(ring, 0, false, views);
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
    ra_storage *const storages[TENSORS] = {q, k, v, output, lse};
    ra_status status = check_comm(ring, comm);
    if (!status)
        status = check_direction(ring, false);
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
    status = check_storages(ring, storages);
    ra_tensors tensors = tensors_of(storages, false, lse != NULL, checkpoint);
    if (checkpoint)
        ra_checkpoint_attach(checkpoint, ring, &tensors);
    return status ? status : execute(ring, comm, &tensors, stats);
}

/* Bits 1 << ra_gradient of the gradients that are not NULL. */
static unsigned bits_of(const void *d_q, const void *d_k, const void *d_v)
{
    return (d_q ? 1U << RA_GRADIENT_QUERY : 0) | (d_k ? 1U << RA_GRADIENT_KEY : 0) |
           (d_v ? 1U << RA_GRADIENT_VALUE : 0);
}

static const unsigned ALL_GRADIENTS = 1U << RA_GRADIENT_QUERY | 1U << RA_GRADIENT_KEY | 1U << RA_GRADIENT_VALUE;

/* Storages that the plan reads sums from while it writes them. */
static ra_status check_kept(const ra_ring_plan *ring, ra_storage *const gradients[])
{
    static const char *const names[] = {"d_q", "d_k", "d_v"};
    for (int i = RA_GRADIENT_QUERY; i <= RA_GRADIENT_VALUE && ring->options.transport == RA_TRANSPORT_SIM; i++)
        if (gradients[i] && !ra_storage_keeps(gradients[i]) && (ring->options.gradients_kept >> i & 1))
            return ra_fail(
                RA_ERROR_ARGUMENT,
                "%s: its storage keeps nothing, and gradients_kept %u says that it can be read: clear bit %d", names[i],
                ring->options.gradients_kept, i);
    return RA_OK;
}

ra_status ra_ring_run_backward(const ra_ring_plan *ring, ra_comm *comm, ra_storage *q, ra_storage *k, ra_storage *v,
                               ra_storage *output, ra_storage *lse, ra_storage *d_output, ra_storage *d_lse,
                               ra_storage *d_q, ra_storage *d_k, ra_storage *d_v, ra_rank_stats *stats)
{
    ra_storage *const storages[TENSORS] = {q, k, v, output, lse, d_output, d_lse, d_q, d_k, d_v};
    ra_status status = check_comm(ring, comm);
    if (!status)
        status = check_direction(ring, true);
    if (!status && (!q || !k || !v || !output || !lse || !d_output))
        status = ra_fail(RA_ERROR_ARGUMENT, "a storage is NULL");
    if (!status && ring->options.lent)
        status = ra_fail(RA_ERROR_ARGUMENT, "the plan is for tensors in memory (lent): use ra_ring_backward");
    if (!status)
        status = check_wanted(ring, bits_of(d_q, d_k, d_v), ALL_GRADIENTS, d_lse != NULL, true);
    if (!status)
        status = check_storages(ring, storages);
    if (!status)
        status = check_kept(ring, storages + D_Q);
    ra_tensors tensors = tensors_of(storages, false, true, NULL);
    return status ? status : execute(ring, comm, &tensors, stats);
}

/* ---- In memory --------------------------------------------------------------------------------------------------- */

static bool of_keys(int tensor)
{
    return tensor == K || tensor == V || tensor == D_K || tensor == D_V;
}

/* Virtual ranks look at all tensors, and may not read any: one of no rows will do for those of an empty sequence. */
static ra_status lend(const ra_ring_plan *ring, bool parts, const ra_tensor *const views[TENSORS],
                      ra_storage *storages[TENSORS])
{
    const ra_tensor nothing = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 0, 0, 1, 1);
    ra_status status = RA_OK;
    for (int i = 0; i < TENSORS && !status; i++) {
        bool empty = (of_keys(i) ? ring->keys : ring->queries).length == 0, needed = i < LSE || views[i];
        if (!parts && empty && needed)
            status = ra_storage_memory(&nothing, &storages[i]);
        else if (views[i] && views[i]->seq > 0)
            status = ra_storage_memory(views[i], &storages[i]);
    }
    return status;
}

/* With tensors in the caller's memory. */
static ra_status execute_lent(const ra_ring_plan *ring, ra_comm *comm, const ra_tensor *const views[TENSORS],
                              ra_rank_stats *stats)
{
    bool parts = !comm->simulated;
    ra_storage *storages[TENSORS] = {NULL};
    ra_status status = check_tensors(ring, comm->transport.rank, parts, views);
    if (!status)
        status = lend(ring, parts, views, storages);
    ra_tensors tensors = tensors_of(storages, parts, views[LSE] != NULL, NULL);
    if (!status)
        status = execute(ring, comm, &tensors, stats);
    for (int i = 0; i < TENSORS; i++)
        ra_storage_free(storages[i]);
    return status;
}

ra_status ra_ring_forward(const ra_ring_plan *ring, ra_comm *comm, const ra_tensor *q, const ra_tensor *k,
                          const ra_tensor *v, const ra_tensor *output, const ra_tensor *lse, ra_rank_stats *stats)
{
    const ra_tensor *const views[TENSORS] = {q, k, v, output, lse};
    ra_status status = check_comm(ring, comm);
    if (!status)
        status = check_direction(ring, false);
    if (!status && !ring->options.lent)
        status = ra_fail(RA_ERROR_ARGUMENT, "the plan is for tensors in files (not lent): use ra_ring_run");
    return status ? status : execute_lent(ring, comm, views, stats);
}

ra_status ra_ring_backward(const ra_ring_plan *ring, ra_comm *comm, const ra_tensor *q, const ra_tensor *k,
                           const ra_tensor *v, const ra_tensor *output, const ra_tensor *lse, const ra_tensor *d_output,
                           const ra_tensor *d_lse, const ra_tensor *d_q, const ra_tensor *d_k, const ra_tensor *d_v,
                           ra_rank_stats *stats)
{
    const ra_tensor *const views[TENSORS] = {q, k, v, output, lse, d_output, d_lse, d_q, d_k, d_v};
    ra_status status = check_comm(ring, comm);
    if (!status)
        status = check_direction(ring, true);
    if (!status && !ring->options.lent)
        status = ra_fail(RA_ERROR_ARGUMENT, "the plan is for tensors in files (not lent): use ra_ring_run_backward");
    if (status)
        return status;
    bool queries = comm->simulated || ra_partition_share(&ring->queries, comm->transport.rank).rows > 0;
    bool keys = comm->simulated || ra_partition_share(&ring->keys, comm->transport.rank).rows > 0;
    unsigned looked_at = bits_of(queries ? ring : NULL, keys ? ring : NULL, keys ? ring : NULL);
    status = check_wanted(ring, bits_of(d_q, d_k, d_v), looked_at, d_lse != NULL, queries);
    return status ? status : execute_lent(ring, comm, views, stats);
}

/* ---- Agreement --------------------------------------------------------------------------------------------------- */

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
