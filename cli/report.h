/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on standard error, and the exit codes that go with them. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <ringattn/ringattn.h>

enum {
    EXIT_OK = 0,
    EXIT_WORK = 1,     /* the work failed */
    EXIT_USAGE = 2,    /* wrong usage or bad input: nothing was begun */
    EXIT_STOPPED = 128 /* and the number of the signal; 0: another process had it */
};

/* The verb that messages begin with; "" until a verb is known. */
void report_verb(const char *verb);
const char *report_current_verb(void);

/* "ringattn VERB: message"; returns `code`, so that a caller can return what it reports. */
int report(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* From now on messages are kept, not written; what several processes would all say is said by one. */
void report_hold(void);

/* Writes what was kept, or forgets it, and keeps no more. */
void report_release(int write);

/* The library's last message, from a call that had not begun the work yet. */
int report_refusal(void);

/* The library's last message, from a call that does the work: bad input is still EXIT_USAGE, a stop is the signal's. */
int report_failure(ra_status status);

#endif
