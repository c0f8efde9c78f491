/* SPDX-License-Identifier: Apache-2.0 */
/* Tries threads before OpenMP does, and finds out whether this process is the child of a fork. */
#include "base/threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* What the calling thread's runtime has started before, and keeps. */
static _Thread_local int had = 1;

/* Waits until all have been started. */
static void *wait_for_all(void *all_started)
{
    pthread_mutex_lock(all_started);
    pthread_mutex_unlock(all_started);
    return NULL;
}

ra_status ra_threads_try(int threads)
{
    threads = ra_threads_most(threads);
    if (threads <= had)
        return RA_OK;
    pthread_t *started = malloc((size_t)threads * sizeof *started);
    if (!started)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %d threads", threads);
    pthread_mutex_t all_started = PTHREAD_MUTEX_INITIALIZER;
    int count = 0, error = 0;
    pthread_mutex_lock(&all_started);
    while (count < threads - 1 && !(error = pthread_create(&started[count], NULL, wait_for_all, &all_started)))
        count++;
    pthread_mutex_unlock(&all_started);
    for (int i = 0; i < count; i++)
        pthread_join(started[i], NULL);
    free(started);
    if (error)
        return ra_fail(RA_ERROR_MEMORY, "threads %d: the system gives no more than %d: %s", threads, count + 1,
                       strerror(error));
    had = threads;
    return RA_OK;
}

/* ---- After a fork ------------------------------------------------------------------------------------------------ */

/*
 * Whether the kernel says that this process was forked and has not called exec: the bit PF_FORKNOEXEC among the flags
 * of its main thread. They are the seventh figure after the name of the program, which stands in parentheses.
 */
static bool forked_by_kernel(void)
{
    enum { FORKED = 0x40 };
    char text[512];
    unsigned long flags = 0;
    FILE *stat = fopen("/proc/self/stat", "r");
    size_t length = stat ? fread(text, 1, sizeof text - 1, stat) : 0;
    if (stat)
        fclose(stat);
    text[length] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 && (flags & FORKED);
}

static pid_t loaded_by;  /* the process that loaded this library */
static bool loaded_late; /* it was a child already: its parent may have used OpenMP before the library came */

__attribute__((constructor)) static void remember_process(void)
{
    loaded_by = getpid();
    loaded_late = forked_by_kernel();
}

bool ra_threads_forked(void)
{
    return loaded_late || getpid() != loaded_by;
}

ra_status ra_threads_check(int asked)
{
    if (asked <= 1 || !ra_threads_forked())
        return RA_OK;
    return ra_fail(
        RA_ERROR_UNSUPPORTED,
        "threads %d: this process is the child of a fork(), which OpenMP does not survive: ask for 1 or 0, or "
        "call exec() first",
        asked);
}

int ra_threads_most(int threads)
{
    return threads > 1 && ra_threads_forked() ? 1 : threads;
}
