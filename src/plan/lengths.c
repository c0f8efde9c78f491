/* SPDX-License-Identifier: Apache-2.0 */
/* Valid keys of each batch element, and how they may change from run to run. See lengths.h; term_lengths.c reads them.
 */
#include "plan/lengths.h"

#include <stdlib.h>

ra_lengths ra_lengths_now(const ra_lengths *l)
{
    ra_lengths now = *l;
    if (l->array.data) {
        now.at = l->array.data;
        now.batch_stride = l->array.batch_stride;
        now.column_stride = l->array.dim_stride;
    }
    return now;
}

bool ra_lengths_changed(const ra_lengths *l)
{
    const ra_lengths now = ra_lengths_now(l);
    for (int64_t i = 0; i < l->batch * l->columns; i++)
        if (ra_lengths_value(&now, i / l->columns, (int)(i % l->columns)) != l->planned[i])
            return true;
    return false;
}

ra_status ra_lengths_check(const ra_lengths *l, const ra_lengths_limits *limits)
{
    const int64_t most = INT64_C(1) << 62; /* positions stay below this */
    for (int64_t i = 0; i < l->batch; i++) {
        int64_t lo = ra_lengths_value(l, i, 0), hi = ra_lengths_value(l, i, 1);
        if (lo < 0 || hi < lo || hi > limits->kv_len)
            return ra_fail(RA_ERROR_ARGUMENT,
                           "lengths: batch element %lld has the keys %lld to %lld: must be within 0 to %lld",
                           (long long)i, (long long)lo, (long long)hi, (long long)limits->kv_len);
        int64_t position = l->columns == 3 ? ra_lengths_value(l, i, 2) : 0;
        if (position < 0 || position > most - limits->q_len)
            return ra_fail(RA_ERROR_ARGUMENT,
                           "lengths: batch element %lld has its first query at position %lld: must be >= 0 and stay "
                           "below 2^62 with %lld queries",
                           (long long)i, (long long)position, (long long)limits->q_len);
    }
    return RA_OK;
}

ra_status ra_lengths_check_now(const ra_lengths *l, const ra_lengths_limits *limits)
{
    const ra_lengths now = ra_lengths_now(l);
    ra_status status = ra_lengths_check(&now, limits);
    for (int64_t i = 0; i < l->batch && !status; i++) {
        int64_t lo = ra_lengths_value(&now, i, 0), hi = ra_lengths_value(&now, i, 1);
        const int64_t *planned = l->planned + i * l->columns;
        if (lo < hi && (lo < planned[0] || hi > planned[1]))
            status = ra_fail(RA_ERROR_ARGUMENT,
                             "lengths: batch element %lld has the keys %lld to %lld: the plan is for %lld to %lld, and "
                             "lengths may only shrink",
                             (long long)i, (long long)lo, (long long)hi, (long long)planned[0], (long long)planned[1]);
    }
    return status;
}

void ra_lengths_free(ra_lengths *l)
{
    if (l)
        free(l->planned);
    free(l);
}

int64_t ra_lengths_bytes(const ra_lengths *l)
{
    return (int64_t)sizeof *l + l->batch * l->columns * (int64_t)sizeof *l->planned;
}
