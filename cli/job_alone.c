/* SPDX-License-Identifier: Apache-2.0 */
/* A build without MPI. */
#include "job.h"

#include "report.h"

const char *job_mpi_name(void)
{
    return NULL;
}

int job_begin(double timeout)
{
    (void)timeout;
    return report(EXIT_USAGE,
                  "--transport mpi: this ringattn was built without MPI: install Open MPI or MPICH with its "
                  "development files and build again, or take --transport sim or threads");
}

int job_rank(void)
{
    return 0;
}

int job_size(void)
{
    return 1;
}

int job_size_here(void)
{
    return 1;
}

ra_status job_comm(ra_comm **comm)
{
    *comm = NULL;
    return RA_ERROR_UNSUPPORTED;
}

int job_agree(int code)
{
    return code;
}

void job_add(uint64_t *words, int64_t count)
{
    (void)words;
    (void)count;
}

void job_saves(void)
{
}

int job_end(int code)
{
    return code;
}
