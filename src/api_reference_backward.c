/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle of the backward pass over tensors in memory: validates, and hands on to exec/reference_backward.c. */
#include "base/tensor.h"
#include "exec/reference_backward.h"
#include "plan/shorten.h"

static ra_status check_inputs(const ra_plan *p, int64_t keys, const ra_tensor *q, const ra_tensor *k,
                              const ra_tensor *v)
{
    ra_status status = ra_tensor_check_reference(q, "query", p->batch, p->q_len, p->heads, p->head_dim);
    if (!status)
        status = ra_tensor_check_reference(k, "key", p->batch, keys, p->kv_heads, p->head_dim);
    if (!status)
        status = ra_tensor_check_reference(v, "value", p->batch, keys, p->kv_heads, p->value_dim);
    return status;
}

static ra_status check_gradients(const ra_plan *p, const ra_tensor *d_output, const ra_tensor *d_lse)
{
    ra_status status = ra_tensor_check_reference(d_output, "d_output", p->batch, p->q_len, p->heads, p->value_dim);
    if (!status && d_lse)
        status = ra_tensor_check_reference(d_lse, "d_lse", p->batch, p->q_len, p->heads, 1);
    if (!status && d_lse && d_lse->dtype != RA_F32 && d_lse->dtype != RA_F64)
        status = ra_fail(RA_ERROR_ARGUMENT, "d_lse: dtype %s: must be float32 or float64", ra_dtype_name(d_lse->dtype));
    return status;
}

ra_status ra_reference_backward(const ra_plan *p, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                                const ra_tensor *d_output, const ra_tensor *d_lse, double *d_q, double *d_k,
                                double *d_v)
{
    if (!p)
        return ra_fail(RA_ERROR_ARGUMENT, "plan is NULL");
    int64_t keys = k && k->seq >= 0 && k->seq < p->kv_len ? k->seq : p->kv_len;
    ra_status status = check_inputs(p, keys, q, k, v);
    if (!status)
        status = check_gradients(p, d_output, d_lse);
    ra_shorter_plan shorter;
    shorter.ragged = NULL;
    if (!status && ra_plan_differs(p, keys)) {
        status = ra_plan_shorten(p, keys, &shorter);
        p = &shorter.plan;
    }
    if (!status)
        status = ra_reference_gradients(p, q, k, v, d_output, d_lse, d_q, d_k, d_v);
    ra_shorter_plan_clear(&shorter);
    return status;
}
