/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on standard error with the verb in front, and the exit code of a status. See report.h. */
#include "report.h"

#include "interrupt.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *current_verb = "";
static int holding;
static char held[1024];

void report_verb(const char *verb)
{
    current_verb = verb;
}

const char *report_current_verb(void)
{
    return current_verb;
}

int report(int code, const char *format, ...)
{
    char text[sizeof held];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (holding)
        memcpy(held, text, sizeof held);
    else
        fprintf(stderr, "ringattn%s%s: %s\n", *current_verb ? " " : "", current_verb, text);
    return code;
}

void report_hold(void)
{
    holding = 1;
    held[0] = 0;
}

void report_release(int write)
{
    holding = 0;
    if (write && held[0])
        report(0, "%s", held);
    held[0] = 0;
}

int report_refusal(void)
{
    return report(EXIT_USAGE, "%s", ra_last_message());
}

int report_failure(ra_status status)
{
    if (status == RA_ERROR_CANCELLED)
        return interrupt_exit();
    bool work =
        status == RA_ERROR_FILE || status == RA_ERROR_INTERNAL || status == RA_ERROR_TIMEOUT || status == RA_ERROR_PEER;
    return report(work ? EXIT_WORK : EXIT_USAGE, "%s", ra_last_message());
}
