/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a communicator over MPI, as the files of this folder share it:
 *
 *     messages.c  messages in pieces: started, moved, finished, given up
 *     words.c     words out of turn: signs of life, notices, good-byes
 *     mpi.c       progress, and opening and closing
 *     launcher.c  whether the MPI that was loaded and the mpirun that started this program are the right ones
 */
#ifndef RA_TRANSPORT_MPI_RANK_H
#define RA_TRANSPORT_MPI_RANK_H

#include "ringattn/mpi.h"
#include "ringattn/transport.h"

#include <stdbool.h>

#define NOTICE_SECONDS 0.2 /* time for words to a rank that may no longer receive */

/* A word out of turn; a notice of kind RA_NOTICE_NONE is a sign of life. */
typedef struct word {
    ra_notice notice;
    /* With RA_NOTICE_LEFT: whether nothing was unfinished or wrong, and the messages that it sent here and received
     * from here. */
    int32_t clean;
    int32_t asks; /* of a sign of life: its sender waits for us and wants one in return */
    int64_t sent, received;
} word;

/* One of each kind can be on its way to a rank. */
enum { LIFE, QUESTION, NOTICE, LEFT, WORDS };

typedef struct contact {
    int64_t unfinished;
    double heard;           /* when it was last heard of */
    double asked;           /* when it was asked for the sign of life that has not come; 0: none is missing */
    bool owed;              /* it has asked us, and has no answer yet */
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
    int looked_at; /* distance to the rank that was last looked at for a question: this many ranks before this one */
    int owed;      /* ranks that have asked and have no answer yet */
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

/* Before any call with a handle: RA_ERROR_UNSUPPORTED when the MPI that was loaded is not the one built for. */
ra_status ra_mpi_check_library(void);

double ra_mpi_seconds(void);
void ra_mpi_nap(void);

/* What MPI's own calls return; a rank that had an error is broken. */
ra_status ra_mpi_judge(mpi_rank *me, const char *what, int code);
ra_status ra_mpi_out_of_memory(mpi_rank *me, const char *what);

/* ---- messages.c ------------------------------------------------------------------------------------------------ */

ra_status ra_mpi_start_receive(void *state, int from, int tag, const ra_segment *segments, int64_t count);
ra_status ra_mpi_start_send(void *state, int to, int tag, const ra_segment *segments, int64_t count);

/* Let MPI move what is under way, and account for what is finished. */
ra_status ra_mpi_move_data(mpi_rank *me);

/* Cancel a receive, until the clock says `end`; false if it could not be cancelled. */
bool ra_mpi_withdraw(MPI_Request *request, double end);
void ra_mpi_withdraw_receives(mpi_rank *me, double end);

/* Take back all that is under way; 0 when some memory may still be read or written. */
int ra_mpi_abandon(void *state);
void ra_mpi_free_messages(mpi_rank *me);

/* ---- words.c --------------------------------------------------------------------------------------------------- */

ra_status ra_mpi_open_hearing(mpi_rank *me);

/* Take in what others have said since. */
ra_status ra_mpi_hear(mpi_rank *me);
void ra_mpi_heard_of(contact *with);

/* Signs of life: to the next rank, to those that have asked for one, and a question to one that is waited for. */
ra_status ra_mpi_show_life(mpi_rank *me);
void ra_mpi_notify(void *state, const ra_notice *notice);
void ra_mpi_say_good_bye(mpi_rank *me);

/* Nothing that was said is still on its way. */
bool ra_mpi_all_said(mpi_rank *me);

#endif
