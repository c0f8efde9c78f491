/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many words a rank sends out of turn while ranks compute and while they wait: a number that must not grow with the
 * number of ranks. MPI's sends are counted on their way into MPI.
 *
 *     mpirun -n 32 test_life_mpi 5      five seconds for each of the situations; rank 0 prints words a second
 */
#include "ringattn/mpi.h"
#include "transport/comm.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LIFE_SECONDS 0.1 /* between two signs of life */

static long long sent;

int MPI_Isend(const void *at, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    sent++;
    return PMPI_Isend(at, count, type, to, tag, comm, request);
}

int MPI_Issend(const void *at, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    sent++;
    return PMPI_Issend(at, count, type, to, tag, comm, request);
}

/* ---- Situations ---------------------------------------------------------------------------------------------------
 */

static bool waits_for_nobody(int rank, int other, int ranks)
{
    (void)rank, (void)other, (void)ranks;
    return false;
}

static bool waits_for_the_one_before(int rank, int other, int ranks)
{
    return (other + 1) % ranks == rank;
}

static bool waits_for_the_first(int rank, int other, int ranks)
{
    (void)rank, (void)ranks;
    return other == 0;
}

static bool waits_for_all(int rank, int other, int ranks)
{
    (void)rank, (void)other, (void)ranks;
    return true;
}

typedef struct situation {
    const char *name;
    bool (*waits)(int rank, int other, int ranks);
    int words; /* at most, in the time between two signs of life: a sign, a question, an answer */
} situation;

static const situation situations[] = {{"nobody waits", waits_for_nobody, 1},
                                       {"each waits for the rank before it", waits_for_the_one_before, 3},
                                       {"all wait for rank 0", waits_for_the_first, 3},
                                       {"all wait for all", waits_for_all, 3}};
enum { SITUATIONS = sizeof situations / sizeof *situations };

static bool poll_until(ra_transport *t, double end, bool finish)
{
    ra_transport_state found = {.unfinished = 1};
    while (finish ? found.unfinished > 0 : MPI_Wtime() < end) {
        if (t->progress(t->state, &found)) {
            printf("rank %d: %s\n", t->rank, ra_last_message());
            return false;
        }
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return true;
}

static bool start_messages(ra_transport *t, const situation *s, bool receive)
{
    bool good = true;
    for (int other = 0; other < t->ranks && good; other++) {
        if (other == t->rank)
            continue;
        if (receive && s->waits(t->rank, other, t->ranks))
            good = !t->receive(t->state, other, 0, NULL, 0);
        if (!receive && s->waits(other, t->rank, t->ranks))
            good = !t->send(t->state, other, 0, NULL, 0);
    }
    return good;
}

/* Words of this rank while all wait, and its seconds from before the first to after the last that any rank sends. */
static bool count_words(ra_transport *t, const situation *s, double seconds, long long *words, double *took)
{
    double start = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    long long before = sent;
    bool good = start_messages(t, s, true) && poll_until(t, MPI_Wtime() + seconds, false);
    *words = sent - before;
    MPI_Barrier(MPI_COMM_WORLD);
    *took = MPI_Wtime() - start;
    good = good && start_messages(t, s, false) && poll_until(t, 0, true);
    MPI_Barrier(MPI_COMM_WORLD);
    return good;
}

/* Every rank may be asked once more than its share by each of the others. */
static bool judge(const ra_transport *t, const situation *s, long long words, double took)
{
    double most = s->words * (took / LIFE_SECONDS + 1) + (s->words > 1 ? t->ranks : 0);
    bool good = (double)words <= most;
    if (!good)
        printf("rank %d: %s: %lld words in %.2f s, expected at most %.0f\n", t->rank, s->name, words, took, most);
    return good;
}

static void print_rates(const ra_transport *t, const situation *s, double rate)
{
    double least = 0, most = 0, sum = 0;
    MPI_Reduce(&rate, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&rate, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&rate, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (t->rank == 0)
        printf("%d ranks, %-34s words a second a rank: least %5.1f, mean %5.1f, most %5.1f\n", t->ranks, s->name, least,
               sum / t->ranks, most);
}

int main(int argc, char **argv)
{
    int provided, good = 1, all = 0;
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    ra_comm *comm;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    if (ra_comm_mpi(MPI_COMM_WORLD, &comm)) {
        printf("%s\n", ra_last_message());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    ra_transport *t = &comm->transport;
    for (int i = 0; i < SITUATIONS; i++) {
        long long words;
        double took;
        if (!count_words(t, &situations[i], seconds, &words, &took))
            MPI_Abort(MPI_COMM_WORLD, 1);
        good = judge(t, &situations[i], words, took) && good;
        print_rates(t, &situations[i], (double)words / seconds);
    }
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    ra_comm_free(comm);
    MPI_Finalize();
    return !all;
}
