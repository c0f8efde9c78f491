/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's connection to the others: see link.h. */
#include "ring/link.h"

#include "base/status.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* "hop 3", or "the greeting". */
static const char *place(const ra_link *link, char *text, size_t size)
{
    if (link->hop >= 0)
        snprintf(text, size, "%s %lld", link->what, (long long)link->hop);
    else
        snprintf(text, size, "%s", link->what);
    return text;
}

/*
 * Ranks that share memory write there when they last did anything but wait. That is in the second half of a rank's
 * shared block; the first half is the engine's. NULL: ranks share no memory.
 */
static _Atomic int64_t *busy_at(const ra_link *link, int rank)
{
    char *shared = link->transport->shared;
    return shared ? (_Atomic int64_t *)(shared + (size_t)rank * RA_SHARED_BYTES + RA_SHARED_BYTES / 2) : NULL;
}

static void show_work(const ra_link *link)
{
    _Atomic int64_t *mine = busy_at(link, link->transport->rank);
    if (mine)
        atomic_store_explicit(mine, (int64_t)(1e9 * ra_seconds()), memory_order_relaxed);
}

/* Seconds for which all ranks have done nothing but wait for each other; 0: not known. */
static double stalled(const ra_link *link)
{
    int64_t newest = 0;
    if (!busy_at(link, 0))
        return 0;
    for (int rank = 0; rank < link->transport->ranks; rank++) {
        int64_t at = atomic_load_explicit(busy_at(link, rank), memory_order_relaxed);
        newest = at > newest ? at : newest;
    }
    return ra_seconds() - 1e-9 * (double)newest;
}

static ra_status look(ra_link *link, ra_transport_state *found)
{
    char text[80];
    ra_transport *t = link->transport;
    *found = (ra_transport_state){.waiting_for = -1, .quietest = -1};
    ra_status status = t->progress(t->state, found);
    double now = ra_seconds();
    if (now - link->looked > link->timeout / 4)
        link->back = now;
    link->looked = now;
    if (status || found->notice.kind == RA_NOTICE_NONE)
        return status;
    link->told = true;
    link->stopped = found->notice.kind == RA_NOTICE_FAILED && found->notice.status == RA_ERROR_CANCELLED;
    if (found->notice.kind == RA_NOTICE_LEFT)
        return ra_fail(RA_ERROR_PEER, "rank %d: rank %d has left during %s", t->rank, (int)found->notice.rank,
                       place(link, text, sizeof text));
    /* If ranks disagree, all of them fail: none may go on alone. */
    return ra_fail(found->notice.status == RA_ERROR_ARGUMENT ? RA_ERROR_ARGUMENT : RA_ERROR_PEER,
                   "rank %d: rank %d has failed: %.*s", t->rank, (int)found->notice.rank,
                   (int)sizeof found->notice.text, found->notice.text);
}

/* A rank that was stopped itself cannot tell how long the others were silent: all may have been stopped together. */
static double witnessed(const ra_link *link, double time)
{
    double here = link->looked - link->back;
    return time < here ? time : here;
}

/*
 * Whether the silence of a rank counts. It does if this rank waits for it. During a hop it also counts if the transport
 * shows the signs of life of that rank here. Before and after the hops a rank may not have come yet, or may have left.
 */
static ra_status judge_silence(const ra_link *link, const ra_transport_state *found)
{
    char text[80];
    bool watched = link->hop >= 0 && found->quietest >= 0 && found->quiet > found->silent;
    int rank = watched ? found->quietest : found->waiting_for;
    double silent = witnessed(link, watched ? found->quiet : found->silent);
    if (rank < 0 || silent <= link->timeout)
        return RA_OK;
    return ra_fail(RA_ERROR_TIMEOUT, "rank %d: rank %d has been silent for %.1f s (timeout %g s): %s is given up",
                   link->transport->rank, rank, silent, link->timeout, place(link, text, sizeof text));
}

