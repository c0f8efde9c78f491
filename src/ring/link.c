#include "ring/link.h"

#include "base/status.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double ra_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* "hop 3", or "the greeting". */
static const char *place(const ra_link *link, char *text, size_t size)
{
    if (link->hop >= 0)
        snprintf(text, size, "%s %lld", link->what, (long long)link->hop);
    else
        snprintf(text, size, "%s", link->what);
    return text;
}

static ra_status look(ra_link *link, ra_transport_state *found)
{
    char text[80];
    ra_transport *t = link->transport;
    *found = (ra_transport_state){.waiting_for = -1};
    ra_status status = t->progress(t->state, found);
    link->looked = ra_seconds();
    if (status || found->notice.kind == RA_NOTICE_NONE)
        return status;
    link->told = true;
    if (found->notice.kind == RA_NOTICE_LEFT)
        return ra_fail(RA_ERROR_PEER, "rank %d: rank %d has left during %s", t->rank, (int)found->notice.rank,
                       place(link, text, sizeof text));
    /* What one of them must not do, none must: a disagreement is everybody's mistake. */
    return ra_fail(found->notice.status == RA_ERROR_ARGUMENT ? RA_ERROR_ARGUMENT : RA_ERROR_PEER,
                   "rank %d: rank %d has failed: %.*s", t->rank, (int)found->notice.rank,
                   (int)sizeof found->notice.text, found->notice.text);
}

ra_status ra_link_poll(ra_link *link)
{
    const double interval = 2e-4; /* often enough to keep a large message moving */
    ra_transport_state found;
    return ra_seconds() - link->looked < interval ? RA_OK : look(link, &found);
}

ra_status ra_link_wait(ra_link *link)
{
    const struct timespec moment = {0, 50000};
    double start = ra_seconds();
    ra_status status = RA_OK;
    for (int looks = 0;; looks++) {
        ra_transport_state found;
        status = look(link, &found);
        if (status || found.unfinished == 0)
            break;
        if (found.waiting_for >= 0 && found.silent > link->timeout) {
            char text[80];
            status = ra_fail(
                RA_ERROR_TIMEOUT, "rank %d: rank %d has been silent for %.1f s (timeout %g s): %s is given up",
                link->transport->rank, found.waiting_for, found.silent, link->timeout, place(link, text, sizeof text));
            break;
        }
        if (looks < 100) /* what is nearly there comes soon; later others need the processor more */
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
