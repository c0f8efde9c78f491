/* SPDX-License-Identifier: Apache-2.0 */
/* T5's buckets of distances as a table of relative positions: the public ra_relative_from_buckets. */
#include "base/checked.h"
#include "base/status.h"

#include <math.h>
#include <stdbool.h>

/*
 * The bucket of a distance d >= 0 among n: distances below n / 2 have one each, longer ones share those that are left,
 * by their logarithm. In float32 as the original code, whose rounding decides where a bucket ends.
 */
static int64_t bucket_of(int64_t d, int64_t n, int64_t max_distance)
{
    int64_t exact = n / 2;
    if (d < exact)
        return d;
    float part = logf((float)d / (float)exact) / (float)log((double)max_distance / (double)exact);
    return ra_min(n - 1, exact + (int64_t)(part * (float)(n - exact)));
}

static ra_status check(int64_t buckets, int64_t heads, bool both, int64_t max_distance)
{
    const int64_t least = both ? 4 : 2, most = 1 << 24, exact = buckets / (both ? 4 : 2);
    if (buckets < least || buckets > most)
        return ra_fail(RA_ERROR_ARGUMENT, "buckets %lld: must be %lld..%lld", (long long)buckets, (long long)least,
                       (long long)most);
    if (heads < 1)
        return ra_fail(RA_ERROR_ARGUMENT, "heads %lld: must be >= 1", (long long)heads);
    if (max_distance <= exact || max_distance > most)
        return ra_fail(RA_ERROR_ARGUMENT, "max_distance %lld: must be %lld..%lld with %lld buckets",
                       (long long)max_distance, (long long)exact + 1, (long long)most, (long long)buckets);
    return RA_OK;
}

ra_status ra_relative_from_buckets(const float *weights, int64_t buckets, int64_t heads, int bidirectional,
                                   int64_t max_distance, float *table)
{
    if (!weights || !table)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", weights ? "table" : "weights");
    ra_status status = check(buckets, heads, bidirectional, max_distance);
    if (status)
        return status;
    int64_t n = bidirectional ? buckets / 2 : buckets, width = 2 * max_distance + 1;
    for (int64_t entry = 0; entry < width; entry++) {
        int64_t apart = entry - max_distance; /* of the key behind the query */
        int64_t bucket = bidirectional ? bucket_of(apart < 0 ? -apart : apart, n, max_distance) + (apart > 0 ? n : 0)
                                       : bucket_of(ra_max(0, -apart), n, max_distance);
        for (int64_t head = 0; head < heads; head++)
            table[head * width + entry] = weights[bucket * heads + head];
    }
    return RA_OK;
}
