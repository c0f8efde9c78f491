/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the MPI that was loaded is the one that this library was built for, and that the mpirun that started this
 * program belongs to it.
 */
#include "mpi_rank.h"

#include <stdlib.h>
#include <string.h>

/* MPICH's length, the longest: the MPI that answers may not be the one whose header was compiled. */
enum { VERSION_ROOM = 8192 + 1 };

/* "Open MPI v4.1.4", "MPICH Version: 4.0.2": the beginning of the library's own version text. */
static void name_library(char name[VERSION_ROOM])
{
    int length = 0;
    MPI_Get_library_version(name, &length);
    name[strcspn(name, ",\r\n")] = '\0';
    for (char *c = name; (c = strchr(c, '\t'));)
        *c = ' ';
}

/* MPICH's relatives have names and versions of their own and understand its handles; Open MPI has none. */
ra_status ra_mpi_check_library(void)
{
#if defined(OPEN_MPI)
    const char *built_for = "Open MPI";
    const bool open_mpi = true;
#else
    const char *built_for = "MPICH";
    const bool open_mpi = false;
#endif
    char name[VERSION_ROOM] = "";
    name_library(name);
    if ((strncmp(name, "Open MPI", strlen("Open MPI")) == 0) == open_mpi)
        return RA_OK;
    return ra_transport_fail(RA_ERROR_UNSUPPORTED,
                             "this program runs with %s, but its ringattn library was built for %s: link "
                             "libringattn_%s instead",
                             name, built_for, open_mpi ? "mpich" : "openmpi");
}

ra_status ra_mpi_check_launcher(void)
{
    /* Open MPI's mpirun; hydra, and others that speak PMI. Launchers may be nested: one that agrees is enough. */
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    int size = 0, ready = 0, finalized = 0;
    long said = 0;
    ra_status status = ra_mpi_check_library();
    if (status)
        return status;
    MPI_Initialized(&ready);
    MPI_Finalized(&finalized);
    if (!ready || finalized)
        return RA_OK;
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
        char name[VERSION_ROOM] = "";
        name_library(name);
        status =
            ra_transport_fail(RA_ERROR_UNSUPPORTED,
                              "mpirun started %ld processes, but this program's MPI (%s) sees %d: it was built for "
                              "another MPI than the mpirun that started it; use that MPI's mpirun, or rebuild",
                              said, name, size);
    }
    return status;
}
