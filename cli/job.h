/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that work on one command together: this one alone, or all that an mpirun has started. There are two
 * of these: job_mpi.c, and job_alone.c for a build without MPI.
 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include <ringattn/ringattn.h>

/* The MPI that is built in, with its version; NULL: none. */
const char *job_mpi_name(void);

/* Find the other processes. Returns an exit code and reports; EXIT_OK: job_end must follow. */
int job_begin(double timeout);

/* This process's number, how many there are, and how many of them are on this machine. Alone: 0, 1, 1. */
int job_rank(void);
int job_size(void);
int job_size_here(void);

/* A communicator over all of them, the caller's. */
ra_status job_comm(ra_comm **comm);

/*
 * All processes come here with a code; all go on with the largest. Messages are held (report_hold) in between: of those
 * that failed, only the first process speaks. A process that does not come within the timeout ends the job.
 */
int job_agree(int code);

/* words[i] becomes the sum of every process's words[i], modulo 2^64, in all of them. All come here, as to job_agree. */
void job_add(uint64_t *words, int64_t count);

/* From now on processes save what they have done when they are stopped, and give each other the timeout for it. */
void job_saves(void);

/* The end of a job, `code` being this process's; one that failed in mid-run ends the others too, and does not return.
 */
int job_end(int code);

#endif
