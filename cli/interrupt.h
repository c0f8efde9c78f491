/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C and its like ask a command to stop. Work that looks for it (`interrupted`) removes what it has begun and ends
 * in order. Work that does not, such as planning or reading from a slow disk, is ended by the signal itself, within a
 * second, after the files that were begun have been removed. Work that can be saved is left alone while it looks for
 * the signal and while it saves. A second signal ends the process at once.
 */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_install(void);

/* For work that leaves nothing behind: signals end it at once, as if nothing had been installed. */
void interrupt_release(void);

/* True once a signal has asked to stop. Whoever asks must then come to an end soon. */
bool interrupted(void);

/* Says so on standard error; the exit code is 128 and the signal's number, as shells have it, 0 if it was another's. */
int interrupt_exit(void);

/*
 * What was done so far is kept in this file, whose path is the caller's. From now on work that looks for the signal
 * goes on to where it can be saved. Work that neither looks for half a second nor saves is ended.
 */
void interrupt_keeps(const char *path);

/* Called often by work that cannot be saved yet: it is left alone for half a second more. */
void interrupt_goes_on(void);

/* A save begins, or has ended. */
void interrupt_saving(bool begins);

/* The work ends by itself, however long that takes: it has processes and files of its own. */
void interrupt_waits(void);

/* A process that ends at once says nothing: another of the job does. */
void interrupt_is_silent(void);

/*
 * This file was begun by this process, and is removed if a signal ends the process at once. Returns a number to forget
 * it by, when it has got its real name or is removed; 0: it cannot be remembered.
 */
int interrupt_cleans(const char *name);
void interrupt_forget(int number);

#endif
