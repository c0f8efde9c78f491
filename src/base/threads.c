#include "base/threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
