/* SPDX-License-Identifier: Apache-2.0 */
/* Each scenario runs on every rank; ranks differ by their number only. */
#include "transport/peer.h"

#include <string.h>

enum { MANY = 8 };

/* ---- Messages arrive ------------------------------------------------------------------------------------------- */

static bool every_size_and_cut(peer *me)
{
    static const int64_t sizes[] = {0, 1, 7, 4096, (1 << 20) + 3};
    int64_t n = 0;
    for (int size = 0; size < 5; size++)
        for (uint64_t cuts = 0; cuts < 9; cuts += size < 4 ? 1 : 4, n++) {
            parcel *out = make_parcel(me, sizes[size], cuts / 3), *in = make_parcel(me, sizes[size], cuts % 3 * 7);
            TRY(begin_receive(me, left_of(me), 0, in));
            TRY(begin_send(me, right_of(me), 0, n, out));
            TRY(finish_all(me));
            CHECK(me, holds(in, left_of(me), me->transport.rank, 0, n));
            CHECK(me, holds(out, me->transport.rank, right_of(me), 0, n)); /* sending changes nothing */
        }
    return true;
}

static bool all_to_all_at_once(peer *me)
{
    int ranks = me->transport.ranks, rank = me->transport.rank;
    parcel *in[64];
    CHECK(me, ranks <= 64);
    for (int other = 0; other < ranks; other++) {
        in[other] = make_parcel(me, 1000 * other + 37 * rank, 2);
        TRY(begin_receive(me, other, 3, in[other]));
    }
    for (int other = 0; other < ranks; other++)
        TRY(begin_send(me, other, 3, 0, make_parcel(me, 1000 * rank + 37 * other, 5)));
    TRY(finish_all(me));
    for (int other = 0; other < ranks; other++)
        CHECK(me, holds(in[other], other, rank, 3, 0));
    return true;
}

static bool tags_in_any_order(peer *me)
{
    parcel *in[MANY];
    for (int i = 0; i < MANY; i++)
        TRY(begin_send(me, right_of(me), i, 0, make_parcel(me, 500, 1)));
    for (int i = MANY - 1; i >= 0; i--) {
        in[i] = make_parcel(me, 500, 3);
        TRY(begin_receive(me, left_of(me), i, in[i]));
    }
    TRY(finish_all(me));
    for (int i = 0; i < MANY; i++)
        CHECK(me, holds(in[i], left_of(me), me->transport.rank, i, 0));
    return true;
}

static bool one_tag_in_order(peer *me)
{
    parcel *in[2 * MANY];
    for (int i = 0; i < 2 * MANY; i++)
        TRY(begin_send(me, right_of(me), i % 2, i / 2, make_parcel(me, 300, 2)));
    for (int i = 0; i < 2 * MANY; i++) {
        in[i] = make_parcel(me, 300, 4);
        TRY(begin_receive(me, left_of(me), i % 2, in[i]));
    }
    TRY(finish_all(me));
    for (int i = 0; i < 2 * MANY; i++)
        CHECK(me, holds(in[i], left_of(me), me->transport.rank, i % 2, i / 2));
    return true;
}

/*
 * A receive between two others that are for one rank and tag: while its bytes are copied, the messages for those two
 * are begun.
 */
static bool one_tag_in_order_beside_others(peer *me)
{
    enum { ROUNDS = 60, SMALL = 100, LARGE = 1 << 20 };
    for (int64_t round = 0; round < ROUNDS && me->transport.ranks > 2; round++) {
        parcel *first = make_parcel(me, SMALL, 1), *other = make_parcel(me, LARGE, 1);
        parcel *second = make_parcel(me, 2 * SMALL, 1);
        ra_transport_state found;
        TRY(begin_receive(me, left_of(me), 0, first));
        TRY(begin_receive(me, right_of(me), 0, other));
        TRY(begin_receive(me, left_of(me), 0, second));
        TRY(begin_send(me, left_of(me), 0, round, make_parcel(me, LARGE, 2)));
        TRY(turn(me, &found));
        TRY(begin_send(me, right_of(me), 0, 2 * round, make_parcel(me, SMALL, 2)));
        TRY(begin_send(me, right_of(me), 0, 2 * round + 1, make_parcel(me, 2 * SMALL, 2)));
        TRY(finish_all(me));
        CHECK(me, holds(first, left_of(me), me->transport.rank, 0, 2 * round));
        CHECK(me, holds(other, right_of(me), me->transport.rank, 0, round));
        CHECK(me, holds(second, left_of(me), me->transport.rank, 0, 2 * round + 1));
        free_memory(me, false);
    }
    return true;
}

