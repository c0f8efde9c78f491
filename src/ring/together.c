#include "ring/rank.h"

#include "base/checked.h"
#include "transport/sim.h"

#include <stdlib.h>

/*
 * Virtual ranks that read their keys where they lie. None waits for another, so the tasks of several are one list: a
 * thread that finds none left of one rank goes on with those of the next, instead of waiting for the other threads.
 */
typedef struct companion {
    ra_rank rank;
    ra_rank_stats stats;
    ra_transport transport;
    bool open, broken;
    double seconds; /* until its tasks could begin */
} companion;

/* What they have in common. */
typedef struct company {
    const ra_ring_plan *ring;
    const ra_rank *template;
    ra_spare spare;
    char *scratch;          /* of the threads, whatever rank they work for */
    double pairs, reported; /* done by those before; told to the caller */
} company;

/* All but its tasks. What it had to hold for that goes on to the next. */
static ra_status begin(company *all, companion *c, int rank)
{
    ra_rank *e = &c->rank;
    double started = ra_seconds();
    *e = *all->template;
    c->stats = (ra_rank_stats)RA_RANK_STATS_INIT;
    e->rank = rank;
    e->simulated = true;
    e->spare = &all->spare;
    e->stats = &c->stats;
    e->pairs_before = all->pairs;
    e->pairs_reported = all->reported;
    e->pairs_total = all->ring->plan->all.pairs_visible;
    ra_status status = ra_sim_open(rank, all->ring->options.ranks, ra_rank_simulated_source, e, &c->transport);
    c->open = !status;
    e->link = (ra_link){.transport = &c->transport, .broken = &c->broken, .timeout = all->ring->options.timeout};
    if (!status)
        status = ra_rank_prepare(e);
    if (!status) {
        ra_rank_begin(e, NULL);
        status = ra_rank_load_queries(e);
    }
    if (!status)
        status = ra_rank_set_steps(e);
    if (!status && e->scratch)
        all->scratch = e->scratch;
    ra_rank_pass_on(e);
    c->seconds = ra_seconds() - started;
    return status;
}

/* After its tasks: the time that it took is what threads were in them. */
static ra_status finish(companion *c)
{
    ra_rank *e = &c->rank;
    c->stats.seconds_compute = e->counts.threads ? e->run.busy / e->counts.threads : 0;
    ra_rank_fill_stats(e, ra_seconds() - c->seconds - c->stats.seconds_compute);
    return ra_rank_prove(e);
}

static void end(companion *c)
{
    if (c->open)
        c->transport.close(c->transport.state);
    ra_rank_give_memory(&c->rank, true);
}

static ra_status cancelled(const company *all)
{
    return ra_fail(RA_ERROR_CANCELLED, "cancelled by the progress callback after %.0f of %.0f pairs", all->pairs,
                   all->ring->plan->all.pairs_visible);
}

/* The tasks of the first, and of all that come next. */
static ra_status work(company *all, companion *some, int count)
{
    for (int i = 0; i < count; i++) {
        some[i].rank.run.poll_user = &some[0].rank;
        some[i].rank.run.next = i + 1 < count ? &some[i + 1].rank.run : NULL;
    }
    bool done = !all->scratch || ra_run_tasks(&some[0].rank.run, all->scratch); /* no scratch: nobody has a row */
    all->reported = some[0].rank.pairs_reported;
    for (int i = 0; i < count; i++)
        all->pairs += some[i].rank.counts.pairs_visible;
    return done ? RA_OK : cancelled(all);
}

static ra_status run_some(company *all, companion *some, int first, int count, ra_rank_stats *stats)
{
    ra_status status = RA_OK;
    int begun = 0;
    while (begun < count && !status) {
        status = begin(all, &some[begun], first + begun);
        begun++;
    }
    if (!status)
        status = work(all, some, count);
    for (int i = 0; i < begun; i++) {
        if (!status)
            status = finish(&some[i]);
        if (!status && stats)
            stats[first + i] = some[i].stats;
        end(&some[i]);
    }
    return status;
}

ra_status ra_ring_run_together(const ra_ring_plan *ring, const ra_rank *template, ra_rank_stats *stats)
{
    company all = {.ring = ring, .template = template};
    int most = ra_ring_together(ring);
    companion *some = calloc((size_t)most, sizeof *some);
    ra_status status = some ? RA_OK : ra_fail(RA_ERROR_MEMORY, "out of memory: virtual ranks");
    for (int first = 0; first < ring->options.ranks && !status; first += most)
        status = run_some(&all, some, first, (int)ra_min(most, ring->options.ranks - first), stats);
    ra_spare_free(&all.spare);
    free(some);
    /* The calling thread may have run out of tasks before the others did. */
    const ra_plan *p = ring->plan;
    if (!status && p->progress && all.reported < p->all.pairs_visible &&
        p->progress(p->progress_user, p->all.pairs_visible, p->all.pairs_visible))
        status = cancelled(&all);
    return status;
}
