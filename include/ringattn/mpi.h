/*
 * mpi.h - a communicator for libringattn over MPI. In a library of its own, libringattn_mpi, so that programs without
 * MPI never link it.
 *
 *     MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
 *     ra_comm *comm;
 *     if (ra_comm_mpi(MPI_COMM_WORLD, &comm)) ...
 *     ... ra_ring_forward(plan, comm, ...) from the thread that initialised MPI ...
 *     ra_comm_free(comm);
 *     MPI_Finalize();
 */
#ifndef RINGATTN_MPI_H
#define RINGATTN_MPI_H

#include <mpi.h>
#include <ringattn/ringattn.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * All ranks of `mpi` call it together; `mpi` is duplicated, so messages of the program's own never meet ours. MPI must
 * be initialised, with MPI_THREAD_FUNNELED or more if a rank works with several threads. All ranks call ra_comm_free
 * together, too; it waits for the others for a few seconds. If they do not come, or after a run that has failed, it
 * leaves the duplicates to MPI_Abort or to the end of the process: a silent rank cannot take part in freeing them.
 */
RA_API ra_status ra_comm_mpi(MPI_Comm mpi, ra_comm **comm);

/*
 * A program built for one MPI and started by another's mpirun sees itself alone, as often as it was started. Compares
 * the size that the launcher says (in its environment variables) with the size of MPI_COMM_WORLD; a difference is
 * RA_ERROR_UNSUPPORTED with a message that says what to do. Call it after MPI_Init.
 */
RA_API ra_status ra_mpi_check_launcher(void);

#ifdef __cplusplus
}
#endif

#endif
