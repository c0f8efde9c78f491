/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of an mpirun. */
#include "job.h"

#include "interrupt.h"
#include "progress.h"
#include "report.h"

#include <ringattn/mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ADD_WORDS = 1 << 20 }; /* that are added up at a time: MPI counts in int */
#define ABORT_SECONDS 1.0     /* for the other processes to come to the end of a job that has failed, too */

static struct {
    bool begun, connected, saves;
    int rank, size, here;
    double timeout;
} job = {false, false, false, 0, 1, 1, 0};

const char *job_mpi_name(void)
{
    static char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    /* May be called before MPI_Init. The first line, up to a comma, says enough. */
    MPI_Get_library_version(name, &length);
    name[strcspn(name, ",\n")] = 0;
    for (char *c = name; *c; c++)
        if (*c == '\t')
            *c = ' ';
    return name;
}

int job_begin(double timeout)
{
    int provided;
    MPI_Comm here;
    /*
     * Over TCP, Open MPI answers each part of a large message on the connection that its own message fills, so that two
     * ranks that send to each other take turns. Sent as a stream, both flow at once. Whoever has set it keeps it.
     */
    setenv("OMPI_MCA_btl_tcp_flags", "1", 0);
    if (ra_mpi_check_launcher())
        return report_refusal();
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return report(EXIT_WORK, "MPI cannot be initialised");
    job.begun = true;
    job.timeout = timeout;
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    if (job.rank > 0)
        interrupt_is_silent();
    if (ra_mpi_check_launcher())
        return job_end(report_refusal());
    if (provided < MPI_THREAD_FUNNELED)
        return job_end(report(EXIT_USAGE, "this MPI does not go together with threads (MPI_THREAD_FUNNELED)"));
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &job.here);
    MPI_Comm_free(&here);
    report_hold();
    return EXIT_OK;
}

int job_rank(void)
{
    return job.rank;
}

int job_size(void)
{
    return job.size;
}

int job_size_here(void)
{
    return job.here;
}

ra_status job_comm(ra_comm **comm)
{
    job.connected = true;
    return ra_comm_mpi(MPI_COMM_WORLD, comm);
}

/* Looked at now and then: MPI's own waiting has no end. */
static bool finished(MPI_Request *request, double timeout)
{
    const struct timespec moment = {0, 100000};
    double start = progress_clock();
    int done = 0;
    while (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done && progress_clock() - start <= timeout)
        nanosleep(&moment, NULL);
    return done;
}

/* The largest code wins; among those the lowest rank. False: somebody did not come in time. */
static bool gather(int code, double timeout, int *worst, int *speaker)
{
    /* They outlive the call: where somebody does not come, MPI may still write to them. */
    static int mine[2], all[2];
    MPI_Request request;
    mine[0] = -code;
    mine[1] = job.rank;
    /* MINLOC: the smallest first number, and with it the smallest second. */
    if (MPI_Iallreduce(mine, all, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD, &request) != MPI_SUCCESS ||
        !finished(&request, timeout))
        return false;
    *worst = -all[0];
    *speaker = all[1];
    return true;
}

static void give_up(void)
{
    report_release(0);
    report(EXIT_WORK, "rank %d: not all processes have come within %g s (--timeout)", job.rank, job.timeout);
    MPI_Abort(MPI_COMM_WORLD, EXIT_WORK);
}

int job_agree(int code)
{
    int worst = code, speaker = job.rank;
    if (!job.begun)
        return code;
    if (!gather(code, job.timeout, &worst, &speaker))
        give_up();
    report_release(speaker == job.rank);
    report_hold();
    return worst;
}

void job_add(uint64_t *words, int64_t count)
{
    while (job.begun && count > 0) {
        MPI_Request request;
        int some = count < ADD_WORDS ? (int)count : ADD_WORDS;
        if (MPI_Iallreduce(MPI_IN_PLACE, words, some, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD, &request) != MPI_SUCCESS ||
            !finished(&request, job.timeout))
            give_up();
        words += some;
        count -= some;
    }
}

void job_saves(void)
{
    job.saves = true;
}

int job_end(int code)
{
    if (!job.begun)
        return code;
    job.begun = false;
    interrupt_is_silent(); /* a launcher stops the others of a job that has failed, which has been said */
    if (job.saves)
        interrupt_waits(); /* the others may still save */
    /*
     * What fails before the run is agreed on, and all end by themselves. Later, others may be left waiting, for a rank
     * that does not listen any more. Most often all have failed and come here, their files closed and removed: that is
     * waited for, but not for long; unless they are saving what they have done.
     */
    bool abort = code != EXIT_OK && job.connected;
    int worst = code, speaker = job.rank;
    double patience = job.saves && code >= EXIT_STOPPED ? job.timeout : ABORT_SECONDS;
    bool all = abort && gather(code, patience, &worst, &speaker);
    report_release(!all || speaker == job.rank);
    if (abort) {
        fflush(NULL);
        if (all) /* until it has been said */
            gather(code, ABORT_SECONDS, &worst, &speaker);
        /* A launcher may lose what is still in the pipe of a process that aborts. */
        const struct timespec nap = {0, 200000000};
        nanosleep(&nap, NULL);
        MPI_Abort(MPI_COMM_WORLD, worst);
    }
    MPI_Finalize();
    return code;
}
