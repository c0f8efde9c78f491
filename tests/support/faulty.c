/* SPDX-License-Identifier: Apache-2.0 */
/* Wraps a transport and does one thing wrong. See faulty.h. */
#include "support/faulty.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A send that waits for its turn. */
typedef struct held {
    struct held *next;
    int to, tag;
    const ra_segment *segments;
    int64_t count;
} held;

typedef struct faulty {
    ra_transport inner;
    fault what;
    fault_counts own; /* when the caller has none */
    bool closed;
    held *queue;
    int64_t queued, progresses_left;
    ra_segment *changed; /* segments of the message whose size was changed */
} faulty;

static ra_status is_closed(void)
{
    return ra_transport_fail(RA_ERROR_PEER, "fault: the transport was closed");
}

static void happened(faulty *f)
{
    atomic_fetch_add(&f->what.counts->happened, 1);
}

/* ---- Sends that are changed or held back ----------------------------------------------------------------------- */

static ra_status send_resized(faulty *f, int to, int tag, const ra_segment *segments, int64_t count, bool shorter)
{
    static char extra;
    f->changed = calloc((size_t)count + 1, sizeof *f->changed);
    if (!f->changed)
        return ra_transport_fail(RA_ERROR_MEMORY, "out of memory: %lld segments", (long long)count);
    if (count)
        memcpy(f->changed, segments, (size_t)count * sizeof *segments);
    int64_t last = count - 1;
    while (last >= 0 && !segments[last].bytes)
        last--;
    if (shorter && last >= 0)
        f->changed[last].bytes--;
    else
        f->changed[count++] = (ra_segment){&extra, 1};
    happened(f);
    return f->inner.send(f->inner.state, to, tag, f->changed, count);
}

static ra_status hold_back(faulty *f, int to, int tag, const ra_segment *segments, int64_t count)
{
    held *new = malloc(sizeof *new), **end = &f->queue;
    if (!new)
        return ra_transport_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes", sizeof *new);
    *new = (held){NULL, to, tag, segments, count};
    while (*end)
        end = &(*end)->next;
    *end = new;
    f->queued++;
    return RA_OK;
}

static ra_status let_go(faulty *f)
{
    ra_status status = RA_OK;
    while (f->queue && !status) {
        held *first = f->queue;
        f->queue = first->next;
        f->queued--;
        status = f->inner.send(f->inner.state, first->to, first->tag, first->segments, first->count);
        free(first);
    }
    return status;
}

/* ---- The transport --------------------------------------------------------------------------------------------- */

static ra_status count_operation(faulty *f)
{
    if (f->closed)
        return is_closed();
    if (atomic_fetch_add(&f->what.counts->operations, 1) + 1 != f->what.at)
        return RA_OK;
    if (f->what.kind == FAULT_FAIL) {
        happened(f);
        return ra_transport_fail(RA_ERROR_PEER, "fault: operation %lld fails", (long long)f->what.at);
    }
    if (f->what.kind == FAULT_CLOSE) {
        happened(f);
        f->closed = true;
        f->inner.close(f->inner.state);
        return is_closed();
    }
    return RA_OK;
}

static ra_status faulty_receive(void *state, int from, int tag, const ra_segment *segments, int64_t count)
{
    faulty *f = state;
    ra_status status = count_operation(f);
    return status ? status : f->inner.receive(f->inner.state, from, tag, segments, count);
}

static ra_status faulty_send(void *state, int to, int tag, const ra_segment *segments, int64_t count)
{
    faulty *f = state;
    ra_status status = count_operation(f);
    if (status)
        return status;
    bool now = atomic_fetch_add(&f->what.counts->sends, 1) + 1 == f->what.at;
    if (now && f->what.kind == FAULT_LOST) {
        happened(f);
        return RA_OK;
    }
    if (now && (f->what.kind == FAULT_SHORTER || f->what.kind == FAULT_LONGER))
        return send_resized(f, to, tag, segments, count, f->what.kind == FAULT_SHORTER);
    if (now && f->what.kind == FAULT_DELAY) {
        happened(f);
        f->progresses_left = f->what.progresses;
        return hold_back(f, to, tag, segments, count);
    }
    return f->queue ? hold_back(f, to, tag, segments, count) : f->inner.send(f->inner.state, to, tag, segments, count);
}

static ra_status faulty_progress(void *state, ra_transport_state *found)
{
    faulty *f = state;
    if (f->closed)
        return is_closed();
    ra_status status = f->queue && f->progresses_left-- <= 0 ? let_go(f) : RA_OK;
    if (!status)
        status = f->inner.progress(f->inner.state, found);
    if (!status)
        found->unfinished += f->queued;
    return status;
}

static void faulty_notify(void *state, const ra_notice *notice)
{
    faulty *f = state;
    if (!f->closed)
        f->inner.notify(f->inner.state, notice);
}

static void drop_queue(faulty *f)
{
    while (f->queue) {
        held *first = f->queue;
        f->queue = first->next;
        free(first);
    }
    f->queued = 0;
}

static int faulty_abandon(void *state)
{
    faulty *f = state;
    drop_queue(f);
    return f->closed ? 1 : f->inner.abandon(f->inner.state);
}

static void faulty_close(void *state)
{
    faulty *f = state;
    if (!f->closed)
        f->inner.close(f->inner.state);
    drop_queue(f);
    free(f->changed);
    free(f);
}

ra_status faulty_wrap(const ra_transport *inner, const fault *what, ra_transport *outer)
{
    faulty *f = calloc(1, sizeof *f);
    if (!f)
        return ra_transport_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes", sizeof *f);
    f->inner = *inner;
    f->what = *what;
    if (!f->what.counts)
        f->what.counts = &f->own;
    *outer = *inner;
    outer->state = f;
    outer->receive = faulty_receive;
    outer->send = faulty_send;
    outer->progress = faulty_progress;
    outer->notify = faulty_notify;
    outer->abandon = faulty_abandon;
    outer->close = faulty_close;
    return RA_OK;
}
