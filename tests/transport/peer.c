/* SPDX-License-Identifier: Apache-2.0 */
/* Parcels with guards, signals between peers, and waiting, for scenarios. See peer.h. */
#include "transport/peer.h"

#include "support/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GUARD = 0xEE };

typedef struct block {
    struct block *next;
    max_align_t bytes[];
} block;

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void nap(void)
{
    nanosleep(&(struct timespec){0, 20000}, NULL);
}

bool failed(peer *me, const char *function, int line, const char *condition)
{
    if (me->failure[0])
        return false;
    snprintf(me->failure, sizeof me->failure, "%s, %s, rank %d of %d: %s:%d: %s (last message: %.200s)",
             me->transport.name, me->scenario->name, me->transport.rank, me->transport.ranks, function, line, condition,
             ra_last_message());
    ra_notice notice = {RA_NOTICE_FAILED, me->transport.rank, RA_ERROR_INTERNAL, "a check has failed"};
    if (me->open)
        me->transport.notify(me->transport.state, &notice);
    tell_others(me);
    return false;
}

/* ---- Memory ---------------------------------------------------------------------------------------------------- */

static void *take(peer *me, size_t bytes)
{
    block *new = malloc(sizeof *new + bytes);
    if (!new)
        abort();
    new->next = me->memory;
    me->memory = new;
    return new->bytes;
}

void free_memory(peer *me, bool keep)
{
    while (me->memory && !keep) {
        block *first = me->memory;
        me->memory = first->next;
        free(first);
    }
}

/* ---- Parcels --------------------------------------------------------------------------------------------------- */

parcel *make_parcel(peer *me, int64_t bytes, uint64_t cut)
{
    choices c = {cut * 1000 + (uint64_t)bytes};
    parcel *p = take(me, sizeof *p);
    p->bytes = bytes;
    p->count = cut ? SEGMENTS_MOST : bytes ? 1 : 0;
    p->block_bytes = bytes + 4 * (SEGMENTS_MOST + 1);
    p->block = take(me, (size_t)p->block_bytes);
    memset(p->block, GUARD, (size_t)p->block_bytes);
    unsigned char *at = p->block + 1;
    for (int64_t i = 0, left = bytes; i < p->count; i++) {
        int64_t part = i + 1 == p->count ? left : chance(&c, 4) ? 0 : choose(&c, 0, left / 2 + left % 2);
        p->segments[i] = (ra_segment){at, part};
        left -= part;
        at += part + choose(&c, 0, 3); /* 0: the next segment goes on where this one ends */
    }
    return p;
}

unsigned char byte_of(int maker, int to, int tag, int64_t n, int64_t index)
{
    uint64_t message = (uint64_t)((maker * 64 + to + 1) * 64 + tag) * 4096 + (uint64_t)n;
    return (unsigned char)((message * 0x9e3779b97f4a7c15U + (uint64_t)index) * 0xbf58476d1ce4e5b9U >> 56);
}

void fill(parcel *p, int maker, int to, int tag, int64_t n)
{
    int64_t index = 0;
    for (int64_t i = 0; i < p->count; i++)
        for (int64_t j = 0; j < p->segments[i].bytes; j++)
            ((unsigned char *)p->segments[i].at)[j] = byte_of(maker, to, tag, n, index++);
}

bool holds(const parcel *p, int maker, int to, int tag, int64_t n)
{
    int64_t index = 0;
    const unsigned char *at = p->block, *end = p->block + p->block_bytes;
    for (int64_t i = 0; i < p->count; i++) {
        for (; at < (unsigned char *)p->segments[i].at; at++)
            if (*at != GUARD)
                return false;
        for (int64_t j = 0; j < p->segments[i].bytes; j++)
            if (*at++ != byte_of(maker, to, tag, n, index++))
                return false;
    }
    while (at < end)
        if (*at++ != GUARD)
            return false;
    return true;
}

/* ---- Operations ------------------------------------------------------------------------------------------------ */

bool begin_send(peer *me, int to, int tag, int64_t n, parcel *p)
{
    fill(p, me->transport.rank, to, tag, n);
    CHECK(me, !me->transport.send(me->transport.state, to, tag, p->segments, p->count));
    return true;
}

bool begin_receive(peer *me, int from, int tag, parcel *p)
{
    CHECK(me, !me->transport.receive(me->transport.state, from, tag, p->segments, p->count));
    return true;
}

bool turn(peer *me, ra_transport_state *found)
{
    CHECK(me, !me->transport.progress(me->transport.state, found));
    nap();
    return true;
}

bool finish_all(peer *me)
{
    ra_transport_state found = {0};
    POLL(me, &found, found.unfinished == 0 || found.notice.kind != RA_NOTICE_NONE);
    CHECK(me, found.notice.kind == RA_NOTICE_NONE);
    CHECK(me, found.waiting_for == -1);
    return true;
}

/* ---- Without the transport ------------------------------------------------------------------------------------- */

void tell(peer *me, int to)
{
    me->harness->tell(me, to);
}

void tell_others(peer *me)
{
    for (int rank = 0; rank < me->transport.ranks; rank++)
        if (rank != me->transport.rank)
            tell(me, rank);
}

bool is_told(peer *me)
{
    return me->harness->is_told(me);
}

bool await(peer *me, int times)
{
    double end = seconds() + 60;
    while (times) {
        CHECK(me, seconds() < end);
        if (is_told(me))
            times--;
        else
            nap();
    }
    return true;
}

bool play(peer *me)
{
    bool good = me->scenario->run(me);
    if (me->open)
        me->transport.close(me->transport.state);
    me->open = false;
    return good;
}
