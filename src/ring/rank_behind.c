/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread in the background does for a virtual rank, and how a read ends early: see rank_behind.h. */
#include "ring/rank_behind.h"

#include "base/clock.h"

/* The time counts as time in storage, whichever thread spent it. */
static void account(ra_rank *e)
{
    e->tally.stats->seconds_io += e->flight.seconds_behind;
    e->flight.seconds_behind = 0;
    e->flight.wanted_phase = -1;
}

ra_status ra_rank_start_behind(ra_rank *e, ra_status (*job)(void *rank))
{
    if (e->flight.behind) {
        ra_background_start(e->flight.behind, job, e);
        return RA_OK;
    }
    ra_status status = job(e);
    account(e);
    return status;
}

ra_status ra_rank_wait_behind(ra_rank *e)
{
    if (!e->flight.behind)
        return RA_OK;
    double start = ra_seconds();
    ra_status status = ra_background_wait(e->flight.behind);
    e->link.waited += ra_seconds() - start;
    account(e);
    return status;
}

void ra_rank_give_up_behind(ra_rank *e)
{
    atomic_store(&e->flight.given_up, true);
}

/* The background does not ask whether to stop: the rank's own thread does, while it waits. */
ra_status ra_rank_between_reads(ra_rank *e)
{
    if (atomic_load(&e->flight.given_up))
        return ra_fail(RA_ERROR_CANCELLED, "rank %d: a read in the background was given up", e->rank);
    if (e->flight.behind && e->flight.wanted_phase >= 0)
        return RA_OK;
    ra_status status = ra_link_poll(&e->link);
    return status ? status : ra_link_ask(&e->link);
}
