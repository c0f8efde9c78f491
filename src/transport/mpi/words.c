/* On a communicator of its own each rank keeps one receive open for what is said out of turn. */
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

static void understand(mpi_rank *me, int from)
{
    contact *with = &me->contacts[from];
    with->heard = ra_mpi_seconds();
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
ra_status ra_mpi_show_life(mpi_rank *me)
{
    double now = ra_mpi_seconds();
    if (now - me->last_life < LIFE_SECONDS)
        return RA_OK;
    me->last_life = now;
    for (int rank = 0; rank < me->ranks; rank++) {
        contact *with = &me->contacts[rank];
        if (rank == me->rank || with->left || !is_said(with, LIFE))
            continue;
        with->words[LIFE] = (word){.notice = {.kind = RA_NOTICE_NONE, .rank = me->rank}};
        ra_status status = ra_mpi_judge(me, "sign of life",
                                        MPI_Issend(&with->words[LIFE], (int)sizeof(word), MPI_BYTE, rank, CONTROL_TAG,
                                                   me->control, &with->requests[LIFE]));
        if (status)
            return status;
    }
    return RA_OK;
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
