/* Ctrl-C and its like ask a command to stop; it then removes what it has begun. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_install(void);

/* For work that leaves nothing behind: signals end it at once, as if nothing had been installed. */
void interrupt_release(void);

/* True once a signal has asked to stop. */
bool interrupted(void);

/* Says so on standard error; the exit code is 128 and the signal's number, as shells have it, 0 if it was another's. */
int interrupt_exit(void);

/* What was done so far is kept in this file, whose path is the caller's. */
void interrupt_keeps(const char *path);

#endif
