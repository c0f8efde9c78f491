/* SPDX-License-Identifier: Apache-2.0 */
/* Chromium without a window, told what to do over a pipe (the DevTools protocol: JSON with zero bytes between). */
#ifndef TESTS_BROWSER_H
#define TESTS_BROWSER_H

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct browser {
    pid_t process;
    FILE *to, *from;
    char session[64]; /* of its one page */
    int calls;
    json_t *events; /* what it has reported so far */
} browser;

/* Ends the test with a message where something goes wrong. `profile`: an empty folder for it. */
void browser_start(browser *b, const char *program, const char *profile);

/* A method with its parameters, which are taken; returns the result, which the caller gives back. */
json_t *browser_call(browser *b, const char *method, json_t *parameters);

/* Waits until an event of that name has come since the last browser_forget. */
void browser_wait(browser *b, const char *event);

/* Drops the events. */
void browser_forget(browser *b);

void browser_stop(browser *b);

#endif
