/* SPDX-License-Identifier: Apache-2.0 */
/* A problem over ranks: what follows from the plan without looking at a rank. */
#include "ring/ring_plan.h"

#include "base/checked.h"
#include "base/memory.h"

/* ---- Passes ------------------------------------------------------------------------------------------------------ */

const ra_partition *ra_pass_moving(const ra_pass *pass)
{
    return pass->moving == RA_SIDE_KEYS ? &pass->ring->keys : &pass->ring->queries;
}

const ra_partition *ra_pass_staying(const ra_pass *pass)
{
    return pass->moving == RA_SIDE_KEYS ? &pass->ring->queries : &pass->ring->keys;
}

ra_role_shape ra_role_shape_of(const ra_ring_plan *ring, ra_role role)
{
    const ra_plan *p = ring->plan;
    const ra_ring_options *o = &ring->options;
    const ra_role_shape shapes[RA_ROLES] = {[RA_ROLE_KEYS] = {o->k_dtype, p->kv_heads, p->head_dim},
                                            [RA_ROLE_VALUES] = {o->v_dtype, p->kv_heads, p->value_dim},
                                            [RA_ROLE_QUERIES] = {o->q_dtype, p->heads, p->head_dim},
                                            [RA_ROLE_OUTPUT_GRADIENTS] = {o->d_output_dtype, p->heads, p->value_dim},
                                            [RA_ROLE_LSE] = {RA_F32, p->heads, 1},
                                            [RA_ROLE_DELTA] = {RA_F32, p->heads, 1},
                                            [RA_ROLE_QUERY_SUMS] = {RA_F32, p->heads, p->head_dim},
                                            [RA_ROLE_KEY_SUMS] = {RA_F32, p->kv_heads, p->head_dim},
                                            [RA_ROLE_VALUE_SUMS] = {RA_F32, p->kv_heads, p->value_dim}};
    return shapes[role];
}

int64_t ra_pass_row_bytes(const ra_pass *pass, unsigned roles)
{
    int64_t bytes = 0;
    for (int role = 0; role < RA_ROLES; role++)
        bytes += roles >> role & 1 ? pass->row_bytes[role] : 0;
    return bytes;
}

int ra_rank_before(const ra_pass *pass, int rank, int64_t steps)
{
    int64_t ranks = pass->ring->options.ranks;
    return (int)(((rank - steps) % ranks + ranks) % ranks);
}

/* ---- The plan ---------------------------------------------------------------------------------------------------- */

ra_status ra_ring_kernel(const ra_ring_plan *ring, ra_dtype output, const ra_kernel **kernel)
{
    enum { TENSORS = 4 };
    const ra_ring_options *o = &ring->options;
    const ra_dtype dtypes[TENSORS] = {o->q_dtype, o->k_dtype, o->v_dtype, o->backward ? o->d_output_dtype : output};
    const char *const names[TENSORS] = {"query", "key", "value", o->backward ? "d_output" : "output"};
    ra_tensor views[TENSORS];
    const ra_tensor *tensors[TENSORS];
    bool all_bf16 = true;
    for (int i = 0; i < TENSORS; i++) {
        views[i] = (ra_tensor){.dtype = dtypes[i]};
        tensors[i] = &views[i];
        all_bf16 &= dtypes[i] == RA_BF16;
    }
    ra_status status = ra_precision_check(ring->plan->precision, tensors, names, TENSORS);
    bool tiles = o->backward || ring->plan->variant == RA_VARIANT_TILE;
    return status ? status : ra_kernel_of_run(ring->plan->kernel, ring->plan->kernel_open && tiles, all_bf16, kernel);
}

bool ra_ring_has_spans(const ra_ring_plan *ring)
{
    return ring->plan->spans > 1 && ring->strategy->has_spans && !ring->options.backward;
}

bool ra_ring_at_once(const ra_ring_plan *ring)
{
    return ring->in_place && ring->options.transport == RA_TRANSPORT_SIM && !ra_ring_has_spans(ring);
}

int ra_ring_batch(const ra_ring_plan *ring)
{
    enum { MOST = 8 };
    int ranks = ring->options.ranks, lists = (int)ra_ceil_div(ranks, MOST);
    return ra_ring_at_once(ring) ? (int)ra_ceil_div(ranks, lists) : 1;
}

const ra_rank_plan *ra_pass_planned(const ra_pass *pass, int rank)
{
    const ra_ring_plan *ring = pass->ring;
    bool there = ring->ranks && rank >= ring->first && rank < ring->first + ring->count;
    return there ? &ring->ranks[(pass - ring->passes) * ring->count + rank - ring->first] : NULL;
}

void ra_rank_info_add(ra_rank_info *info, const ra_rank_info *further)
{
    info->steps += further->steps;
    info->hops += further->hops;
    info->bytes_sent += further->bytes_sent;
    info->bytes_received += further->bytes_received;
    info->peak_bytes = ra_max(info->peak_bytes, further->peak_bytes);
}

int64_t ra_ring_plan_bytes(const ra_ring_plan *ring)
{
    int64_t own = (int64_t)sizeof *ring + ra_partition_bytes(&ring->queries) + ra_partition_bytes(&ring->keys) +
                  ring->options.ranks * ring->pass_count *
                      (int64_t)sizeof *ring->ranks; /* as if all were planned: the same for each */
    return ra_memory_pages(own) + ra_plan_bytes(ring->plan);
}
