/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled with one MPI and linked to the library for another, past the header that refuses it: the library must say so
 * before it hands a handle to an MPI that does not understand it.
 */
#include <mpi.h>
#include <stdio.h>

int ra_comm_mpi(MPI_Comm mpi, void **comm);
int ra_mpi_check_launcher(void);
const char *ra_last_message(void);

int main(int argc, char **argv)
{
    void *comm;
    printf("%d\n", ra_mpi_check_launcher());
    MPI_Init(&argc, &argv);
    printf("%d\n", ra_comm_mpi(MPI_COMM_WORLD, &comm));
    puts(ra_last_message());
    MPI_Finalize();
    return 0;
}
