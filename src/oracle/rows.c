/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as doubles, products of rows, checks. See rows.h. */
#include "oracle/rows.h"

#include "base/checked.h"
#include "base/tensor.h"

#include <math.h>
#include <stdlib.h>

void *ra_oracle_array(int64_t count, int64_t inner, size_t size)
{
    int64_t all;
    return ra_mul_ok(count, inner, &all) ? calloc((size_t)all, size) : NULL;
}

ra_status ra_oracle_check(const ra_storage *s, const char *name, const ra_plan *p, int64_t seq, int64_t heads,
                          int64_t dim)
{
    if (!s)
        return ra_fail(RA_ERROR_ARGUMENT, "%s: the storage is NULL", name);
    const ra_tensor *t = ra_storage_view(s);
    if (t->batch == p->batch && t->seq == seq && t->heads == heads && t->dim == dim)
        return RA_OK;
    return ra_fail(RA_ERROR_ARGUMENT,
                   "%s: [batch %lld, seq %lld, heads %lld, dim %lld] does not match the problem's [batch %lld, seq "
                   "%lld, heads %lld, dim %lld]",
                   name, (long long)t->batch, (long long)t->seq, (long long)t->heads, (long long)t->dim,
                   (long long)p->batch, (long long)seq, (long long)heads, (long long)dim);
}

ra_status ra_oracle_read(ra_storage *s, ra_row first, int64_t count, int64_t heads, void *elements, double *values)
{
    const ra_tensor *v = ra_storage_view(s);
    ra_tensor rows = ra_tensor_dense(elements, v->dtype, RA_BSHD, 1, count, heads, v->dim);
    ra_status status = ra_storage_read(s, first.batch, first.seq, count, first.head, &rows);
    ra_tensor flat = ra_tensor_dense(elements, v->dtype, RA_BSHD, 1, 1, 1, count * heads * v->dim);
    for (int64_t i = 0; i < flat.dim && !status; i++)
        values[i] = ra_tensor_get(&flat, 0, 0, 0, i);
    return status;
}

ra_status ra_oracle_tell(const ra_plan *p, double done, double total)
{
    if (p->progress && p->progress(p->progress_user, done, total))
        return ra_fail(RA_ERROR_CANCELLED, "the progress callback asked to stop");
    return RA_OK;
}

/* Four sums that do not wait for each other. */
double ra_oracle_dot(const double *a, const double *b, int64_t count)
{
    double sums[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int lane = 0; lane < 4; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        sums[0] += a[i] * b[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

double ra_oracle_dot_size(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += fabs(a[i] * b[i]);
    return sum;
}

ra_score_pair ra_oracle_pair(const ra_plan *p, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    int64_t position = ra_plan_position(p, query + ra_plan_offset(p, batch));
    return (ra_score_pair){batch, head, position, ra_plan_key_position(p, key), query, key};
}

double ra_oracle_score_size(const ra_plan *p, const ra_score_pair *pair, const double *query, const double *key,
                            double score, double top)
{
    const double far = 150, rounding = 0x1p-20; /* weights of exp(-150) are 0; a score's rounding, with room to spare */
    double size = fabs(p->scale) * ra_oracle_dot_size(query, key, p->head_dim), gap = top - score;
    if (!p->scores)
        return size;
    size = ra_score_size_of_pair(p->scores, pair, p->scale * ra_oracle_dot(query, key, p->head_dim), size);
    return score <= RA_SCORE_LOWEST || (gap > far && rounding * size < gap) ? 0 : size;
}
