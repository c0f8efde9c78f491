/* SPDX-License-Identifier: Apache-2.0 */
/* One thread in the background that does one piece of work at a time, such as reading what is needed next. */
#ifndef RA_BASE_BACKGROUND_H
#define RA_BASE_BACKGROUND_H

#include "base/status.h"

#include <stdbool.h>

typedef struct ra_background ra_background;

/* Work that returns a status, and sets its thread's message when it fails. */
typedef ra_status (*ra_background_work)(void *user);

ra_status ra_background_open(ra_background **background);

/* Begin; what was begun before has been waited for. */
void ra_background_start(ra_background *background, ra_background_work work, void *user);

/* Wait for so long at most; true: it is done, or nothing was begun. */
bool ra_background_ends_within(ra_background *background, double seconds);

/* Until it is done: its status, with its message now the calling thread's. RA_OK at once if nothing was begun. */
ra_status ra_background_wait(ra_background *background);

/* Waits, and ends the thread. NULL is nothing. */
void ra_background_close(ra_background *background);

#endif
