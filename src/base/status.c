/* SPDX-License-Identifier: Apache-2.0 */
/* The version, the names of statuses and the message of the calling thread. See status.h. */
#include "base/status.h"

#include <stdio.h>

/* Long enough for two paths and a sentence; anything longer is cut, never overrun. */
enum { MESSAGE_BYTES = 1024 };

static _Thread_local char message[MESSAGE_BYTES] = "no error";

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *ra_version(void)
{
    return VERSION_TEXT(RA_VERSION_MAJOR, RA_VERSION_MINOR, RA_VERSION_PATCH);
}

ra_status ra_fail_va(ra_status status, const char *format, va_list arguments)
{
    vsnprintf(message, sizeof message, format ? format : "no message", arguments);
    return status;
}

ra_status ra_fail(ra_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    ra_fail_va(status, format, arguments);
    va_end(arguments);
    return status;
}

const char *ra_last_message(void)
{
    return message;
}

const char *ra_status_name(ra_status status)
{
    switch (status) {
    case RA_OK: return "ok";
    case RA_ERROR_ARGUMENT: return "argument";
    case RA_ERROR_UNSUPPORTED: return "unsupported";
    case RA_ERROR_MEMORY: return "memory";
    case RA_ERROR_FILE: return "file";
    case RA_ERROR_FORMAT: return "format";
    case RA_ERROR_CANCELLED: return "cancelled";
    case RA_ERROR_INTERNAL: return "internal";
    case RA_ERROR_TIMEOUT: return "timeout";
    case RA_ERROR_PEER: return "peer";
    case RA_ERROR_BUDGET: return "budget";
    }
    return "unknown";
}
