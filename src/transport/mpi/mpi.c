/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are MPI processes. Messages travel as they are, on a duplicate of the caller's communicator; on a second
 * duplicate each rank keeps one receive open for words out of turn: signs of life, notices, good-byes.
 *
 * MPI makes progress only while it is called, and only the thread that calls this library calls it.
 */
#include "mpi_rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Pieces stay well below the int that MPI counts with. All ranks need the same; tests make it small. */
#define PIECE_VARIABLE "RA_MPI_PIECE_BYTES"
enum { PIECE_BYTES = 1 << 30 };

#define LEAVE_SECONDS 5.0 /* for the others to leave, too */

double ra_mpi_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void ra_mpi_nap(void)
{
    nanosleep(&(struct timespec){0, 20000}, NULL);
}

ra_status ra_mpi_judge(mpi_rank *me, const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length;
    if (code == MPI_SUCCESS)
        return RA_OK;
    me->broken = true;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        snprintf(text, sizeof text, "error %d", code);
    return ra_transport_fail(RA_ERROR_PEER, "MPI: %s: %s", what, text);
}

ra_status ra_mpi_out_of_memory(mpi_rank *me, const char *what)
{
    me->broken = true;
    return ra_transport_fail(RA_ERROR_MEMORY, "out of memory: MPI transport, %s", what);
}

/* ---- Progress -------------------------------------------------------------------------------------------------- */

/*
 * A good-bye may overtake messages. A clean one has counts of messages: if the rank sent as many as this rank receives,
 * and received as many as this rank sends, the missing ones are only in flight.
 */
static bool is_missed(const contact *with)
{
    const word *bye = &with->good_bye;
    return with->unfinished && with->left && (!bye->clean || with->received > bye->sent || with->sent > bye->received);
}

static void find_left(mpi_rank *me)
{
    for (int rank = 0; rank < me->ranks && me->notice.kind == RA_NOTICE_NONE; rank++)
        if (is_missed(&me->contacts[rank]))
            me->notice = me->contacts[rank].good_bye.notice;
}

/* Silence counts from the moment this rank waited for the other one and asked it: before that, it did not have to show
 * life. */
static void find_silent(const mpi_rank *me, ra_transport_state *found)
{
    double now = ra_mpi_seconds();
    for (int rank = 0; rank < me->ranks; rank++) {
        const contact *with = &me->contacts[rank];
        if (!with->unfinished)
            continue;
        double silent = with->asked > 0 ? now - with->asked : 0;
        if (found->waiting_for < 0 || silent > found->silent) {
            found->waiting_for = rank;
            found->silent = silent;
        }
    }
}

/* The rank before this one shows life to it, whether or not this one waits for it. */
static void find_quiet(const mpi_rank *me, ra_transport_state *found)
{
    int before = (me->rank + me->ranks - 1) % me->ranks;
    double heard = me->contacts[before].heard;
    if (before == me->rank || heard <= 0)
        return;
    found->quietest = before;
    found->quiet = ra_mpi_seconds() - heard;
}

static ra_status progress(void *state, ra_transport_state *found)
{
    mpi_rank *me = state;
    ra_status status = ra_mpi_move_data(me);
    if (!status)
        status = ra_mpi_hear(me);
    if (!status)
        status = ra_mpi_show_life(me);
    if (status)
        return status;
    if (me->unfinished)
        find_left(me);
    *found = (ra_transport_state){me->unfinished, -1, 0, me->notice, -1, 0};
    find_quiet(me, found);
    if (me->unfinished)
        find_silent(me, found);
    return RA_OK;
}

/* ---- Open and close -------------------------------------------------------------------------------------------- */

static void free_memory(mpi_rank *me)
{
    ra_mpi_free_messages(me);
    free(me->contacts);
    free(me);
}

static bool all_gone(const mpi_rank *me)
{
    int gone = 1;
    for (int rank = 0; rank < me->ranks; rank++)
        gone += rank != me->rank && me->contacts[rank].left;
    return gone == me->ranks;
}

static bool one_gone_wrong(const mpi_rank *me)
{
    bool wrong = me->broken;
    for (int rank = 0; rank < me->ranks; rank++)
        wrong = wrong || (me->contacts[rank].left && !me->contacts[rank].good_bye.clean);
    return wrong;
}

/* Wait until all others have left cleanly; false as soon as one has not. */
static bool all_leave(mpi_rank *me)
{
    double end = ra_mpi_seconds() + LEAVE_SECONDS;
    while (!ra_mpi_hear(me) && !one_gone_wrong(me) && ra_mpi_seconds() < end) {
        if (all_gone(me) && ra_mpi_all_said(me))
            return true;
        ra_mpi_nap();
    }
    return false;
}

/*
 * Leave after a failure. Mostly all ranks leave at the same time, and a moment is enough for their last words. Memory
 * that MPI may still read or write stays allocated, because the process is about to end.
 */
