/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On a communicator of its own each rank keeps one receive open for what is said out of turn.
 *
 * Signs of life, for R ranks. Each rank polls, and every LIFE_SECONDS it
 *
 *     shows life to the next rank, which so knows within a moment that the rank before it is there;
 *     looks at one other rank: the one before it, then the one before that, and so on round the ring. If it waits for
 *     that rank, it asks it for a sign of life, which is given at the next poll.
 *
 * So a rank sends one sign and at most one question in that time, whatever R is; and because ranks look at different
 * ranks at a time, one that all others wait for is asked about once in that time. A rank that falls silent is noticed
 * by the next one, which tells all; a rank that is waited for, by those that wait, after R - 1 looks at the latest.
 */
#include "mpi_rank.h"

#include <stdio.h>

#define LIFE_SECONDS 0.1 /* between two signs of life */
enum { CONTROL_TAG = 0 };

ra_status ra_mpi_open_hearing(mpi_rank *me)
{
    return ra_mpi_judge(
        me, "control receive",
        MPI_Irecv(&me->heard, (int)sizeof me->heard, MPI_BYTE, MPI_ANY_SOURCE, CONTROL_TAG, me->control, &me->hearing));
}

void ra_mpi_heard_of(contact *with)
{
    with->heard = ra_mpi_seconds();
    with->asked = 0;
}

static void understand(mpi_rank *me, int from)
{
    contact *with = &me->contacts[from];
    ra_mpi_heard_of(with);
    if (me->heard.asks && !with->owed) {
        with->owed = true;
        me->owed++;
    }
    if (me->heard.notice.kind == RA_NOTICE_LEFT) {
        with->left = true;
        with->good_bye = me->heard;
    } else if (me->heard.notice.kind != RA_NOTICE_NONE) {
        me->broken = true;
        if (me->notice.kind == RA_NOTICE_NONE)
            me->notice = me->heard.notice;
    }
}

/* The bound is for many ranks that talk without end. */
ra_status ra_mpi_hear(mpi_rank *me)
{
    for (int i = 0; i < 4 * me->ranks; i++) {
        MPI_Status status;
        int came = 0;
        ra_status result = ra_mpi_judge(me, "control receive", MPI_Test(&me->hearing, &came, &status));
        if (result || !came)
            return result;
        understand(me, status.MPI_SOURCE);
        result = ra_mpi_open_hearing(me);
        if (result)
            return result;
    }
    return RA_OK;
}

static bool is_said(contact *with, int which)
{
    MPI_Status status;
    int done = 0;
    return MPI_Test(&with->requests[which], &done, &status) == MPI_SUCCESS && done;
}

/* Signs of life are synchronous: a rank that does not listen is owed one, and not thousands that it would keep. */
static ra_status show_life_to(mpi_rank *me, int rank, int which)
{
    contact *with = &me->contacts[rank];
    if (rank == me->rank || with->left || !is_said(with, which))
        return RA_OK;
    with->words[which] = (word){.notice = {.kind = RA_NOTICE_NONE, .rank = me->rank}, .asks = which == QUESTION};
    return ra_mpi_judge(me, "sign of life",
                        MPI_Issend(&with->words[which], (int)sizeof(word), MPI_BYTE, rank, CONTROL_TAG, me->control,
                                   &with->requests[which]));
}

static ra_status answer(mpi_rank *me)
{
    ra_status status = RA_OK;
    for (int rank = 0; rank < me->ranks && me->owed && !status; rank++) {
        contact *with = &me->contacts[rank];
        if (!with->owed)
            continue;
        with->owed = false;
        me->owed--;
        status = show_life_to(me, rank, LIFE);
    }
    return status;
}

/* A question that was not answered stays asked: silence counts from there. */
static ra_status ask_one(mpi_rank *me, double now)
{
    me->looked_at = me->looked_at % (me->ranks - 1) + 1;
    int rank = (me->rank + me->ranks - me->looked_at) % me->ranks;
    contact *with = &me->contacts[rank];
    if (!with->unfinished || with->asked > 0)
        return RA_OK;
    with->asked = now;
    return show_life_to(me, rank, QUESTION);
}

ra_status ra_mpi_show_life(mpi_rank *me)
{
    double now = ra_mpi_seconds();
    ra_status status = me->owed ? answer(me) : RA_OK;
    if (status || me->ranks == 1 || now - me->last_life < LIFE_SECONDS)
        return status;
    me->last_life = now;
    status = show_life_to(me, (me->rank + 1) % me->ranks, LIFE);
    return status ? status : ask_one(me, now);
}

static void say(mpi_rank *me, int rank, int which, const word *what)
{
    contact *with = &me->contacts[rank];
    if (rank == me->rank || !is_said(with, which))
        return;
    with->words[which] = *what;
    if (MPI_Isend(&with->words[which], (int)sizeof(word), MPI_BYTE, rank, CONTROL_TAG, me->control,
                  &with->requests[which]) != MPI_SUCCESS)
        me->broken = true;
}

bool ra_mpi_all_said(mpi_rank *me)
{
    bool all = true;
    for (int rank = 0; rank < me->ranks; rank++)
        for (int which = 0; which < WORDS; which++)
            all = is_said(&me->contacts[rank], which) && all;
    return all;
}

void ra_mpi_notify(void *state, const ra_notice *notice)
{
    mpi_rank *me = state;
    double end = ra_mpi_seconds() + NOTICE_SECONDS;
    if (notice->kind != RA_NOTICE_NONE)
        me->broken = true;
    for (int rank = 0; rank < me->ranks; rank++)
        say(me, rank, NOTICE, &(word){.notice = *notice});
    while (!ra_mpi_all_said(me) && ra_mpi_seconds() < end)
        ra_mpi_nap();
}

void ra_mpi_say_good_bye(mpi_rank *me)
{
    word bye = {.notice = {.kind = RA_NOTICE_LEFT, .rank = me->rank}, .clean = !me->broken};
    snprintf(bye.notice.text, sizeof bye.notice.text, "rank %d has closed its communicator", me->rank);
    for (int rank = 0; rank < me->ranks; rank++) {
        bye.sent = me->contacts[rank].sent;
        bye.received = me->contacts[rank].received;
        say(me, rank, LEFT, &bye);
    }
}
