/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message is cut into pieces at multiples of the piece size, the last one always shorter than that, possibly empty:
 * if two ranks disagree about the length of a message, some piece has a length that its receiver does not expect,
 * and no receiver waits for a piece that never comes.
 */
#include "mpi_rank.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_MOST = 32767 };

/* ---- Starting a message ---------------------------------------------------------------------------------------- */

/* An array that grows and keeps what it has. */
static bool grow(void *array, int room, size_t element)
{
    void *old, *new;
    memcpy(&old, array, sizeof old);
    new = realloc(old, (size_t)room * element);
    if (new)
        memcpy(array, &new, sizeof new);
    return new;
}

static ra_status make_room(mpi_rank *me, int64_t pieces)
{
    int64_t wanted = me->count + pieces;
    if (wanted <= me->room)
        return RA_OK;
    wanted *= 2;
    if (wanted > INT_MAX)
        return ra_transport_fail(RA_ERROR_UNSUPPORTED, "%lld pieces of messages under way at once", (long long)wanted);
    int room = (int)wanted;
    if (!grow(&me->requests, room, sizeof *me->requests) || !grow(&me->pieces, room, sizeof *me->pieces) ||
        !grow(&me->statuses, room, sizeof *me->statuses) || !grow(&me->indices, room, sizeof *me->indices))
        return ra_mpi_out_of_memory(me, "pieces under way");
    me->room = room;
    return RA_OK;
}

static ra_status add_run(mpi_rank *me, char *at, int64_t bytes)
{
    MPI_Aint address;
    MPI_Get_address(at, &address);
    if (me->runs && me->run_at[me->runs - 1] + me->run_bytes[me->runs - 1] == address) {
        me->run_bytes[me->runs - 1] += (int)bytes;
        return RA_OK;
    }
    if (me->runs == me->run_room) {
        int room = me->run_room * 2 + 16;
        if (!grow(&me->run_bytes, room, sizeof *me->run_bytes) || !grow(&me->run_at, room, sizeof *me->run_at))
            return ra_mpi_out_of_memory(me, "runs of memory");
        me->run_room = room;
    }
    if (!me->runs)
        me->first_run = at;
    me->run_at[me->runs] = address;
    me->run_bytes[me->runs++] = (int)bytes;
    return RA_OK;
}

/* The place in a list of segments where the next piece begins. */
typedef struct cursor {
    const ra_segment *at;
    int64_t inside;
} cursor;

static ra_status collect_runs(mpi_rank *me, cursor *c, int64_t bytes)
{
    ra_status status = RA_OK;
    me->runs = 0;
    while (bytes && !status) {
        int64_t part = c->at->bytes - c->inside;
        part = part < bytes ? part : bytes;
        if (part)
            status = add_run(me, (char *)c->at->at + c->inside, part);
        bytes -= part;
        c->inside += part;
        if (c->inside == c->at->bytes)
            *c = (cursor){c->at + 1, 0};
    }
    return status;
}

static int begin(mpi_rank *me, const operation *of, void *at, int count, MPI_Datatype type, MPI_Request *request)
{
    return of->receives ? MPI_Irecv(at, count, type, of->peer, of->tag, me->data, request)
                        : MPI_Isend(at, count, type, of->peer, of->tag, me->data, request);
}

/* Several runs are described by their absolute addresses, which MPI gathers or scatters by itself. */
static int begin_runs(mpi_rank *me, const operation *of, MPI_Request *request)
{
    MPI_Datatype type;
    int code = MPI_Type_create_hindexed(me->runs, me->run_bytes, me->run_at, MPI_BYTE, &type);
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Type_commit(&type);
    if (code == MPI_SUCCESS)
        code = begin(me, of, MPI_BOTTOM, 1, type, request);
    MPI_Type_free(&type);
    return code;
}

static ra_status begin_piece(mpi_rank *me, operation *of, cursor *c, int64_t offset, int64_t bytes)
{
    ra_status status = collect_runs(me, c, bytes);
    if (status)
        return status;
    MPI_Request *request = &me->requests[me->count];
    int code;
    if (me->runs > 1)
        code = begin_runs(me, of, request);
    else if (me->runs)
        code = begin(me, of, me->first_run, me->run_bytes[0], MPI_BYTE, request);
    else
        code = begin(me, of, NULL, 0, MPI_BYTE, request);
    if (code != MPI_SUCCESS)
        return ra_mpi_judge(me, of->receives ? "receive" : "send", code);
    me->pieces[me->count++] = (piece){of, offset, bytes};
    of->pieces++;
    return RA_OK;
}

