/* SPDX-License-Identifier: Apache-2.0 */
/* The world of a build without MPI: one process. With MPI it is world_mpi.c. See world.h. */
#include "world.h"

#include <stdio.h>

int world_begin(void)
{
    fprintf(stderr, "ringattn bench: this ringattn was built without MPI\n");
    return 2;
}

int world_rank(void)
{
    return 0;
}

int world_size(void)
{
    return 1;
}

ra_status world_comm(ra_comm **comm)
{
    *comm = NULL;
    return RA_ERROR_UNSUPPORTED;
}

int world_order(int order)
{
    return order;
}

double world_max(double mine)
{
    return mine;
}

double world_sum(double mine)
{
    return mine;
}

void world_end(int code)
{
    (void)code;
}