ra_status ra_link_poll(ra_link *link)
{
    const double interval = 2e-4; /* often enough to keep a large message moving */
    ra_transport_state found;
    if (!link->transport || ra_seconds() - link->looked < interval)
        return RA_OK;
    show_work(link);
    ra_status status = look(link, &found);
    return status ? status : judge_silence(link, &found);
}

/* Silence is reported first. A stall, which only a lost message can cause, is given twice the time. */
static ra_status judge(const ra_link *link, const ra_transport_state *found)
{
    char text[80];
    ra_status status = judge_silence(link, found);
    if (status)
        return status;
    double idle = witnessed(link, stalled(link));
    if (idle > 2 * link->timeout)
        return ra_fail(RA_ERROR_TIMEOUT,
                       "rank %d: all ranks have waited for each other for %.1f s (timeout %g s), a message from or to "
                       "rank %d is lost: %s is given up",
                       link->transport->rank, idle, link->timeout, found->waiting_for, place(link, text, sizeof text));
    return RA_OK;
}

ra_status ra_link_ask(ra_link *link)
{
    const double interval = 0.2;
    char text[80];
    double now = ra_seconds();
    if (!link->stop || now - link->asked < interval)
        return RA_OK;
    link->asked = now;
    if (!link->stop(link->stop_user))
        return RA_OK;
    link->stopped = true;
    return ra_fail(RA_ERROR_CANCELLED, "stopped during %s", place(link, text, sizeof text));
}

ra_status ra_link_wait(ra_link *link)
{
    const struct timespec moment = {0, 50000};
    double start = ra_seconds();
    int64_t unfinished = -1;
    ra_status status = RA_OK;
    if (!link->transport)
        return RA_OK;
    for (int looks = 0;; looks++) {
        ra_transport_state found;
        status = look(link, &found);
        if (status || found.unfinished == 0)
            break;
        if (found.unfinished != unfinished)
            show_work(link);
        unfinished = found.unfinished;
        status = judge(link, &found);
        if (!status)
            status = ra_link_ask(link);
        if (status)
            break;
        if (looks < 100) /* a message that is nearly here comes soon; after that, other ranks need the processor more */
            sched_yield();
        else
            nanosleep(&moment, NULL);
    }
    link->waited += ra_seconds() - start;
    return status;
}

ra_status ra_link_exchange(ra_link *link, int tag, const void *mine, void *all, int64_t bytes)
{
    ra_transport *t = link->transport;
    int64_t ranks = t->ranks;
    /* Segments and bytes in one block: if the exchange fails, others may still be writing into it. */
    ra_segment *segments = calloc(1, (size_t)(2 * ranks) * sizeof *segments + (size_t)(ranks * bytes));
    if (!segments)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: messages to %d ranks", t->ranks);
    char *copies = (char *)(segments + 2 * ranks), *own = copies + t->rank * bytes;
    memcpy(own, mine, (size_t)bytes);
    ra_status status = RA_OK;
    for (int rank = 0; rank < t->ranks && !status; rank++) {
        segments[rank] = (ra_segment){copies + rank * bytes, bytes};
        if (rank != t->rank)
            status = t->receive(t->state, rank, tag, &segments[rank], 1);
    }
    for (int rank = 0; rank < t->ranks && !status; rank++) {
        segments[ranks + rank] = (ra_segment){own, bytes};
        if (rank != t->rank)
            status = t->send(t->state, rank, tag, &segments[ranks + rank], 1);
    }
    if (!status)
        status = ra_link_wait(link);
    if (status) {
        link->stuck = segments;
        return status;
    }
    memcpy(all, copies, (size_t)(ranks * bytes));
    free(segments);
    return RA_OK;
}

bool ra_link_fail(ra_link *link, ra_status status)
{
    ra_transport *t = link->transport;
    *link->broken = true;
    if (!link->told) {
        ra_notice notice = {.kind = RA_NOTICE_FAILED, .rank = t->rank, .status = (int32_t)status};
        snprintf(notice.text, sizeof notice.text, "%s", ra_last_message());
        link->told = true;
        t->notify(t->state, &notice);
    }
    bool given_up = t->abandon(t->state);
    if (given_up)
        free(link->stuck);
    link->stuck = NULL;
    return given_up;
}