/* At step n a rank passes on what was made n ranks to its left. */
static int maker_in_ring(int from, int64_t n, int ranks)
{
    return (int)(((int64_t)from + ranks - n % ranks) % ranks);
}

static bool once_round_the_ring(peer *me)
{
    enum { BYTES = 70000 };
    int rank = me->transport.rank, ranks = me->transport.ranks;
    parcel *here = make_parcel(me, BYTES, 1), *coming = make_parcel(me, BYTES, 2);
    fill(here, rank, -1, 0, 0);
    for (int n = 0; n < ranks; n++) {
        CHECK(me, !me->transport.receive(me->transport.state, left_of(me), 0, coming->segments, coming->count));
        CHECK(me, !me->transport.send(me->transport.state, right_of(me), 0, here->segments, here->count));
        TRY(finish_all(me));
        parcel *swap = here;
        here = coming;
        coming = swap;
        CHECK(me, holds(here, maker_in_ring(left_of(me), n, ranks), -1, 0, 0));
    }
    CHECK(me, holds(here, rank, -1, 0, 0));
    return true;
}

static bool receives_before_sends(peer *me)
{
    parcel *in = make_parcel(me, 50000, 1);
    ra_transport_state found;
    TRY(begin_receive(me, left_of(me), 0, in));
    TRY(turn(me, &found));
    tell(me, left_of(me));
    TRY(await(me, 1));
    TRY(begin_send(me, right_of(me), 0, 0, make_parcel(me, 50000, 2)));
    TRY(finish_all(me));
    CHECK(me, holds(in, left_of(me), me->transport.rank, 0, 0));
    return true;
}

static bool sends_before_receives(peer *me)
{
    parcel *in = make_parcel(me, 50000, 1);
    ra_transport_state found;
    TRY(begin_send(me, right_of(me), 0, 0, make_parcel(me, 50000, 2)));
    TRY(turn(me, &found));
    tell(me, right_of(me));
    TRY(await(me, 1));
    TRY(begin_receive(me, left_of(me), 0, in));
    TRY(finish_all(me));
    CHECK(me, holds(in, left_of(me), me->transport.rank, 0, 0));
    return true;
}

/* The simulation has all it wants at once. */
static bool unfinished_are_counted(peer *me)
{
    enum { COUNT = 3 };
    parcel *in[COUNT];
    ra_transport_state found = {0};
    TRY(turn(me, &found));
    CHECK(me, found.unfinished == 0 && found.waiting_for == -1 && found.notice.kind == RA_NOTICE_NONE);
    for (int i = 0; i < COUNT; i++) {
        in[i] = make_parcel(me, 100, 0);
        TRY(begin_receive(me, left_of(me), i, in[i]));
        TRY(turn(me, &found));
        CHECK(me, found.unfinished == i + 1);
        CHECK(me, found.waiting_for == left_of(me));
    }
    tell(me, left_of(me));
    TRY(await(me, 1));
    for (int i = 0; i < COUNT; i++)
        TRY(begin_send(me, right_of(me), i, 0, make_parcel(me, 100, 0)));
    TRY(finish_all(me));
    for (int i = 0; i < COUNT; i++)
        CHECK(me, holds(in[i], left_of(me), me->transport.rank, i, 0));
    return true;
}

/* What is handed over by reference is written before the message and read after it: for the thread sanitizer. */
static bool empty_messages_order_memory(peer *me)
{
    static int64_t shared[64];
    int rank = me->transport.rank;
    if (!me->transport.shared)
        return true;
    for (int64_t n = 0; n < 20; n++) {
        shared[rank] = n * 100 + rank;
        CHECK(me, !me->transport.send(me->transport.state, right_of(me), 0, NULL, 0));
        CHECK(me, !me->transport.receive(me->transport.state, left_of(me), 0, NULL, 0));
        TRY(finish_all(me));
        CHECK(me, shared[left_of(me)] == n * 100 + left_of(me));
        CHECK(me, !me->transport.send(me->transport.state, left_of(me), 1, NULL, 0));
        CHECK(me, !me->transport.receive(me->transport.state, right_of(me), 1, NULL, 0));
        TRY(finish_all(me));
    }
    return true;
}

