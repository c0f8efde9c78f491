/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are threads of one process. A hub, shared by all, has a list of the operations of each rank. A receiver
 * that finds its message posted copies it from the sender's memory into its own, while it calls progress, and marks
 * both operations as done; each rank takes its own done operations off its lists.
 *
 * One lock guards the hub, and nothing is copied under it. A rank takes it only when its count of changes has moved, or
 * when it has started something itself.
 */
#include "base/clock.h"
#include "base/status.h"
#include "transport/comm.h"
#include "transport/message.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most ranks. The hub grows with their square. */
enum { RANKS_MOST = 4096 };

typedef enum stage { POSTED, COPYING, DONE } stage;

typedef struct operation {
    struct operation *next;
    int peer, tag;
    stage stage;
    const ra_segment *segments;
    int64_t count, bytes;
} operation;

/* The state of a rank towards another one. Only the rank itself uses it. */
typedef struct contact {
    int64_t unfinished;
    int64_t since; /* nanoseconds: when `unfinished` became more than 0 */
} contact;

typedef struct hub hub;

typedef struct member {
    hub *hub;
    int rank;

    /* Read by all at any time. */
    atomic_llong heard;    /* nanoseconds: its last sign of life; 0: none yet */
    atomic_ullong changes; /* changes that others made to the fields below */

    /* Under the lock. */
    operation *receives, *sends; /* in the order in which they were started */
    ra_notice notice;            /* the first that came */
    bool left;

    /* Its own. */
    contact *contacts; /* one for each rank */
    int64_t unfinished;
    unsigned long long seen; /* the value of `changes` that was last seen */
    bool started;            /* this rank started something since it looked at the hub */
    ra_notice reported;
} member;

struct hub {
    pthread_mutex_t lock;
    pthread_cond_t copied;
    int ranks, open;
    void *shared; /* RA_SHARED_BYTES for each rank */
    member members[];
};

/* Make `who` look at the hub. Call it after writing what it should see there. */
static void changed(member *who)
{
    atomic_fetch_add_explicit(&who->changes, 1, memory_order_release);
}

/* ---- Operations ------------------------------------------------------------------------------------------------ */

static void append(operation **list, operation *new)
{
    while (*list)
        list = &(*list)->next;
    *list = new;
}

static ra_status start(member *me, bool sends, int peer, int tag, const ra_segment *segments, int64_t count)
{
    int64_t bytes;
    ra_status status =
        ra_message_check(sends ? "send to" : "receive from", peer, me->hub->ranks, tag, segments, count, &bytes);
    if (status)
        return status;
    operation *new = malloc(sizeof *new);
    if (!new)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes for a message", sizeof *new);
    *new = (operation){NULL, peer, tag, POSTED, segments, count, bytes};

    contact *with = &me->contacts[peer];
    if (!with->unfinished++)
        with->since = ra_nanoseconds();
    me->unfinished++;
    me->started = true;

    pthread_mutex_lock(&me->hub->lock);
    append(sends ? &me->sends : &me->receives, new);
    if (sends)
        changed(&me->hub->members[peer]);
    pthread_mutex_unlock(&me->hub->lock);
    return RA_OK;
}

static ra_status start_receive(void *state, int from, int tag, const ra_segment *segments, int64_t count)
{
    return start(state, false, from, tag, segments, count);
}

static ra_status start_send(void *state, int to, int tag, const ra_segment *segments, int64_t count)
{
    return start(state, true, to, tag, segments, count);
}

/* Two lists of segments of the same length, each cut in its own way. */
static void copy(const ra_segment *to, const ra_segment *from, int64_t bytes)
{
    int64_t to_done = 0, from_done = 0;
    while (bytes) {
        int64_t room = to->bytes - to_done, left = from->bytes - from_done;
        int64_t part = room < left ? room : left;
        if (part)
            memcpy((char *)to->at + to_done, (const char *)from->at + from_done, (size_t)part);
        bytes -= part, to_done += part, from_done += part;
        if (to_done == to->bytes)
            to++, to_done = 0;
        if (from_done == from->bytes)
            from++, from_done = 0;
    }
}

static operation *find_posted(operation *list, int peer, int tag)
{
    while (list && (list->stage != POSTED || list->peer != peer || list->tag != tag))
        list = list->next;
    return list;
}

/*
 * Call it holding the lock. The lock is released while bytes are copied, and `COPYING` keeps the sender from leaving.
 * Meanwhile a message may come for a receive that was looked at before: the first receive that waits for a rank and tag
 * gets it.
 */
