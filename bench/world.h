/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of `ringattn bench ring`. The first one leads: it measures, and tells the others what to take part in;
 * between orders those sleep, so that it has all cores to itself. There are two of these: world_mpi.c, and
 * world_alone.c for a build without MPI.
 */
#ifndef BENCH_WORLD_H
#define BENCH_WORLD_H

#include <ringattn/ringattn.h>

/* Find the other processes. 0; on failure an exit code, with a message: nothing else must follow. */
int world_begin(void);

int world_rank(void);
int world_size(void);

/* A communicator over all of them, the caller's. */
ra_status world_comm(ra_comm **comm);

/* The leader's number reaches all others, which sleep until it does; returns it. */
int world_order(int order);

/* The largest and the sum of what all processes have. */
double world_max(double mine);
double world_sum(double mine);

/* All processes come here together; one that has failed ends the others and does not return. */
void world_end(int code);

#endif
