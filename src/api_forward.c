/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ra_forward and its oracle, over tensors and over caches: does what is handed in fit the plan? A run without a cache
 * is one with a cache that has neither pages nor scales.
 */
#include "base/sized.h"
#include "base/tensor.h"
#include "exec/cache_rows.h"
#include "exec/exec.h"
#include "exec/reference.h"
#include "plan/arrays.h"
#include "plan/shorten.h"
#include "score/scores.h"

/* What is checked of each input: that a run, or that an oracle can read it. */
typedef ra_status tensor_check(const ra_tensor *tensor, const char *name, int64_t batch, int64_t seq, int64_t heads,
                               int64_t dim);

/* What is handed in. */
typedef struct inputs {
    const ra_tensor *q;
    ra_cache cache;
    int64_t keys; /* of this run, which may be fewer than planned */
} inputs;

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

static inputs inputs_of(const ra_tensor *q, const ra_tensor *k, const ra_tensor *v)
{
    inputs in = {q, RA_CACHE_INIT, 0};
    in.cache.k = k;
    in.cache.v = v;
    return in;
}

/* Keys or values, and their scales: of 8 bits there are some, else there are none. */
static ra_status check_rows(const ra_tensor *t, const ra_tensor *scale, const char *name, const char *scale_name,
                            tensor_check *check, const ra_tensor *shape)
{
    if (t && t->dtype == RA_I8 && !scale)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: dtype int8 needs scales: %s is NULL", name, scale_name);
    if (!scale || !t)
        return check(t, name, shape->batch, shape->seq, shape->heads, shape->dim);
    if (t->dtype != RA_I8)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: scales are for int8, and the dtype of %s is %s", scale_name, name,
                       ra_dtype_name(t->dtype));
    ra_status status = ra_tensor_check_shape(t, name, shape->batch, shape->seq, shape->heads, shape->dim);
    if (!status)
        status = ra_tensor_check_shape(scale, scale_name, shape->batch, shape->seq, shape->heads, 1);
    if (!status && scale->dtype != RA_F32)
        status = ra_fail(RA_ERROR_ARGUMENT, "%s: dtype %s: must be float32", scale_name, ra_dtype_name(scale->dtype));
    return status;
}

static ra_status check_table(const ra_plan *p, const ra_cache *cache, int64_t keys)
{
    const ra_tensor *table = cache->page_table;
    if (cache->k && cache->k->seq < 1)
        return ra_fail(RA_ERROR_ARGUMENT, "key: pages of %lld rows: must be 1 or more", (long long)cache->k->seq);
    if (table->dtype != RA_I32)
        return ra_fail(RA_ERROR_ARGUMENT, "page_table: dtype %s: must be int32", ra_dtype_name(table->dtype));
    if (cache->k && table->dim < keys / cache->k->seq + (keys % cache->k->seq > 0))
        return ra_fail(RA_ERROR_ARGUMENT, "page_table: %lld pages of %lld rows for a sequence of %lld keys: too few",
                       (long long)table->dim, (long long)cache->k->seq, (long long)keys);
    return ra_tensor_check_shape(table, "page_table", p->batch, 1, 1, table->dim);
}

/* Keys of this run: those that tensors have, or those that a cache with pages says. */
static ra_status find_keys(const ra_plan *p, inputs *in)
{
    const ra_cache *cache = &in->cache;
    in->keys = p->kv_len;
    if (!cache->page_table) {
        if (cache->keys != RA_SAME)
            return ra_fail(RA_ERROR_ARGUMENT,
                           "cache: keys %lld: they are for a page_table; else seq of k and v says it",
                           (long long)cache->keys);
        if (cache->k && cache->k->seq >= 0 && cache->k->seq < p->kv_len)
            in->keys = cache->k->seq;
        return RA_OK;
    }
    if (cache->keys != RA_SAME && (cache->keys < 0 || cache->keys > p->kv_len))
        return ra_fail(RA_ERROR_ARGUMENT, "cache: keys %lld: must be 0..%lld, or RA_SAME", (long long)cache->keys,
                       (long long)p->kv_len);
    if (cache->keys != RA_SAME)
        in->keys = cache->keys;
    return check_table(p, cache, in->keys);
}

static ra_status check_inputs(const ra_plan *p, inputs *in, tensor_check *check)
{
    if (!p)
        return ra_fail(RA_ERROR_ARGUMENT, "plan is NULL");
    const ra_cache *cache = &in->cache;
    ra_status status = check(in->q, "query", p->batch, p->q_len, p->heads, p->head_dim);
    if (!status)
        status = find_keys(p, in);
    if (status)
        return status;
    ra_tensor shape = {.batch = p->batch, .seq = in->keys, .heads = p->kv_heads, .dim = p->head_dim};
    if (cache->page_table && cache->k)
        shape.batch = cache->k->batch, shape.seq = cache->k->seq;
    status = check_rows(cache->k, cache->k_scale, "key", "k_scale", check, &shape);
    shape.dim = p->value_dim;
    return status ? status : check_rows(cache->v, cache->v_scale, "value", "v_scale", check, &shape);
}

