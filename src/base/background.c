/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that waits for one job at a time. See background.h. */
#include "base/background.h"

#include "base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct ra_background {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    ra_background_work work; /* NULL: none */
    void *user;
    bool ending;
    ra_status status; /* of what was done last */
    char message[1024];
};

static void *run(void *argument)
{
    ra_background *b = argument;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (!b->work && !b->ending)
            pthread_cond_wait(&b->changed, &b->lock);
        if (!b->work)
            break;
        ra_background_work work = b->work;
        pthread_mutex_unlock(&b->lock);
        ra_status status = work(b->user);
        pthread_mutex_lock(&b->lock);
        b->status = status;
        snprintf(b->message, sizeof b->message, "%s", status ? ra_last_message() : "");
        b->work = NULL;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

ra_status ra_background_open(ra_background **background)
{
    ra_background *b = *background = calloc(1, sizeof *b);
    if (!b)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: a thread in the background");
    pthread_condattr_t clock;
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC); /* as ra_nanoseconds */
    pthread_cond_init(&b->changed, &clock);
    pthread_condattr_destroy(&clock);
    int error = pthread_create(&b->thread, NULL, run, b);
    if (!error)
        return RA_OK;
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b);
    *background = NULL;
    return ra_fail(RA_ERROR_MEMORY, "no thread for reading ahead: %s", strerror(error));
}

void ra_background_start(ra_background *b, ra_background_work work, void *user)
{
    pthread_mutex_lock(&b->lock);
    assert(!b->work);
    b->work = work;
    b->user = user;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

bool ra_background_ends_within(ra_background *b, double seconds)
{
    const int64_t second = 1000000000, at = ra_nanoseconds() + (int64_t)(1e9 * seconds);
    const struct timespec end = {(time_t)(at / second), (long)(at % second)};
    pthread_mutex_lock(&b->lock);
    while (b->work && pthread_cond_timedwait(&b->changed, &b->lock, &end) == 0) {
    }
    bool ended = !b->work;
    pthread_mutex_unlock(&b->lock);
    return ended;
}

ra_status ra_background_wait(ra_background *b)
{
    pthread_mutex_lock(&b->lock);
    while (b->work)
        pthread_cond_wait(&b->changed, &b->lock);
    ra_status status = b->status;
    if (status)
        ra_fail(status, "%s", b->message);
    b->status = RA_OK;
    pthread_mutex_unlock(&b->lock);
    return status;
}

void ra_background_close(ra_background *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->ending = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