static bool nonsense_is_refused(peer *me)
{
    ra_transport *t = &me->transport;
    char byte = 0;
    ra_segment good = {&byte, 1}, negative = {&byte, -1}, nowhere = {NULL, 1};
    ra_segment huge[2] = {{&byte, INT64_MAX}, {&byte, 1}};
    CHECK(me, t->receive(t->state, -1, 0, &good, 1) == RA_ERROR_ARGUMENT);
    CHECK(me, t->send(t->state, t->ranks, 0, &good, 1) == RA_ERROR_ARGUMENT);
    CHECK(me, t->send(t->state, 0, -1, &good, 1) == RA_ERROR_ARGUMENT);
    CHECK(me, t->send(t->state, 0, 40000, &good, 1) == RA_ERROR_ARGUMENT);
    CHECK(me, t->receive(t->state, 0, 0, NULL, 1) == RA_ERROR_ARGUMENT);
    CHECK(me, t->receive(t->state, 0, 0, &negative, 1) == RA_ERROR_ARGUMENT);
    CHECK(me, t->receive(t->state, 0, 0, &nowhere, 1) == RA_ERROR_ARGUMENT);
    CHECK(me, t->send(t->state, 0, 0, huge, 2) == RA_ERROR_ARGUMENT);
    CHECK(me, t->send(t->state, 0, 0, &good, -1) == RA_ERROR_ARGUMENT);
    return finish_all(me);
}

/* ---- Others: what the simulation cannot have ------------------------------------------------------------------- */

/* Rank 0 sends to the last; nobody else has anything to do, but all are there until it is over. */
static bool wrong_size(peer *me)
{
    const scenario *s = me->scenario;
    ra_transport_state found = {0};
    int last = me->transport.ranks - 1;
    ra_status status = RA_OK;
    if (me->transport.rank == 0)
        TRY(begin_send(me, last, 5, 0, make_parcel(me, s->sent, 1)));
    if (me->transport.rank == last) {
        double end = seconds() + 60;
        TRY(begin_receive(me, 0, 5, make_parcel(me, s->expected, 2)));
        while (!status && seconds() < end) {
            status = me->transport.progress(me->transport.state, &found);
            nap();
        }
        CHECK(me, status == RA_ERROR_PEER);
        CHECK(me, strstr(ra_last_message(), "rank 0 sent") && strstr(ra_last_message(), "(tag 5)"));
        tell_others(me);
    }
    while (me->transport.rank != last && !is_told(me))
        TRY(turn(me, &found));
    return true;
}

static bool a_failure_reaches_everyone(peer *me)
{
    ra_notice first = {RA_NOTICE_FAILED, 0, RA_ERROR_FILE, "the disk is on fire"};
    ra_notice second = {RA_NOTICE_FAILED, 0, RA_ERROR_FILE, "and the roof"};
    ra_transport_state found = {0};
    if (me->transport.rank == 0) {
        me->transport.notify(me->transport.state, &first);
        TRY(await(me, me->transport.ranks - 1));
        me->transport.notify(me->transport.state, &second);
        TRY(turn(me, &found));
        CHECK(me, found.notice.kind == RA_NOTICE_NONE); /* it knows already */
        tell_others(me);
        return await(me, me->transport.ranks - 1);
    }
    POLL(me, &found, found.notice.kind != RA_NOTICE_NONE);
    tell(me, 0);
    POLL(me, &found, is_told(me));
    CHECK(me, found.notice.kind == RA_NOTICE_FAILED && found.notice.rank == 0);
    CHECK(me, strcmp(found.notice.text, first.text) == 0);
    tell(me, 0);
    return true;
}

static bool expect_left(peer *me, int from)
{
    ra_transport_state found = {0};
    TRY(begin_receive(me, from, 0, make_parcel(me, 10, 0)));
    POLL(me, &found, found.notice.kind != RA_NOTICE_NONE);
    CHECK(me, found.notice.kind == RA_NOTICE_LEFT && found.notice.rank == from);
    CHECK(me, strstr(found.notice.text, "has closed its communicator"));
    return true;
}