static ra_status try_receive(member *me, operation *mine)
{
    member *sender = &me->hub->members[mine->peer];
    operation *theirs = find_posted(sender->sends, me->rank, mine->tag);
    if (!theirs || find_posted(me->receives, mine->peer, mine->tag) != mine)
        return RA_OK;
    if (theirs->bytes != mine->bytes)
        return ra_fail(RA_ERROR_PEER, "rank %d sent %lld bytes where %lld were expected (tag %d)", sender->rank,
                       (long long)theirs->bytes, (long long)mine->bytes, mine->tag);
    if (mine->bytes) {
        theirs->stage = COPYING;
        pthread_mutex_unlock(&me->hub->lock);
        copy(mine->segments, theirs->segments, mine->bytes);
        pthread_mutex_lock(&me->hub->lock);
        pthread_cond_broadcast(&me->hub->copied);
    }
    mine->stage = theirs->stage = DONE;
    changed(sender);
    return RA_OK;
}

static void take_off_done(member *me, operation **list)
{
    while (*list) {
        operation *first = *list;
        if (first->stage != DONE) {
            list = &first->next;
            continue;
        }
        *list = first->next;
        me->contacts[first->peer].unfinished--;
        me->unfinished--;
        free(first);
    }
}

/* ---- Progress -------------------------------------------------------------------------------------------------- */

/* A rank that has left matters only to those that wait for it. */
static void find_notice(member *me)
{
    if (me->reported.kind != RA_NOTICE_NONE)
        return;
    me->reported = me->notice;
    for (int rank = 0; rank < me->hub->ranks && me->reported.kind == RA_NOTICE_NONE; rank++)
        if (me->contacts[rank].unfinished && me->hub->members[rank].left) {
            me->reported.kind = RA_NOTICE_LEFT;
            me->reported.rank = rank;
            snprintf(me->reported.text, sizeof me->reported.text, "rank %d has closed its communicator", rank);
        }
}

static ra_status look(member *me)
{
    ra_status status = RA_OK;
    pthread_mutex_lock(&me->hub->lock);
    for (operation *mine = me->receives; mine && !status; mine = mine->next)
        if (mine->stage == POSTED)
            status = try_receive(me, mine);
    take_off_done(me, &me->receives);
    take_off_done(me, &me->sends);
    find_notice(me);
    pthread_mutex_unlock(&me->hub->lock);
    return status;
}

/* Among ranks that have ever shown life. Whether a rank has to show life is for that rank and the caller to decide. */
static void find_quiet(member *me, ra_transport_state *found)
{
    int64_t now = ra_nanoseconds();
    for (int rank = 0; rank < me->hub->ranks; rank++) {
        int64_t heard = atomic_load_explicit(&me->hub->members[rank].heard, memory_order_relaxed);
        double quiet = (double)(now - heard) * 1e-9;
        if (rank != me->rank && heard && (found->quietest < 0 || quiet > found->quiet)) {
            found->quietest = rank;
            found->quiet = quiet;
        }
    }
}

/* Silence counts from the moment this rank began to wait: before that, the other rank did not have to show life. */
static void find_silent(member *me, ra_transport_state *found)
{
    int64_t now = ra_nanoseconds(), longest = -1;
    for (int rank = 0; rank < me->hub->ranks; rank++) {
        if (!me->contacts[rank].unfinished)
            continue;
        int64_t heard = atomic_load_explicit(&me->hub->members[rank].heard, memory_order_relaxed);
        int64_t since = heard > me->contacts[rank].since ? heard : me->contacts[rank].since;
        int64_t silent = now > since ? now - since : 0;
        if (silent > longest) {
            longest = silent;
            found->waiting_for = rank;
            found->silent = (double)silent * 1e-9;
        }
    }
}

static ra_status progress(void *state, ra_transport_state *found)
{
    member *me = state;
    atomic_store_explicit(&me->heard, ra_nanoseconds(), memory_order_relaxed);
    unsigned long long changes = atomic_load_explicit(&me->changes, memory_order_acquire);
    if (changes != me->seen || me->started) {
        me->seen = changes;
        me->started = false;
        ra_status status = look(me);
        if (status)
            return status;
    }
    *found = (ra_transport_state){me->unfinished, -1, 0, me->reported, -1, 0};
    find_quiet(me, found);
    if (me->unfinished)
        find_silent(me, found);
    return RA_OK;
}

