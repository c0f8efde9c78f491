/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many threads can be had. An OpenMP runtime that cannot start one ends the process. In the child of a fork it
 * waits for ever for the threads of the parent, whoever used it there: such a process works with one thread.
 */
#ifndef RA_BASE_THREADS_H
#define RA_BASE_THREADS_H

#include "base/status.h"

#include <stdbool.h>

/*
 * RA_OK when the calling thread can have `threads` threads, itself included, at the same time. Tried for real, but only
 * when it has not had as many before.
 */
ra_status ra_threads_try(int threads);

/* Whether this process is the child of a fork that has not called exec. */
bool ra_threads_forked(void);

/* RA_OK unless more than one thread was asked for in the child of a fork. */
ra_status ra_threads_check(int asked);

/* `threads`, or 1 in the child of a fork. */
int ra_threads_most(int threads);

#endif