static ra_status check_outputs(const ra_plan *p, const inputs *in, const ra_tensor *output, const ra_tensor *lse)
{
    enum { INPUTS = 6, TENSORS = 8 };
    const ra_cache *c = &in->cache;
    const ra_tensor *const tensors[TENSORS] = {in->q, c->k, c->v, c->k_scale, c->v_scale, c->page_table, output, lse};
    static const char *const names[TENSORS] = {"query",   "key",        "value",  "k_scale",
                                               "v_scale", "page_table", "output", "lse"};
    ra_status status = ra_tensor_check(output, "output", p->batch, p->q_len, p->heads, p->value_dim);
    if (!status && lse)
        status = ra_tensor_check(lse, "lse", p->batch, p->q_len, p->heads, 1);
    if (!status && lse && lse->dtype != RA_F32)
        status = ra_fail(RA_ERROR_ARGUMENT, "lse: dtype %s: must be float32", ra_dtype_name(lse->dtype));
    if (!status)
        status = ra_precision_check(p->precision, (const ra_tensor *const[]){in->q, c->k, c->v, output},
                                    (const char *const[]){"query", "key", "value", "output"}, 4);
    if (!status)
        status = ra_scores_check_apart(p->scores, tensors, names, INPUTS, TENSORS);
    return status ? status : ra_pattern_check_apart(&p->pattern, tensors, names, INPUTS, TENSORS);
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

/* The plan of this run: the plan itself, or in `shorter` one for fewer keys; with pages for all of them. */
static ra_status plan_of_run(const ra_plan **p, const inputs *in, ra_shorter_plan *shorter)
{
    ra_status status = RA_OK;
    if (ra_plan_differs(*p, in->keys)) {
        status = ra_plan_shorten(*p, in->keys, shorter);
        *p = &shorter->plan;
    }
    return status || !in->cache.page_table ? status : ra_cache_check_pages(&in->cache, *p);
}

static bool all_bf16(const inputs *in, const ra_tensor *output)
{
    return in->q->dtype == RA_BF16 && in->cache.k->dtype == RA_BF16 && in->cache.v->dtype == RA_BF16 &&
           output->dtype == RA_BF16;
}

static ra_status run(const ra_plan *planned, const inputs *in, const ra_tensor *output, const ra_tensor *lse,
                     ra_stats *stats)
{
    const ra_kernel *kernel = NULL;
    const ra_plan *p = planned;
    ra_shorter_plan shorter;
    shorter.ragged = NULL;
    bool tiles = p->variant == RA_VARIANT_TILE;
    ra_status status = ra_kernel_of_run(p->kernel, p->kernel_open && tiles, all_bf16(in, output), &kernel);
    if (!status)
        status = plan_of_run(&p, in, &shorter);
    if (!status && p != planned && in->keys > 0 && p->all.tasks > 0)
        status = ra_plan_lay_out_shorter(planned, &shorter);
    if (!status && (p->kv_len == 0 || p->all.tasks == 0))
        status = ra_execute_nothing(p, kernel, output, lse, stats);
    else if (!status)
        status = ra_execute(p, kernel, in->q, &in->cache, output, lse, stats);
    ra_shorter_plan_clear(&shorter);
    return status;
}

static ra_status forward(const ra_plan *p, inputs *in, const ra_tensor *output, const ra_tensor *lse, ra_stats *stats)
{
    ra_stats ours = RA_STATS_INIT;
    ra_status status = check_inputs(p, in, ra_tensor_check);
    if (!status && stats)
        status = ra_check_sized(stats, &ra_sized_stats);
    if (!status)
        status = check_outputs(p, in, output, lse);
    if (!status)
        status = run(p, in, output, lse, &ours);
    if (!status && stats)
        status = ra_copy_out(stats, &ours, &ra_sized_stats);
    return status;
}

static ra_status reference_row(const ra_plan *p, inputs *in, int64_t batch, int64_t head, int64_t query, double *output,
                               double *lse)
{
    ra_status status = check_inputs(p, in, ra_tensor_check_reference);
    if (status)
        return status;
    if (!output)
        return ra_fail(RA_ERROR_ARGUMENT, "output is NULL");
    if (batch < 0 || batch >= p->batch || head < 0 || head >= p->heads || query < 0 || query >= p->q_len)
        return ra_fail(RA_ERROR_ARGUMENT, "batch %lld, head %lld, query %lld: must be below %lld, %lld and %lld",
                       (long long)batch, (long long)head, (long long)query, (long long)p->batch, (long long)p->heads,
                       (long long)p->q_len);
    ra_shorter_plan shorter;
    shorter.ragged = NULL;
    status = plan_of_run(&p, in, &shorter);
    if (!status)
        status = ra_reference_compute(p, in->q, &in->cache, batch, head, query, output, lse);
    ra_shorter_plan_clear(&shorter);
    return status;
}

/* ---- The public functions ---------------------------------------------------------------------------------------- */

ra_status ra_forward(const ra_plan *p, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                     const ra_tensor *output, const ra_tensor *lse, ra_stats *stats)
{
    inputs in = inputs_of(q, k, v);
    return forward(p, &in, output, lse, stats);
}

ra_status ra_reference_row(const ra_plan *p, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v, int64_t batch,
                           int64_t head, int64_t query, double *output, double *lse)
{
    inputs in = inputs_of(q, k, v);
    return reference_row(p, &in, batch, head, query, output, lse);
}

static ra_status take_cache(const ra_tensor *q, const ra_cache *cache, inputs *in)
{
    *in = inputs_of(q, NULL, NULL);
    return cache ? ra_copy_in(&in->cache, cache, &ra_sized_cache) : ra_fail(RA_ERROR_ARGUMENT, "cache is NULL");
}

ra_status ra_forward_cached(const ra_plan *p, const ra_tensor *q, const ra_cache *cache, const ra_tensor *output,
                            const ra_tensor *lse, ra_stats *stats)
{
    inputs in;
    ra_status status = take_cache(q, cache, &in);
    return status ? status : forward(p, &in, output, lse, stats);
}

ra_status ra_reference_row_cached(const ra_plan *p, const ra_tensor *q, const ra_cache *cache, int64_t batch,
                                  int64_t head, int64_t query, double *output, double *lse)
{
    inputs in;
    ra_status status = take_cache(q, cache, &in);
    return status ? status : reference_row(p, &in, batch, head, query, output, lse);
}