static void notify(void *state, const ra_notice *notice)
{
    member *me = state;
    pthread_mutex_lock(&me->hub->lock);
    for (int rank = 0; rank < me->hub->ranks; rank++) {
        member *other = &me->hub->members[rank];
        if (other == me || other->notice.kind != RA_NOTICE_NONE)
            continue;
        other->notice = *notice;
        changed(other);
    }
    pthread_mutex_unlock(&me->hub->lock);
}

/* ---- Open and close -------------------------------------------------------------------------------------------- */

static void free_hub(hub *hub)
{
    for (int rank = 0; rank < hub->ranks; rank++)
        free(hub->members[rank].contacts);
    pthread_cond_destroy(&hub->copied);
    pthread_mutex_destroy(&hub->lock);
    free(hub->shared);
    free(hub);
}

static bool being_copied(const operation *list)
{
    while (list && list->stage != COPYING)
        list = list->next;
    return list;
}

static void give_up(operation **list)
{
    while (*list) {
        operation *first = *list;
        *list = first->next;
        free(first);
    }
}

/* Call it holding the lock, which is released while another rank still copies. */
static void give_up_all(member *me)
{
    while (being_copied(me->sends))
        pthread_cond_wait(&me->hub->copied, &me->hub->lock);
    give_up(&me->receives);
    give_up(&me->sends);
}

static int abandon(void *state)
{
    member *me = state;
    pthread_mutex_lock(&me->hub->lock);
    give_up_all(me);
    pthread_mutex_unlock(&me->hub->lock);
    for (int rank = 0; rank < me->hub->ranks; rank++)
        me->contacts[rank].unfinished = 0;
    me->unfinished = 0;
    return 1;
}

static void leave(void *state)
{
    member *me = state;
    hub *hub = me->hub;
    pthread_mutex_lock(&hub->lock);
    give_up_all(me);
    me->left = true;
    for (int rank = 0; rank < hub->ranks; rank++)
        changed(&hub->members[rank]);
    bool last = --hub->open == 0;
    pthread_mutex_unlock(&hub->lock);
    if (last)
        free_hub(hub);
}

static ra_status make_hub(int ranks, hub **made)
{
    size_t bytes = sizeof **made + (size_t)ranks * sizeof(member);
    hub *hub = *made = calloc(1, bytes);
    if (!hub)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes for %d ranks", bytes, ranks);
    pthread_mutex_init(&hub->lock, NULL);
    pthread_cond_init(&hub->copied, NULL);
    hub->ranks = hub->open = ranks;
    hub->shared = aligned_alloc(RA_SHARED_BYTES, (size_t)ranks * RA_SHARED_BYTES);
    if (!hub->shared) {
        free_hub(hub);
        return ra_fail(RA_ERROR_MEMORY, "out of memory: what %d ranks share", ranks);
    }
    memset(hub->shared, 0, (size_t)ranks * RA_SHARED_BYTES);
    for (int rank = 0; rank < ranks; rank++) {
        member *m = &hub->members[rank];
        m->hub = hub;
        m->rank = rank;
        m->contacts = calloc((size_t)ranks, sizeof *m->contacts);
        if (!m->contacts) {
            free_hub(hub);
            return ra_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes for rank %d of %d",
                           (size_t)ranks * sizeof *m->contacts, rank, ranks);
        }
    }
    return RA_OK;
}

ra_status ra_comm_threads(int ranks, ra_comm **comms)
{
    if (!comms)
        return ra_fail(RA_ERROR_ARGUMENT, "comms: must not be NULL");
    if (ranks < 1 || ranks > RANKS_MOST)
        return ra_fail(RA_ERROR_ARGUMENT, "ranks %d: must be 1..%d", ranks, RANKS_MOST);
    for (int rank = 0; rank < ranks; rank++)
        comms[rank] = NULL;
    hub *hub;
    ra_status status = make_hub(ranks, &hub);
    if (status)
        return status;
    int made = 0;
    while (made < ranks && !status) {
        ra_transport transport = {sizeof transport, "threads",  made,     ranks,  hub->shared, &hub->members[made],
                                  start_receive,    start_send, progress, notify, abandon,     leave};
        status = ra_comm_custom(&transport, &comms[made]);
        made += !status;
    }
    if (!status)
        return RA_OK;
    /* Those that could not be made leave as well: the last one frees the hub. */
    for (int rank = made; rank < ranks; rank++)
        leave(&hub->members[rank]);
    for (int rank = 0; rank < made; rank++) {
        ra_comm_free(comms[rank]);
        comms[rank] = NULL;
    }
    return status;
}
