/* Whether the mpirun that started this program belongs to the MPI it was built with. */
#include "ringattn/mpi.h"
#include "ringattn/transport.h"

#include <stdlib.h>
#include <string.h>

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