static ra_status begin_pieces(mpi_rank *me, operation *of, const ra_segment *segments)
{
    cursor c = {segments, 0};
    for (int64_t offset = 0; offset <= of->bytes; offset += me->piece_bytes) {
        int64_t left = of->bytes - offset;
        ra_status status = begin_piece(me, of, &c, offset, left < me->piece_bytes ? left : me->piece_bytes);
        if (status)
            return status;
    }
    return RA_OK;
}

static ra_status check_message(mpi_rank *me, const operation *of, const ra_segment *segments, int64_t count,
                               int64_t *bytes)
{
    const char *verb = of->receives ? "receive from" : "send to";
    *bytes = 0;
    if (of->peer < 0 || of->peer >= me->ranks)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "%s rank %d: must be 0..%d", verb, of->peer, me->ranks - 1);
    if (of->tag < 0 || of->tag > TAG_MOST)
        return ra_transport_fail(RA_ERROR_ARGUMENT, "%s rank %d: tag %d: must be 0..%d", verb, of->peer, of->tag,
                                 TAG_MOST);
    if (count < 0 || (count && !segments))
        return ra_transport_fail(RA_ERROR_ARGUMENT, "%s rank %d: %lld segments at %p", verb, of->peer, (long long)count,
                                 (const void *)segments);
    for (int64_t i = 0; i < count; i++) {
        if (segments[i].bytes < 0 || (segments[i].bytes && !segments[i].at) || segments[i].bytes > INT64_MAX - *bytes)
            return ra_transport_fail(RA_ERROR_ARGUMENT, "%s rank %d: segment %lld has %lld bytes at %p", verb, of->peer,
                                     (long long)i, (long long)segments[i].bytes, segments[i].at);
        *bytes += segments[i].bytes;
    }
    return RA_OK;
}

static ra_status start(mpi_rank *me, operation of, const ra_segment *segments, int64_t count)
{
    ra_status status = check_message(me, &of, segments, count, &of.bytes);
    if (!status)
        status = make_room(me, of.bytes / me->piece_bytes + 1);
    if (status)
        return status;
    operation *new = malloc(sizeof *new);
    if (!new)
        return ra_mpi_out_of_memory(me, "a message");
    *new = of;

    contact *with = &me->contacts[of.peer];
    if (!with->unfinished++)
        with->asked = 0;
    with->received += of.receives;
    with->sent += !of.receives;
    me->unfinished++;
    status = begin_pieces(me, new, segments);
    if (!new->pieces)
        free(new);
    return status;
}

ra_status ra_mpi_start_receive(void *state, int from, int tag, const ra_segment *segments, int64_t count)
{
    return start(state, (operation){from, tag, true, 0, 0}, segments, count);
}

ra_status ra_mpi_start_send(void *state, int to, int tag, const ra_segment *segments, int64_t count)
{
    return start(state, (operation){to, tag, false, 0, 0}, segments, count);
}

/* ---- Finishing it ---------------------------------------------------------------------------------------------- */

static ra_status check_arrived(mpi_rank *me, const piece *p, MPI_Status *status)
{
    int bytes = 0;
    ra_status result = ra_mpi_judge(me, "length of a message", MPI_Get_elements(status, MPI_BYTE, &bytes));
    if (result || bytes == p->bytes)
        return result;
    me->broken = true;
    return ra_transport_fail(RA_ERROR_PEER, "rank %d sent %lld bytes where %lld were expected (tag %d)", p->of->peer,
                             (long long)(p->offset + bytes), (long long)p->of->bytes, p->of->tag);
}

static ra_status judge_piece(mpi_rank *me, const piece *p, int code)
{
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    if (class != MPI_ERR_TRUNCATE)
        return ra_mpi_judge(me, p->of->receives ? "receive" : "send", code);
    me->broken = true;
    return ra_transport_fail(RA_ERROR_PEER, "rank %d sent more bytes than the %lld that were expected (tag %d)",
                             p->of->peer, (long long)p->of->bytes, p->of->tag);
}