static void end_badly(mpi_rank *me)
{
    double end = ra_mpi_seconds() + NOTICE_SECONDS;
    while (!(all_gone(me) && ra_mpi_all_said(me)) && !ra_mpi_hear(me) && ra_mpi_seconds() < end)
        ra_mpi_nap();
    end = ra_mpi_seconds() + NOTICE_SECONDS;
    bool mine = ra_mpi_all_said(me) && ra_mpi_withdraw(&me->hearing, end);
    ra_mpi_withdraw_receives(me, end);
    if (mine)
        free_memory(me);
}

static void leave(void *state)
{
    mpi_rank *me = state;
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized) {
        free_memory(me);
        return;
    }
    me->broken = me->broken || me->unfinished;
    ra_mpi_say_good_bye(me);
    if (me->broken || !all_leave(me)) {
        end_badly(me);
        return;
    }
    /* Each rank has the last word of all others: nothing is in flight on either communicator. */
    ra_mpi_withdraw(&me->hearing, ra_mpi_seconds() + NOTICE_SECONDS);
    MPI_Comm_free(&me->control);
    MPI_Comm_free(&me->data);
    free_memory(me);
}

static ra_status read_piece_bytes(int64_t *bytes)
{
    const char *text = getenv(PIECE_VARIABLE);
    *bytes = PIECE_BYTES;
    if (!text)
        return RA_OK;
    char *end;
    *bytes = strtoll(text, &end, 10);
    if (end == text || *end || *bytes < 1 || *bytes > PIECE_BYTES)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "%s=%s: must be 1..%d", PIECE_VARIABLE, text, PIECE_BYTES);
    return RA_OK;
}

static ra_status duplicate(mpi_rank *me, MPI_Comm from, MPI_Comm *to)
{
    ra_status status = ra_mpi_judge(me, "duplicate the communicator", MPI_Comm_dup(from, to));
    if (!status)
        status = ra_mpi_judge(me, "set the error handler", MPI_Comm_set_errhandler(*to, MPI_ERRORS_RETURN));
    return status;
}

static ra_status connect(mpi_rank *me, MPI_Comm mpi)
{
    ra_status status = duplicate(me, mpi, &me->data);
    if (!status)
        status = duplicate(me, me->data, &me->control);
    if (!status)
        status = ra_mpi_judge(me, "rank", MPI_Comm_rank(me->data, &me->rank));
    if (!status)
        status = ra_mpi_judge(me, "size", MPI_Comm_size(me->data, &me->ranks));
    if (status)
        return status;
    me->contacts = calloc((size_t)me->ranks, sizeof *me->contacts);
    if (!me->contacts)
        return ra_mpi_out_of_memory(me, "ranks");
    for (int rank = 0; rank < me->ranks; rank++)
        for (int which = 0; which < WORDS; which++)
            me->contacts[rank].requests[which] = MPI_REQUEST_NULL;
    return ra_mpi_open_hearing(me);
}

static ra_status check_communicator(MPI_Comm mpi)
{
    int ready = 0, finalized = 0, inter = 0;
    ra_status status = ra_mpi_check_library();
    if (status)
        return status;
    MPI_Initialized(&ready);
    MPI_Finalized(&finalized);
    if (!ready || finalized)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "MPI is %s: ra_comm_mpi comes between MPI_Init and MPI_Finalize",
                                 ready ? "finalized" : "not initialised");
    if (mpi == MPI_COMM_NULL)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "mpi: must not be MPI_COMM_NULL");
    MPI_Comm_test_inter(mpi, &inter);
    if (inter)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "mpi: an intercommunicator has no ring; merge it first");
    return RA_OK;
}

ra_status ra_comm_mpi(MPI_Comm mpi, ra_comm **comm)
{
    int64_t piece_bytes;
    if (!comm)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "comm: must not be NULL");
    *comm = NULL;
    ra_status status = check_communicator(mpi);
    if (!status)
        status = read_piece_bytes(&piece_bytes);
    if (status)
        return status;
    mpi_rank *me = calloc(1, sizeof *me);
    if (!me)
        return ra_transport_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes for a communicator", sizeof *me);
    me->hearing = MPI_REQUEST_NULL;
    me->piece_bytes = piece_bytes;
    status = connect(me, mpi);
    if (!status) {
        ra_transport transport = {
            sizeof transport,  "mpi",    me->rank,      me->ranks,      NULL, me, ra_mpi_start_receive,
            ra_mpi_start_send, progress, ra_mpi_notify, ra_mpi_abandon, leave};
        status = ra_comm_custom(&transport, comm);
    }
    if (status && ra_mpi_withdraw(&me->hearing, ra_mpi_seconds() + NOTICE_SECONDS))
        free_memory(me);
    return status;
}
