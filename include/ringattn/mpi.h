/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi.h - a communicator for libringattn over MPI. In a library of its own for each MPI, libringattn_openmpi and
 * libringattn_mpich, so that programs without MPI never link one. Both may be installed; a program needs the one for
 * the MPI that it is compiled with (pkg-config ringattn_openmpi, find_package(ringattn_openmpi), or the same with
 * mpich).
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

/*
 * MPIs differ in the types and values of their handles, so that a program compiled with one and linked to the library
 * of another would crash. RA_FOR_OPENMPI and RA_FOR_MPICH come from pkg-config and CMake and say which library is
 * linked; without them, one for the program's MPI must be installed beside this header.
 */
#if defined(RA_FOR_OPENMPI) && !defined(OPEN_MPI)
#if defined(MPICH_VERSION)
#error "ringattn: compiled with MPICH, but libringattn_openmpi is for Open MPI: use mpicc.openmpi, or ringattn_mpich"
#else
#error "ringattn: compiled with another MPI, but libringattn_openmpi is for Open MPI: use mpicc.openmpi"
#endif
#elif defined(RA_FOR_MPICH) && !defined(MPICH_VERSION)
#if defined(OPEN_MPI)
#error "ringattn: compiled with Open MPI, but libringattn_mpich is for MPICH: use mpicc.mpich, or ringattn_openmpi"
#else
#error "ringattn: compiled with another MPI, but libringattn_mpich is for MPICH: use mpicc.mpich"
#endif
#elif !defined(RA_FOR_OPENMPI) && !defined(RA_FOR_MPICH) && defined(__has_include)
#if defined(OPEN_MPI) && __has_include("mpi_mpich.h") && !__has_include("mpi_openmpi.h")
#error "ringattn: compiled with Open MPI, but only libringattn_mpich, for MPICH, is installed here: use mpicc.mpich"
#elif defined(MPICH_VERSION) && __has_include("mpi_openmpi.h") && !__has_include("mpi_mpich.h")
#error "ringattn: compiled with MPICH, but only libringattn_openmpi, for Open MPI, is installed here: use mpicc.openmpi"
#endif
#endif

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
 * Whether this program runs with its own MPI; if not, RA_ERROR_UNSUPPORTED with a message that says what to do. Call it
 * before MPI_Init, and again after.
 *
 * Before and after: the MPI that was loaded is the one that the library was built for.
 *
 * After: a program built for one MPI and started by another's mpirun sees itself alone, as often as it was started. So
 * the size that the launcher says (in its environment variables) is compared with the size of MPI_COMM_WORLD.
 */
RA_API ra_status ra_mpi_check_launcher(void);

#ifdef __cplusplus
}
#endif

#endif
