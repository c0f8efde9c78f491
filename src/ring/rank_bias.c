/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of a bias over real ranks: see rank_bias.h. */
#include "ring/rank_bias.h"

#include "base/checked.h"
#include "base/tensor.h"

/* Elements at + i for 0 <= i < count of the gradient, counted [batch][head][query][key]; they are of one row. */
typedef struct bias_run {
    float *first;
    int64_t stride, count;
    int64_t query, key;
} bias_run;

static int64_t elements(const ra_tensor *t)
{
    return t->batch * t->heads * t->seq * t->dim;
}

/* The number of elements from one on that are in the same row; at most `most`. */
static bias_run run_at(const ra_tensor *t, int64_t at, int64_t most)
{
    int64_t row = at / t->dim, key = at % t->dim, query = row % t->seq, slice = row / t->seq;
    float *first = (float *)ra_tensor_at(t, slice / t->heads, query, slice % t->heads, key);
    return (bias_run){first, t->dim_stride, ra_min(most, t->dim - key), query, key};
}

/* The end of the run of elements from `i` on that belong to this rank (*own), or to other ranks. */
static int64_t end_of_owner(const ra_rank *e, const bias_run *run, int64_t i, bool *own)
{
    const ra_partition *rows = ra_pass_staying(e->pass);
    bool queries = e->pass->moving == RA_SIDE_KEYS;
    ra_owned part = ra_partition_owner(rows, queries ? run->query : run->key + i);
    *own = part.rank == e->rank;
    return queries ? run->count : ra_min(run->count, part.end - run->key);
}

static void clear_run(const ra_rank *e, const bias_run *run)
{
    bool own;
    for (int64_t i = 0, end; i < run->count; i = end) {
        end = end_of_owner(e, run, i, &own);
        for (int64_t j = i; own && j < end; j++)
            run->first[j * run->stride] = 0.0f;
    }
}

/* Virtual ranks have one gradient, and nothing travels. */
static const ra_tensor *bias_of(const ra_rank *e)
{
    return e->arrays && !ra_rank_virtual(e) ? e->arrays->sums.bias : NULL;
}

void ra_bias_clear(ra_rank *e)
{
    const ra_tensor *t = bias_of(e);
    for (int64_t at = 0; t && at < elements(t); at += t->dim) {
        const bias_run run = run_at(t, at, t->dim);
        clear_run(e, &run);
    }
}

/* Add this rank's elements to a part. It has the elements of the ranks before, or zeros on the first rank. */
static void put_own(const ra_rank *e, const bias_run *run, float *part)
{
    bool own;
    for (int64_t i = 0, end; i < run->count; i = end) {
        end = end_of_owner(e, run, i, &own);
        for (int64_t j = i; j < end && (own || e->rank == 0); j++)
            part[j] = own ? run->first[j * run->stride] : 0.0f;
    }
}

static void write_all(const bias_run *run, const float *part)
{
    for (int64_t i = 0; i < run->count; i++)
        run->first[i * run->stride] = part[i];
}

/* Copy a part of `count` elements from `at` on, to the array or from it. */
static void move_part(const ra_rank *e, int64_t at, int64_t count, bool write)
{
    const ra_tensor *t = e->arrays->sums.bias;
    float *part = e->arrays->part;
    for (int64_t done = 0; done < count;) {
        const bias_run run = run_at(t, at + done, count - done);
        if (write)
            write_all(&run, part + done);
        else
            put_own(e, &run, part + done);
        done += run.count;
    }
}

/* Send part after part to the next rank, with the elements of this one added; the last rank writes them. */
static ra_status go_up(ra_rank *e, int64_t all)
{
    bool first = e->rank == 0, last = e->rank + 1 == e->ring->options.ranks;
    ra_status status = RA_OK;
    for (int64_t at = 0, count; at < all && !status; at += count) {
        count = ra_min(RA_BIAS_PART, all - at);
        int64_t bytes = count * (int64_t)sizeof(float);
        if (!first)
            status = ra_arrays_receive(e, e->rank - 1, e->arrays->part, bytes);
        if (status)
            return status;
        move_part(e, at, count, false);
        if (last)
            move_part(e, at, count, true);
        else
            status = ra_arrays_send(e, e->rank + 1, e->arrays->part, bytes);
    }
    return status;
}

/* Send the parts back: the last rank has the whole gradient. */
static ra_status go_down(ra_rank *e, int64_t all)
{
    const ra_tensor *t = e->arrays->sums.bias;
    bool first = e->rank == 0, last = e->rank + 1 == e->ring->options.ranks;
    ra_status status = RA_OK;
    for (int64_t at = 0, count; at < all && !status; at += count) {
        count = ra_min(RA_BIAS_PART, all - at);
        int64_t bytes = count * (int64_t)sizeof(float);
        for (int64_t i = 0; last && i < count; i++)
            e->arrays->part[i] = *run_at(t, at + i, 1).first;
        if (!last)
            status = ra_arrays_receive(e, e->rank + 1, e->arrays->part, bytes);
        if (!status && !last)
            move_part(e, at, count, true);
        if (!status && !first)
            status = ra_arrays_send(e, e->rank - 1, e->arrays->part, bytes);
    }
    return status;
}

ra_status ra_bias_exchange(ra_rank *e)
{
    const ra_tensor *t = bias_of(e);
    if (!t || e->ring->options.ranks == 1)
        return RA_OK;
    ra_status status = go_up(e, elements(t));
    return status ? status : go_down(e, elements(t));
}
