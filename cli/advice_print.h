/* What is advised, for people, programs and shells. */
#ifndef CLI_ADVICE_PRINT_H
#define CLI_ADVICE_PRINT_H

#include "advice.h"

/* The command that runs the best choice on files of made-up names: the caller's to free; NULL: out of memory. */
char *advice_command(const advice *advice);

/* What to do, a table of all choices, and why not the others. */
void advice_print(const advice *advice, const char *command);

/* The same as JSON; 0, or -1 when memory or standard output fails. */
int advice_print_json(const advice *advice, const char *command);

#endif
