/*
 * Ranks that are MPI processes. Messages travel as they are, on a duplicate of the caller's communicator; on a second
 * duplicate each rank keeps one receive open for what is said out of turn: signs of life, notices, good-byes.
 *
 * A message is cut into pieces at multiples of the piece size, the last one always shorter than that, possibly empty:
 * wherever two ranks disagree about the length of a message, some piece has a length that its receiver does not expect,
 * and no receiver waits for a piece that never comes.
 *
 * MPI works only while it is called, and is called only by the thread that calls us.
 */
#include "ringattn/mpi.h"
#include "ringattn/transport.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Pieces stay well below the int that MPI counts with. All ranks need the same; tests make it small. */
#define PIECE_VARIABLE "RA_MPI_PIECE_BYTES"
enum { PIECE_BYTES = 1 << 30, TAG_MOST = 32767, CONTROL_TAG = 0 };

#define LIFE_SECONDS 0.1   /* between two signs of life */
#define NOTICE_SECONDS 0.2 /* for words to a rank that may not listen any more */
#define LEAVE_SECONDS 5.0  /* for the others to leave, too */

/* What is said out of turn; a notice of kind RA_NOTICE_NONE is a sign of life. */
typedef struct word {
    ra_notice notice;
    /* With RA_NOTICE_LEFT: nothing was unfinished or wrong, and how many messages it has sent to and had from us. */
    int32_t clean, unused;
    int64_t sent, received;
} word;

/* One of each kind can be on its way to a rank. */
enum { LIFE, NOTICE, LEFT, WORDS };

typedef struct contact {
    int64_t unfinished;
    double since, heard;    /* since when it is waited for; when it was last heard of */
    int64_t sent, received; /* messages started */
    bool left;
    word good_bye; /* once it has left */
    word words[WORDS];
    MPI_Request requests[WORDS];
} contact;

typedef struct operation {
    int peer, tag;
    bool receives;
    int64_t bytes, pieces; /* pieces that are not finished */
} operation;

typedef struct piece {
    operation *of;
    int64_t offset, bytes;
} piece;

typedef struct mpi_rank {
    MPI_Comm data, control;
    int rank, ranks;
    bool broken;
    int64_t piece_bytes;
    contact *contacts; /* one for each rank */
    double last_life;
    ra_notice notice;

    word heard; /* where the open receive of `control` writes */
    MPI_Request hearing;

    /* Pieces under way, in the order in which they were started; all arrays have the same room. */
    int64_t unfinished; /* operations */
    int count, room;
    MPI_Request *requests;
    piece *pieces;
    MPI_Status *statuses;
    int *indices;

    /* The runs of memory of the piece that is being started. */
    int runs, run_room;
    int *run_bytes;
    MPI_Aint *run_at;
    void *first_run;
} mpi_rank;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 20000}, NULL);
}

/* What MPI's own calls return. */
static ra_status judge(mpi_rank *me, const char *what, int code)
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

static ra_status out_of_memory(mpi_rank *me, const char *what)
{
    me->broken = true;
    return ra_transport_fail(RA_ERROR_MEMORY, "out of memory: MPI transport, %s", what);
}

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
        return out_of_memory(me, "pieces under way");
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
            return out_of_memory(me, "runs of memory");
        me->run_room = room;
    }
    if (!me->runs)
        me->first_run = at;
    me->run_at[me->runs] = address;
    me->run_bytes[me->runs++] = (int)bytes;
    return RA_OK;
}

/* Where in a list of segments the next piece begins. */
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
        return judge(me, of->receives ? "receive" : "send", code);
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
        return out_of_memory(me, "a message");
    *new = of;

    contact *with = &me->contacts[of.peer];
    if (!with->unfinished++)
        with->since = seconds();
    with->received += of.receives;
    with->sent += !of.receives;
    me->unfinished++;
    status = begin_pieces(me, new, segments);
    if (!new->pieces)
        free(new);
    return status;
}

static ra_status start_receive(void *state, int from, int tag, const ra_segment *segments, int64_t count)
{
    return start(state, (operation){from, tag, true, 0, 0}, segments, count);
}

static ra_status start_send(void *state, int to, int tag, const ra_segment *segments, int64_t count)
{
    return start(state, (operation){to, tag, false, 0, 0}, segments, count);
}

/* ---- Finishing it ---------------------------------------------------------------------------------------------- */

static ra_status check_arrived(mpi_rank *me, const piece *p, MPI_Status *status)
{
    int bytes = 0;
    ra_status result = judge(me, "length of a message", MPI_Get_elements(status, MPI_BYTE, &bytes));
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
        return judge(me, p->of->receives ? "receive" : "send", code);
    me->broken = true;
    return ra_transport_fail(RA_ERROR_PEER, "rank %d sent more bytes than the %lld that were expected (tag %d)",
                             p->of->peer, (long long)p->of->bytes, p->of->tag);
}