static void finish(mpi_rank *me, piece *p)
{
    contact *with = &me->contacts[p->of->peer];
    if (p->of->receives)
        ra_mpi_heard_of(with);
    if (!--p->of->pieces) {
        with->unfinished--;
        me->unfinished--;
        free(p->of);
    }
    p->of = NULL;
}

/* Closes the gaps that finished pieces have left, and keeps the order. */
static void close_gaps(mpi_rank *me)
{
    int kept = 0;
    for (int i = 0; i < me->count; i++)
        if (me->pieces[i].of) {
            me->requests[kept] = me->requests[i];
            me->pieces[kept++] = me->pieces[i];
        }
    me->count = kept;
}

/*
 * A message that is too long is an error of MPI, and MPICH hands the errors of tests not to the communicator of the
 * request but to the world's, whose handler ends the process. So for the time of a test the world has ours.
 */
static void lend_handler(MPI_Comm comm, MPI_Errhandler *before)
{
    *before = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(comm, before);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

static void give_back_handler(MPI_Comm comm, MPI_Errhandler *before)
{
    if (*before == MPI_ERRHANDLER_NULL)
        return;
    MPI_Comm_set_errhandler(comm, *before);
    MPI_Errhandler_free(before);
}

static int test_pieces(mpi_rank *me, int *done)
{
    MPI_Errhandler world, self;
    lend_handler(MPI_COMM_WORLD, &world);
    lend_handler(MPI_COMM_SELF, &self);
    int code = MPI_Testsome(me->count, me->requests, done, me->indices, me->statuses);
    give_back_handler(MPI_COMM_SELF, &self);
    give_back_handler(MPI_COMM_WORLD, &world);
    return code;
}

ra_status ra_mpi_move_data(mpi_rank *me)
{
    int done = 0, class = MPI_SUCCESS;
    if (!me->count)
        return RA_OK;
    int code = test_pieces(me, &done);
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    if (class != MPI_SUCCESS && class != MPI_ERR_IN_STATUS)
        return ra_mpi_judge(me, "progress", code);
    if (done == MPI_UNDEFINED || !done)
        return RA_OK;
    ra_status result = RA_OK;
    for (int i = 0; i < done; i++) {
        piece *p = &me->pieces[me->indices[i]];
        if (!result && class == MPI_ERR_IN_STATUS)
            result = judge_piece(me, p, me->statuses[i].MPI_ERROR);
        if (!result && p->of->receives)
            result = check_arrived(me, p, &me->statuses[i]);
        finish(me, p);
    }
    close_gaps(me);
    return result;
}

/* ---- Giving it up ---------------------------------------------------------------------------------------------- */

/* A rank can cancel its receive by itself, unless the message is already coming in: then it waits a little for the
 * message.
 */
bool ra_mpi_withdraw(MPI_Request *request, double end)
{
    MPI_Status status;
    int done = 0;
    if (*request == MPI_REQUEST_NULL)
        return true;
    if (MPI_Cancel(request) != MPI_SUCCESS)
        return false;
    while (MPI_Test(request, &done, &status) == MPI_SUCCESS && !done && ra_mpi_seconds() < end)
        ra_mpi_nap();
    return done;
}

void ra_mpi_withdraw_receives(mpi_rank *me, double end)
{
    for (int i = 0; i < me->count; i++)
        if (me->pieces[i].of->receives)
            ra_mpi_withdraw(&me->requests[i], end);
}

/* Sends cannot be cancelled: a rank that has not received yet may still read their memory. */
int ra_mpi_abandon(void *state)
{
    mpi_rank *me = state;
    double end = ra_mpi_seconds() + NOTICE_SECONDS;
    bool all = true;
    me->broken = true;
    for (int i = 0; i < me->count; i++) {
        MPI_Status status;
        int done = 0;
        if (me->pieces[i].of->receives)
            done = ra_mpi_withdraw(&me->requests[i], end);
        else
            MPI_Test(&me->requests[i], &done, &status);
        all = all && done;
    }
    return all;
}

void ra_mpi_free_messages(mpi_rank *me)
{
    for (int i = 0; i < me->count; i++)
        if (!--me->pieces[i].of->pieces)
            free(me->pieces[i].of);
    free(me->requests);
    free(me->pieces);
    free(me->statuses);
    free(me->indices);
    free(me->run_bytes);
    free(me->run_at);
}
