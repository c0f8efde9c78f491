/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks over MPI; without MPI (LM_HAVE_MPI is not defined) there is one. */
#include "world.h"

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARCEL = 1 << 16 }; /* numbers of a sum that are in flight on a rank */

double lm_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#ifdef LM_HAVE_MPI
#include <ringattn/mpi.h>

int lm_world_open(lm_world *world, int *argc, char ***argv)
{
    int provided;
    *world = (lm_world){0};
    setenv("OMPI_MCA_btl_tcp_flags", "1", 0); /* both directions of a link at once: docs/RING.md, "MPI" */
    if (ra_mpi_check_launcher() || MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) ||
        ra_mpi_check_launcher()) {
        fprintf(stderr, "lm: %s\n", ra_last_message());
        return 2;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world->ranks);
    world->parcels = lm_take((int64_t)2 * (PARCEL + world->ranks), sizeof(double));
    if (!world->parcels || (world->ranks > 1 && ra_comm_mpi(MPI_COMM_WORLD, &world->comm))) {
        fprintf(stderr, "lm: %s\n", world->parcels ? ra_last_message() : "no memory");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return 0;
}

void lm_world_close(lm_world *world)
{
    ra_comm_free(world->comm);
    lm_give(world->parcels);
    MPI_Finalize();
}

void lm_world_abort(const lm_world *world, int code)
{
    (void)world;
    MPI_Abort(MPI_COMM_WORLD, code);
    exit(code);
}

/* Each rank sums its share of a parcel in the order of ranks, and hands it to the others. */
int64_t lm_world_sum(const lm_world *world, double *values, int64_t count)
{
    int ranks = world->ranks, share = (PARCEL + ranks - 1) / ranks;
    int64_t parcel = (int64_t)share * ranks, sent = 0;
    double *out = world->parcels, *in = out + parcel;
    for (int64_t first = 0; first < count && ranks > 1; first += parcel) {
        int64_t here = count - first < parcel ? count - first : parcel;
        memset(out, 0, (size_t)parcel * sizeof(double));
        memcpy(out, values + first, (size_t)here * sizeof(double));
        MPI_Alltoall(out, share, MPI_DOUBLE, in, share, MPI_DOUBLE, MPI_COMM_WORLD);
        for (int i = 0; i < share; i++) {
            out[i] = in[i];
            for (int rank = 1; rank < ranks; rank++)
                out[i] += in[(int64_t)rank * share + i];
        }
        MPI_Allgather(out, share, MPI_DOUBLE, in, share, MPI_DOUBLE, MPI_COMM_WORLD);
        memcpy(values + first, in, (size_t)here * sizeof(double));
        sent += (int64_t)2 * (ranks - 1) * share * (int64_t)sizeof(double);
    }
    return sent;
}

int64_t lm_world_sum_integer(const lm_world *world, int64_t value)
{
    int64_t sum = value;
    if (world->ranks > 1)
        MPI_Allreduce(&value, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

void lm_world_gather(const lm_world *world, const void *mine, int bytes, void *all)
{
    if (world->ranks > 1)
        MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, MPI_COMM_WORLD);
    else
        memcpy(all, mine, (size_t)bytes);
}

void lm_world_share(const lm_world *world, void *values, int bytes)
{
    if (world->ranks > 1)
        MPI_Bcast(values, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

#else

int lm_world_open(lm_world *world, int *argc, char ***argv)
{
    (void)argc, (void)argv;
    *world = (lm_world){.ranks = 1};
    return 0;
}

void lm_world_close(lm_world *world)
{
    (void)world;
}

void lm_world_abort(const lm_world *world, int code)
{
    (void)world;
    exit(code);
}

int64_t lm_world_sum(const lm_world *world, double *values, int64_t count)
{
    (void)world, (void)values, (void)count;
    return 0;
}

int64_t lm_world_sum_integer(const lm_world *world, int64_t value)
{
    (void)world;
    return value;
}

void lm_world_gather(const lm_world *world, const void *mine, int bytes, void *all)
{
    (void)world;
    memcpy(all, mine, (size_t)bytes);
}

void lm_world_share(const lm_world *world, void *values, int bytes)
{
    (void)world, (void)values, (void)bytes;
}
#endif
