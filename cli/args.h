/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a verb as one table, which makes the parsing and the help text (help.h).
 *
 *     int64_t length = 0;
 *     const arg_option options[] = {
 *         {.name = "length", .kind = ARG_INTEGER, .metavar = "N", .help = "tokens", .required = true,
 *          .target = &length, .min = 1, .max = 1000},
 *     };
 *     const arg_command command = {.verb = "show", .summary = "Draw a pattern.", .options = options,
 *                                  .option_count = 1, .example = "ringattn show --length 64"};
 *     int code = args_parse(&command, argc, argv);
 *     if (code != ARGS_RUN)
 *         return code;
 */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "arg_table.h"

enum { ARGS_MAX_OPTIONS = 40, ARGS_RUN = -1 };

/*
 * argv[0] is the verb. ARGS_RUN when the targets are set, else the exit code: of asking for help, or of wrong usage.
 * Operands are then argv[optind .. argc).
 */
int args_parse(const arg_command *command, int argc, char **argv);

/* A text that is a number as ARG_INTEGER has them, 0 or more. */
bool args_read_integer(const char *text, int64_t *value);

#endif
