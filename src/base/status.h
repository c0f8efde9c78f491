/* SPDX-License-Identifier: Apache-2.0 */
/* Version, status and the calling thread's message. Whoever decides an error sets its message; callers only forward it.
 */
#ifndef RA_BASE_STATUS_H
#define RA_BASE_STATUS_H

#include "ringattn/ringattn.h"

#include <stdarg.h>

/* Set the calling thread's message (printf style, with the offending values) and return `status`. */
ra_status ra_fail(ra_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
ra_status ra_fail_va(ra_status status, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));

#endif
