#include "report.h"

#include "interrupt.h"

#include <stdarg.h>
#include <stdio.h>

static const char *current_verb = "";

void report_verb(const char *verb)
{
    current_verb = verb;
}

int report(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "ringattn%s%s: ", *current_verb ? " " : "", current_verb);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return code;
}

int report_refusal(void)
{
    return report(EXIT_USAGE, "%s", ra_last_message());
}

int report_failure(ra_status status)
{
    if (status == RA_ERROR_CANCELLED)
        return interrupt_exit();
    return report(status == RA_ERROR_FILE || status == RA_ERROR_INTERNAL ? EXIT_WORK : EXIT_USAGE, "%s",
                  ra_last_message());
}
