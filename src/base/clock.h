/* SPDX-License-Identifier: Apache-2.0 */
/* The one clock of the library: monotonic, so that waiting times and deadlines ignore changes of the date. */
#ifndef RA_BASE_CLOCK_H
#define RA_BASE_CLOCK_H

#include <stdint.h>

/* Time since some fixed moment. */
double ra_seconds(void);
int64_t ra_nanoseconds(void);

#endif