static void finish(mpi_rank *me, piece *p)
{
    contact *with = &me->contacts[p->of->peer];
    if (p->of->receives)
        with->heard = seconds();
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

static ra_status move_data(mpi_rank *me)
{
    int done = 0, class = MPI_SUCCESS;
    if (!me->count)
        return RA_OK;
    int code = test_pieces(me, &done);
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    if (class != MPI_SUCCESS && class != MPI_ERR_IN_STATUS)
        return judge(me, "progress", code);
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

/* ---- Words out of turn ----------------------------------------------------------------------------------------- */

static ra_status open_hearing(mpi_rank *me)
{
    return judge(
        me, "control receive",
        MPI_Irecv(&me->heard, (int)sizeof me->heard, MPI_BYTE, MPI_ANY_SOURCE, CONTROL_TAG, me->control, &me->hearing));
}

static void understand(mpi_rank *me, int from)
{
    contact *with = &me->contacts[from];
    with->heard = seconds();
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
static ra_status hear(mpi_rank *me)
{
    for (int i = 0; i < 4 * me->ranks; i++) {
        MPI_Status status;
        int came = 0;
        ra_status result = judge(me, "control receive", MPI_Test(&me->hearing, &came, &status));
        if (result || !came)
            return result;
        understand(me, status.MPI_SOURCE);
        result = open_hearing(me);
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
static ra_status show_life(mpi_rank *me)
{
    double now = seconds();
    if (now - me->last_life < LIFE_SECONDS)
        return RA_OK;
    me->last_life = now;
    for (int rank = 0; rank < me->ranks; rank++) {
        contact *with = &me->contacts[rank];
        if (rank == me->rank || with->left || !is_said(with, LIFE))
            continue;
        with->words[LIFE] = (word){.notice = {.kind = RA_NOTICE_NONE, .rank = me->rank}};
        ra_status status = judge(me, "sign of life",
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

static bool all_said(mpi_rank *me)
{
    bool all = true;
    for (int rank = 0; rank < me->ranks; rank++)
        for (int which = 0; which < WORDS; which++)
            all = is_said(&me->contacts[rank], which) && all;
    return all;
}

static void notify(void *state, const ra_notice *notice)
{
    mpi_rank *me = state;
    double end = seconds() + NOTICE_SECONDS;
    if (notice->kind != RA_NOTICE_NONE)
        me->broken = true;
    for (int rank = 0; rank < me->ranks; rank++)
        say(me, rank, NOTICE, &(word){.notice = *notice});
    while (!all_said(me) && seconds() < end)
        nap();
}

/* ---- Progress -------------------------------------------------------------------------------------------------- */

/*
 * A good-bye may overtake messages. One that was clean says how many there are: if it sent us as many as we receive,
 * and received as many as we send, what we wait for is only under way.
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

/* Nothing can be heard of a rank before it was waited for: what it did until then was its own affair. */
static void find_silent(const mpi_rank *me, ra_transport_state *found)
{
    double now = seconds();
    for (int rank = 0; rank < me->ranks; rank++) {
        const contact *with = &me->contacts[rank];
        if (!with->unfinished)
            continue;
        double silent = rank == me->rank ? 0 : now - (with->heard > with->since ? with->heard : with->since);
        if (found->waiting_for < 0 || silent > found->silent) {
            found->waiting_for = rank;
            found->silent = silent;
        }
    }
}

static void find_quiet(const mpi_rank *me, ra_transport_state *found)
{
    double now = seconds();
    for (int rank = 0; rank < me->ranks; rank++) {
        double heard = me->contacts[rank].heard;
        if (rank != me->rank && heard > 0 && (found->quietest < 0 || now - heard > found->quiet)) {
            found->quietest = rank;
            found->quiet = now - heard;
        }
    }
}

static ra_status progress(void *state, ra_transport_state *found)
{
    mpi_rank *me = state;
    ra_status status = move_data(me);
    if (!status)
        status = hear(me);
    if (!status)
        status = show_life(me);
    if (status)
        return status;
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
    for (int i = 0; i < me->count; i++)
        if (!--me->pieces[i].of->pieces)
            free(me->pieces[i].of);
    free(me->contacts);
    free(me->requests);
    free(me->pieces);
    free(me->statuses);
    free(me->indices);
    free(me->run_bytes);
    free(me->run_at);
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

/* All others have left as they should; false as soon as one has not. */
static bool all_leave(mpi_rank *me)
{
    double end = seconds() + LEAVE_SECONDS;
    while (!hear(me) && !one_gone_wrong(me) && seconds() < end) {
        if (all_gone(me) && all_said(me))
            return true;
        nap();
    }
    return false;
}

/* A receive can be cancelled by its rank alone, unless its message is already coming in: that is waited for a little.
 */
static bool withdraw(MPI_Request *request, double end)
{
    MPI_Status status;
    int done = 0;
    if (*request == MPI_REQUEST_NULL)
        return true;
    if (MPI_Cancel(request) != MPI_SUCCESS)
        return false;
    while (MPI_Test(request, &done, &status) == MPI_SUCCESS && !done && seconds() < end)
        nap();
    return done;
}

/* Sends cannot be taken back: whoever still owes us a receive may read their memory. */
static int abandon(void *state)
{
    mpi_rank *me = state;
    double end = seconds() + NOTICE_SECONDS;
    bool all = true;
    me->broken = true;
    for (int i = 0; i < me->count; i++) {
        MPI_Status status;
        int done = 0;
        if (me->pieces[i].of->receives)
            done = withdraw(&me->requests[i], end);
        else
            MPI_Test(&me->requests[i], &done, &status);
        all = all && done;
    }
    return all;
}

static void say_good_bye(mpi_rank *me)
{
    word bye = {.notice = {.kind = RA_NOTICE_LEFT, .rank = me->rank}, .clean = !me->broken};
    snprintf(bye.notice.text, sizeof bye.notice.text, "rank %d has closed its communicator", me->rank);
    for (int rank = 0; rank < me->ranks; rank++) {
        bye.sent = me->contacts[rank].sent;
        bye.received = me->contacts[rank].received;
        say(me, rank, LEFT, &bye);
    }
}

/*
 * After a failure. Most often all ranks are here at the same time, and a moment is enough to hear each other out. What
 * MPI may still read or write after that stays allocated, for a process that is about to end anyway.
 */
static void end_badly(mpi_rank *me)
{
    double end = seconds() + NOTICE_SECONDS;
    while (!(all_gone(me) && all_said(me)) && !hear(me) && seconds() < end)
        nap();
    end = seconds() + NOTICE_SECONDS;
    bool mine = all_said(me) && withdraw(&me->hearing, end);
    for (int i = 0; i < me->count; i++)
        if (me->pieces[i].of->receives)
            withdraw(&me->requests[i], end);
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
    say_good_bye(me);
    if (me->broken || !all_leave(me)) {
        end_badly(me);
        return;
    }
    /* Each has heard the last word of all others: nothing is under way on either communicator. */
    withdraw(&me->hearing, seconds() + NOTICE_SECONDS);
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
    ra_status status = judge(me, "duplicate the communicator", MPI_Comm_dup(from, to));
    if (!status)
        status = judge(me, "set the error handler", MPI_Comm_set_errhandler(*to, MPI_ERRORS_RETURN));
    return status;
}

static ra_status connect(mpi_rank *me, MPI_Comm mpi)
{
    ra_status status = duplicate(me, mpi, &me->data);
    if (!status)
        status = duplicate(me, me->data, &me->control);
    if (!status)
        status = judge(me, "rank", MPI_Comm_rank(me->data, &me->rank));
    if (!status)
        status = judge(me, "size", MPI_Comm_size(me->data, &me->ranks));
    if (status)
        return status;
    me->contacts = calloc((size_t)me->ranks, sizeof *me->contacts);
    if (!me->contacts)
        return out_of_memory(me, "ranks");
    for (int rank = 0; rank < me->ranks; rank++)
        for (int which = 0; which < WORDS; which++)
            me->contacts[rank].requests[which] = MPI_REQUEST_NULL;
    return open_hearing(me);
}

static ra_status check_communicator(MPI_Comm mpi)
{
    int ready = 0, finalized = 0, inter = 0;
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
        ra_transport transport = {sizeof transport, "mpi",      me->rank, me->ranks, NULL,    me,
                                  start_receive,    start_send, progress, notify,    abandon, leave};
        status = ra_comm_custom(&transport, comm);
    }
    if (status && withdraw(&me->hearing, seconds() + NOTICE_SECONDS))
        free_memory(me);
    return status;
}

/* ---- The launcher ---------------------------------------------------------------------------------------------- */

/* "Open MPI v4.1.4", "MPICH Version: 4.0.2": what comes first in the library's own words. */
static void name_library(char name[MPI_MAX_LIBRARY_VERSION_STRING])
{
    int length = 0;
    MPI_Get_library_version(name, &length);
    name[strcspn(name, ",\r\n")] = '\0';
    for (char *c = name; (c = strchr(c, '\t'));)
        *c = ' ';
}

ra_status ra_mpi_check_launcher(void)
{
    /* Open MPI's mpirun; hydra, and others that speak PMI. Launchers may be nested: one that agrees is enough. */
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    int size = 0;
    long said = 0;
    ra_status status = RA_OK;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *text = getenv(variables[i]);
        long value = text ? strtol(text, NULL, 10) : 0;
        if (value == size)
            return RA_OK;
        if (value > 0)
            said = value;
    }
    if (said) {
        char name[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
        name_library(name);
        status =
            ra_transport_fail(RA_ERROR_UNSUPPORTED,
                              "mpirun started %ld processes, but this program's MPI (%s) sees %d: it was built for "
                              "another MPI than the mpirun that started it; use that MPI's mpirun, or rebuild",
                              said, name, size);
    }
    return status;
}