/* The last rank leaves. Rank 0 waits for it; those between wait later, and must not be told before. */
static bool leaving_reaches_who_waits(peer *me)
{
    int last = me->transport.ranks - 1;
    ra_transport_state found = {0};
    if (me->transport.rank == last) {
        me->open = false;
        me->transport.close(me->transport.state);
        return true;
    }
    if (me->transport.rank > 0)
        do {
            TRY(turn(me, &found));
            CHECK(me, found.notice.kind == RA_NOTICE_NONE);
        } while (!is_told(me));
    TRY(expect_left(me, last));
    for (int rank = 1; me->transport.rank == 0 && rank < last; rank++)
        tell(me, rank);
    /* Rank 0 stays until the others have seen the same, and would otherwise be missed by nobody. */
    if (me->transport.rank > 0)
        tell(me, 0);
    return me->transport.rank > 0 || await(me, last - 1);
}

/* A rank that has sent all it had to may go; its message arrives all the same. */
static bool a_message_before_leaving(peer *me)
{
    ra_transport_state found = {0};
    if (me->transport.rank == 0) {
        TRY(begin_send(me, 1, 0, 0, make_parcel(me, 100, 0)));
        tell(me, 1);
        return finish_all(me);
    }
    if (me->transport.rank > 1)
        return true;
    parcel *in = make_parcel(me, 100, 1);
    TRY(await(me, 1));
    for (int i = 0; i < 300; i++)
        TRY(turn(me, &found));
    CHECK(me, found.notice.kind == RA_NOTICE_NONE);
    TRY(begin_receive(me, 0, 0, in));
    TRY(finish_all(me));
    CHECK(me, holds(in, 0, 1, 0, 0));
    return true;
}

/* Rank 0 waits for all. Rank 1 makes no sound, then shows life and nothing else, then sends; the others only live. */
static bool silence_is_measured(peer *me)
{
    const double LONG = 0.25;
    ra_transport_state found = {0};
    if (me->transport.rank > 0) {
        if (me->transport.rank == 1)
            TRY(await(me, 1));
        POLL(me, &found, is_told(me));
        TRY(begin_send(me, 0, 0, 0, make_parcel(me, 10, 0)));
        return finish_all(me);
    }
    for (int rank = 1; rank < me->transport.ranks; rank++)
        TRY(begin_receive(me, rank, 0, make_parcel(me, 10, 0)));
    POLL(me, &found, found.waiting_for == 1 && found.silent > LONG);
    tell(me, 1);
    POLL(me, &found, found.silent < LONG);
    CHECK(me, found.unfinished == me->transport.ranks - 1);
    tell_others(me);
    return finish_all(me);
}

/* Nothing is as old as the wait for it: rank 1 was silent long before rank 0 had any reason to listen. */
static bool silence_begins_with_waiting(peer *me)
{
    ra_transport_state found = {0};
    if (me->transport.rank == 1) {
        TRY(turn(me, &found));
        tell(me, 0);
        TRY(await(me, 1));
        TRY(begin_send(me, 0, 0, 0, make_parcel(me, 10, 0)));
        return finish_all(me);
    }
    if (me->transport.rank > 1)
        return true;
    TRY(await(me, 1));
    double quiet = seconds() + 0.2;
    while (seconds() < quiet)
        TRY(turn(me, &found));
    double before = seconds();
    TRY(begin_receive(me, 1, 0, make_parcel(me, 10, 0)));
    TRY(turn(me, &found));
    CHECK(me, found.waiting_for == 1 && found.silent <= seconds() - before);
    tell(me, 1);
    return finish_all(me);
}

/* ---- Faults that rank 0's transport has by itself -------------------------------------------------------------- */

static bool the_first_is_lost(peer *me)
{
    if (me->transport.rank == 0) {
        TRY(begin_send(me, 1, 0, 0, make_parcel(me, 10, 0)));
        TRY(finish_all(me));
        TRY(begin_send(me, 1, 0, 1, make_parcel(me, 10, 0)));
        return finish_all(me);
    }
    parcel *in = make_parcel(me, 10, 0);
    TRY(begin_receive(me, 0, 0, in));
    TRY(finish_all(me));
    CHECK(me, holds(in, 0, 1, 0, 1));
    return true;
}

