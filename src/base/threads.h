/* Whether threads can be had: an OpenMP runtime that cannot start one ends the process. */
#ifndef RA_BASE_THREADS_H
#define RA_BASE_THREADS_H

#include "base/status.h"

/*
 * RA_OK when the calling thread can have `threads` threads, itself included, at the same time. Tried for real, but only
 * when it has not had as many before.
 */
ra_status ra_threads_try(int threads);

#endif
