/* SPDX-License-Identifier: Apache-2.0 */
/* Makes communicators: simulated ones, and those of a transport. Ranks that are threads: threads.c. See comm.h. */
#include "transport/comm.h"

#include "base/sized.h"
#include "base/status.h"

#include <stdlib.h>

static ra_status make(ra_transport transport, bool simulated, ra_comm **comm)
{
    *comm = malloc(sizeof **comm);
    if (!*comm)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes for a communicator", sizeof **comm);
    **comm = (ra_comm){.transport = transport, .simulated = simulated};
    return RA_OK;
}

ra_status ra_comm_sim(int ranks, ra_comm **comm)
{
    if (!comm)
        return ra_fail(RA_ERROR_ARGUMENT, "comm: must not be NULL");
    *comm = NULL;
    if (ranks < 1)
        return ra_fail(RA_ERROR_ARGUMENT, "ranks %d: must be >= 1", ranks);
    return make((ra_transport){.size = sizeof(ra_transport), .name = "sim", .ranks = ranks}, true, comm);
}

static ra_status check(const ra_transport *t)
{
    if (!t->name)
        return ra_fail(RA_ERROR_ARGUMENT, "transport: name must not be NULL");
    if (t->ranks < 1)
        return ra_fail(RA_ERROR_ARGUMENT, "transport %s: ranks %d: must be >= 1", t->name, t->ranks);
    if (t->rank < 0 || t->rank >= t->ranks)
        return ra_fail(RA_ERROR_ARGUMENT, "transport %s: rank %d: must be 0..%d", t->name, t->rank, t->ranks - 1);
    if (!t->receive || !t->send || !t->progress || !t->notify || !t->abandon || !t->close)
        return ra_fail(RA_ERROR_ARGUMENT, "transport %s: %s must not be NULL", t->name,
                       !t->receive    ? "receive"
                       : !t->send     ? "send"
                       : !t->progress ? "progress"
                       : !t->notify   ? "notify"
                       : !t->abandon  ? "abandon"
                                      : "close");
    return RA_OK;
}

ra_status ra_comm_custom(const ra_transport *transport, ra_comm **comm)
{
    if (!comm)
        return ra_fail(RA_ERROR_ARGUMENT, "comm: must not be NULL");
    *comm = NULL;
    if (!transport)
        return ra_fail(RA_ERROR_ARGUMENT, "transport: must not be NULL");
    ra_transport ours = {0};
    /* The first version had all of these functions. */
    static const ra_sized kind = {"ra_transport", "size = sizeof(ra_transport)", sizeof ours, sizeof ours};
    ra_status status = ra_copy_in(&ours, transport, &kind);
    if (!status)
        status = check(&ours);
    return status ? status : make(ours, false, comm);
}

int ra_comm_rank(const ra_comm *comm)
{
    return !comm ? -1 : comm->transport.rank;
}

int ra_comm_ranks(const ra_comm *comm)
{
    return !comm ? 0 : comm->transport.ranks;
}

void ra_comm_free(ra_comm *comm)
{
    if (!comm)
        return;
    if (!comm->simulated)
        comm->transport.close(comm->transport.state);
    ra_spare_free(&comm->spare);
    free(comm);
}

ra_status ra_transport_fail(ra_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    ra_fail_va(status, format, arguments);
    va_end(arguments);
    return status;
}