static bool the_second_operation_fails(peer *me)
{
    ra_transport *t = &me->transport;
    ra_transport_state found;
    bool closes = me->scenario->fault.kind == FAULT_CLOSE;
    if (t->rank == 1)
        return !closes || expect_left(me, 0);
    CHECK(me, !t->receive(t->state, 1, 7, NULL, 0));
    CHECK(me, t->send(t->state, 1, 7, NULL, 0) == RA_ERROR_PEER);
    CHECK(me, t->progress(t->state, &found) == (closes ? RA_ERROR_PEER : RA_OK));
    CHECK(me, t->receive(t->state, 1, 7, NULL, 0) == (closes ? RA_ERROR_PEER : RA_OK));
    return true;
}

/* ---- The lists ------------------------------------------------------------------------------------------------- */

#define WRONG_SIZE(sent, expected)                                                                                     \
    {                                                                                                                  \
        "wrong size: " #sent " for " #expected, wrong_size, 1, true, sent, expected, NULL,                             \
        {                                                                                                              \
            FAULT_NONE, 0, 0, NULL                                                                                     \
        }                                                                                                              \
    }
#define ANY(function, maker)                                                                                           \
    {                                                                                                                  \
#function, function, 1, false, 0, 0, maker,                                                                    \
        {                                                                                                              \
            FAULT_NONE, 0, 0, NULL                                                                                     \
        }                                                                                                              \
    }
#define REAL(function)                                                                                                 \
    {                                                                                                                  \
#function, function, 2, true, 0, 0, NULL,                                                                      \
        {                                                                                                              \
            FAULT_NONE, 0, 0, NULL                                                                                     \
        }                                                                                                              \
    }
#define FAULTY(function, size, kind, at, progresses)                                                                   \
    {                                                                                                                  \
#function ", " #kind, function, 2, true, size, size, NULL,                                                     \
        {                                                                                                              \
            kind, at, progresses, NULL                                                                                 \
        }                                                                                                              \
    }

const scenario scenarios[] = {
    ANY(every_size_and_cut, NULL),
    ANY(all_to_all_at_once, NULL),
    ANY(tags_in_any_order, NULL),
    ANY(one_tag_in_order, NULL),
    ANY(once_round_the_ring, maker_in_ring),
    ANY(receives_before_sends, NULL),
    ANY(sends_before_receives, NULL),
    ANY(unfinished_are_counted, NULL),
    ANY(empty_messages_order_memory, NULL),
    ANY(nonsense_is_refused, NULL),
    REAL(one_tag_in_order_beside_others),
    REAL(a_message_before_leaving),
    REAL(silence_is_measured),
    REAL(silence_begins_with_waiting),
    REAL(leaving_reaches_who_waits),
    REAL(a_failure_reaches_everyone),
    WRONG_SIZE(10, 7),
    WRONG_SIZE(7, 10),
    WRONG_SIZE(0, 5),
    WRONG_SIZE(5, 0),
    WRONG_SIZE(1000, 1500), /* pieces of 1000 bytes that end together, or not at all */
    WRONG_SIZE(1500, 1000),
    WRONG_SIZE(2000, 3000),
    WRONG_SIZE(1 << 20, 999),
    WRONG_SIZE(999, 1 << 20),
};
const int scenario_count = sizeof scenarios / sizeof *scenarios;

const scenario fault_scenarios[] = {
    FAULTY(every_size_and_cut, 0, FAULT_DELAY, 3, 50),
    FAULTY(one_tag_in_order, 0, FAULT_DELAY, 2, 50),
    FAULTY(tags_in_any_order, 0, FAULT_DELAY, 1, 1),
    FAULTY(the_first_is_lost, 0, FAULT_LOST, 1, 0),
    FAULTY(wrong_size, 100, FAULT_SHORTER, 1, 0),
    FAULTY(wrong_size, 0, FAULT_SHORTER, 1, 0),
    FAULTY(wrong_size, 100, FAULT_LONGER, 1, 0),
    FAULTY(the_second_operation_fails, 0, FAULT_FAIL, 2, 0),
    FAULTY(the_second_operation_fails, 0, FAULT_CLOSE, 2, 0),
};
const int fault_scenario_count = sizeof fault_scenarios / sizeof *fault_scenarios;
