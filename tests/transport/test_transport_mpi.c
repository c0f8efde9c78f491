/* SPDX-License-Identifier: Apache-2.0 */
/* The scenarios over MPI, on as many processes as it was started with. Prints what fails; rank 0 prints the count. */
#include "ringattn/mpi.h"
#include "transport/comm.h"
#include "transport/scenario.h"

#include <stdio.h>

/* The harness's own messages, on the world's communicator. A blocking send to oneself need not return: that is counted.
 */
enum { TOLD = 1 };
static int told_by_myself;

static void tell_process(peer *me, int to)
{
    if (to == me->transport.rank)
        told_by_myself++;
    else
        MPI_Send(NULL, 0, MPI_BYTE, to, TOLD, MPI_COMM_WORLD);
}

static bool is_process_told(peer *me)
{
    (void)me;
    int there = 0;
    MPI_Status status;
    if (told_by_myself) {
        told_by_myself--;
        return true;
    }
    MPI_Iprobe(MPI_ANY_SOURCE, TOLD, MPI_COMM_WORLD, &there, &status);
    if (there)
        MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, TOLD, MPI_COMM_WORLD, &status);
    return there;
}

/* Messages of a scenario that has failed are not the next one's. */
static void forget_told(peer *me)
{
    MPI_Barrier(MPI_COMM_WORLD);
    while (is_process_told(me))
        continue;
    MPI_Barrier(MPI_COMM_WORLD);
}

static bool play_process(const scenario *s)
{
    static const harness harness = {tell_process, is_process_told};
    peer me = {.scenario = s, .harness = &harness};
    ra_comm *comm;
    if (ra_comm_mpi(MPI_COMM_WORLD, &comm)) {
        printf("%s: %s\n", s->name, ra_last_message());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    me.transport = comm->transport;
    me.open = true;
    comm->simulated = true; /* the peer closes the transport: only the shell is freed */
    ra_comm_free(comm);
    int good = play(&me), all = 0;
    if (!good)
        printf("%s\n", me.failure);
    free_memory(&me, s->real);
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    forget_told(&me);
    return all;
}

int main(int argc, char **argv)
{
    int provided, rank, ranks, bad = 0, played = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    if (ra_mpi_check_launcher()) {
        printf("%s\n", ra_last_message());
        MPI_Finalize();
        return 2;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < scenario_count; i++) {
        if (ranks < scenarios[i].ranks)
            continue;
        double begin = MPI_Wtime();
        bool good = play_process(&scenarios[i]);
        played++;
        bad += !good;
        if (rank == 0)
            printf("%-40s %s %.2f s\n", scenarios[i].name, good ? "ok" : "FAILED", MPI_Wtime() - begin);
    }
    if (rank == 0)
        printf("%d processes: %d scenarios, %d failed\n", ranks, played, bad);
    MPI_Finalize();
    return bad > 0;
}
