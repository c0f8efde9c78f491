#include "transport/sim.h"

#include "base/status.h"
#include "transport/message.h"

#include <stdlib.h>

typedef struct sim {
    int rank, ranks;
    ra_sim_source source;
    void *user;
} sim;

static ra_status receive(void *state, int from, int tag, const ra_segment *segments, int64_t count)
{
    sim *me = state;
    int64_t bytes;
    ra_status status = ra_message_check("receive from", from, me->ranks, tag, segments, count, &bytes);
    return status ? status : me->source(me->user, me->rank, from, tag, segments, count);
}

static ra_status send(void *state, int to, int tag, const ra_segment *segments, int64_t count)
{
    int64_t bytes;
    return ra_message_check("send to", to, ((sim *)state)->ranks, tag, segments, count, &bytes);
}

static ra_status progress(void *state, ra_transport_state *found)
{
    (void)state;
    *found = (ra_transport_state){.waiting_for = -1, .quietest = -1};
    return RA_OK;
}

static void notify(void *state, const ra_notice *notice)
{
    (void)state, (void)notice;
}

static int abandon(void *state)
{
    (void)state;
    return 1; /* nothing is ever unfinished */
}

ra_status ra_sim_open(int rank, int ranks, ra_sim_source source, void *user, ra_transport *transport)
{
    if (ranks < 1 || rank < 0 || rank >= ranks)
        return ra_fail(RA_ERROR_ARGUMENT, "rank %d of %d: must be 0 <= rank < ranks", rank, ranks);
    sim *me = malloc(sizeof *me);
    if (!me)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes for a simulated rank", sizeof *me);
    *me = (sim){rank, ranks, source, user};
    *transport =
        (ra_transport){sizeof *transport, "sim", rank, ranks, NULL, me, receive, send, progress, notify, abandon, free};
    return RA_OK;
}
