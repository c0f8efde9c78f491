/* SPDX-License-Identifier: Apache-2.0 */
/* Prints advice for people, programs and shells. */
#ifndef CLI_ADVICE_PRINT_H
#define CLI_ADVICE_PRINT_H

#include "advice.h"

/* The command that runs the best choice on files of made-up names: the caller's to free; NULL: out of memory. */
char *advice_command(const advice *advice);

/* The choice, its command, and a table of all choices with the reasons against the others. */
void advice_print(const advice *advice, const char *command);

/* The same as JSON; 0, or -1 when memory or standard output fails. */
int advice_print_json(const advice *advice, const char *command);

#endif
