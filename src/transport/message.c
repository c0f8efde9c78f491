/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the arguments of a send or receive, and the length of its segments. See message.h. */
#include "transport/message.h"

#include "base/checked.h"

ra_status ra_message_check(const char *verb, int peer, int ranks, int tag, const ra_segment *segments, int64_t count,
                           int64_t *bytes)
{
    *bytes = 0;
    if (peer < 0 || peer >= ranks)
        return ra_fail(RA_ERROR_ARGUMENT, "%s rank %d: must be 0..%d", verb, peer, ranks - 1);
    if (tag < 0 || tag > RA_TAG_MOST)
        return ra_fail(RA_ERROR_ARGUMENT, "%s rank %d: tag %d: must be 0..%d", verb, peer, tag, RA_TAG_MOST);
    if (count < 0 || (count && !segments))
        return ra_fail(RA_ERROR_ARGUMENT, "%s rank %d: %lld segments at %p", verb, peer, (long long)count,
                       (const void *)segments);
    for (int64_t i = 0; i < count; i++)
        if (segments[i].bytes < 0 || (segments[i].bytes && !segments[i].at) ||
            !ra_add_ok(*bytes, segments[i].bytes, bytes))
            return ra_fail(RA_ERROR_ARGUMENT, "%s rank %d: segment %lld has %lld bytes at %p", verb, peer, (long long)i,
                           (long long)segments[i].bytes, segments[i].at);
    return RA_OK;
}
