/* SPDX-License-Identifier: Apache-2.0 */
/* ra_backward: do the tensors fit the plan, and are they apart? The run is in exec/gradient_whole.c. */
#include "base/sized.h"
#include "base/tensor.h"
#include "exec/gradient.h"
#include "plan/arrays.h"
#include "plan/shorten.h"
#include "score/scores.h"

static ra_status check_statistic(const ra_tensor *t, const char *name, const ra_plan *p)
{
    ra_status status = ra_tensor_check(t, name, p->batch, p->q_len, p->heads, 1);
    if (!status && t->dtype != RA_F32)
        status = ra_fail(RA_ERROR_ARGUMENT, "%s: dtype %s: must be float32", name, ra_dtype_name(t->dtype));
    return status;
}

/* *keys: those of this run, which may be fewer than planned. */
static ra_status check_inputs(const ra_plan *p, const ra_gradient_tensors *t, int64_t *keys)
{
    *keys = t->k && t->k->seq >= 0 && t->k->seq < p->kv_len ? t->k->seq : p->kv_len;
    ra_status status = ra_tensor_check(t->q, "query", p->batch, p->q_len, p->heads, p->head_dim);
    if (!status)
        status = ra_tensor_check(t->k, "key", p->batch, *keys, p->kv_heads, p->head_dim);
    if (!status)
        status = ra_tensor_check(t->v, "value", p->batch, *keys, p->kv_heads, p->value_dim);
    if (!status)
        status = ra_tensor_check(t->output, "output", p->batch, p->q_len, p->heads, p->value_dim);
    if (!status)
        status = check_statistic(t->lse, "lse", p);
    if (!status)
        status = ra_tensor_check(t->d_output, "d_output", p->batch, p->q_len, p->heads, p->value_dim);
    if (!status && t->d_lse)
        status = check_statistic(t->d_lse, "d_lse", p);
    return status;
}

static ra_status check_gradients(const ra_plan *p, const ra_gradient_tensors *t, int64_t keys)
{
    ra_status status = RA_OK;
    if (t->d_q)
        status = ra_tensor_check(t->d_q, "d_q", p->batch, p->q_len, p->heads, p->head_dim);
    if (!status && t->d_k)
        status = ra_tensor_check(t->d_k, "d_k", p->batch, keys, p->kv_heads, p->head_dim);
    if (!status && t->d_v)
        status = ra_tensor_check(t->d_v, "d_v", p->batch, keys, p->kv_heads, p->value_dim);
    if (status)
        return status;
    enum { INPUTS = 7, TENSORS = 10 };
    const ra_tensor *const tensors[TENSORS] = {t->q,        t->k,     t->v,   t->output, t->lse,
                                               t->d_output, t->d_lse, t->d_q, t->d_k,    t->d_v};
    static const char *const names[TENSORS] = {"query",    "key",   "value", "output", "lse",
                                               "d_output", "d_lse", "d_q",   "d_k",    "d_v"};
    status = ra_precision_check(p->precision, (const ra_tensor *const[]){t->q, t->k, t->v, t->d_output},
                                (const char *const[]){"query", "key", "value", "d_output"}, 4);
    if (!status)
        status = ra_scores_check_apart(p->scores, tensors, names, INPUTS, TENSORS);
    return status ? status : ra_pattern_check_apart(&p->pattern, tensors, names, INPUTS, TENSORS);
}

/* A run over all keys of the plan, or over fewer. */
static ra_status run(const ra_plan *p, int64_t keys, const ra_gradient_tensors *t, ra_stats *stats)
{
    const ra_kernel *kernel = NULL;
    ra_shorter_plan shorter;
    shorter.ragged = NULL;
    bool all_bf16 =
        t->q->dtype == RA_BF16 && t->k->dtype == RA_BF16 && t->v->dtype == RA_BF16 && t->d_output->dtype == RA_BF16;
    ra_status status = ra_kernel_of_run(p->kernel, p->kernel_open, all_bf16, &kernel);
    if (!status && ra_plan_differs(p, keys)) {
        status = ra_plan_shorten(p, keys, &shorter);
        p = &shorter.plan;
    }
    if (!status)
        status = ra_gradient_execute(p, kernel, t, stats);
    ra_shorter_plan_clear(&shorter);
    return status;
}

ra_status ra_backward(const ra_plan *p, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                      const ra_tensor *output, const ra_tensor *lse, const ra_tensor *d_output, const ra_tensor *d_lse,
                      const ra_tensor *d_q, const ra_tensor *d_k, const ra_tensor *d_v, ra_stats *stats)
{
    const ra_gradient_tensors t = {q, k, v, output, lse, d_output, d_lse, d_q, d_k, d_v};
    int64_t keys = 0;
    ra_stats ours = RA_STATS_INIT;
    if (!p)
        return ra_fail(RA_ERROR_ARGUMENT, "plan is NULL");
    ra_status status = check_inputs(p, &t, &keys);
    if (!status && stats)
        status = ra_check_sized(stats, &ra_sized_stats);
    if (!status)
        status = check_gradients(p, &t, keys);
    if (!status)
        status = run(p, keys, &t, &ours);
    if (!status && stats)
        status = ra_copy_out(stats, &ours, &ra_sized_stats);
    return status;
}

ra_status ra_plan_describe_backward(const ra_plan *p, ra_plan_info *info)
{
    ra_gradient_work work;
    if (!p || !info)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", p ? "info" : "plan");
    ra_status status = ra_gradient_plan(p, &work);
    if (status)
        return status;
    ra_plan_info ours = {sizeof ours,
                         p->kernel,
                         RA_VARIANT_TILE,
                         work.all.threads,
                         work.all.tile_groups * p->blocking.lanes,
                         RA_KEY_BLOCK,
                         1,
                         work.all.tiles,
                         work.all.pairs_visible,
                         work.all.pairs_worked,
                         work.flops,
                         work.peak_bytes,
                         p->pattern.blocks ? p->pattern.blocks->density : 1};
    return ra_copy_out(info, &ours, &ra_sized_plan_info);
}
