/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of an mpirun, as the suites see them. Without MPI it is world_alone.c. See world.h. */
#include "world.h"

#include <ringattn/mpi.h>
#include <stdio.h>
#include <time.h>

static int rank, size = 1;

int world_begin(void)
{
    int provided;
    if (ra_mpi_check_launcher()) {
        fprintf(stderr, "ringattn bench: %s\n", ra_last_message());
        return 2;
    }
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
        fprintf(stderr, "ringattn bench: MPI cannot be initialised\n");
        return 1;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int code = 0;
    if (ra_mpi_check_launcher()) {
        fprintf(stderr, "ringattn bench: %s\n", ra_last_message());
        code = 2;
    } else if (provided < MPI_THREAD_FUNNELED) {
        fprintf(stderr, "ringattn bench: this MPI does not go together with threads (MPI_THREAD_FUNNELED)\n");
        code = 2;
    }
    if (code)
        MPI_Finalize();
    return code;
}

int world_rank(void)
{
    return rank;
}

int world_size(void)
{
    return size;
}

ra_status world_comm(ra_comm **comm)
{
    return ra_comm_mpi(MPI_COMM_WORLD, comm);
}

/* MPI's own waiting keeps a core busy; this looks in 500 times a second. MPI_Wait then has nothing to wait for. */
static void sleep_until(MPI_Request *request)
{
    const struct timespec nap = {0, 2000000};
    for (int done = 0; MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done;)
        nanosleep(&nap, NULL);
}

int world_order(int order)
{
    MPI_Request request;
    MPI_Ibcast(&order, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
    sleep_until(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return order;
}

static double reduce(double mine, MPI_Op op)
{
    double all = mine;
    MPI_Request request;
    MPI_Iallreduce(&mine, &all, 1, MPI_DOUBLE, op, MPI_COMM_WORLD, &request);
    sleep_until(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return all;
}

double world_max(double mine)
{
    return reduce(mine, MPI_MAX);
}

double world_sum(double mine)
{
    return reduce(mine, MPI_SUM);
}

void world_end(int code)
{
    fflush(NULL);
    if (code)
        MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
}
